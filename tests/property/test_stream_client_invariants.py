"""What a client of streams keeps whatever it meets: epochs grow (I2), one place is written (I3), all segments are read
(I5), ids decide (I11), and commit metadata count where they were written and nowhere else (I12)."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import KafkakitError
from kafkakit.core.records import TopicIdentity
from kafkakit.streams.client.control_store import RouteFollower
from kafkakit.streams.client.decide.outgoing import check_place, lane_target
from kafkakit.streams.client.decide.partition_work import restore_commit
from kafkakit.streams.client.decide.reading import reading_plan
from kafkakit.streams.model.commit import CommitIdentity, CommitState, OffsetRanges, RouteMark, Writer
from kafkakit.streams.model.kkm1.encode import encode_commit
from kafkakit.streams.model.route import DLQ, LIVE, Lane, Route, Segment, SegmentState, encode_route, route_path
from tests.fakes.admin import FakeClock
from tests.fakes.control import FakeControlStore
from tests.rigs.routes import route, segment

EPOCHS = st.integers(1, 6)
DOCUMENTS = st.one_of(
    EPOCHS.map(lambda epoch: encode_route(route(epoch=epoch))),
    EPOCHS.map(lambda epoch: encode_route(route("payments", epoch=epoch))),
    st.binary(min_size=1, max_size=20),
    st.just(b""),  # a deletion
    st.just(None),  # the store is away
)


@given(documents=st.lists(DOCUMENTS, max_size=12))
def test_a_client_acts_on_epochs_that_grow_whatever_the_store_holds(documents: list[bytes | None]) -> None:
    store, path = FakeControlStore(), route_path("orders")
    follower = RouteFollower(store, "orders", FakeClock())
    store.cas(path, encode_route(route(epoch=1)), None)
    follower.refresh()
    seen: list[int] = []
    follower.subscribe(lambda found: seen.append(found.epoch))
    best = 1
    for data in documents:
        store.away = data is None
        if data is not None:
            found = store.get(path)
            if data:
                store.cas(path, data, found.version if found else None)
            elif found is not None:
                store.delete(path, found.version)
            best = max(best, *(epoch for epoch in range(1, 7) if data == encode_route(route(epoch=epoch))), 0)
        try:
            follower.refresh()
        except KafkakitError:
            assert store.away
        assert follower.epoch == best
    assert seen == sorted(set(seen))
    assert seen[-1] == best


SEGMENTS = st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.booleans()), min_size=1, max_size=4)
LANES = st.dictionaries(
    st.sampled_from((LIVE, "slow", DLQ)), st.tuples(SEGMENTS, st.booleans(), st.booleans()), min_size=1
)


def made(lanes: dict[str, tuple[list[tuple[str, bool, bool]], bool, bool]]) -> Route:
    """Lanes whose last segment is active, or the one before it while the last one is opened."""
    number, found = 0, []
    for name, (places, is_paused, is_opened) in lanes.items():
        segments: list[Segment] = []
        active = len(places) - 1 - (is_opened and len(places) > 1)
        for place, (cluster, is_held, is_stranded) in enumerate(places):
            number += 1
            left = SegmentState.STRANDED if is_stranded else SegmentState.DRAINING
            state = SegmentState.ACTIVE if place == active else left if place < active else SegmentState.OPENED
            one = segment(number, cluster=cluster, state=state)
            segments.append(replace(one, topic_id=f"{number:032x}", is_held=is_held and place >= active))
        found.append(Lane(name=name, segments=tuple(segments), is_paused=is_paused))
    return Route(stream="orders", epoch=3, next_segment=number + 1, lanes=tuple(found))


@given(lanes=LANES)
def test_one_segment_is_written_and_all_are_read(
    lanes: dict[str, tuple[list[tuple[str, bool, bool]], bool, bool]],
) -> None:
    found = made(lanes)
    plan = reading_plan(found, None)
    read = {source.segment for sources in plan.sources.values() for source in sources.values()}
    for lane in found.lanes:
        target = lane_target(found, lane.name)
        states = {each.id: each.state for each in lane.segments}
        assert (target.segment is None) == lane.is_paused
        if target.segment is not None:
            assert [number for number, state in states.items() if state is SegmentState.ACTIVE] == [target.segment.id]
        assert all(each.state is SegmentState.OPENED for each in target.next_segments)
        wanted = {each.id for place, each in enumerate(lane.segments) if not each.is_held or not place}
        assert read & set(states) == (set() if lane.is_paused or lane.name == DLQ else wanted)
    for cluster_id, sources in plan.sources.items():
        assert all(source.cluster_id == cluster_id and source.topic == topic for topic, source in sources.items())


IDS = st.sampled_from([f"{number:032x}" for number in (1, 2)])
CLUSTER_IDS = st.sampled_from(["a-id", "b-id"])


@given(wanted=st.tuples(CLUSTER_IDS, IDS), there=st.tuples(CLUSTER_IDS, IDS))
def test_no_other_cluster_and_no_topic_made_again_is_written(wanted: tuple[str, str], there: tuple[str, str]) -> None:
    meant = replace(segment(1), cluster_id=wanted[0], topic_id=wanted[1])
    found = TopicIdentity(cluster_id=there[0], topic_id=there[1], partitions=2)
    try:
        check_place(meant, found)
        is_taken = True
    except KafkakitError:
        is_taken = False
    assert is_taken == (wanted == there)


IDENTITIES = st.builds(
    CommitIdentity,
    cluster_id=CLUSTER_IDS,
    topic_id=st.sampled_from([bytes(16), bytes(range(16)), b"\xff" * 16]),
    partition=st.integers(0, 2),
    group=st.sampled_from(["billing", "billing2"]),
)
STATES = st.builds(
    lambda base, gaps: CommitState(
        base=base,
        done=OffsetRanges.of((base + 2 + 5 * gap, base + 4 + 5 * gap) for gap in sorted(gaps)),
        route=RouteMark(epoch=7, segment=2),
        writer=Writer(member_hash=1, generation=3),
    ),
    st.integers(0, 1 << 40),
    st.sets(st.integers(0, 2_000), max_size=400),
)


@given(
    state=STATES,
    mine=IDENTITIES,
    other=IDENTITIES,
    moved=st.integers(-3, 3),
    limit_chars=st.sampled_from([200, 1_000, 4_095]),
)
def test_metadata_count_for_the_commit_that_they_were_written_for_and_carry_its_epoch(
    state: CommitState, mine: CommitIdentity, other: CommitIdentity, moved: int, limit_chars: int
) -> None:
    written = encode_commit(state, mine, limit_chars=limit_chars, alphabets=("b",))
    offset = max(0, state.base + moved)
    restored = restore_commit(CommittedOffset(offset=offset, metadata=written.text), other)
    if (other, offset) == (mine, state.base):
        assert (restored.problem, restored.state.route) == ("", state.route)
        assert restored.state.done.minus(state.done).count == 0
    else:
        assert (restored.state.base, restored.state.done.count, restored.state.marks) == (offset, 0, ())
    if other != mine:
        assert (restored.state, bool(restored.problem)) == (CommitState(base=offset), True)
