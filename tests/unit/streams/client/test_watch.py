"""What is seen of a client: pathways through handlers, metrics on a page and as datagrams, and what an agent gets."""

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.rpc.http_listener import PageServer
from kafkakit.core.errors import TryLaterError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import OutgoingRecord
from kafkakit.core.rpc import HttpPage, HttpRequest
from kafkakit.streams.client import watch
from kafkakit.streams.client import watch as pathways
from kafkakit.streams.client.dead_letters import ConsumerHooks
from kafkakit.streams.client.decide import figures
from kafkakit.streams.client.decide import figures as consumer_figures
from kafkakit.streams.client.decide import figures as pathway_figures
from kafkakit.streams.client.decide.failures import WorkCounts
from kafkakit.streams.client.decide.figures import (
    MOST_EDGES,
    ConsumerFigures,
    ConsumerState,
    PartitionFigures,
    PathwayTotals,
)
from kafkakit.streams.client.decide.outgoing import BackPressureError, ProducerLimits
from kafkakit.streams.client.decide.reading import TopicSource
from kafkakit.streams.client.producer import DualPolicy, RecordHooks
from kafkakit.streams.client.watch import AgentSender, PathwayTracker, WatchOptions, WatchParts
from kafkakit.streams.client.workers import PartitionOrigin, StreamRecord
from kafkakit.streams.model.pathways import (
    HEADER,
    Bucket,
    PathwayBuckets,
    PathwayContext,
    PathwayNode,
    PathwayPoint,
    PayloadSender,
    consume_tags,
    context_of,
    decode_header,
    node_hash,
    pathway_hash,
    produce_tags,
)
from tests.fakes.group_consumer import FakeRecord
from tests.places import ROOT
from tests.rigs.stream_routes import FakeClusters, Routes
from tests.rigs.waiting import until

LIMIT_S = 120.0
SHOP, BILLING = PathwayNode("shop", "test"), PathwayNode("billing", "test")
SHOP_OPTIONS = WatchOptions(service="shop", env="test")
ORIGIN = PartitionOrigin(
    stream="orders",
    source=TopicSource(lane="live", segment=1, cluster_id="c1", topic="o", topic_id=bytes(16)),
    partition=TopicPartition("o", 0),
)


@pytest.fixture(autouse=True)
def no_pathway() -> Iterator[None]:
    """Checkpoints are set in the thread of all tests here, unlike those of a client."""
    yield
    pathways._CONTEXT.set(None)


def record(
    headers: Sequence[tuple[str, bytes | None]] = (), *, tries: int = 0, read: type[FakeRecord] = FakeRecord
) -> StreamRecord:
    return StreamRecord((read(at=7, the_value=b"value", the_key=b"key", the_headers=tuple(headers)), ORIGIN, tries))


def tracker(node: PathwayNode) -> PathwayTracker:
    return PathwayTracker(node, SystemClock())


def edges(found: PathwayTracker) -> dict[tuple[tuple[str, ...], int, int], int]:
    """How often each edge was counted."""
    buckets = found.take((), 0, everything=True)
    return {key: sums.edge_s.count for bucket in buckets for key, sums in bucket.edges.items()}


def grown(node: PathwayNode, tags: tuple[str, ...], parent: int = 0) -> int:
    return pathway_hash(node_hash(node.service, node.env, tags), parent)


def test_what_a_handler_produces_continues_the_pathway_of_its_record() -> None:
    shop, billing = tracker(SHOP), tracker(BILLING)
    first = grown(SHOP, produce_tags("orders"))
    second = grown(BILLING, consume_tags("orders", "billing"), first)
    third = grown(BILLING, produce_tags("invoices"), second)
    found: list[int] = []

    def handle() -> None:
        billing.reading("orders", "billing")(record(shop.producing("orders")(OutgoingRecord(value=b"x"), "live")))
        for _ in range(2):
            ((name, value),) = billing.producing("invoices")(OutgoingRecord(value=b"x", key=b"k"), "live")
            assert name == HEADER
            context = decode_header(value or b"")
            assert isinstance(context, PathwayContext)
            found.append(context.hash)

    for thread in [threading.Thread(target=handle) for _ in range(3)]:
        thread.start()
        thread.join()
    assert found == [third] * 6
    assert edges(shop) == {(produce_tags("orders"), first, 0): 3}
    assert edges(billing) == {
        (consume_tags("orders", "billing"), second, first): 3,
        (produce_tags("invoices"), third, second): 6,
    }
    # Outside of a handler a record begins a pathway.
    context = context_of(billing.producing("invoices")(OutgoingRecord(value=b"x"), "live"), int(time.time() * 1000))
    assert isinstance(context, PathwayContext)
    assert context.hash == grown(BILLING, produce_tags("invoices"))


