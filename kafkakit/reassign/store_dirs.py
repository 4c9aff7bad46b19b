"""Log dirs on the cluster: wishes for copies that are to come, and moves inside brokers, each journaled before."""

from collections.abc import Mapping, Sequence
from functools import partial

from kafkakit.errors import OperationFailedError
from kafkakit.model import TopicPartitionReplica
from kafkakit.ports import BrokerLogDirs, Clock, ClusterAdmin, ItemError
from kafkakit.quantities import counted, format_bytes, format_rough_time
from kafkakit.reassign.dir_work import (
    DirLook,
    DirWork,
    dir_problems,
    is_cordoned,
    look_at_dirs,
    require_dir_space,
    room_of,
)
from kafkakit.reassign.goals import Goal
from kafkakit.reassign.journal import What
from kafkakit.reassign.outcome import Voice
from kafkakit.reassign.precheck import listed
from kafkakit.reassign.progress import poll_interval_s
from kafkakit.reassign.service import Patient
from kafkakit.reassign.store_journal import Journal

CALL_SIZE = 5_000
SEND_TRIES = 5


class LogDirs:
    """Asks brokers to hold copies in named dirs; `moved` counts the copies that arrived in theirs."""

    def __init__(
        self,
        admin: ClusterAdmin,
        clock: Clock,
        journal: Journal,
        voice: Voice,
        patient: Patient,
        *,
        stall_timeout_s: float,
    ) -> None:
        self._admin, self._clock, self._journal = admin, clock, journal
        self._voice, self._patient, self._stall_timeout_s = voice, patient, stall_timeout_s
        self.moved = 0

    def read(self, work: Sequence[DirWork]) -> Mapping[int, BrokerLogDirs]:
        """The log dirs of the brokers in question."""
        brokers = sorted({w.replica.broker for w in work})
        keys = {w.key for w in work}
        if not brokers:
            return {}
        return self._patient.call("reading log dirs", lambda: self._admin.log_dirs(brokers, keys))

    def left(self, work: Sequence[DirWork]) -> tuple[DirWork, ...]:
        """The work that is not done yet, on its way or not."""
        done = frozenset(look_at_dirs(work, self.read(work)).done)
        return tuple(w for w in work if w not in done)

    def require_space(self, work: Sequence[DirWork]) -> None:
        """Raise `RefusedError` when a log dir has less room than what is to come from other dirs."""
        dirs = self.read(work)
        require_dir_space(look_at_dirs(work, dirs).idle, dirs)

    def look(self, work: Sequence[DirWork]) -> DirLook:
        """Where each copy stands now; one request to each broker in question."""
        return look_at_dirs(work, self.read(work))

    def send(self, work: Sequence[DirWork]) -> dict[TopicPartitionReplica, ItemError]:
        """Tell brokers to move these copies, without waiting for them; returns those refused. Safe to repeat."""
        return self._send({w.replica: w.target for w in work})

    def wish(self, goals: Sequence[Goal]) -> None:
        """Tell brokers the dirs for copies that are about to come; whatever they refuse is their choice, and said.

        A dir that is closed to new copies, or has no room for what is wished into it now, gets no wish.
        """
        asked = [(g, b) for g in goals if not g.running for b in g.adding if b in g.dirs]
        if not asked:
            return
        brokers = sorted({b for _, b in asked})
        dirs = self._patient.call("reading log dirs", lambda: self._admin.log_dirs(brokers, ()))
        left: dict[tuple[int, str], int] = {}
        wishes: dict[TopicPartitionReplica, str] = {}
        short: list[str] = []
        closed: list[str] = []
        for goal, broker in asked:
            path, size = goal.dirs[broker], goal.size_bytes or 0
            if is_cordoned(dirs, broker, path):
                closed.append(f"{goal.key} on broker {broker} to {path}")
                continue
            room = left.setdefault((broker, path), _room(dirs, broker, path))
            if size > room:
                short.append(f"{goal.key} on broker {broker} to {path}")
                continue
            left[broker, path] = room - size
            wishes[TopicPartitionReplica(goal.key.topic, goal.key.partition, broker)] = path
        if closed:
            self._voice.warn(f"the planned log dir is cordoned, the broker chooses one: {listed(closed)}")
        if short:
            self._voice.warn(f"no room in the planned log dir now, the broker chooses one: {listed(short)}")
        refused = self._send(wishes)
        if refused:
            names = [f"{r.topic}-{r.partition} on broker {r.broker} ({e})" for r, e in sorted(refused.items())]
            self._voice.warn(f"log dir not taken, the broker chooses one: {listed(names)}")

    def carry(self, work: Sequence[DirWork]) -> list[str]:
        """Move copies between the dirs of their brokers and wait for them; returns what went wrong.

        Safe to repeat: what is done or on its way is not asked for again. Raises `OperationFailedError` when nothing
        moves for the stall timeout; the moves stay on the brokers then.
        """
        if not work:
            return []
        seen = self.look(work)
        before = len(seen.done)
        refused: dict[TopicPartitionReplica, ItemError] = {}
        for _ in range(SEND_TRIES):
            unsent = [w for w in seen.idle if w.replica not in refused]
            if not unsent and not seen.moving:
                break
            refused |= self.send(unsent)
            seen = self._wait([w for w in work if w.replica not in refused])
            if seen.idle:  # another move ended, or a broker came back: ask again
                self._clock.sleep(0.5)
        self.moved = max(0, len(seen.done) - before)
        names = [f"{r.topic}-{r.partition} on broker {r.broker} ({e})" for r, e in sorted(refused.items())]
        return [*([f"log dir move refused: {listed(names)}"] if names else []), *dir_problems(seen)]

    def _wait(self, work: Sequence[DirWork]) -> DirLook:
        """Poll until no copy is on its way."""
        started = changed_at = self._clock.monotonic()
        mark: tuple[int, int] | None = None
        with self._voice.progress(f"moving {counted(len(work), 'copy', 'copies')} between log dirs") as bar:
            while True:
                seen = self.look(work)
                now = self._clock.monotonic()
                if (seen.copied_bytes, len(seen.done)) != mark:
                    mark, changed_at = (seen.copied_bytes, len(seen.done)), now
                note = f"{len(seen.done)}/{len(work)} copies, {format_bytes(seen.copied_bytes)}"
                bar.update(min(seen.copied_bytes, seen.total_bytes), seen.total_bytes, note)
                if not seen.moving:
                    return seen
                if now - changed_at >= self._stall_timeout_s:
                    names = listed([str(w) for w in seen.moving])
                    raise OperationFailedError(
                        f"no progress between log dirs for {format_rough_time(self._stall_timeout_s)}: {names}"
                    )
                self._clock.sleep(poll_interval_s(now - started))

    def _send(self, wanted: Mapping[TopicPartitionReplica, str]) -> dict[TopicPartitionReplica, ItemError]:
        errors: dict[TopicPartitionReplica, ItemError] = {}
        replicas = sorted(wanted)
        for start in range(0, len(replicas), CALL_SIZE):
            part = {r: wanted[r] for r in replicas[start : start + CALL_SIZE]}
            seq = self._journal.intent(What.DIRS, {"replicas": [[*r, path] for r, path in part.items()]})
            answers = self._patient.call("naming log dirs", partial(self._admin.move_log_dirs, part))
            found = {r: e for r, e in answers.items() if e is not None}
            self._journal.effect(seq, {"refused": [[*r, str(e)] for r, e in sorted(found.items())]})
            errors |= found
        return errors


def _room(dirs: Mapping[int, BrokerLogDirs], broker: int, path: str) -> int:
    """The usable bytes; where they are not told, more than any copy has."""
    room = room_of(dirs, broker, path)
    return 1 << 62 if room is None else room
