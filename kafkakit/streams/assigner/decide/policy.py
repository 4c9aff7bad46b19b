"""When a stream is failed over without an operator: off by default, and never by the word of one process alone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kafkakit.core.documents import DocumentKind
from kafkakit.core.errors import UsageError
from kafkakit.streams.assigner.decide.health import ClusterHealth, Reason
from kafkakit.streams.model.route import Route

DAY_MS = 24 * 3_600_000
HISTORY_PATH = "assigner/automatic"
MOST_KEPT = 500


class AutomaticMode(StrEnum):
    """What is done where the policy would fail over."""

    OFF = "off"
    DRY_RUN = "dry-run"
    ON = "on"


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticPolicy:
    """A stream is failed over when one of its written segments is on a cluster that nothing reaches.

    The Assigner's own probes must have failed for `confirm_s`, and of the workers that read the cluster at least
    `witnesses`, and the part `quorum` of all of them, got no answer either. `targets` are profiles by profile: a
    cluster without one is left alone. A stream is not moved again for `cool_down_s`, and at most `per_day` are moved in
    24 h.
    """

    mode: AutomaticMode = AutomaticMode.OFF
    targets: Mapping[str, str]
    confirm_s: float = 10.0
    witnesses: int = 2
    quorum: float = 0.6
    cool_down_s: float = 3600.0
    per_day: int = 10

    def __post_init__(self) -> None:
        if self.mode is not AutomaticMode.OFF and not self.targets:
            raise UsageError("automatic failover needs a target", hint="--failover-target FROM=TO")
        if any(source == target for source, target in self.targets.items()):
            raise UsageError("a cluster cannot be its own target of a failover")
        if self.witnesses < 1 or not 0.5 < self.quorum <= 1 or not 1 <= self.per_day <= MOST_KEPT:
            raise UsageError(
                "automatic failover needs a witness or more, a quorum above half, and a budget",
                hint=f"--failovers-a-day is 1 to {MOST_KEPT}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticStart:
    """A failover that was started by itself."""

    stream: str
    source: str
    target: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticHistory:
    """Those of the last day, oldest first."""

    starts: tuple[AutomaticStart, ...] = ()

    def with_start(self, start: AutomaticStart) -> "AutomaticHistory":
        """Add a start; what is older than a day is left out."""
        return AutomaticHistory(
            starts=(*(each for each in self.starts if start.at_ms - each.at_ms < DAY_MS), start)[-MOST_KEPT:]
        )


HISTORY_DOCUMENT = DocumentKind("stream-automatic-failovers", AutomaticHistory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the policy says of one stream on an unreachable cluster; `why_not` is empty where it is to be moved.

    With `continues` the failover was started before, and has not sent producers elsewhere yet.
    """

    stream: str
    source: str
    target: str
    why_not: str = ""
    continues: bool = False


def verdicts(
    policy: AutomaticPolicy,
    routes: Collection[Route],
    health: Mapping[str, ClusterHealth],
    seen: Mapping[str, tuple[int, int]],
    history: AutomaticHistory,
    *,
    now_s: float,
    now_ms: int,
) -> tuple[Verdict, ...]:
    """A verdict for each stream that is written to an unreachable cluster, by stream; `seen` are workers' witnesses.

    `health` and `seen` are by cluster id; `now_s` is the monotonic clock of `health`.
    """
    if policy.mode is AutomaticMode.OFF:
        return ()
    left = policy.per_day - sum(now_ms - each.at_ms < DAY_MS for each in history.starts)
    by_profile = {}
    for route in routes:
        by_profile.update({profile: cluster_id for cluster_id, profile in route.clusters.items()})
    found = []
    for route in sorted(routes, key=lambda route: route.stream):
        for cluster_id, profile in sorted(route.clusters.items()):
            state = health.get(cluster_id)
            is_written = any(lane.active is not None and lane.active.cluster_id == cluster_id for lane in route.lanes)
            if state is None or state.is_reachable or not is_written:
                continue
            target = policy.targets.get(profile, "")
            ours = [each for each in history.starts if (each.stream, each.target) == (route.stream, target)]
            if route.operation is not None and ours and now_ms - ours[-1].at_ms < DAY_MS:
                found.append(Verdict(stream=route.stream, source=profile, target=target, continues=True))
                break
            why_not = (
                _unproven(policy, state, seen.get(cluster_id, (0, 0)), now_s)
                or _unfit(route, target, health.get(by_profile.get(target, "")))
                or _unpermitted(policy, route, history.starts, left, now_ms)
            )
            left -= not why_not
            found.append(Verdict(stream=route.stream, source=profile, target=target, why_not=why_not))
            break
    return tuple(found)


def _unproven(policy: AutomaticPolicy, state: ClusterHealth, seen: tuple[int, int], now_s: float) -> str:
    answered, silent = seen
    down_s = now_s - state.since_s(Reason.UNREACHABLE)
    if down_s < policy.confirm_s:
        return f"unreachable for {max(0.0, down_s):.1f} s of {policy.confirm_s:g} s"
    if silent < policy.witnesses or silent < policy.quorum * (answered + silent):
        return f"{silent} of {answered + silent} workers got no answer"
    return ""


def _unfit(route: Route, target: str, state: ClusterHealth | None) -> str:
    if not target:
        return "no target for its cluster"
    if route.operation is not None:
        return f"operation {route.operation.id} is open"
    if state is not None and state.reasons:
        return f"the target is not healthy: {', '.join(state.reasons)}"
    return ""


def _unpermitted(
    policy: AutomaticPolicy, route: Route, starts: Sequence[AutomaticStart], left: int, now_ms: int
) -> str:
    newest = max((each.at_ms for each in starts if each.stream == route.stream), default=None)
    if newest is not None and now_ms - newest < policy.cool_down_s * 1000:
        return f"moved {(now_ms - newest) / 1000:.0f} s ago, the next time after {policy.cool_down_s:g} s"
    if left <= 0:
        return f"the budget of {policy.per_day} a day is used"
    return ""
