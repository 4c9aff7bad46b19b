"""Datadog as the source of traffic: kafka-kit's queries and tags over a real socket, and every fault named."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count

import pytest

from kafkakit.adapters import metrics_services as http_service
from kafkakit.adapters.metrics_services import DatadogQueries
from kafkakit.autothrottle.act.pacer import ASKED_ONCE, LOOK_UP_S, measure_hosts, measure_with
from kafkakit.autothrottle.decide.measurements import (
    BrokerSeen,
    HostQueriesAsked,
    HostTags,
    Load,
    Observed,
    TrafficQueries,
    read_tags,
)
from kafkakit.config.security import Secret
from kafkakit.core.storage_reading import Sample
from tests.fakes.admin import FakeClock
from tests.rigs.metrics_http import Datadog, Reply, Server, serving

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
ASKED = HostQueriesAsked()
SENT = "avg:system.net.bytes_sent{service:kafka} by {host}.rollup(avg, 120)"
RECEIVED = "avg:system.net.bytes_rcvd{service:kafka} by {host}.rollup(avg, 120)"


class Rig:
    def __init__(self, server: Server, datadog: Datadog, clock: FakeClock) -> None:
        self.server, self.datadog, self.clock = server, datadog, clock
        keys = Secret("api-k3y"), Secret("app-k3y")
        self.service = DatadogQueries(*keys, server.url, span_s=240, **ASKED_ONCE._asdict())
        self.measure = measure_hosts(self.service, clock, ASKED, with_type=True)

    def paths(self) -> list[str]:
        found = [got.words.get("query", got.path) for got in self.server.got]
        self.server.got.clear()
        return found


@pytest.fixture
def rig() -> Iterator[Rig]:
    clock = FakeClock(NOW)
    datadog = Datadog(lambda: clock.now().timestamp())
    datadog.add("a.example", 1, sent=5.0, received=7.0)
    datadog.add("b", 2, "small", sent=50.0, received=70.0)
    with serving(datadog) as server:
        yield Rig(server, datadog, clock)


def seen(broker: int, kind: str, sent: float | None, received: float | None) -> BrokerSeen:
    return BrokerSeen(broker=broker, instance_type=kind, out=Load(total=sent), into=Load(total=received))


def test_a_look_asks_as_kafka_kit_does_and_tags_are_kept(rig: Rig) -> None:
    found = rig.measure()
    assert found == Observed(
        at_ms=round(NOW.timestamp() * 1000),
        measured_ms=round(NOW.timestamp() * 1000),
        window_ms=120_000,
        health_window_ms=300_000,
        brokers={1: seen(1, "big", 5.0, 7.0), 2: seen(2, "small", 50.0, 70.0)},
    )
    assert {got.headers["Dd-Application-Key"] for got in rig.server.got} == {"app-k3y"}
    assert rig.paths() == [SENT, RECEIVED, "/api/v1/tags/hosts/a.example", "/api/v1/tags/hosts/b"]
    rig.measure()
    assert rig.paths() == [SENT, RECEIVED]


def test_incomplete_tags_are_used_and_asked_for_again(rig: Rig) -> None:
    rig.datadog.tags["b"] = ["broker_id:2"]
    assert rig.measure().brokers[2].instance_type == ""
    assert rig.measure().problems == ()
    assert rig.paths()[-1] == "/api/v1/tags/hosts/b"


def test_prometheus_tells_the_same(rig: Rig) -> None:
    class Prometheus:
        source = "fake metrics"

        def query(self, expression: str, at: datetime) -> tuple[Sample, ...]:
            values = {"reassignment": (), "bytesin": (7.0, 70.0), "bytesout": (5.0, 50.0)}
            told: tuple[float, ...] = next((v for word, v in values.items() if word in expression), ())
            labels = ({"broker_id": "1", "kind": "big"}, {"broker_id": "2", "kind": "small"})
            return tuple(Sample(of, value, at) for of, value in zip(labels, told, strict=False))

    assert measure_with(Prometheus(), rig.clock, TrafficQueries(type_label="kind"))() == rig.measure()


OLD_MS = NOW.timestamp() * 1000 - 241_000


@pytest.mark.parametrize(
    ("tags", "points", "problem"),
    [
        ([], None, "no tag tells the broker's id: host b"),
        (["broker_id:x", "broker_id"], None, "no tag tells the broker's id: host b"),
        (["broker_id:99999999999"], None, "no tag tells the broker's id: host b"),
        (None, [], "out: no points: host b"),
        (None, [(OLD_MS + 240_000, None)], "out: no points: host b"),
        (None, [(OLD_MS, 5.0)], "out: the last point is too old: host b"),
        (None, [(OLD_MS + 240_000, -1.0)], "out: a value that makes no sense: host b"),
    ],
)
def test_what_a_host_lacks_is_named_and_the_rest_is_used(
    rig: Rig, tags: list[str] | None, points: list[tuple[float, float | None]] | None, problem: str
) -> None:
    if tags is not None:
        rig.datadog.tags["b"] = tags
    if points is not None:
        rig.datadog.points["b"] = points
    found = rig.measure()
    assert any(problem in told for told in found.problems)
    assert found.brokers[1] == seen(1, "big", 5.0, 7.0)
    assert found.brokers.get(2) == (None if tags is not None else seen(2, "small", None, 70.0))


@pytest.mark.parametrize(
    ("piece", "reply", "problem", "left"),
    [
        ("bytes_rcvd", Reply({"errors": ["Rate limit"]}, 429, {"Retry-After": "60"}), "into: .*HTTP 429", (5.0, None)),
        ("bytes_sent", Reply({"status": "error", "error": "Rule 'x'"}), "out: .*cannot answer: Rule", (None, 7.0)),
        ("bytes_rcvd", Reply(b"<html>"), "into: .*not valid JSON", (5.0, None)),
        ("bytes_rcvd", Reply({"status": "ok"}, missing=9), "into: .*ends early", (5.0, None)),
    ],
)
def test_a_query_that_fails_is_named_and_the_others_are_used(
    rig: Rig, piece: str, reply: Reply, problem: str, left: tuple[float | None, float | None]
) -> None:
    rig.datadog.faults[piece] = reply
    found = rig.measure()
    (told,) = found.problems
    assert re.match(problem, told)
    assert found.brokers[1] == seen(1, "big", *left)
    assert rig.paths()[:2] == [SENT, RECEIVED]


def test_a_service_that_is_away_is_asked_once(rig: Rig) -> None:
    rig.datadog.faults["bytes"] = Reply({}, 503)
    found = rig.measure()
    assert (found.brokers, found.measured_ms, rig.paths()) == ({}, -1, [SENT])


def test_a_service_that_is_too_slow_counts_as_away(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_service, "monotonic", count(0, 70).__next__)
    rig.datadog.faults["bytes"] = Reply(b" ")
    keys = Secret("api-k3y"), Secret("app-k3y")
    hasty = DatadogQueries(*keys, rig.server.url, span_s=240, timeout_s=60, attempts=1)
    found = measure_hosts(hasty, rig.clock, ASKED, with_type=True)()
    assert (found.brokers, rig.paths()) == ({}, [SENT])
    assert "took longer than 60 s" in found.problems[0]


def test_tags_that_cannot_be_looked_up_are_named(rig: Rig) -> None:
    rig.datadog.faults["/hosts/a.example"] = Reply({}, 404)
    found = rig.measure()
    assert [p.partition(":")[0] for p in found.problems] == ["tags of host a.example"]
    assert sorted(found.brokers) == [2]
    rig.datadog.faults["/hosts/a.example"] = Reply({}, 503)
    rig.datadog.add("c", 3)
    found = rig.measure()
    assert [p.partition(":")[0] for p in found.problems] == ["tags of host a.example and 1 more"]
    assert rig.paths()[-1] == "/api/v1/tags/hosts/a.example"
    rig.datadog.faults.clear()
    assert sorted(rig.measure().brokers) == [1, 2, 3]


def test_looking_up_tags_ends_in_time(rig: Rig) -> None:
    plain = rig.service.host_tags

    class Slow:
        source = "slow"
        query = staticmethod(rig.service.query)

        def host_tags(self, host: str) -> tuple[str, ...]:
            rig.clock.advance(LOOK_UP_S)
            return plain(host)

    found = measure_hosts(Slow(), rig.clock, ASKED, with_type=True)()
    assert sorted(found.brokers) == [1]
    assert found.problems[0].startswith("tags of host b: not asked for")


def test_of_two_hosts_of_a_broker_the_later_one_counts(rig: Rig) -> None:
    rig.datadog.add("c", 1, "big", sent=9.0, received=7.0)
    rig.datadog.points["a.example"] = [(NOW.timestamp() * 1000 - 150_000, 5.0)]
    found = rig.measure()
    assert found.brokers[1].out.total == 9.0
    assert "two hosts are broker 1, the later one counts: host a.example, c" in found.problems


def test_optional_queries_tell_copies_and_latency() -> None:
    asked = HostQueriesAsked(copies_tx="c{*}", produce_ms="p{*}.rollup(max, 60)", window_s=60)
    texts = asked.texts()
    assert (texts["moved_out"], texts["produce_p99_ms"]) == ("c{*}.rollup(avg, 60)", "p{*}.rollup(max, 60)")
    assert "moved_into" not in texts


def test_a_tags_value_ends_at_its_second_colon() -> None:
    assert read_tags(["broker_id:7:x", "instance-type:i3:y", "plain"], ASKED) == HostTags(broker=7, instance_type="i3")
