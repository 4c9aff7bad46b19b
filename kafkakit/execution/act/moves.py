"""Moves on the cluster, each journaled before and after: sending, cancelling, electing, and changes of log dirs.

A log dir is assigned before a copy comes to a broker; a copy that is there is moved between the dirs of its broker.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

from kafkakit.core.cluster_facts import BrokerLogDirs, ItemError
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.execution.act.retrier import Retrier, RetryingReader
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.decide.journal import JournalSubject
from kafkakit.execution.decide.plan_state import (
    DirLook,
    DirWork,
    LiveState,
    MoveGoal,
    Sent,
    is_cordoned,
    list_items,
    look_at_dirs,
    on_the_way,
    usable_bytes_of,
)
from kafkakit.execution.decide.schedule.work import BrokerRates, rates_to_data
from kafkakit.ports.acting import Clock, Reporter, looks, pace
from kafkakit.ports.admin import ClusterAdmin

SUBMIT_TRIES = 5
CALL_SIZE = 5_000  # half of what Kafka takes in one request
CANCEL_TIMEOUT_S = 60.0
A = TypeVar("A")
R = TypeVar("R")
Answers = Mapping[TopicPartition, ItemError | None]


class Moves:
    """Changes replica lists and leaders; every call waits out short troubles and is safe to repeat."""

    def __init__(
        self, admin: ClusterAdmin, clock: Clock, journal: RunJournal, retrier: Retrier, reader: RetryingReader
    ) -> None:
        self._admin, self._clock, self._journal = admin, clock, journal
        self._retrier, self._reader = retrier, reader

    def submit(self, goals: Sequence[MoveGoal]) -> dict[TopicPartition, ItemError]:
        """Send the goals' targets; returns those refused for good (a refusal for the moment is tried again)."""
        targets = {g.key: g.target for g in goals}
        refused: dict[TopicPartition, ItemError] = {}
        for attempt in pace(self._clock, range(1, SUBMIT_TRIES + 1), 1.0):
            errors = self._send(targets)
            there = self._reader.live({k.topic for k in errors}).states if errors else {}
            final = {k for k, e in errors.items() if not e.retriable or k not in there or attempt == SUBMIT_TRIES}
            refused |= {k: errors[k] for k in final}
            targets = {k: targets[k] for k in errors if k not in final}
            if not targets:
                break
        return refused

    def cancel(self, keys: Collection[TopicPartition]) -> dict[TopicPartition, ItemError]:
        """Cancel running moves and wait until none of them runs; returns those that Kafka refuses to cancel.

        It does where nothing but the new copies is left alive. Raises `OperationFailedError` if one does not stop.
        """
        if not keys:
            return {}
        errors = self._act(JournalSubject.CANCEL, sorted(keys), self._admin.cancel)
        there = self._reader.live({k.topic for k in keys})
        refused = {k: e for k, e in sorted(errors.items()) if k in there.states}
        waited = sorted(k for k in keys if k not in refused)
        running = waited
        for _ in looks(self._clock, CANCEL_TIMEOUT_S):
            there = self._reader.live({k.topic for k in keys})
            running = [k for k in waited if k in there.running]
            if not running:
                return refused
        raise OperationFailedError(f"cancelled moves still run: {list_items([str(k) for k in running])}")

    def elect(self, keys: Sequence[TopicPartition]) -> dict[TopicPartition, ItemError]:
        """Make first replicas leaders; returns those refused."""
        return self._act(JournalSubject.ELECT, list(keys), self._admin.elect_preferred_leaders) if keys else {}

    def note_pause(self, *, paused: bool, by: str) -> None:
        """Record that the run starts nothing more, or continues."""
        self._journal.check(JournalSubject.PAUSE if paused else JournalSubject.CONTINUE, {"by": by})

    def note_rates(self, rates: BrokerRates) -> None:
        """Record the rates that hold from now on."""
        self._journal.check(JournalSubject.RATES, {"rates": rates_to_data(rates)})

    def _send(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> dict[TopicPartition, ItemError]:
        errors: dict[TopicPartition, ItemError] = {}
        keys = list(targets)
        for start in range(0, len(keys), CALL_SIZE):
            part = {k: targets[k] for k in keys[start : start + CALL_SIZE]}
            seq = self._journal.intent(
                JournalSubject.REASSIGN, {"targets": [[k.topic, k.partition, list(t)] for k, t in part.items()]}
            )
            answers = self._retrier.call("sending moves", _bind_argument(self._admin.reassign, part))
            errors |= self._note(seq, answers)
        return errors

    def _act(
        self,
        what: JournalSubject,
        keys: Sequence[TopicPartition],
        call: Callable[[Collection[TopicPartition]], Answers],
    ) -> dict[TopicPartition, ItemError]:
        errors: dict[TopicPartition, ItemError] = {}
        for start in range(0, len(keys), CALL_SIZE):
            part = tuple(keys[start : start + CALL_SIZE])
            seq = self._journal.intent(what, {"partitions": [[k.topic, k.partition] for k in part]})
            errors |= self._note(seq, self._retrier.call(f"{what}", _bind_argument(call, part)))
        return errors

    def _note(self, seq: int, answers: Answers) -> dict[TopicPartition, ItemError]:
        errors = {k: e for k, e in answers.items() if e is not None}
        self._journal.effect(seq, {"refused": [[k.topic, k.partition, str(e)] for k, e in sorted(errors.items())]})
        return errors


def _bind_argument(call: Callable[[A], R], argument: A) -> Callable[[], R]:
    return lambda: call(argument)


class LogDirs:
    """Asks brokers to hold copies in named dirs."""

    def __init__(self, admin: ClusterAdmin, journal: RunJournal, reporter: Reporter, retrier: Retrier) -> None:
        self._admin, self._journal, self._reporter, self._retrier = admin, journal, reporter, retrier

    def read(self, work: Sequence[DirWork]) -> Mapping[int, BrokerLogDirs]:
        """The log dirs of the brokers in question."""
        brokers = sorted({w.replica.broker for w in work})
        keys = {w.key for w in work}
        if not brokers:
            return {}
        return self._retrier.call("reading log dirs", lambda: self._admin.log_dirs(brokers, keys))

    def left(self, work: Sequence[DirWork]) -> tuple[DirWork, ...]:
        """The work that is not done yet, on its way or not."""
        done = frozenset(look_at_dirs(work, self.read(work)).done)
        return tuple(w for w in work if w not in done)

    def look(self, work: Sequence[DirWork]) -> DirLook:
        """Where each copy stands now; one request to each broker in question."""
        return look_at_dirs(work, self.read(work))

    def send(self, work: Sequence[DirWork]) -> dict[TopicPartitionReplica, ItemError]:
        """Tell brokers to move these copies, without waiting for them; returns those refused. Safe to repeat."""
        return self._send({w.replica: w.target for w in work})

    def on_the_way(self, sent: Sent, live: LiveState) -> Mapping[TopicPartitionReplica, str]:
        """Copies that go to a dir of ours (`sent`, from the journal), each with the dir that it is in; see there."""
        brokers = sorted({r.broker for r in sent if live.is_alive(r.broker)})
        if not brokers:
            return {}
        keys = {TopicPartition(r.topic, r.partition) for r in sent}
        dirs = self._retrier.call("reading log dirs", lambda: self._admin.log_dirs(brokers, keys))
        return on_the_way(sent, dirs)

    def stay(self, copies: Mapping[TopicPartitionReplica, str]) -> dict[TopicPartitionReplica, ItemError]:
        """Cancel the moves of copies inside brokers by naming the dirs that they are in; returns those refused."""
        return self._send(copies)

    def assign(self, goals: Sequence[MoveGoal]) -> None:
        """Tell brokers the dirs for copies that are about to come; whatever they refuse is their choice, and said.

        A dir that is closed to new copies, or has no free space for what is assigned to it now, gets no assignment.
        """
        requested = [(g, b) for g in goals if not g.running for b in g.adding if b in g.dirs]
        if not requested:
            return
        brokers = sorted({b for _, b in requested})
        dirs = self._retrier.call("reading log dirs", lambda: self._admin.log_dirs(brokers, ()))
        left: dict[tuple[int, str], int] = {}
        assignments: dict[TopicPartitionReplica, str] = {}
        short: list[str] = []
        closed: list[str] = []
        for goal, broker in requested:
            path, size = goal.dirs[broker], goal.size_bytes or 0
            if is_cordoned(dirs, broker, path):
                closed.append(f"{goal.key} on broker {broker} to {path}")
                continue
            free_bytes = left.setdefault((broker, path), _free_bytes(dirs, broker, path))
            if size > free_bytes:
                short.append(f"{goal.key} on broker {broker} to {path}")
                continue
            left[broker, path] = free_bytes - size
            assignments[TopicPartitionReplica(goal.key.topic, goal.key.partition, broker)] = path
        if closed:
            self._reporter.warn(f"the planned log dir is cordoned, the broker chooses one: {list_items(closed)}")
        if short:
            self._reporter.warn(
                f"no free space in the planned log dir now, the broker chooses one: {list_items(short)}"
            )
        refused = self._send(assignments)
        if refused:
            names = [f"{r.topic}-{r.partition} on broker {r.broker} ({e})" for r, e in sorted(refused.items())]
            self._reporter.warn(f"log dir not taken, the broker chooses one: {list_items(names)}")

    def _send(self, wanted: Mapping[TopicPartitionReplica, str]) -> dict[TopicPartitionReplica, ItemError]:
        errors: dict[TopicPartitionReplica, ItemError] = {}
        replicas = sorted(wanted)
        for start in range(0, len(replicas), CALL_SIZE):
            part = {r: wanted[r] for r in replicas[start : start + CALL_SIZE]}
            seq = self._journal.intent(JournalSubject.DIRS, {"replicas": [[*r, path] for r, path in part.items()]})
            answers = self._retrier.call("naming log dirs", partial(self._admin.move_log_dirs, part))
            found = {r: e for r, e in answers.items() if e is not None}
            self._journal.effect(seq, {"refused": [[*r, str(e)] for r, e in sorted(found.items())]})
            errors |= found
        return errors


def _free_bytes(dirs: Mapping[int, BrokerLogDirs], broker: int, path: str) -> int:
    """The usable bytes; where they are not told, more than any copy has."""
    free_bytes = usable_bytes_of(dirs, broker, path)
    return 1 << 62 if free_bytes is None else free_bytes
