"""A Grafana dashboard over the metrics of the lag service and its recording rules, as the JSON that Grafana imports."""

from kafkakit.streams.lag.decide.measure.table import LagStatus
from kafkakit.streams.lag.service_report import PREFIX
from tests.rigs.dashboard import Dashboard, Panel, as_json

_CHOSEN = '{cluster=~"$cluster",group=~"$group",topic=~"$topic"}'
_CLUSTERS = '{cluster=~"$cluster"}'
_GROUP = "{{group}} / {{topic}} ({{cluster}})"


def _each(metric: str, by: str = "cluster, group, topic", chosen: str = _CHOSEN) -> str:
    """One value for each group and topic, whichever instances export it."""
    return f"max by ({by}) (@{metric}{chosen})"


def _monitor(metric: str) -> str:
    return _each(metric, "cluster", _CLUSTERS)


def _burn(window: str) -> str:
    """Bad minutes of the window as a multiple of those that the objective allows."""
    rule = f"cluster_group_topic:kafkakit_lag_slow:ratio{window}{_CHOSEN}"
    return f"{rule} / (1 - scalar(max(slo:kafkakit_lag_objective:ratio)))"


def _counted(groups: str) -> str:
    """How many; 0 for none, and no value at all where no monitor is scraped, which is not well."""
    return f"count({groups}) or 0 * max(@instances)"


def _with_status(status: LagStatus, about: str) -> Panel:
    expression = _counted(f"{_each('status')} == {int(status)}")
    title = f"Groups {status.word}"
    return Panel(title=title, kind="stat", expression=expression, limits=(1, 1), width=4, height=4, about=about)


def _bounds(title: str, metric: str, about: str) -> Panel:
    low, estimate, high = (f"max(@{metric}{end}_seconds{_CHOSEN})" for end in ("_low", "", "_high"))
    bounded = f"{high} and count(@{metric}_high_seconds{_CHOSEN}) == count(@partitions{_CHOSEN})"
    more = (("estimate", estimate), ("at most", bounded))
    text = f"{about} The worst of the groups chosen; without an upper line where one of them has no proven upper bound."
    return Panel(title=title, kind="timeseries", unit="s", width=8, legend="at least", expression=low, more=more,
                 about=text)  # fmt: skip


