"""What an operation does now: traffic by segment, how far groups have drained the old topics, and what is waited for.

Everything follows from looks of one watcher: rates are between the oldest look of the window and the newest one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.log_reads import LogSpan
from kafkakit.streams.failover.decide.actions import Action, Finished, Refuse, ReportLate, Wait
from kafkakit.streams.failover.decide.drained import left_in
from kafkakit.streams.failover.decide.evidence import Evidence, TopicFacts
from kafkakit.streams.failover.decide.journal import OperationRecord
from kafkakit.streams.failover.decide.operation import Step
from kafkakit.streams.model.route import Route, Segment

WINDOW_S = 10.0
NO_PROCESS = "held by no process"
ACTION_WORDS = {
    "CreateTopics": "creating the target's topics",
    "SeedGroups": "committing first offsets for groups",
    "ChangeRoute": "changing the route",
    "RaiseFence": "putting up a fence",
    "LowerFence": "taking a fence down",
    "Certify": "writing the certificate",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLook:
    """One look: the ends of the route's segments, or why they are not known, and what the run would do next.

    `at_s` is by a clock that never goes back. Without a `record` no operation is open.
    """

    at_s: float
    at_ms: int
    route: Route
    record: OperationRecord | None = None
    step: Step | None = None
    evidence: Evidence | None = None
    ends: Mapping[int, int] = field(default_factory=dict)
    problems: Mapping[int, str] = field(default_factory=dict)
    action: Action | None = None
    holder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTraffic:
    """A segment and what is written to it; None for what is not known (yet)."""

    lane: str
    segment: int
    topic: str
    cluster: str
    state: str
    end: int | None
    records_per_s: float | None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDrain:
    """How far a required group is with an old topic: `left` offsets of `total` that the log holds."""

    group: str
    topic: str
    segment: int
    left: int | None
    total: int | None
    records_per_s: float | None
    eta_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """An operation now; without `operation` none is open. `reason` is what is waited for, for programs.

    `eta_s` is the time until the old topics are drained: what is left of the window, and the slowest group.
    """

    stream: str
    at_ms: int
    epoch: int
    operation: str = ""
    to: str = ""
    step: str = ""
    step_s: float | None = None
    reason: str = ""
    lines: tuple[str, ...] = ()
    window_left_s: float | None = None
    traffic: tuple[SegmentTraffic, ...] = ()
    drain: tuple[GroupDrain, ...] = ()
    eta_s: float | None = None
    holder: str = ""

    @property
    def is_idle(self) -> bool:
        """True while no operation is open."""
        return not self.operation


class LiveHistory:
    """The looks of one watcher within the window."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._looks: list[tuple[float, Mapping[int, int], Mapping[tuple[int, str], int]]] = []

    def view(self, look: LiveLook) -> LiveView:
        """The newest look, with rates over the window."""
        left = {key: value for key, (value, _) in _backlog(look).items() if value is not None}
        self._looks.append((look.at_s, look.ends, left))
        while len(self._looks) > 2 and look.at_s - self._looks[1][0] >= self._window_s:
            self._looks.pop(0)
        traffic = tuple(self._traffic(look))
        if look.record is None or look.step is None:
            return LiveView(
                stream=look.route.stream, at_ms=look.at_ms, epoch=look.route.epoch, traffic=traffic, holder=look.holder
            )
        drain = tuple(self._drain(look))
        wait = look.action if isinstance(look.action, Wait) else None
        reached_ms = look.record.reached_ms.get(look.step)
        return LiveView(
            stream=look.route.stream,
            at_ms=look.at_ms,
            epoch=look.route.epoch,
            operation=look.record.operation.id,
            to=look.record.request.to,
            step=look.step,
            step_s=None if reached_ms is None else max(0.0, (look.at_ms - reached_ms) / 1000),
            reason=_reason(look.action),
            lines=_lines(look.action),
            window_left_s=None if wait is None else wait.seconds,
            traffic=traffic,
            drain=drain,
            eta_s=_eta(drain, None if wait is None else wait.seconds, look),
            holder=look.holder,
        )

    def _traffic(self, look: LiveLook) -> Iterator[SegmentTraffic]:
        for lane, segment in look.route.segments():
            yield SegmentTraffic(
                lane=lane.name,
                segment=segment.id,
                topic=segment.topic,
                cluster=segment.cluster,
                state="sealed" if segment.seal else segment.state,
                end=look.ends.get(segment.id),
                records_per_s=self._rate(look.at_s, segment.id),
                problem=look.problems.get(segment.id, ""),
            )

    def _drain(self, look: LiveLook) -> Iterator[GroupDrain]:
        topics = {segment.id: segment.topic for _, segment in look.route.segments()}
        for (number, group), (left, total) in _backlog(look).items():
            rate = self._drain_rate(look.at_s, (number, group))
            eta_s = 0.0 if left == 0 else None if left is None or not rate else left / rate
            yield GroupDrain(
                group=group, topic=topics[number], segment=number, left=left, total=total, records_per_s=rate,
                eta_s=eta_s,
            )  # fmt: skip

    def _rate(self, at_s: float, segment: int) -> float | None:
        """What was written a second; the oldest look that has the segment counts."""
        known = [(seen_s, ends[segment]) for seen_s, ends, _ in self._looks if segment in ends]
        return _per_s(known, at_s, 1)

    def _drain_rate(self, at_s: float, key: tuple[int, str]) -> float | None:
        known = [(seen_s, left[key]) for seen_s, _, left in self._looks if key in left]
        return _per_s(known, at_s, -1)


