"""Changes of routes, topics of lanes, unread records and the forms that are printed, as pure functions."""

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest

from kafkakit.config.client_properties import parse_properties
from kafkakit.core.cluster_facts import CommittedOffset, GroupState, ItemError, LogSpan
from kafkakit.core.errors import RefusedError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.client.decide.reading import reading_plan
from kafkakit.streams.model.commit import topic_id_bytes
from kafkakit.streams.model.route import (
    GONE,
    FoundTopic,
    GroupRule,
    LaneRule,
    SegmentState,
    decode_route,
    encode_route,
    segment_problem,
)
from kafkakit.streams.model.route_edits import (
    existing_lane,
    pause_lane,
    with_lane,
    with_quotas,
    with_topic,
    without_lane,
)
from kafkakit.streams.routes.decide import (
    ReadingGroup,
    RouteChange,
    RouteFacts,
    SegmentFacts,
    in_effect,
    lane_shapes,
    lane_values,
    records_in,
    unread_by,
    unread_reasons,
)
from kafkakit.streams.routes.report import ResolvedCluster, resolve_report
from kafkakit.streams.routes.topology import mermaid_lines, stream_graph
from tests.rigs.routes import route, segment

ONE = segment(1)
KEYS = [TopicPartition("t1", 0), TopicPartition("t1", 1)]
REFUSED = ItemError(name="NotLeaderForPartitionError", retriable=True)


def span(start: int, end: int) -> LogSpan:
    return LogSpan(start=start, stable=end, end=end)


def test_a_lane_that_a_rule_names_or_that_takes_all_other_records_stays() -> None:
    full = with_lane(route("orders", "live"), "bulk", segment(0, topic="b"), 7)
    assert (full.lanes[1].weight, full.lanes[1].segments[0].id, full.next_segment) == (7, 2, 3)
    assert without_lane(full, "bulk") == replace(route("orders", "live"), next_segment=3)
    ruled = replace(full, rules=(LaneRule(lane="bulk", where="x"),))
    for wrong, name in ((ruled, "bulk"), (full, "live"), (route("orders", "slow"), "slow")):
        with pytest.raises(RefusedError):
            without_lane(wrong, name)
    with pytest.raises(UsageError, match="has no lane none") as refused:
        existing_lane(full, "none")
    assert refused.value.hint == "its lanes are live, bulk"


def test_a_route_from_before_quotas_is_read_and_a_quota_is_one_byte_or_more() -> None:
    plain = route("orders", "live", "dlq")
    data = encode_route(plain)
    assert data.count(b',"quota_bytes_per_s":null') == 2
    assert decode_route(data.replace(b',"quota_bytes_per_s":null', b""), "a route") == plain
    limited = with_quotas(plain, {"dlq": 1_000})
    assert decode_route(encode_route(limited), "a route").lanes[1].quota_bytes_per_s == 1_000
    assert with_quotas(limited, {"dlq": None}) == plain
    for rate in (0, -1, 2**63):
        with pytest.raises(UsageError, match="lane dlq has the quota"):
            encode_route(with_quotas(plain, {"dlq": rate}))


def test_only_a_lane_with_an_active_segment_is_resumed() -> None:
    idle = with_topic("orders", route(), "live", segment(0, topic="next"))
    assert [s.state for s in idle.lanes[0].segments] == [SegmentState.ACTIVE, SegmentState.OPENED]
    stopped = replace(idle.lanes[0], is_paused=True, segments=idle.lanes[0].segments[1:])
    parked = replace(idle, lanes=(stopped,))
    with pytest.raises(RefusedError, match="no active segment"):
        pause_lane(parked, "live", is_paused=False)
    added = with_topic("orders", parked, "live", segment(0, topic="more"))
    assert [s.state for s in added.lanes[0].segments] == [SegmentState.OPENED, SegmentState.ACTIVE]
    assert pause_lane(added, "live", is_paused=False).lanes[0].is_paused is False


