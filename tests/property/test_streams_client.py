"""The work on a partition under any order of reads, endings, commits and crashes, against a plain model.

Registrations of clients.
"""

import random
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import InputError
from kafkakit.streams.client.decide.client_documents import (
    CLIENT_DOCUMENT,
    ClientDocument,
    ClientEntry,
    ClientKind,
    merge_entries,
    registrations_of,
)
from kafkakit.streams.client.decide.failures import Answers, Dependencies
from kafkakit.streams.client.decide.partition_work import (
    CommitRule,
    PartitionWork,
    RecordFields,
    next_commit,
    restore_commit,
)
from kafkakit.streams.client.decide.reading import Chunk
from kafkakit.streams.client.decide.work_rules import (
    Failure,
    FailureEnding,
    Mode,
    MoveRule,
    RetryRule,
    WorkLimits,
    WorkRules,
)
from kafkakit.streams.model.commit import CommitIdentity, CommitState, MarkState, ReplayWindow, RouteMark, Writer
from tests.rigs.stream_routes import HOLDER

IDENTITY = CommitIdentity(cluster_id="c1", topic_id=bytes(range(16)), partition=0, group="billing")
FIELDS: RecordFields[int] = RecordFields(
    time_ms=lambda offset: 1_000_000 + offset,
    key=lambda offset: None if offset % 7 == 0 else b"%d" % (offset % 4),
    size=lambda offset: 10,
)
RETRY = RetryRule(first_ms=10, max_ms=100, max_tries=3)
ENDINGS = {
    "ok": None,
    "retry": Failure(ending=FailureEnding.RETRY),
    "reject": Failure(ending=FailureEnding.REJECT),
    "defer": Failure(ending=FailureEnding.DEFER, dependency="db"),
    "wait": Failure(ending=FailureEnding.WAIT, after_ms=20),
}


class Life:
    """A member that owns the partition until it is killed, and what remains in the world when it is."""

    def __init__(self, log: list[int], end: int, mode: Mode, limit_chars: int) -> None:
        self.log, self.end, self.mode = log, end, mode
        self.rule = CommitRule(limit_chars=limit_chars)
        self.committed: CommittedOffset | None = None
        self.written = CommitState(base=0)
        self.handled: Counter[int] = Counter()
        self.durable: set[int] = set()
        self.budget = 0
        self.has_replayed = False
        self.now_ms = 0
        self.start()

    def start(self) -> None:
        state = restore_commit(self.committed, IDENTITY).state if self.committed else CommitState(base=0)
        self.written = state
        self.dependencies = Dependencies(RETRY)
        rules = WorkRules(
            mode=self.mode, retry=RETRY, moves=MoveRule(acks_per_move=5), limits=WorkLimits(records=40, span=60)
        )
        self.work: PartitionWork[int] = PartitionWork(state, rules, FIELDS, self.dependencies, Answers(rules))
        self.out: list[Chunk[int]] = []
        self.unwritten: list[int] = []
        self.order: dict[bytes, list[int]] = defaultdict(list)

    def read(self, count: int) -> None:
        if not self.work.wants_records:
            return
        start = self.work.position
        stop = min(start + count, self.end)
        offsets = [offset for offset in self.log if start <= offset < stop]
        self.work.offer(offsets, list(offsets), stop)

    def take(self, limit: int) -> None:
        chunk = self.work.take(limit, self.now_ms)
        if chunk is not None:
            assert len(chunk.offsets) == len(chunk.records) <= limit
            self.out.append(chunk)

    def handle(self, which: int, count: int, how: str) -> None:
        """A worker goes on with its chunk; the last record it comes to ends as `how` says."""
        if not self.out:
            return
        chunk = self.out[which % len(self.out)]
        for _ in range(count):
            index = chunk.handled
            if index == len(chunk.offsets):
                return
            if index not in chunk.skipped:
                failure = ENDINGS[how] if _ == count - 1 else None
                if failure is not None:
                    chunk.failed(index, failure)
                else:
                    self.done(chunk.offsets[index])
            chunk.handled += 1

    def done(self, offset: int) -> None:
        self.handled[offset] += 1
        key = FIELDS.key(offset)
        if key is not None or self.mode is Mode.PARTITION:
            self.order[b"" if self.mode is Mode.PARTITION else key or b""].append(offset)

    def finish(self, which: int) -> None:
        if self.out:
            self.work.finish(self.out.pop(which % len(self.out)), self.now_ms)

    def commit(self, arrives: bool) -> None:
        self.work.settle_all(self.now_ms)
        self.work.relieve()
        made = next_commit(
            self.work,
            IDENTITY,
            self.rule,
            route=RouteMark(epoch=3, segment=1),
            writer=Writer(member_hash=7, generation=2),
        )
        self.check(made.encoded.written)
        if arrives:
            self.committed, self.written = made.committed, made.encoded.written

    def check(self, written: CommitState) -> None:
        """What a commit says is never more than what happened."""
        over = {offset for offset in self.log if self.handled[offset]} | self.durable
        rejected = {offset for m in written.marks if m.state is MarkState.REJECTED for offset in range(m.start, m.end)}
        for offset in self.log:
            if offset < written.base:
                assert offset in over, f"{offset} is below base"
            elif offset in written.done:
                assert offset in over or offset in rejected
        for mark in written.marks:
            inside = written.done.within(mark.start, mark.end).count
            assert inside == (mark.end - mark.start if mark.state.is_done else 0)
        assert written.base not in written.done

    def sink(self, works: bool) -> None:
        self.unwritten += [rejection.offset for rejection in self.work.unwritten_rejections()]
        for offset in self.unwritten if works else ():
            self.durable.add(offset)
            self.work.rejection_is_durable(offset)
        if works:
            self.unwritten.clear()

    def replay(self, start: int, length: int) -> None:
        before = self.work.counts.replayed
        self.work.open_again(ReplayWindow(start=start, end=start + length, request_id=0))
        self.budget += self.work.counts.replayed - before
        self.has_replayed = True

    def crash(self) -> None:
        self.check_order()
        self.budget += self.work.done_beyond(self.written)
        self.start()

    def check_order(self) -> None:
        if self.mode is not Mode.UNORDERED and not self.has_replayed:
            for offsets in self.order.values():
                assert offsets == sorted(offsets)

    def complete(self) -> None:
        """All is well now: everything is read, handled, written, committed."""
        for _ in range(1_000):
            self.now_ms += 50
            self.read(50)
            self.take(10)
            while self.out:
                self.handle(0, 100, "ok")
                self.finish(0)
            self.sink(True)
            self.commit(True)
            if self.work.base == self.end:
                break
        self.check_order()


