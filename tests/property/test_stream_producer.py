"""At least once, whatever happens: random faults and changes of the route while records are sent."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkakit.core.errors import KafkakitError
from kafkakit.core.records import OutgoingRecord
from kafkakit.streams.client import control_store as route_follower
from kafkakit.streams.client.decide.outgoing import (
    INGESTED_HEADER,
    NotAcknowledgedError,
    ProducerLimits,
    RecordRefusedError,
    check_record,
    checked_headers,
    complete,
    record_bytes,
)
from kafkakit.streams.client.delivery import Delivery
from kafkakit.streams.model.record_identity import HEADER, RecordId, SeenRecord, encode_record_id, reconcile
from kafkakit.streams.model.route import SegmentState
from tests.rigs.stream_routes import FakeClusters

LIMIT_S = 120.0
LIMITS = ProducerLimits(delivery_s=LIMIT_S, drain_s=0.02, refused_s=60.0)


@pytest.fixture(scope="module", autouse=True)
def short_waits() -> Iterator[None]:
    """The fake store raises only at the start of a wait."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(route_follower, "WAIT_S", 0.1)
        yield


EVENTS = ("move", "open", "pause", "resume", "store", "away", "lose", "refuse", "break", "heal")
STEPS = st.lists(
    # Records to send, whether the clients get some time afterwards, and what happens then to which cluster.
    st.tuples(st.integers(0, 10), st.booleans(), st.sampled_from(EVENTS), st.sampled_from("abc")),
    min_size=4,
    max_size=12,
)
Steps = list[tuple[int, bool, str, str]]


def act(fakes: FakeClusters, step: str, on: str) -> None:
    """One fault, or one change of the route."""
    cluster = fakes.clusters.get(on)
    if step == "move":
        fakes.routes.move(fakes.segment(on))
    elif step == "open":
        live = fakes.routes.read().lane("live")
        assert live is not None
        kept = tuple(each for each in live.segments if each.state is not SegmentState.OPENED)
        fakes.routes.change("live", segments=(*kept, fakes.segment(on, state=SegmentState.OPENED)))
    elif step in ("pause", "resume"):
        fakes.routes.change("live", paused=step == "pause")
    elif cluster is not None:
        if step == "break":
            cluster.fail_for_good()
        elif step == "heal":
            cluster.is_away, cluster.loses_answers, cluster.refusal = False, False, None
        else:
            cluster.is_away |= step == "away"
            cluster.loses_answers |= step == "lose"
            cluster.refusal = "fenced" if step == "refuse" else cluster.refusal


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
def test_every_record_is_written_and_duplicates_are_within_the_count(steps: Steps) -> None:
    fakes = FakeClusters("abc")
    fakes.routes.create(fakes.segment("a"))
    client = fakes.client()
    producer = client.producer("orders", limits=LIMITS)
    deliveries: list[Delivery] = []
    for count, has_time, event, on in steps:
        deliveries += [producer.send(b"%d" % (len(deliveries) + n)) for n in range(count)]
        time.sleep(0.01 * has_time)
        if event == "store":
            fakes.store.away = True
        else:
            away, fakes.store.away = fakes.store.away, False
            act(fakes, event, on)
            fakes.store.away = away
    # Everything is mended; the last segment is on a cluster that works.
    fakes.store.away = False
    for name in fakes.clusters:
        act(fakes, "heal", name)
    act(fakes, "move", "c")
    places = [delivery.result(LIMIT_S) for delivery in deliveries]
    logs = fakes.logs()
    written = {(cluster, topic, partition, offset): value for cluster, topic, partition, offset, value in logs}
    for number, place in enumerate(places):
        assert written[place.cluster_id, place.topic, place.partition, place.offset] == b"%d" % number
    copies = Counter(value for *_, value in logs)
    duplicates = sum(copies.values()) - len(copies)
    assert duplicates <= sum(lane.counters.sent_again for lane in producer.metrics().lanes)
    assert not producer.close(LIMIT_S)
    client.close(0)


@settings(max_examples=30, deadline=None)
@given(steps=STEPS)
def test_a_record_that_certainly_was_not_written_is_in_no_log(steps: Steps) -> None:
    fakes = FakeClusters("abc")
    fakes.routes.create(fakes.segment("a"))
    client = fakes.client()
    limits = replace(LIMITS, delivery_s=0.1, refused_s=0.0)
    producer = client.producer("orders", limits=limits)
    deliveries: list[Delivery] = []
    for count, has_time, event, on in steps:
        deliveries += [producer.send(b"%d" % (len(deliveries) + n)) for n in range(count)]
        time.sleep(0.01 * has_time)
        if event != "store":
            act(fakes, event, on)
    errors = [delivery.exception(LIMIT_S) for delivery in deliveries]
    client.close(0)
    values = {value for *_, value in fakes.logs()}
    for number, error in enumerate(errors):
        if error is None:
            assert b"%d" % number in values
        elif isinstance(error, NotAcknowledgedError) and not error.may_be_written:
            assert b"%d" % number not in values
        assert error is None or isinstance(error, KafkakitError)


ANYTHING = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.text(max_size=5),
    st.integers(),
    st.booleans(),
    st.floats(),
    st.lists(st.none()),
)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=5))), max_size=5).map(tuple)


@given(value=ANYTHING, key=ANYTHING, headers=st.one_of(HEADERS, ANYTHING), at_ms=ANYTHING, partition=ANYTHING)
def test_only_one_error_refuses_a_record(
    value: object, key: object, headers: object, at_ms: object, partition: object
) -> None:
    try:
        given = checked_headers(headers)  # type: ignore[arg-type]
        record = OutgoingRecord(value=value, key=key, headers=given, at_ms=at_ms, partition=partition)  # type: ignore[arg-type]
        check_record(record)
    except RecordRefusedError:
        return
    identity, other = (encode_record_id(RecordId(at_ms=n, session=2, sequence=3)) for n in (1, 9))
    whole = record._replace(headers=complete(given, ((HEADER, identity), (INGESTED_HEADER, b"5"))))
    assert complete(whole.headers, ((HEADER, other), (INGESTED_HEADER, b"6"))) == whole.headers
    assert dict(whole.headers)[HEADER] == identity
    assert record_bytes(whole) > record_bytes(record) > len(record.value or b"") + len(record.key or b"")


IDS = st.lists(st.integers(0, 12), max_size=30)


@given(primary=IDS, secondary=IDS, cut=st.integers(1, 13))
def test_a_comparison_counts_as_sets_do(primary: list[int], secondary: list[int], cut: int) -> None:
    def side(numbers: list[int]) -> list[SeenRecord]:
        return [SeenRecord(encode_record_id(RecordId(at_ms=n, session=1, sequence=n)), n) for n in numbers]

    found = reconcile(side(primary), side(secondary), 0, cut)
    here, there = ([n for n in numbers if n < cut] for numbers in (primary, secondary))
    assert (found.missing, found.extra) == (len(set(here) - set(there)), len(set(there) - set(here)))
    assert (found.primary.duplicates, found.secondary.duplicates) == (
        len(here) - len(set(here)),
        len(there) - len(set(there)),
    )
    assert found.is_equal == (set(here) == set(there))
