"""A topic, its producers, one group and a monitor, where the true lag of each moment is known.

It knows nothing of how lag is measured: the world keeps all that ever happened, with the moments, and answers for any
moment what the oldest record not done and the newest done one were. Clocks differ by at most `skew_ms`.

What counts as a record not done: one that is in the log and that the commit does not call done. Records of a
transaction that is still open may or may not come to count, so there may be two truths, and both must be met. A record
that the commit says its group holds counts although the cleaner took it away since.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kafkakit.streams.model.commit import CommitIdentity, CommitState, OffsetRanges, Watermark
from kafkakit.streams.model.dialects.kafka_streams import write_kafka_streams
from kafkakit.streams.model.kkm1.encode import encode_commit

NEVER = 1 << 60
EPOCH_MS = 1_700_000_000_000
CLUSTER, GROUP, TOPIC, PARTITION = "truth-cluster", "orders", "payments", 0


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What kind of topic, group and clocks there are; `style` is plain, message, streams or kkm1."""

    is_log_append: bool = False
    is_compacted: bool = False
    is_transactional: bool = False
    tells_ids: bool = False
    style: str = "plain"
    skew_ms: int = 0
    monitor_ms: int = 0
    broker_ms: int = 0
    coordinator_ms: int = 0
    producer_ms: int = 0

    @property
    def is_dense(self) -> bool:
        return not self.is_compacted and not self.is_transactional


@dataclass
class Transaction:
    ended: int = NEVER
    is_committed: bool = False


@dataclass
class Entry:
    """A record or marker; `time_ms` is what it carries, `appended` and `removed` are true moments."""

    offset: int
    time_ms: int
    appended: int
    removed: int = NEVER
    is_marker: bool = False
    transaction: Transaction | None = None

    def is_there(self, now: int) -> bool:
        return self.appended <= now < self.removed

    def is_data(self, now: int, *, with_open: bool) -> bool:
        if self.is_marker or self.transaction is None or self.transaction.ended > now:
            return not self.is_marker and (self.transaction is None or with_open)
        return self.transaction.is_committed


@dataclass
class Life:
    """The topic from one creation to the next."""

    topic_id: bytes
    created: int
    entries: list[Entry] = field(default_factory=list)
    starts: list[tuple[int, int]] = field(default_factory=list)

    def end(self, now: int) -> int:
        return sum(e.appended <= now for e in self.entries)

    def start(self, now: int) -> int:
        return max((start for at, start in self.starts if at <= now), default=0)

    def stable(self, now: int) -> int:
        held = [e.offset for e in self.entries if e.transaction and e.appended <= now < e.transaction.ended]
        return min(held, default=self.end(now))


@dataclass
class Commit:
    made: int
    life: Life
    offset: int
    done: OffsetRanges
    metadata: str
    held: Entry | None = None
    tells_held: bool = False

    @property
    def end(self) -> int:
        return self.done.end or self.offset

    def has_done(self, offset: int) -> bool:
        return offset < self.offset or offset in self.done