KINDS = (
    ["read"] * 4 + ["take"] * 6 + ["handle"] * 9 + ["finish"] * 5 + ["later"] * 3 + ["commit"] * 3 + ["sink", "crash"]
)
HOWS = ["ok"] * 4 + ["retry", "retry", "reject", "defer", "wait"]


def program(seed: int, size: int) -> list[tuple[str, int, str]]:
    """Steps as a busy member takes them: lists of independent draws seldom come far."""
    chosen = random.Random(seed)
    return [
        (
            verb,
            chosen.randrange(1, 30 if verb in ("read", "later") else 12) - (verb in ("commit", "sink")),
            chosen.choice(HOWS),
        )
        for verb in (chosen.choice(KINDS) for _ in range(size))
    ]


STEPS = st.builds(program, st.integers(0, 1 << 32), st.integers(0, 150))
LOGS = st.tuples(st.lists(st.integers(0, 119), unique=True, max_size=30), st.integers(60, 120)).map(
    lambda made: ([offset for offset in range(made[1]) if offset not in made[0]], made[1])
)


def step(life: Life, verb: str, number: int, how: str) -> None:
    if verb == "read":
        life.read(number)
    elif verb == "take":
        life.take(number)
    elif verb == "handle":
        life.handle(number, 1 + number % 6, how)
    elif verb == "finish":
        life.finish(number)
    elif verb == "later":
        life.now_ms += number
    elif verb == "commit":
        life.commit(number > 0)
    elif verb == "sink":
        life.sink(bool(number))
    elif verb == "replay":
        life.replay(number, int(how))
    else:
        life.crash()


@pytest.mark.parametrize("mode", Mode)
@settings(max_examples=300, deadline=None)
@given(log=LOGS, steps=STEPS, limit_chars=st.sampled_from([64, 90, 4095]))
def test_every_record_is_handled_and_duplicates_are_foreseen(
    mode: Mode, log: tuple[list[int], int], steps: list[tuple[str, int, str]], limit_chars: int
) -> None:
    life = Life(*log, mode, limit_chars)
    for verb, number, how in steps:
        step(life, verb, number, how)
    life.complete()
    assert life.work.base == life.end
    assert [offset for offset in life.log if not life.handled[offset] and offset not in life.durable] == []
    duplicates = sum(count - 1 for count in life.handled.values() if count > 1)
    event(f"duplicates: {min(duplicates, 3)}")
    assert duplicates <= life.budget
    assert (life.work.buffered_records, life.work.buffered_bytes, life.work.in_flight) == (0, 0, 0)
    assert life.committed == CommittedOffset(
        offset=life.end, metadata=life.committed.metadata if life.committed else ""
    )