def test_a_topic_that_was_created_again_takes_the_place_of_the_one_that_is_gone() -> None:
    """Nothing else ever would: what is opened beside it can become active only when the old one is drained."""
    (first,) = route().lanes[0].segments
    there = replace(route(), lanes=(replace(route().lanes[0], segments=(replace(first, topic_id=str(UUID(int=1))),)),))
    before = with_topic("orders", there, "live", replace(segment(0, topic="next"), topic_id=str(UUID(int=2))))
    old, idle = before.lanes[0].segments
    again = replace(old, id=0, topic_id=str(UUID(int=7)))
    after = with_topic("orders", before, "live", again)
    assert after.lanes[0].segments == (idle, replace(again, id=before.next_segment))
    assert after.lanes[0].active == replace(again, id=before.next_segment)
    assert [each.id for each in after.lanes[0].left] == [old.id]
    assert decode_route(encode_route(after), "a route") == after
    (source,) = [s for s in reading_plan(after, None).sources[old.cluster_id].values() if s.topic == old.topic]
    assert source.earlier_ids == (topic_id_bytes(old.topic_id),), "so that consumers know its commits"
    elsewhere = with_topic("orders", before, "live", replace(again, cluster_id="other"))
    assert elsewhere.lanes[0].segments[:2] == (old, idle), "a name is one topic's on a cluster"
    same = with_topic("orders", before, "live", replace(old, id=0, topic_id=topic_id_bytes(old.topic_id).hex()))
    assert same.lanes[0].active == old


def test_the_way_back_through_the_history_passes_deletions_and_leaves_out_what_was_cut() -> None:
    def entry(epoch: int, before: int, *, deletes: bool = False) -> RouteChange:
        return RouteChange(at_ms=1, by="me", what="x", route=route(epoch=epoch), from_epoch=before, is_deletion=deletes)

    entries = [entry(1, 0), entry(2, 1), entry(3, 1), entry(4, 3, deletes=True), entry(5, 0), entry(6, 5), entry(7, 5)]
    assert in_effect(entries, 7) == {1, 3, 4, 5, 7}
    assert in_effect(entries, 5) == {1, 3, 4, 5}
    assert in_effect(entries, None) == {1, 3, 4}
    assert in_effect(entries[3:], 7) == {4, 5, 7}
    assert in_effect([entry(1, 1)], 1) == {1}
    assert in_effect([], None) == in_effect([], 3) == frozenset()


def test_values_of_lanes() -> None:
    assert lane_values("12, dlq=3", ("live", "dlq"), "-p") == {"live": "12", "dlq": "3"}
    assert lane_values("dlq=3", ("live", "dlq"), "-p") == {"dlq": "3"}
    assert lane_values("", ("live",), "-p") == {}
    shapes = lane_shapes(("live", "dlq"), "2", "dlq=-1,1s", ("a=b=c", "dlq:d=", "a=b=c"))
    assert [shape.configs for shape in shapes] == [
        (("a", "b=c"), ("retention.ms", "1000")),
        (("a", "b=c"), ("d", ""), ("retention.ms", "-1")),
    ]
    for bad in ("1" * 30, "-1", "1.5", "٣", "x"):
        with pytest.raises(UsageError, match="--partitions"):
            lane_shapes(("live",), bad, "", ())


def test_a_segment_is_known_by_ids_not_by_names() -> None:
    same = FoundTopic(topic_id="id-of-t1", partitions=2)
    assert segment_problem(ONE, "c1-id", same) == ""
    assert segment_problem(ONE, "c2-id", same) == "profile c1 reaches cluster c2-id, not c1-id"
    assert segment_problem(ONE, "c1-id", None) == GONE
    for other in ("id-of-t2", None):
        found = segment_problem(ONE, "c1-id", replace(same, topic_id=other))
        assert found == f"the topic was created again (its id is {other})"
    assert segment_problem(ONE, "c1-id", replace(same, partitions=3)) == "the topic has 3 partitions, the route says 2"


