"""Rehearsals of a failover: what is asked, what came of it, and how ready the stream is by that."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkakit.core.documents import DocumentKind
from kafkakit.core.errors import UsageError
from kafkakit.streams.failover.decide.operation import Step
from kafkakit.streams.model.route import SHADOW, Lane, Route, check_stream

LONGEST_NAME = 200 - len(SHADOW)
MOST_KEPT = 100
LEAST_PER_S, MOST_PER_S = 1.0, 50_000.0
DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFigures:
    """What a load did: records with an answer and with an error, those that were handled, and how often again.

    `open` were answered and are not handled yet; `longest_pause_ms` is the longest time without an answer, by lane.
    """

    acknowledged: int = 0
    failed: int = 0
    handled: int = 0
    handled_again: int = 0
    open: int = 0
    longest_pause_ms: int = 0
    per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalOutcome:
    """What came of a rehearsal. `result` is how the failover ended, or `failed`; `reason` and `lines` say why.

    `steps_ms` are times since the beginning of the failover. `budget` is the number of records that the plan said may
    come twice, None where nothing bounded it.
    """

    ended_ms: int
    result: str
    reason: str = ""
    lines: tuple[str, ...] = ()
    steps_ms: Mapping[Step, int] = field(default_factory=dict)
    basis: str = ""
    budget: int | None = 0
    load: LoadFigures = field(default_factory=LoadFigures)
    is_verified: bool = False

    @property
    def seconds(self) -> float:
        """How long the failover took."""
        return max(self.steps_ms.values(), default=0) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """A rehearsal as it is kept; without an outcome it runs, or was cut.

    `profiles` are the clusters that may hold topics of its shadow stream.
    """

    id: str
    stream: str
    to: str
    by: str
    started_ms: int
    per_s: float
    record_bytes: int
    load_s: float
    profiles: tuple[str, ...]
    outcome: RehearsalOutcome | None = None

    @property
    def shadow(self) -> str:
        """The name of the shadow stream, which is also its group."""
        return shadow_of(self.stream)


REHEARSAL_DOCUMENT = DocumentKind("stream-rehearsal", Rehearsal)


def shadow_of(stream: str) -> str:
    """The reserved name of a stream's shadow; `UsageError` for a name that is too long, or a shadow's own."""
    check_stream(stream)
    if stream.startswith(SHADOW):
        raise UsageError(f"stream {stream} is the shadow of another one")
    if len(stream) > LONGEST_NAME:
        raise UsageError(f"a stream that is rehearsed has a name of at most {LONGEST_NAME} characters")
    return SHADOW + stream


def rehearsals_folder(stream: str) -> str:
    """Where the rehearsals of a stream are kept."""
    return f"streams/{check_stream(stream)}/rehearsals"


def lanes_to_rehearse(route: Route) -> tuple[Lane, ...]:
    """The lanes that are written; `UsageError` where there is none."""
    found = tuple(lane for lane in route.lanes if lane.active is not None)
    if not found:
        raise UsageError(f"stream {route.stream} has no active segment that could be rehearsed")
    return found


def readiness(rehearsal: Rehearsal) -> int:
    """The score of a rehearsal, 0 to 100.

    0 unless the failover ended retired, its certificate held, and every answered record was handled. Otherwise 100,
    less 2 for each second of the failover above 10 s (40 at most), less 10 for each second above 1 s of the longest
    time that a lane's producers got no answer (30 at most), less 20 where more records came again than the plan said,
    and less 20 times the share of the asked rate that was not written.
    """
    found = rehearsal.outcome
    if found is None or found.result != "done" or not found.is_verified or found.load.open or found.load.failed:
        return 0
    late = min(40.0, 2 * max(0.0, found.seconds - 10))
    paused = min(30.0, 10 * max(0.0, found.load.longest_pause_ms / 1000 - 1))
    again = 20.0 if found.budget is not None and found.load.handled_again > found.budget else 0.0
    unwritten = 20 * max(0.0, 1 - found.load.per_s / rehearsal.per_s)
    return max(0, round(100 - late - paused - again - unwritten))


def readiness_at(rehearsal: Rehearsal, now_ms: int) -> int:
    """The score now: less one for each whole day since the rehearsal."""
    days = max(0, now_ms - rehearsal.started_ms) // DAY_MS
    return max(0, readiness(rehearsal) - days)


def stated_rate(per_s: float) -> float:
    """A rate of the command line; `UsageError` outside of what one process can write."""
    if not LEAST_PER_S <= per_s <= MOST_PER_S:
        raise UsageError(f"a rehearsal writes {LEAST_PER_S:g} to {MOST_PER_S:,.0f} records a second")
    return per_s


def measured_rate(before: int, after: int, seconds: float) -> float:
    """Records a second between two sums of ends, within the limits."""
    return min(MOST_PER_S, max(LEAST_PER_S, (after - before) / seconds))