def test_tasks_do_not_mix_their_pathways() -> None:
    billing = tracker(BILLING)
    shops = [tracker(PathwayNode(f"shop-{n}", "test")) for n in range(5)]

    async def handle(shop: PathwayTracker) -> int:
        headers = shop.producing("orders")(OutgoingRecord(value=b"x"), "live")
        billing.reading("orders", "billing")(record(headers))
        await asyncio.sleep(0)
        ((_, value),) = billing.producing("invoices")(OutgoingRecord(value=b"x"), "live")
        context = decode_header(value or b"")
        assert isinstance(context, PathwayContext)
        return context.hash

    async def run() -> list[int]:
        return list(await asyncio.gather(*(handle(shop) for shop in shops)))

    hashes = asyncio.run(run())
    read = consume_tags("orders", "billing")
    origins = [grown(PathwayNode(f"shop-{n}", "test"), produce_tags("orders")) for n in range(5)]
    assert hashes == [grown(BILLING, produce_tags("invoices"), grown(BILLING, read, origin)) for origin in origins]


class Unreadable(FakeRecord):
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


@pytest.mark.parametrize(
    "found",
    [
        record(read=Unreadable),
        record([(HEADER, b"\xff\x00")]),
        record([(HEADER, None)]),
        record([(HEADER, b"A" * 10_000)]),
        record([("a" * 10, b"x")] * 1_000),
        record(),
    ],
)
def test_headers_that_hold_no_context_begin_a_pathway(found: StreamRecord) -> None:
    billing = tracker(BILLING)
    billing.reading("orders", "billing")(found)
    tags = consume_tags("orders", "billing")
    assert edges(billing) == {(tags, grown(BILLING, tags), 0): 1}


def test_a_record_that_is_tried_again_is_counted_once() -> None:
    billing = tracker(BILLING)
    for tries in range(3):
        billing.reading("orders", "billing")(record(tries=tries))
    assert sum(edges(billing).values()) == 1


def partition(base: int, lag: int | None) -> PartitionFigures:
    zero = dict.fromkeys(
        ("buffered", "in_flight", "waiting", "undurable", "duplicates", "handled", "failures", "retries", "rejected",
         "deferred", "gone", "replayed"), 0,
    )  # fmt: skip
    return PartitionFigures(
        cluster_id="c1", partition=TopicPartition("orders.live.1", 3), lane="live", base=base, lag=lag,
        commit_fill=0.25, is_paused=False, **zero,
    )  # fmt: skip


def consumers(*partitions: PartitionFigures) -> tuple[ConsumerFigures, ...]:
    return (
        ConsumerFigures(
            stream="orders", group="billing", state=ConsumerState.RUNNING, reason="", epoch=4, partitions=partitions,
            left={"live": WorkCounts(handled=3)}, filtered=1, unreadable=2, commits=3, commit_errors=4, reconnects=5,
            dead_letters_written=6, dead_letters_failed=7,
            dependencies_down=("bank",), problems=("one",),
        ),
    )  # fmt: skip


def test_offsets_of_consumers_are_in_the_bucket() -> None:
    billing = tracker(BILLING)
    (bucket,) = billing.take(consumers(partition(40, 10)), 25_000, everything=True)
    assert bucket.start_ms == 20_000
    named = {next(tag for tag in tags if tag.startswith("type:")): offset for tags, offset in bucket.offsets.items()}
    assert named == {"type:kafka_commit": 40, "type:kafka_produce": 49}
    (bucket,) = billing.take(consumers(partition(40, None)), 25_000, everything=True)
    assert len(bucket.offsets) == 1


