"""X: rules of what a change did to a cluster, and of when its disks are full."""

from kafkakit.core.findings import Severity
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.rules.effective import InputMissing
from kafkakit.rules.rule import CORE, ERROR, WARNING, Limits, Needs, broker_rule, cluster_rule
from kafkakit.rules.subjects import LintBroker, LintCluster, known
from kafkakit.rules.trend import LEAST_DAYS, days_until
from kafkakit.rules.violation import Violation, Violations

DEVIATIONS = 3.0
FULL = 0.85
WARN_DAYS, ERROR_DAYS = 30.0, 7.0


@cluster_rule("KKX008", ERROR, CORE, Needs.METRICS)
def rollout_isr_regression(cluster: LintCluster, limits: Limits) -> Violations:
    """After a change the ISRs change far more often than at the same hours before, or an election was unclean.

    Why: replicas that fall out of sync are the first sign that brokers cannot bear a change, well before producers
    see errors. More than the mean and 3 standard deviations is no chance; an unclean election lost records.
    Source: Datadog, "Lessons learned from running Kafka" (2019).

    Bad:
        observed: {rollout: {isr_changes_per_min: 12.0, baseline_mean: 0.5, baseline_deviation: 0.4}}

    Good:
        observed: {rollout: {isr_changes_per_min: 1.0, baseline_mean: 0.5, baseline_deviation: 0.4}}
    """
    seen = known(cluster.rollout, "ISR changes after a change")
    hint = "roll the change back"
    usual = seen.baseline_mean + DEVIATIONS * seen.baseline_deviation
    if seen.unclean_elections:
        yield Violation(
            message=f"{counted(seen.unclean_elections, 'unclean election')} since the change lost committed records",
            hint=hint,
            subject="unclean elections",
        )
    if seen.isr_changes_per_min > usual:
        yield Violation(
            message=f"ISRs change {seen.isr_changes_per_min:.3g} times a minute since the change, more than "
            f"{usual:.3g} (mean {seen.baseline_mean:.3g} and {DEVIATIONS:g} deviations of "
            f"{seen.baseline_deviation:.3g} at the same hours before)",
            hint=hint,
            subject="isr changes",
        )


@broker_rule("KKX009", WARNING, CORE, Needs.METRICS)
def days_to_full(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A log dir reaches 85 % in less than 30 days by its trend (less than 7 days is an error).

    Why: a broker with a full log dir stops. New brokers and moves of partitions take days. The trend is the median
    slope over pairs of days of one weekday (Theil-Sen), so that single days and weekends do not bend it.
    Source: P. K. Sen, 1968.

    Bad:
        brokers:
          - id: 1
            log_dirs: [{path: /d1, total_bytes: 1000, daily_used_bytes: [700, 710, 720, 730, 740, 750, 760]}]

    Good:
        brokers:
          - id: 1
            log_dirs: [{path: /d1, total_bytes: 1000, daily_used_bytes: [300, 301, 302, 303, 304, 305, 306]}]
    """
    if not broker.is_broker:
        return
    checked = False
    for log_dir in broker.log_dirs:
        used, total = log_dir.daily_used_bytes, log_dir.total_bytes
        seen = [value for value in used or () if value is not None]
        if used is None or len(seen) < LEAST_DAYS or not total:
            continue
        checked = True
        days = days_until(used, FULL * total)
        if days is None or days >= WARN_DAYS:
            continue
        severity: Severity | None = ERROR if days < ERROR_DAYS else None
        when = f"reaches {FULL:.0%} in {days:.0f} days" if days >= 1 else f"is at {FULL:.0%} within a day"
        yield Violation(
            message=f"{log_dir.path} {when}: {format_bytes(seen[-1])} of {format_bytes(total)} are used",
            severity=severity,
            subject=log_dir.path,
            hint="add brokers or disks, shorten retention, or move replicas with `kafkakit topicmappr rebalance`",
        )
    if not checked:
        raise InputMissing("a week of the sizes of log dirs")
