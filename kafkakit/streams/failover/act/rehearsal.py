"""A rehearsal: a shadow of the stream is made, loaded and failed over as the stream would be, and removed."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import ConflictError, KafkakitError, LeaseLostError, OperationFailedError
from kafkakit.core.log_reads import LogSpan
from kafkakit.execution.act.retrier import wait_until
from kafkakit.ports.control import ControlStore
from kafkakit.streams.failover.act.closing import newest_certificate
from kafkakit.streams.failover.act.planning import Planner
from kafkakit.streams.failover.act.run import RunParts
from kafkakit.streams.failover.act.shadow_stream import ShadowStream
from kafkakit.streams.failover.act.verification import check_certificate
from kafkakit.streams.failover.decide.operation import FailoverRequest, Step
from kafkakit.streams.failover.decide.outcome import EndKind
from kafkakit.streams.failover.decide.rehearsal import (
    MOST_KEPT,
    REHEARSAL_DOCUMENT,
    LoadFigures,
    Rehearsal,
    RehearsalOutcome,
    lanes_to_rehearse,
    measured_rate,
    rehearsals_folder,
)
from kafkakit.streams.model.route import Route, partitions_of
from kafkakit.streams.routes.api_act import OpenCluster

MEASURE_S = 5.0
FLOWS_S = 60.0
HANDLED_S = 60.0


class Load(Protocol):
    """What writes and reads the shadow."""

    def figures(self) -> LoadFigures:
        """What was done until now."""
        ...

    def end_writing(self) -> None:
        """Send no more, and wait for the answers."""
        ...


OpenLoad = Callable[[Rehearsal, tuple[str, ...]], AbstractContextManager[Load]]
"""The load of a rehearsal on these lanes, while the context is open."""


class RehearsalHistory:
    """The rehearsals of one stream in the control store; one document each, the newest `MOST_KEPT` are kept."""

    def __init__(self, store: ControlStore, stream: str) -> None:
        self._store, self._folder = store, rehearsals_folder(stream)

    def read(self) -> tuple[Rehearsal, ...]:
        """All that are kept, oldest first."""
        return tuple(
            REHEARSAL_DOCUMENT.stored(found.value, f"{self._folder}/{name}")
            for name, found in sorted(self._store.values(self._folder).items())
        )

    def write(self, rehearsal: Rehearsal) -> None:
        """Keep a rehearsal as it is now, in place of what was kept of it; the oldest ones are removed for it."""
        path = f"{self._folder}/{rehearsal.id}"
        found = self._store.get(path)
        self._store.cas(path, REHEARSAL_DOCUMENT.encode(rehearsal), None if found is None else found.version)
        kept = sorted(self._store.values(self._folder).items())
        for name, old in kept[: max(0, len(kept) - MOST_KEPT)]:
            self._store.delete(f"{self._folder}/{name}", old.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalParts:
    """What a rehearsal works with; `run` and `planner` are those of the shadow, whose lease they hold."""

    run: RunParts
    planner: Planner
    shadow: ShadowStream
    history: RehearsalHistory
    open_cluster: OpenCluster
    open_load: OpenLoad


def rate_of(route: Route, open_cluster: OpenCluster, run: RunParts) -> float:
    """What the stream's active segments take now, in records a second over `MEASURE_S`."""
    before, began_s = _ends(route, open_cluster), run.clock.monotonic()
    run.clock.sleep(MEASURE_S)
    return measured_rate(before, _ends(route, open_cluster), max(0.001, run.clock.monotonic() - began_s))


def remove_leftovers(parts: RehearsalParts, more: tuple[str, ...]) -> tuple[str, ...]:
    """Remove what a rehearsal that was cut has left, on every cluster that one may have used; returns it in words."""
    cut = [each for each in parts.history.read() if each.outcome is None]
    found = parts.shadow.remove({*more, *(profile for each in cut for profile in each.profiles)})
    for each in cut:
        outcome = RehearsalOutcome(ended_ms=_now_ms(parts), result="failed", reason="cut")
        parts.history.write(replace(each, outcome=outcome))
    return found