def point(tags: tuple[str, ...], hash_: int, ms: int, at_ms: int = 0) -> PathwayPoint:
    return PathwayPoint(at_ms, tags, hash_, 0, ms, ms, 100, is_skewed=False)


def taken(*points: PathwayPoint) -> tuple[Bucket, ...]:
    buckets = PathwayBuckets(max_pathways=5_000)
    for each in points:
        buckets.add(each)
    return buckets.take()


def test_counts_are_kept_and_quantiles_are_those_of_the_last_minute() -> None:
    totals = PathwayTotals()
    tags = consume_tags("orders", "billing")
    totals.add(taken(point(tags, 5, 4_000)), folded=0, dropped=0, skewed=0)
    totals.add(taken(point(tags, 5, 1_000)), folded=1, dropped=2, skewed=3)
    labels = (("stream", "orders"), ("direction", "in"), ("group", "billing"), ("pathway", "5"))
    found = {family.name: family for family in totals.families()}
    assert dict(found["latency_seconds"].samples)[(*labels, ("quantile", "1"))] == 4
    assert found["latency_seconds"].totals == ((labels, 2, 5.0),)
    assert found["payload_bytes"].totals == ((labels, 2, 200.0),)
    assert [found[name].samples[0][1] for name in ("folded_points", "dropped_points", "skewed_points")] == [1, 2, 3]
    for _ in range(5):
        totals.add((), folded=1, dropped=2, skewed=3)
    found = {family.name: family for family in totals.families()}
    assert dict(found["latency_seconds"].samples)[(*labels, ("quantile", "1"))] == 1
    totals.add((), folded=1, dropped=2, skewed=3)
    (family, *_) = totals.families()
    assert (family.samples, family.totals) == ((), ((labels, 2, 5.0),))


def test_edges_since_the_start_are_bounded() -> None:
    totals = PathwayTotals()
    points = [point(produce_tags("orders"), number + 1, 1_000) for number in range(MOST_EDGES + 50)]
    totals.add(taken(*points), folded=0, dropped=0, skewed=0)
    (family, *_) = totals.families()
    assert len(family.totals) == MOST_EDGES + 1
    assert sum(count for _, count, _ in family.totals) == len(points)
    assert [count for labels, count, _ in family.totals if ("stream", "others") in labels] == [50]


class Page:
    """Opens a real page, and remembers how to close it."""

    def __init__(self) -> None:
        self.server: PageServer | None = None

    def serve(self, answer: Callable[[HttpRequest], HttpPage]) -> str:
        self.server = PageServer("127.0.0.1:0", answer)
        return self.server.address

    def close(self) -> None:
        if self.server is not None:
            self.server.close()


@pytest.fixture
def page() -> Iterator[Page]:
    page = Page()
    yield page
    page.close()


@pytest.fixture
def fakes() -> FakeClusters:
    fakes = FakeClusters()
    fakes.routes.create(fakes.segment("a"))
    return fakes


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample of a page, by name and labels, as Prometheus' own parser reads it."""
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def test_the_page_shows_producers_and_pathways(
    fakes: FakeClusters, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "PERIOD_S", 0.05)
    sent: list[Bucket] = []
    packets: list[bytes] = []
    parts = WatchParts(
        options=SHOP_OPTIONS,
        send_buckets=lambda _, found: sent.extend(found),
        send_datagrams=packets.extend,
        serve=page.serve,
    )
    with fakes.client(parts) as client:
        Routes(fakes.store, "copy").create(fakes.segment("b"))
        client.dual_producer("orders", "copy", DualPolicy.SHADOW)
        producer = client.producer("orders")
        for _ in range(3):
            producer.send(b"x" * 100, b"key").result(LIMIT_S)
        until(lambda: packets)
        with urlopen(f"http://{client.page_address}/metrics", timeout=LIMIT_S) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            found = samples(answer.read().decode())
    assert {dict(labels)["stream"] for name, labels in found if name == "kafkakit_producer_route_epoch"} == {
        "orders", "copy",
    }  # fmt: skip
    labels = (("lane", "live"), ("producer", "2"), ("stream", "orders"))
    assert found["kafkakit_producer_acknowledged_records", labels] == 3
    assert found["kafkakit_pathway_unsent_buckets", ()] == 0
    # What was not sent before is sent by `close`.
    assert sum(sums.edge_s.count for bucket in sent for sums in bucket.edges.values()) == 3
    assert all(len(packet) <= 1_400 for packet in packets)
    lines = b"\n".join(packets).splitlines()
    assert b"kafkakit.producer.records:3|g|#service:shop,env:test,stream:orders,producer:2,lane:live" in lines