def _per_s(known: list[tuple[float, int]], at_s: float, sign: int) -> float | None:
    if len(known) < 2 or known[-1][0] != at_s or at_s <= known[0][0]:
        return None
    return max(0.0, sign * (known[-1][1] - known[0][1]) / (at_s - known[0][0]))


def _backlog(look: LiveLook) -> dict[tuple[int, str], tuple[int | None, int | None]]:
    """Offsets that each required group has left in each old segment, and how many the log holds."""
    if look.record is None or look.evidence is None:
        return {}
    found: dict[tuple[int, str], tuple[int | None, int | None]] = {}
    for _, segment in look.record.operation.old_segments(look.route):
        facts = look.evidence.old.get(segment.id)
        for name in look.record.operation.groups:
            found[segment.id, name] = (None, None) if facts is None else _left(segment, facts, name)
    return found


def _left(segment: Segment, facts: TopicFacts, group: str) -> tuple[int | None, int | None]:
    spans: Mapping[int, LogSpan] = facts.whole_spans or {}
    commits = facts.groups[group].commits if group in facts.groups else {}
    if not spans or any(isinstance(each, ItemError) for each in commits.values()):
        return None, None
    seals = {seal.partition: seal.effective_end for seal in segment.seal}
    ends = {number: seals.get(number, span.end) for number, span in spans.items()}
    left = sum(left_in(commits.get(number), ends[number], span.start) for number, span in spans.items())
    return left, sum(max(0, ends[number] - span.start) for number, span in spans.items())


def _eta(drain: tuple[GroupDrain, ...], window_left_s: float | None, look: LiveLook) -> float | None:
    """None before producers have moved, and while a group's time is not known."""
    if look.step not in (Step.ROUTED, Step.SEALED, Step.DRAINED) or any(each.eta_s is None for each in drain):
        return None
    if look.step is Step.ROUTED and window_left_s is None:
        return None
    slowest_s = max((each.eta_s for each in drain if each.eta_s is not None), default=0.0)
    # The window and the groups advance side by side.
    return max(window_left_s or 0.0, slowest_s)


def _reason(action: Action | None) -> str:
    if isinstance(action, Wait | Refuse):
        return action.reason
    return "late-writer" if isinstance(action, ReportLate) else ""


def _lines(action: Action | None) -> tuple[str, ...]:
    match action:
        case Wait() | Refuse():
            return action.lines
        case ReportLate():
            return (f"{len(action.grown)} partitions grew after the seal",)
        case None | Finished():
            return ()
        case _:
            return (ACTION_WORDS[type(action).__name__],)