@settings(max_examples=300, deadline=None)
@given(
    log=LOGS,
    steps=STEPS,
    windows=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 119), st.integers(1, 40)), max_size=3),
)
def test_a_window_that_is_opened_again_is_handled_again(
    log: tuple[list[int], int], steps: list[tuple[str, int, str]], windows: list[tuple[int, int, int]]
) -> None:
    life = Life(*log, Mode.UNORDERED, 4095)
    for at, start, length in windows:
        steps = [*steps[:at], ("replay", start, str(length)), *steps[at:]]
    for verb, number, how in steps:
        step(life, verb, number, how)
    life.complete()
    before = Counter(life.handled)
    life.replay(0, life.end)
    life.complete()
    assert life.work.base == life.end
    assert all(life.handled[offset] == before[offset] + 1 for offset in life.log)
    assert sum(life.handled.values()) - len(life.handled) <= life.budget


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What befalls a consumer: keys of the records of partitions, records that nothing can handle, times of no answer.

    Records are named by partition and offset. `restarts` are times (ms); one twice has an owner that tries nothing.
    `trailing` good records with a key of their own come to each partition a second apart.
    """

    mode: Mode
    keys: tuple[tuple[int, ...], ...]
    poison: frozenset[tuple[int, int]]
    outages: tuple[tuple[int, int], ...] = ()
    restarts: tuple[int, ...] = ()
    trailing: int = 0
    limit: int = 100


KEYED: RecordFields[tuple[int, int]] = RecordFields(
    time_ms=lambda record: 0, key=lambda record: b"%d" % record[1], size=lambda record: 1
)


class Application:
    """One worker that handles the records of a history, a try a millisecond; its memory is what happened.

    `tries` are (time, partition, offset, handled), in order.
    """

    def __init__(self, history: History, rules: WorkRules) -> None:
        self.history, self.rules = history, rules
        self.now_ms = self.first = 0
        self.tries: list[tuple[int, int, int, bool]] = []
        self.rejected: dict[tuple[int, int], int] = {}
        self.keys = [list(keys) for keys in history.keys]
        self.states = [CommitState(base=0) for _ in self.keys]
        self.left = {(number, offset) for number, keys in enumerate(self.keys) for offset in range(len(keys))}
        self.start()

    def start(self) -> None:
        answers, dependencies = Answers(self.rules), Dependencies(self.rules.retry)
        self.work: list[PartitionWork[tuple[int, int]]] = []
        for state in self.states:
            self.work.append(PartitionWork(state, self.rules, KEYED, dependencies, answers))
        self.offer()

    def offer(self) -> None:
        for work, keys in zip(self.work, self.keys, strict=True):
            offsets = list(range(work.position, len(keys)))
            work.offer(offsets, [(offset, keys[offset]) for offset in offsets], len(keys))

    def answers_at(self, now_ms: int) -> bool:
        return not any(start <= now_ms < end for start, end in self.history.outages)

    def turn(self) -> bool:
        """One chunk of the partition whose turn it is; False where none had any."""
        for _ in self.work:
            self.first = (self.first + 1) % len(self.work)
            number, work = self.first, self.work[self.first]
            chunk = work.take(self.history.limit, self.now_ms)
            self.note_rejections()
            if chunk is None:
                continue
            for index, offset in enumerate(chunk.offsets):
                if index not in chunk.skipped:
                    self.now_ms += 1
                    done = (number, offset) not in self.history.poison and self.answers_at(self.now_ms)
                    self.tries.append((self.now_ms, number, offset, done))
                    if done:
                        self.left.discard((number, offset))
                    else:
                        chunk.failed(index, Failure(ending=FailureEnding.RETRY))
                chunk.handled = index + 1
            work.finish(chunk, self.now_ms)
            self.note_rejections()
            return True
        return False

    def note_rejections(self) -> None:
        for number, work in enumerate(self.work):
            for rejection in work.unwritten_rejections():
                self.rejected[number, rejection.offset] = len(self.tries)
                self.left.discard((number, rejection.offset))
                work.rejection_is_durable(rejection.offset)

    def live(self, until_ms: int) -> None:
        """Until then, or until all that was there at first is handled or rejected."""
        restarts = sorted(self.history.restarts)
        trailing_ms, left = max((end for _, end in self.history.outages), default=0), self.history.trailing
        changed_ms, size = 0, len(self.left)
        while self.now_ms < until_ms and self.left:
            if len(self.left) < size or restarts or not self.left <= self.history.poison:
                changed_ms, size = max(self.now_ms, trailing_ms), len(self.left)
            elif not left and self.now_ms > changed_ms + 20_000 + 1_000 * size:
                break  # each was tried three times in turns, and cannot be told from an outage
            while restarts and self.now_ms >= restarts[0]:
                restarts.pop(0)
                self.states = [work.state() for work in self.work]
                self.start()
                assert [work.state() for work in self.work] == self.states, "nothing was tried since"
            if left and self.now_ms >= trailing_ms:
                trailing_ms, left = self.now_ms + 1_000, left - 1
                for keys in self.keys:
                    keys.append(9)
                self.offer()
            if not self.turn():
                due_ms = [due for work in self.work if (due := work.next_due_ms()) is not None]
                times = [*due_ms, *restarts[:1], *([trailing_ms] if left else [])]
                self.now_ms = max(self.now_ms + 1, min(times, default=until_ms))

    def check(self) -> None:
        """What holds in every history, whenever it ends."""
        last: dict[tuple[int, int], int] = {}
        order: dict[tuple[int, int], list[int]] = defaultdict(list)
        successes = [at for at, (_, _, _, done) in enumerate(self.tries) if done]
        for at, (_, number, offset, done) in enumerate(self.tries):
            last[number, offset] = at
            if done:
                order[number, 0 if self.history.mode is Mode.PARTITION else self.keys[number][offset]].append(offset)
        for record, before in self.rejected.items():
            is_passed = any(last[record] < at < before for at in successes)
            assert is_passed or self.is_alone(record, before), f"{record}: nothing was handled after its try"
            if record not in self.history.poison and len(self.history.outages) == 1:
                at_ms = self.tries[last[record]][0]
                (_, end_ms), steps = self.history.outages[0], before - last[record]
                assert at_ms < end_ms <= at_ms + steps, f"{record} is good, and no outage ended in that moment"
        if self.history.mode is not Mode.UNORDERED and not self.history.restarts:
            assert all(offsets == sorted(offsets) for offsets in order.values())

    def is_alone(self, record: tuple[int, int], before: int) -> bool:
        """True for a record that failed between others that were handled, and then while hardly another began to.

        There is a sign against it, or ten were handled after its failure for each that fails now and has no sign.
        """
        tries = self.tries[:before]
        handled = [at for at, (_, _, _, done) in enumerate(tries) if done]
        failures: dict[tuple[int, int], list[int]] = defaultdict(list)
        for at, (_, number, offset, done) in enumerate(tries):
            if not done:
                failures[number, offset].append(at)
        if not handled:
            return False
        since = [one for one, times in failures.items() if times[-1] > handled[-1]]

        firsts: dict[int, tuple[int, int]] = {}
        for at, (_, number, offset, done) in enumerate(tries):
            if not done:
                firsts.setdefault(bisect_left(handled, at), (number, offset))

        def is_signed(one: tuple[int, int]) -> bool:
            """In a time between two handled records: as the first that failed in it, or not for the first time."""
            gaps = [bisect_left(handled, at) for at in failures[one]]
            return any(0 < gap < len(handled) and (gap > gaps[0] or firsts[gap] == one) for gap in gaps)

        def passed(one: tuple[int, int]) -> int:
            earlier = [at for at in failures[one] if at < handled[-1]]
            return len(handled) - bisect_left(handled, earlier[-1]) if earlier else 0

        unsigned = [one for one in since if not is_signed(one)]
        few = sum(passed(one) < 10 for one in unsigned)
        return few <= 1 and (is_signed(record) or passed(record) >= 10 * max(1, len(unsigned)))


LIVELY = WorkRules(retry=RetryRule(first_ms=100, max_ms=400, max_tries=2))


def small_histories() -> Iterator[History]:
    """All orders, with up to four records of one partition and two keys, any poison, an outage, and a restart."""
    for mode, size in product(Mode, range(1, 5)):
        for keys in product((0, 1), repeat=size):
            if keys[0] == 0:
                for bits in range(1 << size):
                    poison = frozenset((0, offset) for offset in range(size) if bits >> offset & 1)
                    for outages in ((), ((0, 150),), ((0, 2_000),), ((2, 900),), ((3, 5_000),)):
                        for restarts in ((), (120,), (900, 900)):
                            yield History(mode=mode, keys=(keys,), poison=poison, outages=outages, restarts=restarts)


def lives(history: History, rules: WorkRules) -> Application:
    """A history to its end: nothing but what cannot be told from an outage is left."""
    found = Application(history, replace(rules, mode=history.mode))
    ended_ms = max((end for _, end in history.outages), default=0)
    run, waiting = max(Counter(number for number, _ in history.poison).values(), default=0), sum(map(len, found.keys))
    found.live(ended_ms + found.rules.longest_wait_ms(run=run, waiting=waiting, gap_ms=1_000))
    found.check()
    assert found.left <= history.poison, f"{history}: {found.left - history.poison} can be handled"
    if history.trailing:
        assert not found.left, f"{history}: others were handled all the time"
    if not (history.restarts or history.outages):
        alone = [record for record in found.left if found.is_alone(record, len(found.tries))]
        assert not alone, f"{history}: {alone} failed on while nothing else did"
    return found


def test_every_small_history_ends_well() -> None:
    states = 0
    for history in small_histories():
        states += len(lives(history, LIVELY).tries)
    assert states > 50_000


def random_history(seed: int) -> History:
    chosen = random.Random(seed)
    keys = tuple(
        tuple(chosen.randrange(chosen.choice((1, 3, 20))) for _ in range(chosen.choice((3, 20, 60))))
        for _ in range(chosen.choice((1, 1, 3)))
    )
    share = chosen.choice((0.01, 0.1, 0.5, 0.9))
    start = chosen.choice((0, 5, 300))
    return History(
        mode=chosen.choice(list(Mode)),
        keys=keys,
        poison=frozenset((n, o) for n, ks in enumerate(keys) for o in range(len(ks)) if chosen.random() < share),
        outages=((start, start + chosen.choice((50, 1_000, 20_000))),) if chosen.random() < 0.7 else (),
        restarts=tuple(chosen.randrange(10_000) for _ in range(chosen.choice((0, 0, 2)))),
        trailing=chosen.choice((0, 10_000)),
        limit=chosen.choice((1, 100)),
    )


@pytest.mark.parametrize("first", range(0, 1_000, 100))
def test_random_histories_end_well(first: int) -> None:
    for seed in range(first, first + 100):
        lives(random_history(seed), LIVELY)


ENTRIES = st.lists(
    st.builds(
        ClientEntry,
        kind=st.sampled_from(ClientKind),
        epoch=st.integers(0, 9),
        group=st.sampled_from(("", "a", "b c", "é\n")),
        delivery_timeout_ms=st.integers(0, 9),
        lanes=st.sampled_from(((), ("live",), ("retry", "slow"))),
    ),
    max_size=8,
)


@given(ENTRIES)
def test_no_client_is_behind_what_its_process_registered(entries: list[ClientEntry]) -> None:
    found = {(each.kind, each.group): each for each in merge_entries(entries)}
    assert set(found) == {(each.kind, each.group) for each in entries}
    for key, each in found.items():
        same = [one for one in entries if (one.kind, one.group) == key]
        assert each.epoch == min(one.epoch for one in same)
        assert each.delivery_timeout_ms == max(one.delivery_timeout_ms for one in same)
        lanes = {lane for one in same for lane in one.lanes} if all(one.lanes for one in same) else set()
        assert each.lanes == tuple(sorted(lanes)), "one that reads all lanes makes it all"
    assert merge_entries(reversed(entries)) == merge_entries(entries) == merge_entries(merge_entries(entries))


@given(ENTRIES, st.text(max_size=9))
def test_a_document_is_read_as_it_was_written_with_an_id_for_each_entry(entries: list[ClientEntry], name: str) -> None:
    document = ClientDocument(id=name, beat=3, holder=HOLDER, entries=merge_entries(entries))
    assert CLIENT_DOCUMENT.decode(CLIENT_DOCUMENT.encode(document), "x") == document
    found = registrations_of(document)
    assert len({each.id for each in found}) == len(found) == len(document.entries)


@given(st.binary(max_size=200), st.integers(0, 400))
def test_any_bytes_are_a_document_or_refused(data: bytes, at: int) -> None:
    whole = CLIENT_DOCUMENT.encode(ClientDocument(id="x", beat=1, holder=HOLDER, entries=()))
    with suppress(InputError):
        assert isinstance(CLIENT_DOCUMENT.decode(whole[:at] + data + whole[at:], "x"), ClientDocument)