def test_an_agent_that_is_away_holds_nothing_up_and_is_counted(
    fakes: FakeClusters, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watch, "PERIOD_S", 0.02)
    tried: list[int] = []

    def refuse(sender: PayloadSender, buckets: Sequence[Bucket]) -> None:
        assert sender.node == SHOP
        tried.append(len(buckets))
        raise TryLaterError("the agent gives no answer")

    clock = SystemClock()
    seen = AgentSender(
        WatchParts(options=SHOP_OPTIONS, send_buckets=refuse), clock, lambda: (), lambda: consumers(partition(1, 1))
    )
    hooks = seen.record_hooks("orders", RecordHooks())
    assert hooks.pathway is not None
    for _ in range(2):
        hooks.pathway(OutgoingRecord(value=b"x"), "live")
    seen.close()
    assert sum(tried) >= 1
    assert samples(seen.exposition())["kafkakit_pathway_unsent_buckets", ()] == sum(tried)
    assert [line.message for line in caplog.records if "not sent" in line.message] == [
        "sums of pathways are not sent: the agent gives no answer"
    ]


def test_an_agent_that_hangs_holds_up_neither_records_nor_close(
    fakes: FakeClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "PERIOD_S", 0.01)
    monkeypatch.setattr(watch, "CLOSE_S", 0.05)
    hangs, may_go = threading.Event(), threading.Event()

    def hang(packets: Sequence[bytes]) -> None:
        hangs.set()
        may_go.wait(LIMIT_S)

    client = fakes.client(WatchParts(options=SHOP_OPTIONS, send_datagrams=hang))
    assert hangs.wait(LIMIT_S)
    assert client.producer("orders").send(b"x").result(LIMIT_S).attempts == 1
    assert "kafkakit_producer_records" in client.exposition()
    client.close()
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "kafkakit-watch")
    assert not may_go.is_set()
    may_go.set()
    thread.join(LIMIT_S)
    assert not thread.is_alive()


def test_a_fault_is_reported_and_the_next_look_sends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watch, "PERIOD_S", 0.01)
    packets: list[bytes] = []
    looks = iter([ZeroDivisionError("once")])

    def figures_of() -> tuple[ConsumerFigures, ...]:
        for error in looks:
            raise error
        return consumers(partition(1, 1))

    seen = AgentSender(WatchParts(send_datagrams=packets.extend), SystemClock(), lambda: (), figures_of)
    until(lambda: packets)
    seen.close()
    assert [line.message for line in caplog.records] == ["metrics and pathways are not sent"]


