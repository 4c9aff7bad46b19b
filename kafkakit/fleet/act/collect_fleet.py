"""Collecting many clusters side by side: a cluster that is broken or slow never holds up another."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event, Thread

from kafkakit.core.errors import KafkakitError, StoreFailedError, TryLaterError
from kafkakit.core.quantities import counted, format_span
from kafkakit.fleet.act.collect import Collected, CollectRequest, CollectSource, collect_cluster
from kafkakit.fleet.act.snapshot_writer import SnapshotWriter
from kafkakit.fleet.decide.outcomes import ClusterOutcome, OutcomeStatus
from kafkakit.ports.acting import Clock, Reporter
from kafkakit.ports.stores import TableStore

LOOK_EVERY_S = 0.2
OpenLock = Callable[[str], AbstractContextManager[object]]
"""Keeps other processes from the cluster of this name in the store; `TryLaterError` names the holder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLimits:
    """How many clusters are read at once, how long each may take, and whether complete ones are read again."""

    concurrency: int = 8
    cluster_timeout_s: float = 600
    again: bool = False


@dataclass(frozen=True, slots=True)
class _Turn:
    """One cluster being read in a thread of its own; `over` is set when its result is no longer wanted."""

    writer: SnapshotWriter
    started_s: float
    over: Event
    lock: ExitStack


_Answer = tuple[_Turn, Collected | BaseException]


def collect_fleet(
    sources: Sequence[CollectSource],
    request: CollectRequest,
    limits: FleetLimits,
    store: TableStore,
    open_lock: OpenLock,
    clock: Clock,
    reporter: Reporter,
) -> tuple[ClusterOutcome, ...]:
    """Collect all clusters and say for each what came of it, in the order of `sources`.

    A cluster that fails, or takes longer than its limit, gets a manifest with the error. A thread that hangs in a
    request is left behind and writes nothing more. A cluster that another process is writing is left alone. Raises
    `StoreFailedError` when the store takes no more.
    """
    outcomes: dict[str, ClusterOutcome] = {}
    waiting: deque[CollectSource] = deque()
    for source in sources:
        manifest = None if limits.again else store.manifest(request.snapshot_date, source.entry.name)
        if manifest is not None and manifest.is_complete:
            outcomes[manifest.cluster] = ClusterOutcome(
                cluster=manifest.cluster, status=OutcomeStatus.KEPT, rows=manifest.rows
            )
        else:
            waiting.append(source)
    running: dict[str, _Turn] = {}
    answers: SimpleQueue[_Answer] = SimpleQueue()
    with reporter.progress(f"collecting {counted(len(waiting), 'cluster')}") as bar:
        while waiting or running:
            while waiting and len(running) < limits.concurrency:
                source, lock = waiting.popleft(), ExitStack()
                name = source.entry.name
                try:
                    lock.enter_context(open_lock(name))
                except TryLaterError as error:
                    outcomes[name] = ClusterOutcome(cluster=name, status=OutcomeStatus.BUSY, error=error.message)
                    continue
                running[name] = _start(source, request, store, lock, clock, answers)
            late = _late(running.values(), limits.cluster_timeout_s, clock)
            for turn, answer in [*_answered(answers), *late]:
                # One that was late may answer after all.
                if running.get(turn.writer.cluster) is turn:
                    del running[turn.writer.cluster]
                    outcomes[turn.writer.cluster] = _ended(turn, answer, clock)
                    bar.update(len(outcomes), len(sources), turn.writer.cluster)
    return tuple(outcomes[source.entry.name] for source in sources)


def _start(
    source: CollectSource,
    request: CollectRequest,
    store: TableStore,
    lock: ExitStack,
    clock: Clock,
    answers: "SimpleQueue[_Answer]",
) -> _Turn:
    name, over = source.entry.name, Event()
    writer = SnapshotWriter(store, clock, cluster=name, snapshot_date=request.snapshot_date, is_over=over.is_set)
    turn = _Turn(writer, clock.monotonic(), over, lock)

    def run() -> None:
        try:
            answers.put((turn, collect_cluster(source, request, writer, clock)))
        except BaseException as error:
            answers.put((turn, error))

    # A request that hangs must not keep the process.
    Thread(target=run, name=f"collect {name}", daemon=True).start()
    return turn


def _answered(answers: "SimpleQueue[_Answer]") -> list[_Answer]:
    try:
        return [answers.get(timeout=LOOK_EVERY_S)]
    except Empty:
        return []


def _late(running: Iterable[_Turn], limit_s: float, clock: Clock) -> Iterator[_Answer]:
    for turn in list(running):
        if clock.monotonic() - turn.started_s > limit_s:
            turn.over.set()
            yield turn, TryLaterError(f"not read within {format_span(limit_s)}")


def _ended(turn: _Turn, answer: Collected | BaseException, clock: Clock) -> ClusterOutcome:
    writer, seconds = turn.writer, clock.monotonic() - turn.started_s
    if isinstance(answer, Collected):
        rows = writer.finish(positions=answer.positions).rows
        turn.lock.close()
        return ClusterOutcome(
            cluster=writer.cluster, status=OutcomeStatus.COLLECTED, rows=rows, seconds=seconds, notes=answer.notes
        )
    if isinstance(answer, StoreFailedError) or not isinstance(answer, Exception):
        raise answer
    error = answer.message if isinstance(answer, KafkakitError) else f"{type(answer).__name__}: {answer}"
    writer.finish(error=error)
    if not turn.over.is_set():
        turn.lock.close()
    return ClusterOutcome(cluster=writer.cluster, status=OutcomeStatus.FAILED, seconds=seconds, error=error)
