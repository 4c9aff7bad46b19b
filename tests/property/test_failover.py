"""Decisions of a failover.

Two processes that both believe to hold the stream's lease, in any order of their writes.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.core.cluster_facts import CommittedOffset, GroupState, GroupType, ItemError, LogSpan
from kafkakit.core.errors import ConflictError, InputError, KafkakitError, LeaseLostError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.failover.act.closing import abort, newest_certificate, read_reclaimable
from kafkakit.streams.failover.act.observing import effective_ends
from kafkakit.streams.failover.decide.drain_proof import late_partitions, late_spans, missing_items, uncopied_ranges
from kafkakit.streams.failover.decide.evidence import (
    ClientFacts,
    Evidence,
    GroupStanding,
    QuietBasis,
    QuietPeriod,
    QuietWatch,
    References,
    TopicStanding,
    WriterFacts,
    basis_of,
    references_in,
    watch_ends,
    window_s,
)
from kafkakit.streams.failover.decide.history import EndKind, decode_certificate, make_certificate
from kafkakit.streams.failover.decide.operation import (
    Certify,
    ChangeRoute,
    CreateTopics,
    Failover,
    FailoverRequest,
    FenceChoice,
    FinishedOperation,
    LaneMove,
    OldCopies,
    OperationRecord,
    Refuse,
    ReportLate,
    RouteEdit,
    Step,
    Wait,
    step_by_route,
)
from kafkakit.streams.failover.decide.steps import apply_edit, next_step
from kafkakit.streams.model.route import Lane, PartitionSeal, Route, RouteOperation, Segment, SegmentState
from tests.clusters.streams_batches import Rec, batch, marker
from tests.fakes.log_reader import FakeLogReader
from tests.rigs.failover import STREAM, FailoverScene
from tests.unit.streams.failover.test_operation import OLD, check_history, make_scene

PARTITIONS = 2
ERROR = ItemError(name="RequestTimedOutError", retriable=True)
MOVE = LaneMove(lane="live", sources=(1,), topic="orders.live.2", partitions=PARTITIONS, replication=1)
OPERATION = Failover(
    id="000002-failover-1",
    request=FailoverRequest(stream="orders", to="q", fence=FenceChoice.NONE),
    cluster_id="q-id",
    moves=(MOVE,),
    groups=("g",),
    from_epoch=1,
    operator="me",
    started_ms=0,
)
OLD_FAILOVER = Segment(
    id=1, cluster="p", cluster_id="p-id", topic="orders.live.1", topic_id="id-1", partitions=PARTITIONS,
    state=SegmentState.ACTIVE,
)  # fmt: skip
NEW = replace(OLD_FAILOVER, id=2, cluster="q", cluster_id="q-id", topic="orders.live.2", topic_id="id-2")
SEAL = tuple(PartitionSeal(n, 10, 10, 10) for n in range(PARTITIONS))


def route_at(step: Step) -> Route:
    old, new = replace(OLD_FAILOVER, state=SegmentState.DRAINING), NEW
    if step is Step.PLANNED:
        segments: tuple[Segment, ...] = (OLD_FAILOVER,)
    elif step is Step.OPENED:
        segments = (OLD_FAILOVER, replace(NEW, state=SegmentState.OPENED))
    elif step is Step.SEALED:
        segments = (replace(old, seal=SEAL, sealed_at_ms=5), new)
    else:
        segments = (old, new)
    opening = RouteOperation(id=OPERATION.id, kind="failover", step=step)
    return Route(
        stream="orders", epoch=4, next_segment=3, lanes=(Lane(name="live", segments=segments),), operation=opening
    )


spans = st.one_of(
    st.just(ERROR),
    st.builds(
        lambda start, stable, end: LogSpan(start=start, stable=max(start, stable), end=max(start, stable, end)),
        st.integers(0, 3), st.sampled_from([9, 10]), st.sampled_from([10, 11]),
    ),
)  # fmt: skip
commits = st.one_of(st.none(), st.just(ERROR), st.builds(CommittedOffset, offset=st.sampled_from([0, 9, 10, 11])))


@st.composite
def topics(draw: st.DrawFn, segment: Segment) -> TopicStanding:
    if draw(st.integers(0, 9)) == 0:
        return TopicStanding(problem="away", is_reachable=draw(st.booleans()))
    found = {n: draw(spans) for n in range(PARTITIONS)}
    own = {n: commit for n in range(PARTITIONS) if (commit := draw(commits)) is not None}
    group = GroupStanding(
        group="g", type=GroupType.CLASSIC, state=draw(st.sampled_from([GroupState.EMPTY, GroupState.STABLE])),
        commits=own, epochs=draw(st.dictionaries(st.integers(0, 1), st.integers(2, 5), max_size=2)),
        held=draw(st.sampled_from([(), (frozenset({0, 1}),), (frozenset({0}), frozenset({1}))])),
    )  # fmt: skip
    return TopicStanding(
        cluster_id=segment.cluster_id, topic_id=draw(st.sampled_from([segment.topic_id, segment.topic_id, None])),
        partitions=PARTITIONS, spans=found, groups={"g": group},
        effective={n: s.end for n, s in found.items() if isinstance(s, LogSpan) and draw(st.booleans())},
    )  # fmt: skip


clients = st.lists(
    st.builds(
        ClientFacts, id=st.sampled_from("abc"), is_producer=st.booleans(), group=st.just("g"), epoch=st.integers(2, 5),
        delivery_timeout_s=st.sampled_from([30.0, 300.0]), is_silent=st.booleans(),
    ), max_size=3,
).map(tuple)  # fmt: skip
steps = st.sampled_from([Step.PLANNED, Step.OPENED, Step.ROUTED, Step.SEALED])


@st.composite
def looks(draw: st.DrawFn) -> tuple[OperationRecord, Evidence]:
    step = draw(steps)
    request = replace(OPERATION.request, is_emergency=draw(st.booleans()), accept_loss=draw(st.sampled_from([0, 5])))
    record = OperationRecord(
        operation=replace(OPERATION, request=request), at=datetime(2026, 1, 1, tzinfo=UTC), routed_epoch=4,
        topic_ids=draw(st.sampled_from([{}, {"live": "id-2"}])), certificate=draw(st.sampled_from(["", "x"])),
        certified_epoch=draw(st.sampled_from([4, 4, 3])),
    )  # fmt: skip
    quiet = st.builds(
        QuietPeriod, basis=st.sampled_from(list(QuietBasis)), seconds=st.sampled_from([0.0, 2.0, 60.0, 125.0, 400.0])
    )
    evidence = Evidence(
        route=route_at(step), now_ms=9,
        old={1: draw(topics(OLD_FAILOVER))} if draw(st.integers(0, 9)) else {},
        targets={"live": draw(topics(NEW))} if draw(st.integers(0, 9)) else {},
        writers={1: WriterFacts()}, clients=draw(clients),
        rejects=draw(st.sampled_from([{}, {1: References()}, {1: References(held=2)}])),
        unknown_groups=draw(st.sampled_from([None, (), ("other",)])), quiet=draw(st.none() | quiet),
    )  # fmt: skip
    return record, evidence


def has_offsets(facts: TopicStanding) -> bool:
    return all(n in facts.groups["g"].commits for n in range(PARTITIONS))


@settings(max_examples=800, deadline=None)
@given(looks())
def test_nothing_is_concluded_from_what_was_not_read(look: tuple[OperationRecord, Evidence]) -> None:
    record, evidence = look
    action = next_step(record, evidence)
    assert next_step(record, evidence) == action
    if not isinstance(action, ChangeRoute | Certify):
        return
    old, target = evidence.old.get(1), evidence.targets.get("live")
    if isinstance(action, ChangeRoute) and action.edit in (RouteEdit.OPEN, RouteEdit.ROUTE):
        assert target is not None
        assert (target.topic_id, target.cluster_id) == ("id-2", "q-id")
        live = target.groups["g"].state is GroupState.STABLE and bool(evidence.consumers("g"))
        assert has_offsets(target) or live
        behind = [client for client in evidence.consumers("g") if client.epoch < evidence.route.epoch]
        if action.edit is RouteEdit.ROUTE and behind and not record.request.is_emergency:
            assert old is not None
            assert old.groups["g"].epochs
        return
    if isinstance(action, ChangeRoute) and action.edit is RouteEdit.STRAND:
        assert record.request.is_emergency
        return
    assert old is not None
    whole = old.whole_spans
    assert whole is not None
    assert not old.problem
    assert all(span.stable == span.end for span in whole.values())
    if isinstance(action, ChangeRoute) and action.edit is RouteEdit.SEAL:
        assert evidence.quiet is not None
        assert evidence.quiet.seconds >= window_s(record.request, QuietBasis(evidence.quiet.basis), evidence)
        assert set(old.effective) == set(range(PARTITIONS))
        sealed = apply_edit(record, evidence.route, RouteEdit.SEAL, evidence)
        assert step_by_route(record.operation, sealed) is Step.SEALED
        return
    assert all(whole[seal.partition].end == seal.end for seal in SEAL)
    found = old.groups["g"].commits
    assert all(isinstance(c := found.get(n), CommittedOffset) and c.offset >= 10 for n in range(PARTITIONS))
    assert set(evidence.rejects) == {1}
    is_left = isinstance(action, ChangeRoute) and action.left == (1,)
    assert is_left == (isinstance(action, ChangeRoute) and evidence.rejects[1].held > 0)
    if isinstance(action, ChangeRoute):
        assert action.edit is RouteEdit.RETIRE
        assert (bool(record.certificate), record.certified_epoch) == (True, 4)
        assert evidence.unknown_groups == ()


@settings(max_examples=200, deadline=None)
@given(looks())
def test_growth_after_the_seal_is_found_and_errors_are_no_growth(look: tuple[OperationRecord, Evidence]) -> None:
    _, evidence = look
    facts = evidence.old.get(1, TopicStanding())
    grown = late_partitions(replace(OLD_FAILOVER, seal=SEAL), facts)
    assert dict(grown) == {n: s.end - 10 for n, s in (facts.whole_spans or {}).items() if s.end > 10}


def drained() -> tuple[OperationRecord, Evidence]:
    done = {n: CommittedOffset(offset=10) for n in range(PARTITIONS)}
    group = GroupStanding(group="g", type=GroupType.CLASSIC, state=GroupState.EMPTY, commits=done)
    facts = TopicStanding(
        cluster_id="p-id", topic_id="id-1", partitions=PARTITIONS, groups={"g": group},
        spans={n: LogSpan(start=0, stable=10, end=10) for n in range(PARTITIONS)},
    )  # fmt: skip
    record = OperationRecord(
        operation=OPERATION, at=datetime(2026, 1, 1, tzinfo=UTC), routed_epoch=4, basis="fence", window_s=2.0
    )
    return record, Evidence(
        route=route_at(Step.SEALED), now_ms=77, old={1: facts}, rejects={1: References()}, unknown_groups=()
    )


def test_drained_evidence_is_certified_then_retired() -> None:
    record, evidence = drained()
    assert missing_items(record, evidence) == ()
    assert next_step(record, evidence) == Certify()
    certified = replace(record, certificate="x", certified_epoch=4)
    assert next_step(replace(certified, certified_epoch=3), evidence) == Certify()
    assert next_step(certified, evidence) == ChangeRoute(edit=RouteEdit.RETIRE)
    assert next_step(certified, evidence, Step.DRAINED) == FinishedOperation(step=Step.DRAINED)


Broken = Callable[[TopicStanding, GroupStanding], tuple[TopicStanding, GroupStanding]]
DEFECTS: dict[str, Broken] = {
    "backlog": lambda facts, group: (facts, replace(group, commits={**group.commits, 1: CommittedOffset(offset=9)})),
    "no commit": lambda facts, group: (facts, replace(group, commits={0: group.commits[0]})),
    "in a transaction": lambda facts, group: (facts, replace(group, commits={**group.commits, 0: ERROR})),
    "open transaction": lambda facts, group: (
        replace(facts, spans={**facts.spans, 0: LogSpan(start=0, stable=9, end=10)}),
        group,
    ),
    "silent leader": lambda facts, group: (replace(facts, spans={**facts.spans, 1: ERROR}), group),
    "partition missing": lambda facts, group: (replace(facts, spans={0: facts.spans[0]}), group),
    "created again": lambda facts, group: (replace(facts, problem="the topic was created again"), group),
    "away": lambda facts, group: (TopicStanding(problem="away", is_reachable=False), group),
    "grown": lambda facts, group: (
        replace(facts, spans={**facts.spans, 0: LogSpan(start=0, stable=11, end=11)}),
        group,
    ),
    "members behind": lambda facts, group: (facts, replace(group, held=(frozenset({0}),), epochs={0: 3})),
}


@pytest.mark.parametrize("certificate", ["", "x"])
@pytest.mark.parametrize("defect", DEFECTS)
def test_one_defect_keeps_a_segment(defect: str, certificate: str) -> None:
    record, evidence = drained()
    facts, group = DEFECTS[defect](evidence.old[1], evidence.old[1].groups["g"])
    if facts.is_reachable:
        facts = replace(facts, groups={"g": group})
    broken = replace(evidence, old={1: facts})
    action = next_step(replace(record, certificate=certificate, certified_epoch=4), broken)
    assert isinstance(action, {"grown": ReportLate, "created again": Refuse}.get(defect, Wait))


def test_rejected_references_that_are_not_counted_keep_a_segment() -> None:
    record, evidence = drained()
    assert isinstance(next_step(record, replace(evidence, rejects={})), Wait)


def test_a_registered_consumer_that_is_behind_keeps_a_segment() -> None:
    record, evidence = drained()
    client = ClientFacts(id="c", is_producer=False, group="g", epoch=3, delivery_timeout_s=0)
    assert isinstance(next_step(record, replace(evidence, clients=(client,))), Wait)
    assert next_step(record, replace(evidence, clients=(replace(client, epoch=4),))) == Certify()
    assert next_step(record, replace(evidence, clients=(replace(client, is_silent=True),))) == Certify()


def test_a_certificate_is_made_again_to_the_same_bytes() -> None:
    certificate, data = make_certificate(*drained(), "1")
    assert decode_certificate(data, "it") == certificate
    assert make_certificate(*drained(), "1")[1] == data


def test_any_single_altered_byte_of_a_certificate_shows() -> None:
    _, data = make_certificate(*drained(), "1")
    for place in range(len(data)):
        for other in {data[place] ^ bit for bit in (1, 2, 4, 32, 128)} | {0x20, 0x39}:
            if other != data[place]:
                with pytest.raises(InputError):
                    decode_certificate(data[:place] + bytes([other]) + data[place + 1 :], "it")
        with pytest.raises(InputError):
            decode_certificate(data[:place] + data[place + 1 :], "it")
    with pytest.raises(InputError):
        decode_certificate(data + b"\n", "it")


@given(st.integers(0, 1), st.sampled_from(["end", "effective_end", "committed"]), st.integers(1, 1000))
def test_any_altered_offset_shows_even_with_its_hash_made_again(partition: int, field: str, by: int) -> None:
    from kafkakit.streams.failover.decide import history as module

    found, data = make_certificate(*drained(), "1")
    (segment,) = found.segments
    if field == "committed":
        (group,) = segment.groups
        moved = tuple(o - by * (n == partition) for n, o in enumerate(group.committed))
        changed = replace(segment, groups=(replace(group, committed=moved),))
    else:
        seals = [s._replace(**{field: getattr(s, field) + by}) if s.partition == partition else s for s in SEAL]
        changed = replace(segment, partitions=tuple(seals))
    forged = replace(found, segments=(changed,))
    with pytest.raises(InputError, match="its hash does not match"):
        decode_certificate(module._encode_certificate(forged), "it")
    again = replace(forged, sha256=module._hash(replace(forged, sha256="")))
    with pytest.raises(InputError, match="does not prove"):
        decode_certificate(module._encode_certificate(again), "it")
    assert decode_certificate(data, "it") == found


# -- dead letters ---------------------------------------------------------------------------------------

places = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20)), max_size=30)


@given(places, st.dictionaries(st.integers(0, 2), st.integers(0, 20), max_size=3))
def test_a_reference_is_held_unless_its_record_is_gone(found: list[tuple[int, int]], starts: dict[int, int]) -> None:
    spans = {number: LogSpan(start=start, stable=30, end=30) for number, start in starts.items()}
    held, gone = references_in(found, spans)
    assert held + gone == len(found)
    assert gone == sum(offset < starts.get(number, 0) for number, offset in found)


@given(st.integers(0, 10), st.dictionaries(st.integers(0, 1), st.integers(0, 12), max_size=2))
def test_what_is_not_copied_ends_at_the_seal(start: int, offsets: dict[int, int]) -> None:
    segment = replace(OLD_FAILOVER, seal=SEAL)
    spans = {number: LogSpan(start=start, stable=15, end=15) for number in range(PARTITIONS)}
    copies = OldCopies(segment=1, offsets=offsets)
    for number, left in uncopied_ranges(segment, spans, copies).items():
        assert left == range(max(start, offsets.get(number, 0)), max(start, offsets.get(number, 0), 10))
    for number, late in late_spans(segment, TopicStanding(partitions=PARTITIONS, spans=spans), copies).items():
        assert late == range(max(10, offsets.get(number, 0)), 15)


# -- ends of logs ---------------------------------------------------------------------------------------
@st.composite
def logs(draw: st.DrawFn) -> tuple[list[bytes], int, int]:
    """Batches of a log, its end, and the offset after the last record that a reader gets."""
    found, end, effective, is_open = [], 0, 0, dict[int, tuple[int, int]]()
    for kind in draw(st.lists(st.sampled_from(["data", "txn", "commit", "abort", "empty"]), max_size=8)):
        producer = draw(st.integers(1, 2))
        count = draw(st.integers(1, 3))
        if kind == "data":
            found.append(batch(0, [Rec(None, b"x")] * count))
            end, effective = end + count, end + count
        elif kind == "txn":
            found.append(batch(0, [Rec(None, b"t")] * count, transactional=True, producer=(producer, 0)))
            end += count
            is_open[producer] = (end, 0)
        elif kind == "empty":
            found.append(batch(0, [], last_offset_delta=count - 1, count=0))
            end += count
        elif producer in is_open:
            last, _ = is_open.pop(producer)
            found.append(marker(0, (producer, 0), commits=kind == "commit"))
            end += 1
            effective = max(effective, last) if kind == "commit" else effective
    for producer in sorted(is_open):
        last, _ = is_open[producer]
        found.append(marker(0, (producer, 0), commits=True))
        end, effective = end + 1, max(effective, last)
    return found, end, effective


@settings(max_examples=300, deadline=None)
@given(logs())
def test_the_effective_end_is_after_the_last_record_for_readers(made: tuple[list[bytes], int, int]) -> None:
    batches, end, expected = made
    reader, key = FakeLogReader(), TopicPartition("t", 0)
    reader.add_topic("t")
    reader.append(key, *batches)
    span = reader.spans([key])[key]
    assert isinstance(span, LogSpan)
    assert (span.end, span.stable) == (end, end)
    assert effective_ends(reader, {key: span}) == {key: expected}


def test_the_effective_end_of_a_log_whose_leader_answers_late_is_found() -> None:
    reader, key = FakeLogReader(), TopicPartition("t", 0)
    reader.add_topic("t")
    reader.append(key, batch(0, [Rec(None, b"x")]))
    reader.slow.add(1)
    assert effective_ends(reader, {key: reader.log(key).span}) == {key: 1}


def test_a_log_that_cannot_be_read_has_no_effective_end() -> None:
    reader, key = FakeLogReader(), TopicPartition("t", 0)
    reader.add_topic("t")
    reader.append(key, batch(0, [Rec(None, b"x")]))
    span = reader.log(key).span
    reader.down.add(1)
    assert effective_ends(reader, {key: span}) == {}


# -- quiet ----------------------------------------------------------------------------------------------
READINGS = st.tuples(st.sampled_from([None, 1, 1, 2]), st.sampled_from(list(QuietBasis)), st.integers(1, 9))


@given(st.lists(READINGS, max_size=9))
def test_only_equal_readings_on_one_basis_make_a_window(readings: list[tuple[int | None, QuietBasis, int]]) -> None:
    watch: QuietWatch | None = None
    now_s, kept = 0.0, list[tuple[int, QuietBasis, float, float]]()
    for end, basis, pause in readings:
        began_s, now_s = now_s + pause, now_s + pause + 0.5
        watch = watch_ends(watch, basis, None if end is None else {(1, 0): end}, began_s, now_s)
        if end is None:
            kept = kept if kept and kept[-1][1] is basis else []
        else:
            kept = [*kept, (end, basis, began_s, now_s)] if kept and kept[-1][:2] == (end, basis) else [
                (end, basis, began_s, now_s)
            ]  # fmt: skip
    if not kept:
        assert watch is None
    else:
        assert watch is not None
        assert watch.seconds == (max(0.0, kept[-1][2] - kept[0][3]) if len(kept) > 1 else 0.0)


def test_the_basis_is_what_holds_for_all_old_topics() -> None:
    producer = ClientFacts(id="p", is_producer=True, group="", epoch=4, delivery_timeout_s=300)
    look = Evidence(route=route_at(Step.ROUTED), now_ms=1, clients=(producer,), fenced=frozenset({1}))
    assert basis_of(look, [1], 4) is QuietBasis.FENCE
    assert basis_of(look, [1, 2], 4) is QuietBasis.ACKNOWLEDGED
    assert basis_of(look, [1, 2], 5) is QuietBasis.TIME
    assert basis_of(replace(look, clients=(replace(producer, is_silent=True),)), [1, 2], 4) is QuietBasis.TIME
    assert basis_of(replace(look, clients=()), [2], 4) is QuietBasis.TIME
    request = OPERATION.request
    assert window_s(request, QuietBasis.TIME, look) == 305
    assert window_s(request, QuietBasis.TIME, replace(look, clients=())) == 125


def test_a_route_that_no_step_explains_is_refused() -> None:
    other = replace(route_at(Step.ROUTED), lanes=(Lane(name="live", segments=(NEW,)),))
    with pytest.raises(KafkakitError, match="is in no state of operation"):
        step_by_route(OPERATION, other)
    assert step_by_route(OPERATION, replace(other, operation=None)) is None


def test_a_target_that_was_not_looked_at_is_waited_for() -> None:
    record = OperationRecord(operation=OPERATION, at=datetime(2026, 1, 1, tzinfo=UTC))
    action = next_step(record, Evidence(route=route_at(Step.PLANNED), now_ms=1))
    assert isinstance(action, Wait)
    absent = Evidence(route=route_at(Step.PLANNED), now_ms=1, targets={"live": TopicStanding(cluster_id="q-id")})
    assert next_step(record, absent) == CreateTopics(moves=(MOVE,))


MOST_TURNS = 3_000
LIMIT_S = 120.0


class Turns:
    """Threads of which one runs at a time; each waits at its next turn until the schedule comes to it."""

    def __init__(self) -> None:
        self._mine = threading.local()
        self._go: list[threading.Semaphore] = []
        self._stopped: list[threading.Semaphore] = []
        self._threads: list[threading.Thread] = []
        self._ended: list[bool] = []
        self.stopped_by: dict[int, KafkakitError] = {}

    def start(self, work: Callable[[], object]) -> None:
        number = len(self._threads)

        def body() -> None:
            self._mine.number = number
            self._go[number].acquire()
            try:
                work()
            except KafkakitError as error:
                self.stopped_by[number] = error
            finally:
                self._mine.number = None
                self._ended[number] = True
                self._stopped[number].release()

        self._ended.append(False)
        self._go.append(threading.Semaphore(0))
        self._stopped.append(threading.Semaphore(0))
        self._threads.append(threading.Thread(target=body, daemon=True))
        self._threads[-1].start()

    def turn(self) -> None:
        """Called by a thread before what others may see."""
        number = getattr(self._mine, "number", None)
        if number is not None:
            self._stopped[number].release()
            self._go[number].acquire()

    def play(self, schedule: list[tuple[int, int]]) -> None:
        """Let thread `number` have so many turns, one entry after the other; then all take turns until they end."""
        order = [number for number, turns in schedule for _ in range(turns)]
        order += list(range(len(self._threads))) * MOST_TURNS
        for number in order:
            if all(self._ended):
                return
            if not self._ended[number]:
                self._go[number].release()
                assert self._stopped[number].acquire(timeout=LIMIT_S)
        raise AssertionError("a process did not end")


def interleave(scene: FailoverScene, works: list[Callable[[], object]], schedule: list[tuple[int, int]]) -> Turns:
    turns = Turns()
    write = scene.store._replace

    def replaced(path: str, value: bytes, expected: int | None) -> int:
        turns.turn()
        return write(path, value, expected)

    scene.store._replace = replaced  # type: ignore[method-assign]
    scene.clock.on_sleep.insert(0, lambda _: turns.turn())
    for work in works:
        turns.start(work)
    turns.play(schedule)
    scene.clock.on_sleep.pop(0)
    scene.store._replace = write  # type: ignore[method-assign]
    return turns


def test_processes_that_take_turns_stop_each_other_and_the_route_is_sound() -> None:
    scene = make_scene()
    scene.begin()
    turns = interleave(scene, [lambda: scene.resume(wait_s=30)] * 2, [(0, 1), (1, 1)] * 100)
    assert [type(error) for error in turns.stopped_by.values()] == [LeaseLostError]
    check_history(scene)


schedules = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 15)), max_size=14)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("fenced", [False, True])
@settings(max_examples=60, deadline=None)
@given(schedule=schedules, late=st.booleans())
def test_two_processes_run_the_same_failover(
    fenced: bool, begun: bool, schedule: list[tuple[int, int]], late: bool
) -> None:
    scene = make_scene(fenced=fenced)
    writes = [2] if late else []

    def write_late(_: float) -> None:
        if writes and any(segment.seal for _, segment in scene.route.segments()):
            scene.write(OLD, writes.pop())

    scene.clock.on_sleep.append(write_late)
    if begun:
        scene.begin()
    interleave(scene, [lambda: scene.run(wait_s=30)] * 2, schedule)
    for _ in range(4):
        with suppress(ConflictError):
            if scene.run().kind is EndKind.DONE:
                break
    check_history(scene)
    assert [lane.active.cluster for lane in scene.route.lanes if lane.active] == ["q"]
    certificate, _ = newest_certificate(scene.parts().journals)
    missed = scene.end_of(OLD) - certificate.segments[0].partitions[0].end
    # Between the last look and the retirement nobody can see a late record; the check that deletes the topic does.
    check = read_reclaimable(scene.parts(), scene.open_cluster).check
    assert check is not None
    assert missed == (2 if check.late else 0)


@settings(max_examples=60, deadline=None)
@given(schedule=schedules)
def test_one_process_runs_what_another_aborts(schedule: list[tuple[int, int]]) -> None:
    scene = make_scene()
    scene.begin()

    def take_back() -> None:
        abort(scene.parts(), scene.open_cluster, STREAM)

    interleave(scene, [lambda: scene.run(wait_s=30), take_back], schedule)
    check_history(scene)
    route = scene.route
    if route.operation is None and len(route.lanes[0].segments) == 1 and route.lanes[0].segments[0].cluster == "p":
        ends = [record.end for record in scene.parts().journals.records() if record.reached_ms]
        assert set(ends) <= {Step.ABORTED, None}