@pytest.mark.parametrize(
    ("commits", "unread"),
    [
        ({}, 15),
        ({0: 10}, 7),
        ({0: 10, 1: 10}, 0),
        ({0: 12, 1: 10}, 0),  # a commit beyond the end, as after a log that lost its end
        ({0: 1, 1: 4}, 14),  # the first one below what retention left
        ({0: 7, 1: None}, None),
    ],
)
def test_unread_records(commits: Mapping[int, int | None], unread: int | None) -> None:
    spans = {KEYS[0]: span(2, 10), KEYS[1]: span(3, 10)}
    given: dict[TopicPartition, CommittedOffset | ItemError] = {
        KEYS[n]: REFUSED if offset is None else CommittedOffset(offset=offset) for n, offset in commits.items()
    }
    assert unread_by(ONE, spans, given) == unread
    assert records_in(ONE, spans) == 15
    assert unread_by(ONE, {KEYS[0]: span(2, 10)}, given) is None
    assert records_in(ONE, {KEYS[0]: span(2, 10), KEYS[1]: REFUSED}) is None


def test_a_lane_is_read_when_every_reader_of_the_stream_has_read_it() -> None:
    whole = replace(route("orders", "live", "slow"), groups=(GroupRule(name="must"),))

    def reader(number: int, group: str, unread: int | None) -> ReadingGroup:
        return ReadingGroup(segment=number, group=group, state=GroupState.EMPTY, members=0, unread=unread)

    def reasons(slow: SegmentFacts, *readers: ReadingGroup, unknown: tuple[str, ...] = ()) -> list[str]:
        facts = RouteFacts(segments={1: SegmentFacts(records=0), 2: slow}, readers=readers, unknown=unknown)
        return list(unread_reasons(whole, whole.lanes[1], facts))

    three = SegmentFacts(records=3)
    assert reasons(SegmentFacts(records=0)) == []
    assert reasons(SegmentFacts(records=0, problem=GONE)) == []
    assert reasons(SegmentFacts(problem="created again")) == ["t2: created again"]
    assert reasons(SegmentFacts()) == ["t2: its logs could not be read"]
    assert reasons(three) == ["t2: group must has not read 3 records"]
    assert reasons(three, reader(2, "must", 0)) == []
    assert reasons(three, reader(2, "must", None)) == ["t2: group must has not read all records"]
    assert reasons(three, reader(2, "must", 0), reader(1, "g", 0)) == ["t2: group g has not read 3 records"]
    assert reasons(three, reader(2, "must", 0), unknown=("b is away",)) == ["b is away"]


def test_properties_are_read_back_by_a_parser_of_such_files() -> None:
    clusters = [
        ResolvedCluster(
            name=name, cluster_id="a\\b:c", bootstrap_servers="h:1,h:2", security_protocol="SSL", is_checked=True
        )
        for name in ("one", "two=:# !")
    ]
    text = resolve_report(route(), route().lanes, clusters, ()).text
    found = {item.name: item.value for item in parse_properties(text.encode(), "x")}
    assert found["stream.cluster.two=:# !.id"] == found["stream.cluster.one.id"] == "a\\b:c"
    assert found["stream.lane.live.write.topic"] == "t1"
    assert "bootstrap.servers" not in found
    single = resolve_report(route(), route().lanes, clusters[:1], ()).text
    assert "\nbootstrap.servers=h:1,h:2\n" in single


def test_no_name_of_a_group_leaves_its_label() -> None:
    name = 'x"]\n  r1 --> evil["<b>&amp;`;#\x1b'
    facts = RouteFacts(
        segments={1: SegmentFacts(records=0)},
        readers=(ReadingGroup(segment=1, group=name, state=GroupState.EMPTY, members=0, unread=0),),
    )
    lines = list(mermaid_lines(stream_graph([(route(), facts)])))
    (label,) = [line for line in lines if "evil" in line]
    assert label.startswith('  g1[/"x#34;]')
    assert label.count('"') == 2
    assert "<" not in label
    assert len(lines) == 8