# The first row says whether all is well: single numbers that are green only then.
PANELS: tuple[Panel, ...] = (
    Panel(title="Clusters not live", kind="stat", limits=(1, 1), width=4, height=4,
          expression=_counted(f"{_monitor('carried')} unless {_monitor('monitor_live')} == 1"),
          about="Clusters that no instance carries or whose monitor is not live: their other numbers mean nothing."),
    Panel(title="Blind partitions", kind="stat", limits=(1, 1), width=4, height=4,
          expression=f"sum({_monitor('blind_partitions')} + {_monitor('ends_unknown')})",
          about="Partitions of the commit log that cannot be read, and partitions whose end is not known."),
    _with_status(LagStatus.STOPPED, "There are records to read, and the group has stopped committing."),
    _with_status(LagStatus.STALLED, "The group commits the same offset again and again while records wait."),
    _with_status(LagStatus.LOST, "Retention deleted records before the group processed them."),
    Panel(title="Worst burn", kind="stat", limits=(6, 14.4), width=4, height=4, expression=f"max({_burn('1h')})",
          about="Bad minutes of the last hour as a multiple of what the objective allows; 14.4 pages."),
    Panel(title="Time lag by group", kind="timeseries", unit="s", width=12, legend=_GROUP,
          expression=f"topk(10, {_each('backlog_seconds')})",
          about="Age of the oldest record that is not done, by the time that it carries: the ten worst."),
    Panel(title="Time since arrival by group", kind="timeseries", unit="s", width=12, legend=_GROUP,
          expression=f"topk(10, {_each('arrival_seconds')})",
          about="Time since the oldest record not done came into the log: far less than the time lag where records are "
          "old when they come."),
    _bounds("Time lag and its bounds", "backlog", "By the time that records carry."),
    _bounds("Time since arrival and its bounds", "arrival", "By when records came into the log."),
    _bounds("Live lag and its bounds", "live", "Age of the newest done record while newer ones wait."),
    Panel(title="Records behind by group", kind="timeseries", width=8, legend=_GROUP,
          expression=f"topk(10, {_each('records')})", about="Offsets from the committed ones to the ends."),
    Panel(title="Records not done and lost", kind="timeseries", width=8, legend="not done",
          expression=f"sum({_each('pending_records')})", more=(("lost", f"sum({_each('lost_records')})"),),
          about="Records that no commit marks as done, and records deleted before they were, of all groups chosen."),
    Panel(title="Records a second", kind="timeseries", unit="cps", width=8, legend="produced",
          expression=f"sum({_each('produced_records_per_second')})",
          more=(("consumed", f"sum({_each('consumed_records_per_second')})"),),
          about="Rates of the ends and of the commits. A topic counts once for each group that reads it."),
    Panel(title="Partitions by status", kind="timeseries", width=12, legend="{{status}}",
          expression=f"sum by (status) ({_each('cluster_partitions', 'cluster, status', _CLUSTERS)})",
          about="Partitions of groups by the status of Burrow's rules, of the clusters chosen."),
    Panel(title="Groups that are not well", kind="table", width=12, table=("cluster", "group", "topic"),
          expression=f"topk(50, {_each('status')} > 0)", words=tuple(status.word for status in LagStatus),
          about="The worst status of any partition of the group, for the fifty worst."),
    Panel(title="Retention left", kind="timeseries", unit="s", width=8, legend=_GROUP,
          expression=f"bottomk(10, min by (cluster, group, topic) (@retention_left_seconds{_CHOSEN}))",
          about="Time until the first records that a group has not read are deleted: the ten shortest."),
    Panel(title="Time to catch up", kind="timeseries", unit="s", width=8, legend=_GROUP,
          expression=f"topk(10, {_each('eta_seconds')})",
          about="At present rates. A group that does not catch up has no line here."),
    Panel(title="Partitions without figures", kind="timeseries", width=8, legend="end not known",
          expression=f"sum({_each('unknown_partitions')})", more=(("too old", f"sum({_each('stale_partitions')})"),),
          about="Partitions of the groups chosen that count neither as good nor as bad."),
    Panel(title="Burn by group", kind="timeseries", width=12, legend=_GROUP, expression=f"topk(10, {_burn('1h')})",
          about="Bad minutes of the last hour as a multiple of what the objective allows: the ten worst."),
    Panel(title="Worst burn by window", kind="timeseries", width=12, legend="5m", expression=f"max({_burn('5m')})",
          more=tuple((window, f"max({_burn(window)})") for window in ("30m", "1h", "6h", "3d")),
          about="Pages: 14.4 over 1h and 5m, or 6 over 6h and 30m. Ticket: 1 over 3d and 6h."),
    Panel(title="Age of what is known", kind="timeseries", unit="s", width=8, legend="commits {{cluster}}",
          expression=f"time() - ({_monitor('commits_as_of_timestamp_seconds')} > 0)",
          more=(("ends {{cluster}}", f"time() - ({_monitor('ends_as_of_timestamp_seconds')} > 0)"),),
          about="Time up to which all commits and all ends of logs are known; no line while they are not."),
    Panel(title="Commits held back", kind="timeseries", width=8, legend="commits {{cluster}}",
          expression=_monitor("held_back_commits"), more=(("transactions {{cluster}}", _monitor("open_transactions")),),
          about="Commits that wait for the end of an open transaction, and how many such transactions there are."),
    Panel(title="Left out", kind="timeseries", width=8, legend="groups without series",
          expression="max(@dropped_series)",
          more=tuple((f"{word} {{{{cluster}}}}", _monitor(metric)) for word, metric in (
              ("commits", "left_out_commits"), ("metadata", "left_out_metadata"), ("partitions", "left_out_partitions"),
              ("missing topics", "missing_topics"), ("unreadable", "unreadable_records"))),
          about="What is beyond the limits of the monitor or cannot be read: nothing on this page counts it."),
    Panel(title="Commits read", kind="timeseries", unit="cps", width=8, legend="{{cluster}}",
          expression=f"max by (cluster) (rate(@commit_records{_CLUSTERS}[5m]))",
          about="Records of the offsets topic that the monitor reads."),
    Panel(title="Records read for their times", kind="timeseries", unit="cps", width=8, legend="reads {{cluster}}",
          expression=f"max by (cluster) (rate(@record_reads{_CLUSTERS}[5m]))",
          more=(("failed {{cluster}}", f"max by (cluster) (rate(@record_read_failures{_CLUSTERS}[5m]))"),),
          about="Reads that make figures exact, and those of them without an answer."),
    Panel(title="Instances", kind="timeseries", width=8, legend="instances", expression="max(@instances)",
          more=(("clusters carried", f"sum({_monitor('carried')})"),),
          about="Instances that share the clusters, and clusters that one of them carries."),
)  # fmt: skip


def dashboard_json() -> str:
    """The dashboard; the same bytes each time."""
    variables = {
        "cluster": "@carried, cluster",
        "group": f"@partitions{_CLUSTERS}, group",
        "topic": '@partitions{cluster=~"$cluster",group=~"$group"}, topic',
    }
    return as_json(
        Dashboard(
            uid="kafkakit-lag", title="Kafka consumer lag", since="now-6h", prefix=PREFIX, variables=variables,
            about="Whether groups keep up, in time and in records, and whether their monitor sees all of them.",
            panels=PANELS,
        )
    )  # fmt: skip