def test_consumers_are_on_the_page() -> None:
    told = consumers(partition(40, 10), replace(partition(5, None), partition=TopicPartition("orders.live.1", 4)))
    found = samples(AgentSender(WatchParts(), SystemClock(), lambda: (), lambda: told).exposition())
    whole = (("consumer", "0"), ("group", "billing"), ("stream", "orders"))
    lane = tuple(sorted((*whole, ("lane", "live"))))
    one = tuple(sorted((*lane, ("cluster_id", "c1"), ("partition", "3"), ("topic", "orders.live.1"))))
    assert found["kafkakit_consumer_route_epoch", whole] == 4
    states = {
        state: found["kafkakit_consumer_state", tuple(sorted((*whole, ("state", state))))] for state in ConsumerState
    }
    assert states == {"running": 1, "stopped": 0, "failed": 0}
    assert found["kafkakit_consumer_handled_records", lane] == 3, "of a partition that went elsewhere"
    assert found["kafkakit_consumer_dependency_down", tuple(sorted((*whole, ("dependency", "bank"))))] == 1
    assert found["kafkakit_consumer_lag_records", lane] == 10
    assert found["kafkakit_consumer_unknown_lag_partitions", lane] == 1
    assert found["kafkakit_consumer_partition_lag_records", one] == 10
    assert sum(name == "kafkakit_consumer_partition_lag_records" for name, _ in found) == 1
    assert found["kafkakit_consumer_commit_fill", lane] == 0.25


def test_nothing_is_added_where_nothing_is_configured(fakes: FakeClusters) -> None:
    with fakes.client() as client:
        client.producer("orders").send(b"x").result(LIMIT_S)
        assert not any(thread.name == "kafkakit-watch" for thread in threading.enumerate())
        assert client.page_address == ""
        assert "kafkakit_pathway" not in client.exposition()
    seen = AgentSender(WatchParts(), SystemClock(), lambda: (), lambda: ())
    hooks, theirs = RecordHooks(), ConsumerHooks()
    assert seen.record_hooks("orders", hooks) is hooks
    assert seen.consumer_hooks("orders", "billing", theirs) is theirs
    ((_, written),) = fakes.clusters["a"].topics["orders.live.1"].log
    assert [name for name, _ in written.headers] == ["kafkakit-id", "kafkakit-ingested-ms"]


def test_hooks_of_the_application_come_first() -> None:
    seen = AgentSender(WatchParts(options=SHOP_OPTIONS), SystemClock(), lambda: (), lambda: ())
    own, theirs = RecordHooks(pathway=lambda record, lane: ()), ConsumerHooks(checkpoint=print)
    assert seen.record_hooks("orders", own) is own
    assert seen.consumer_hooks("orders", "billing", theirs) is theirs
    seen.close()


def test_a_record_that_waits_for_space_is_one_checkpoint(fakes: FakeClusters) -> None:
    sent: list[Bucket] = []
    cluster = fakes.clusters["a"]
    with fakes.client(WatchParts(options=SHOP_OPTIONS, send_buckets=lambda _, found: sent.extend(found))) as client:
        producer = client.producer("orders", limits=ProducerLimits(lane_records=1))
        cluster.is_away = True
        first = producer.send(b"x")
        assert not first.done()
        for _ in range(3):
            with pytest.raises(BackPressureError):
                producer.send(b"y", wait_s=0)
        cluster.is_away = False
        first.result(LIMIT_S)
    assert sum(sums.edge_s.count for bucket in sent for sums in bucket.edges.values()) == 1


@pytest.mark.parametrize(
    ("given", "text"), [({"agent": "h:1"}, "name of this service"), ({"service": "a\ud800"}, "text")]
)
def test_options_that_make_no_sense(given: dict[str, str], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        WatchOptions(**given)


def test_the_documentation_names_every_metric() -> None:
    text = (ROOT / "docs" / "streams-client.md").read_text(encoding="utf-8")
    tables = re.split(r"^\| `kafkakit_(\w+)_…`", text, flags=re.MULTILINE)[1:]
    named = {
        f"kafkakit_{kind}_{name}"
        for kind, table in zip(tables[::2], tables[1::2], strict=True)
        for row in table.partition("\n\n")[0].splitlines()[2:]
        for name in re.findall(r"`(\w+)`", row.split("|")[1])
        if not row.startswith("| *")
    }
    made = [
        (figures.PRODUCER_PREFIX, figures.producer_families(())),
        (consumer_figures.CONSUMER_PREFIX, consumer_figures.consumer_families(())),
        (pathway_figures.PATHWAY_PREFIX, PathwayTotals().families()),
    ]
    assert named == {prefix + family.name for prefix, families in made for family in families}