def rehearse(parts: RehearsalParts, rehearsal: Rehearsal, route: Route, wait_s: float) -> Rehearsal:
    """Rehearse, whatever comes of it: the shadow is removed at the end, and the outcome is kept.

    Raises what kept the rehearsal from its end, after the removal; `LeaseLostError` leaves the removal to the process
    that has the lease.
    """
    parts.history.write(rehearsal)
    try:
        done = replace(rehearsal, outcome=_outcome(parts, rehearsal, route, wait_s))
    except LeaseLostError:
        raise
    except BaseException as error:
        parts.run.reporter.say("the rehearsal ends early; its stream is removed")
        parts.shadow.remove(rehearsal.profiles)
        why = str(error) or type(error).__name__
        failed = RehearsalOutcome(ended_ms=_now_ms(parts), result="failed", reason="error", lines=(why[:500],))
        parts.history.write(replace(rehearsal, outcome=failed))
        raise
    parts.shadow.remove(rehearsal.profiles)
    parts.history.write(done)
    return done


def _outcome(parts: RehearsalParts, rehearsal: Rehearsal, route: Route, wait_s: float) -> RehearsalOutcome:
    run, clock = parts.run, parts.run.clock
    lanes = lanes_to_rehearse(route)
    parts.shadow.make(lanes, run.operator)
    run.reporter.say(f"stream {rehearsal.shadow} is made like {rehearsal.stream}; writing {rehearsal.per_s:g} a second")
    with parts.open_load(rehearsal, tuple(lane.name for lane in lanes)) as load:
        if not wait_until(clock, FLOWS_S, lambda: load.figures().handled > 0, 0.1):
            raise OperationFailedError(f"no record of the load was handled in {FLOWS_S:g} s")
        clock.sleep(rehearsal.load_s)
        plan = parts.planner.plan(FailoverRequest(stream=rehearsal.shadow, to=rehearsal.to))
        if plan.refused:
            lines = tuple(f"{verdict.where}: {verdict.text}" for verdict in plan.refused)
            return RehearsalOutcome(
                ended_ms=_now_ms(parts), result=EndKind.REFUSED, reason=plan.refused[0].check, lines=lines
            )
        end = parts.planner.begin(plan).run(Step.RETIRED, wait_s)
        clock.sleep(rehearsal.load_s)
        load.end_writing()
        wait_until(clock, HANDLED_S, lambda: load.figures().open == 0, 0.1)
        figures = load.figures()
    began_ms = end.record.operation.started_ms
    reached = [(step, at_ms - began_ms) for step, at_ms in end.record.reached_ms.items()]
    return RehearsalOutcome(
        ended_ms=_now_ms(parts),
        result=end.kind,
        reason=end.reason,
        lines=end.lines,
        steps_ms=dict(sorted(reached, key=lambda each: (each[1], list(Step).index(each[0])))),
        basis=end.record.basis,
        budget=plan.budget.most,
        load=figures,
        is_verified=end.kind is EndKind.DONE and _is_verified(parts),
    )


def _is_verified(parts: RehearsalParts) -> bool:
    try:
        certificate, _ = newest_certificate(parts.run.journals)
        check = check_certificate(certificate, parts.open_cluster, certificate.sha256)
    except (KafkakitError, ConflictError):
        return False
    return not (check.late or check.short or check.unread or check.gone)


def _ends(route: Route, open_cluster: OpenCluster) -> int:
    found = 0
    for lane in lanes_to_rehearse(route):
        if lane.active is None:
            continue
        spans = open_cluster(lane.active.cluster).log.spans(partitions_of(lane.active)).values()
        found += sum(span.end for span in spans if isinstance(span, LogSpan))
    return found


def _now_ms(parts: RehearsalParts) -> int:
    return epoch_ms(parts.run.clock.now())
