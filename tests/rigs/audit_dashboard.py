"""A Grafana dashboard over the metrics of audits, as the JSON that Grafana imports."""

from kafkakit.audit.report.exports import PREFIX
from tests.rigs.dashboard import Dashboard, Panel, as_json

_BY_CLUSTER = '{cluster=~"$cluster"}'
_CHOSEN = '{cluster=~"$cluster",audit=~"$audit"}'
_BY_JOB = '{audit=~"$audit"}'
_DAY_S = 86_400
_LIMITS = (1.25 * _DAY_S, 2 * _DAY_S)
# The first row says whether all is well: single numbers that are green only then.
PANELS: tuple[Panel, ...] = (
    Panel(title="Age of the data", kind="stat", unit="s", limits=_LIMITS, height=4,
          expression="time() - max(@snapshot_timestamp_seconds)",
          about="Time since the snapshot that the last run looked at; beyond a day the timer does not run."),
    Panel(title="Failed jobs", kind="stat", limits=(1, 1), height=4,
          expression=f"count(@job_success{_BY_JOB} == 0) or vector(0)",
          about="Jobs of the last run that did not come to their end: what they would have found is missing below."),
    Panel(title="New errors", kind="stat", limits=(1, 1), height=4,
          expression='sum(@new_findings{severity="error"}) or vector(0)',
          about="Findings of severity error that the run before did not have."),
    Panel(title="Not looked at", kind="stat", limits=(1, 10), height=4,
          expression=f"sum(@left_out{_BY_JOB}) + sum(@skipped{_BY_JOB})",
          about="Clusters, tables and parts that the jobs left out; their findings are unknown, not zero."),
    Panel(title="Findings by severity", kind="timeseries", width=12, legend="{{severity}}",
          expression=f"sum by (severity) (@cluster_findings{_CHOSEN})",
          about="All findings of the clusters and jobs chosen above."),
    Panel(title="New and gone", kind="timeseries", width=12, legend="{{__name__}} {{severity}}",
          expression='sum by (__name__, severity) ({__name__=~"@new_findings|@gone_findings"})',
          about="What each run found that the run before had not, and what was repaired in between."),
    Panel(title="Worst clusters", kind="bargauge", width=12, height=10, legend="{{cluster}}",
          expression=f"topk(20, max by (cluster) (@score{_BY_CLUSTER}))",
          about="Clusters by the sum of the scores of their findings: severity times what depends on it."),
    Panel(title="Findings by rule", kind="table", width=12, height=10, table=("rule", "severity", "audit"),
          expression=f"topk(50, sum by (rule, severity, audit) (@findings{_CHOSEN}))",
          about="Rules with the most findings in the clusters chosen above."),
    Panel(title="Figures of the jobs", kind="table", width=12, table=("audit", "fact"),
          expression=f"max by (audit, fact) (@fact{_BY_JOB})",
          about="Single numbers that jobs report, such as rows read or days until the first disk is full."),
    Panel(title="Clusters looked at", kind="timeseries", legend="{{audit}}",
          expression=f"max by (audit) (@clusters{_BY_JOB})",
          about="A step down means that clusters were not collected."),
    Panel(title="Run time of the jobs", kind="timeseries", unit="s", legend="{{audit}}",
          expression=f"max by (audit) (@job_seconds{_BY_JOB})", about="How long each job took."),
    Panel(title="Age of the last success of each job", kind="bargauge", unit="s", legend="{{audit}}", limits=_LIMITS,
          expression=f"time() - max by (audit) (@last_success_timestamp_seconds{_BY_JOB})", width=24, height=6,
          about="A job beyond two days has failed or was left out of the runs since."),
)  # fmt: skip


def dashboard_json() -> str:
    """The dashboard; the same bytes each time."""
    about = "Findings of kafkakit's fleet audits: what is new, where, and whether all was looked at."
    variables = {name: f"@cluster_findings, {name}" for name in ("cluster", "audit")}
    return as_json(
        Dashboard(
            uid="kafkakit-fleet-audits", title="Kafka fleet audits", about=about, since="now-30d",
            prefix=PREFIX, variables=variables, panels=PANELS,
        )
    )  # fmt: skip
