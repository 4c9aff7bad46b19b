"""Log dirs on the cluster: assignments for copies that are to come, and moves inside brokers, each journaled before."""

from collections.abc import Mapping, Sequence
from functools import partial

from kafkakit.core.cluster_facts import BrokerLogDirs, ItemError
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.execution.act.retrier import Retrier
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.decide.goals import Goal
from kafkakit.execution.decide.journal import What
from kafkakit.execution.decide.log_dir_moves import (
    DirLook,
    DirWork,
    Sent,
    is_cordoned,
    look_at_dirs,
    on_the_way,
    usable_bytes_of,
)
from kafkakit.execution.decide.precheck import Live, listed
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.reporter import Reporter

CALL_SIZE = 5_000


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

    def on_the_way(self, sent: Sent, live: Live) -> Mapping[TopicPartitionReplica, str]:
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

    def assign(self, goals: Sequence[Goal]) -> None:
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
            self._reporter.warn(f"the planned log dir is cordoned, the broker chooses one: {listed(closed)}")
        if short:
            self._reporter.warn(f"no free space in the planned log dir now, the broker chooses one: {listed(short)}")
        refused = self._send(assignments)
        if refused:
            names = [f"{r.topic}-{r.partition} on broker {r.broker} ({e})" for r, e in sorted(refused.items())]
            self._reporter.warn(f"log dir not taken, the broker chooses one: {listed(names)}")

    def _send(self, wanted: Mapping[TopicPartitionReplica, str]) -> dict[TopicPartitionReplica, ItemError]:
        errors: dict[TopicPartitionReplica, ItemError] = {}
        replicas = sorted(wanted)
        for start in range(0, len(replicas), CALL_SIZE):
            part = {r: wanted[r] for r in replicas[start : start + CALL_SIZE]}
            seq = self._journal.intent(What.DIRS, {"replicas": [[*r, path] for r, path in part.items()]})
            answers = self._retrier.call("naming log dirs", partial(self._admin.move_log_dirs, part))
            found = {r: e for r, e in answers.items() if e is not None}
            self._journal.effect(seq, {"refused": [[*r, str(e)] for r, e in sorted(found.items())]})
            errors |= found
        return errors


def _free_bytes(dirs: Mapping[int, BrokerLogDirs], broker: int, path: str) -> int:
    """The usable bytes; where they are not told, more than any copy has."""
    free_bytes = usable_bytes_of(dirs, broker, path)
    return 1 << 62 if free_bytes is None else free_bytes
