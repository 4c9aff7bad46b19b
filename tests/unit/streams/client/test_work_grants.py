"""Documents of workers and grants, and what a worker measures of itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.lease import Holder
from kafkakit.streams.client.assigned_member import WorkerMeter, WorkerOptions
from kafkakit.streams.client.decide.client_documents import (
    GRANT_DOCUMENT,
    ROUND_BITS,
    WORKER_DOCUMENT,
    GrantDocument,
    GrantedPartition,
    GrantedTopic,
    Subscription,
    WorkerDocument,
    WorkerReading,
    epoch_of,
    leases_on,
)
from tests.fakes.admin import FakeClock

HOLDER = Holder(host="h", user="u", command="c", pid=1)
TOPIC_ID = "00010203-0405-0607-0809-0a0b0c0d0e0f"
names = st.text("abc.-_", min_size=1, max_size=20)
topics = st.builds(
    GrantedTopic,
    stream=names,
    group=names,
    cluster_id=names,
    topic=names,
    topic_id=st.just(TOPIC_ID),
    partitions=st.lists(
        st.builds(GrantedPartition, st.integers(0, 9999), st.integers(0, 1 << 60)), max_size=5
    ).map(tuple),
)  # fmt: skip
subscriptions = st.builds(
    Subscription,
    stream=names,
    group=names,
    lanes=st.lists(names, max_size=3).map(tuple),
    epoch=st.integers(0, 1 << 40),
    is_grouped=st.booleans(),
)


@given(st.lists(topics, max_size=4), st.integers(0, 1 << 60))
def test_a_grant_is_read_as_it_was_written(found: list[GrantedTopic], number: int) -> None:
    document = GrantDocument(worker="w", token=3, round=number, topics=tuple(found))
    assert GRANT_DOCUMENT.decode(GRANT_DOCUMENT.encode(document), "x") == document


@given(st.lists(subscriptions, max_size=4))
def test_a_worker_is_read_as_it_was_written(found: list[Subscription]) -> None:
    document = WorkerDocument(
        id="w", beat=1, ttl_s=1.5, holder=HOLDER, capacity=7, zone="z", subscriptions=tuple(found), silent=("c",)
    )
    assert WORKER_DOCUMENT.decode(WORKER_DOCUMENT.encode(document), "x") == document


@pytest.mark.parametrize("data", [b"{}", b'{"kafkakit":{"kind":"stream-grant","schema":2}}', b"\xff", b"[1]"])
def test_what_is_no_grant_is_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        GRANT_DOCUMENT.decode(data, "x")
    with pytest.raises(InputError):
        WORKER_DOCUMENT.decode(data, "x")


@given(st.integers(1, 1 << 30), st.integers(0, (1 << ROUND_BITS) - 1), st.integers(0, (1 << ROUND_BITS) - 1))
def test_a_later_token_has_greater_epochs(token: int, one: int, other: int) -> None:
    assert epoch_of(token, one) < epoch_of(token + 1, other)


def test_only_what_is_of_the_group_and_the_cluster_counts() -> None:
    def topic(group: str, cluster_id: str) -> GrantedTopic:
        return GrantedTopic(
            stream="s",
            group=group,
            cluster_id=cluster_id,
            topic="t",
            topic_id=TOPIC_ID,
            partitions=(GrantedPartition(1, 5),),
        )

    document = GrantDocument(worker="w", token=1, round=1, topics=(topic("g", "a"), topic("h", "a"), topic("g", "b")))
    found = leases_on(document, "s", "g", "a")
    assert [(lease.identity.group, lease.identity.cluster_id, lease.epoch) for lease in found.values()] == [
        ("g", "a", 5)
    ]
    assert leases_on(None, "s", "g", "a") == {}


@pytest.mark.parametrize("given", [{"capacity": 0}, {"beat_s": 1.0, "ttl_s": 1.5}, {"fallback_s": 0}, {"ttl_s": 601}])
def test_options_without_sense_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        WorkerOptions(**given)  # type: ignore[arg-type]


def test_the_meter_averages_over_two_seconds() -> None:
    clock, figures = FakeClock(), {"cpu": 1.0, "handled": 0}
    meter = WorkerMeter(clock, lambda: figures["cpu"], lambda: 77, lambda: int(figures["handled"]))
    assert meter.read() == WorkerReading()
    clock.advance(4)
    figures.update(cpu=3.0, handled=1000)
    assert meter.read() == WorkerReading(cpu=0.5, memory_bytes=77, records_per_s=250.0)
    figures.update(cpu=9.0)
    assert meter.read().cpu == 0.5
