"""How a cluster is, by probes of it: each reason is taken up after a while, and given up after a longer one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Reason(StrEnum):
    """What may be wrong with a cluster."""

    UNREACHABLE = "unreachable"
    NO_CONTROLLER = "no-controller"
    OFFLINE = "offline-partitions"
    UNDER_MIN_ISR = "under-min-isr"
    SLOW = "slow"
    DISK_FULL = "disk-full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One look at a cluster that was answered: began at `sent_s` (monotonic clock), took `latency_s`.

    Counts are of the partitions that were looked at; `disk_used` is the fullest log dir's part in use, None: unknown.
    """

    sent_s: float
    latency_s: float
    has_controller: bool = True
    offline: int = 0
    under_min_isr: int = 0
    disk_used: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRules:
    """A cluster is unreachable when no probe that was sent in the last `down_s` was answered.

    Other reasons must hold for `enter_s`. A reason is over when it did not hold for `leave_s`, so that a cluster that
    comes and goes is not healthy in between.
    """

    down_s: float = 1.5
    enter_s: float = 5.0
    leave_s: float = 30.0
    slow_s: float = 1.0
    disk_used: float = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonWatch:
    """A reason now: whether it counts, whether the newest look shows it, and since when that one says so."""

    counts: bool
    holds: bool
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHealth:
    """A cluster as it is judged: the reasons that were ever seen, and the newest probe."""

    watches: Mapping[Reason, ReasonWatch] = field(default_factory=dict)
    probe: Probe | None = None

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """What is wrong, in the order of `Reason`; none for a healthy cluster."""
        return tuple(each for each in Reason if each in self.watches and self.watches[each].counts)

    @property
    def is_reachable(self) -> bool:
        """Whether clients may be expected to get answers."""
        return Reason.UNREACHABLE not in self.reasons

    def since_s(self, reason: Reason) -> float:
        """Since when (monotonic clock) the reason was shown by every look; infinite where it is not."""
        found = self.watches.get(reason)
        return found.since_s if found is not None and found.holds else float("inf")


def judged(
    earlier: ClusterHealth | None, probe: Probe | None, began_s: float, now_s: float, rules: HealthRules
) -> ClusterHealth:
    """The health after a look; `probe` is the newest answer, None where none ever came since `began_s`."""
    before = earlier.watches if earlier is not None else {}
    answered_s = probe.sent_s if probe is not None else began_s
    shown = {Reason.UNREACHABLE: now_s - answered_s >= rules.down_s}
    if probe is not None and not shown[Reason.UNREACHABLE]:
        shown[Reason.NO_CONTROLLER] = not probe.has_controller
        shown[Reason.OFFLINE] = probe.offline > 0
        shown[Reason.UNDER_MIN_ISR] = probe.under_min_isr > 0
        shown[Reason.SLOW] = probe.latency_s >= rules.slow_s
        shown[Reason.DISK_FULL] = probe.disk_used is not None and probe.disk_used >= rules.disk_used
    watches = dict(before)
    for reason, holds in shown.items():
        watches[reason] = _watched(before.get(reason), holds, reason, now_s, rules)
    return ClusterHealth(watches=watches, probe=probe)


def _watched(before: ReasonWatch | None, holds: bool, reason: Reason, now_s: float, rules: HealthRules) -> ReasonWatch:
    since_s = before.since_s if before is not None and before.holds == holds else now_s
    counted = before is not None and before.counts
    if holds:
        counts = counted or reason is Reason.UNREACHABLE or now_s - since_s >= rules.enter_s
    else:
        counts = counted and now_s - since_s < rules.leave_s
    return ReasonWatch(counts=counts, holds=holds, since_s=since_s)