class World:
    """All that happens, in true milliseconds that only ever rise; every event has a moment of its own."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.now = EPOCH_MS
        self.lives = [Life(topic_id=bytes([1] * 16), created=self.now)]
        self.commits: list[Commit] = []
        self.open: Transaction | None = None
        self.group = Group(self)

    @property
    def life(self) -> Life:
        return self.lives[-1]

    def tick(self, ms: int = 1) -> None:
        self.now += max(1, ms)

    def monitor_ms(self) -> int:
        return self.now + self.setup.monitor_ms

    def produce(self, count: int, age_ms: int, *, in_transaction: bool = False) -> None:
        """Append records, each `age_ms` old by its producer; with LogAppendTime the broker stamps them."""
        if in_transaction and self.setup.is_transactional:
            self.open = self.open or Transaction()
        for _ in range(count):
            self.tick()
            made = self.now + self.setup.producer_ms - age_ms
            stamped = self.now + self.setup.broker_ms
            self._append(stamped if self.setup.is_log_append else made, self.open if in_transaction else None)

    def end_transaction(self, is_committed: bool) -> None:
        if self.open is None:
            return
        self.tick()
        self.open.ended, self.open.is_committed, self.open = self.now, is_committed, None
        self._append(self.now + self.setup.broker_ms, None, is_marker=True)

    def _append(self, time_ms: int, transaction: Transaction | None, *, is_marker: bool = False) -> None:
        entries = self.life.entries
        entries.append(Entry(len(entries), time_ms, self.now, is_marker=is_marker, transaction=transaction))

    def compact(self, pattern: int) -> None:
        """Take away some records; never the last one, and none of a transaction that is open."""
        if not self.setup.is_compacted:
            return
        self.tick()
        stable = self.life.stable(self.now)
        for entry in self.life.entries[:-1]:
            if entry.removed == NEVER and entry.offset < stable and (entry.offset * 7 + pattern) % 3 == 0:
                entry.removed = self.now

    def expire(self, count: int) -> None:
        """Let retention delete the oldest `count` records, as far as they are stable."""
        self.tick()
        start = min(self.life.start(self.now) + count, self.life.stable(self.now))
        self.life.starts.append((self.now, start))
        for entry in self.life.entries[:start]:
            entry.removed = min(entry.removed, self.now)

    def recreate(self) -> None:
        """Delete the topic and make it again under another id, empty; the group starts over."""
        self.tick()
        for entry in self.life.entries:
            entry.removed = min(entry.removed, self.now)
        self.open = None
        self.lives.append(Life(topic_id=bytes([len(self.lives) + 1] * 16), created=self.now))
        self.group = Group(self)

    def _standing(self, now: int) -> "tuple[Life, Commit | None]":
        """The log and the commit of a moment; one of an earlier topic has done nothing in the present one."""
        life = next(one for one in reversed(self.lives) if one.created <= now)
        commit = next((c for c in reversed(self.commits) if c.made <= now), None)
        if commit is not None and commit.life is not life:
            commit = Commit(made=commit.made, life=life, offset=0, done=OffsetRanges(), metadata="")
        return life, commit

    def arrivals(self, monitor_ms: int) -> set[int]:
        """Since when the first record that is not done, and is in the log, was there; as `truths`."""
        now = monitor_ms - self.setup.monitor_ms
        life, commit = self._standing(now)
        if commit is None:
            return set()
        found = set()
        for with_open in (False, True):
            waiting = [e for e in self._data(life, now, with_open) if not commit.has_done(e.offset)]
            first = min(waiting, key=lambda e: e.offset, default=None)
            found.add(now - first.appended if first else 0)
        return found

    def truths(self, monitor_ms: int, *, is_live: bool) -> set[int]:
        """The true lags at a moment by the monitor's clock; none without a commit, or where the group has done nothing
        whose age the live lag could be."""
        now = monitor_ms - self.setup.monitor_ms
        life, commit = self._standing(now)
        if commit is None:
            return set()
        oldest = self._newest_done(life, commit, now) if is_live else None
        if is_live and oldest is None:
            return set()
        found = set()
        for with_open in (False, True):
            if is_live:
                is_behind = any(e.offset >= commit.end for e in self._data(life, now, with_open))
                found.add(max(0, monitor_ms - (oldest or 0)) if is_behind else 0)
            else:
                waiting = [e for e in self._data(life, now, with_open) if not commit.has_done(e.offset)]
                if commit.held is not None and commit.tells_held and commit.held.offset >= life.start(now):
                    waiting.append(commit.held)
                first = min(waiting, key=lambda e: e.offset, default=None)
                found.add(max(0, monitor_ms - first.time_ms) if first else 0)
        return found

    @staticmethod
    def _data(life: Life, now: int, with_open: bool) -> Iterator[Entry]:
        return (e for e in life.entries if e.is_there(now) and e.is_data(now, with_open=with_open))

    @staticmethod
    def _newest_done(life: Life, commit: Commit, now: int) -> int | None:
        done = (e for e in life.entries if e.appended <= now and e.is_data(now, with_open=False))
        return max((e.time_ms for e in done if commit.has_done(e.offset)), default=None)


class Group:
    """One consumer of the topic: it fetches in order, finishes in any order where its style allows, and commits."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.position = 0
        self.held: dict[int, Entry] = {}
        self.done: set[int] = set()
        self.last_done = -1
        self.kept: Commit | None = None

    def fetch(self, count: int) -> None:
        """Take up to `count` more records, as far as the log is stable."""
        world = self.world
        life, now = world.life, world.now
        if self.position < life.start(now):
            self.position = life.start(now)
            self.held = {}
        stable = life.stable(now)
        for entry in life.entries[self.position : stable]:
            if count == 0:
                return
            self.position = entry.offset + 1
            if entry.is_there(now) and entry.is_data(now, with_open=False) and entry.offset not in self.done:
                self.held[entry.offset] = entry
                count -= 1
        self.position = stable

    def finish(self, pattern: int) -> None:
        """Do some of the records held: the first ones, or any with KKM1."""
        for number, offset in enumerate(sorted(self.held)):
            is_chosen = (pattern >> (number % 6)) & 1 if self.world.setup.style == "kkm1" else number < pattern % 5
            if is_chosen:
                del self.held[offset]
                self.done.add(offset)
                self.last_done = max(self.last_done, offset)

    def restart(self) -> None:
        """Lose what is in memory and begin where the last commit says."""
        if self.kept is not None:
            self.position = self.kept.offset
            self.held = {}
            self.done = {o for start, end in self.kept.done for o in range(start, end)}
            self.last_done = self.kept.end - 1

    def rewind(self, to: int) -> None:
        """An operator resets the group to an earlier offset, without metadata."""
        world = self.world
        base = min(to, self.position)
        self._send(Commit(made=world.now, life=world.life, offset=base, done=OffsetRanges(), metadata=""))
        self.restart()

    def commit(self) -> None:
        """Commit in the group's style."""
        world = self.world
        style = world.setup.style
        base = min(self.held, default=self.position)
        if style == "message" and not self.held:
            base = min(base, self.last_done + 1) if self.last_done >= 0 else base
        above = self.last_done + 1 if style == "kkm1" else base
        done = OffsetRanges.of([(base, above)] if above > base else []).minus(
            OffsetRanges.of((o, o + 1) for o in self.held)
        )
        if done.first == base:
            # Right after a restart the base is not fetched again: it is what the last commit said.
            done = done.minus(OffsetRanges.of([(base, base + 1)]))
        world.tick()
        commit = Commit(made=world.now, life=world.life, offset=base, done=done, metadata="")
        newest = world._newest_done(world.life, commit, world.now)
        if style == "streams" and newest is not None:
            commit.metadata = write_kafka_streams(newest)
        if style == "kkm1":
            self._describe(commit, newest)
        self._send(commit)

    def _describe(self, commit: Commit, newest: int | None) -> None:
        world, kept = self.world, self.kept
        held = self.held.get(commit.offset)
        if held is None and kept is not None and kept.offset == commit.offset:
            held = kept.held
        if held is None and commit.done:
            commit.done = OffsetRanges()
        mark = None
        if held is not None:
            mark = Watermark(oldest_ms=held.time_ms, newest_done_ms=held.time_ms if newest is None else newest)
        elif newest is not None:
            mark = Watermark(oldest_ms=newest, newest_done_ms=newest)
        commit.held = held
        commit.tells_held = bool(commit.done) or (mark is not None and mark.oldest_ms != mark.newest_done_ms)
        state = CommitState(base=commit.offset, done=commit.done, watermark=mark)
        identity = CommitIdentity(cluster_id=CLUSTER, topic_id=world.life.topic_id, partition=PARTITION, group=GROUP)
        commit.metadata = encode_commit(state, identity, limit_chars=4000).text

    def _send(self, commit: Commit) -> None:
        self.world.tick()
        commit.made = self.world.now
        self.world.commits.append(commit)
        self.kept = replace(commit)
