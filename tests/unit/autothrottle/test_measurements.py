"""The slo law, look by look.

Datadog as the source of traffic. Answers of a metrics service as what a law is told, and faults as problems.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from kafkakit.adapters import metrics_services as http_service
from kafkakit.adapters.metrics_services import DatadogQueries
from kafkakit.autothrottle.act.pacer import ASKED_ONCE, LOOK_UP_S, measure_hosts, measure_with
from kafkakit.autothrottle.decide.law import Memory, RateDecision, RateMemory, Side
from kafkakit.autothrottle.decide.measurements import (
    Flow,
    HostQueriesAsked,
    HostTags,
    NetworkLoad,
    SeenBroker,
    TrafficObservation,
    TrafficQueries,
    measured_of,
    read_tags,
)
from kafkakit.autothrottle.decide.requests import TrafficOfHosts
from kafkakit.autothrottle.decide.slo import SloSettings, parse_time_rule, slo_law
from kafkakit.config.security import Secret
from kafkakit.core.cluster_facts import MetricSample
from kafkakit.core.errors import OperationFailedError, TryLaterError, UsageError
from tests.fakes.admin import FakeClock
from tests.rigs.metrics_http import Datadog, Reply, Server, serving
from tests.rigs.pacer import MB, PacerRig

MB_SLO = 1_000_000
OUT, INTO = (1, Side.OUT), (2, Side.INTO)
SETTINGS = SloSettings(p99_ms=100, slack=0.1, burst_share=0.8)
FLOW = Flow(source=1, destination=2, partitions=1, left_bytes=10**10, ingest_per_s=2 * MB_SLO)


def look(
    at_s: float, *, clients: float = 30, into: float = 30, moved: float = 0, p99: float | None = 5, flow: Flow = FLOW
) -> TrafficObservation:
    """Brokers 1 and 2 on lines of 100 MB/s; figures in MB/s."""
    loads = [
        NetworkLoad(total=(c + moved) * MB_SLO, moved=moved * MB_SLO, capacity=100 * MB_SLO) for c in (clients, into)
    ]
    seen = {
        1: SeenBroker(broker=1, out=loads[0], produce_p99_ms=p99),
        2: SeenBroker(broker=2, into=loads[1], produce_p99_ms=5),
    }
    at_ms = int(at_s * 1000)
    return TrafficObservation(at_ms=at_ms, measured_ms=at_ms, window_ms=11_000, brokers=seen, flows=(flow,))


def held(out: float, into: float, *, at_s: float = 0, seen: bool = True) -> Memory:
    now = int(at_s * 1000)
    rates = {
        s: RateMemory(rate=int(r * MB_SLO), changed_ms=now, calm_since_ms=-1, seen_ms=now if seen else -1)
        for s, r in ((OUT, out), (INTO, into))
    }
    return Memory(rates=rates, at_ms=now)


def why(decision: RateDecision) -> dict[tuple[int, Side], tuple[float, str]]:
    return {(r.broker, r.side): (round(r.rate / MB_SLO, 2), r.binding) for r in decision.reasons}


LAW = slo_law(SETTINGS)


@pytest.mark.parametrize(
    ("memory", "seen", "out", "into"),
    [
        # A start from nothing shows no burst: at once to what clients leave, less the slack.
        (Memory(), look(0), (54.0, "capacity"), (54.0, "capacity")),
        (Memory(), look(0, into=70), (18.0, "peers"), (18.0, "capacity")),
        # A rise lets 11 times its amount through: 0.8 of the 50 that are free, over 11.
        (held(20, 20), look(20, moved=20), (23.64, "rise"), (23.64, "rise")),
        (held(53, 53), look(20, moved=53), (54.0, "capacity"), (54.0, "capacity")),
        (held(57, 57), look(20, moved=57), (57.0, "hold"), (57.0, "hold")),
        # Down at once; the other end follows when less passes it, as a cut below that would stop it and start a burst.
        (held(54, 54), look(20, clients=60, moved=54), (30.0, "capacity"), (54.0, "peers")),
        (held(54, 54), look(20, clients=95, moved=54), (2.2, "floor"), (54.0, "peers")),
        (held(40, 40), look(20, moved=40, p99=150), (20.0, "health"), (40.0, "peers")),
    ],
)
def test_what_binds(memory: Memory, seen: TrafficObservation, out: tuple[float, str], into: tuple[float, str]) -> None:
    decision = LAW(seen, memory)
    assert why(decision) == {OUT: out, INTO: into}


def test_the_end_that_its_peer_limits_falls_with_what_passes() -> None:
    memory = LAW(look(20, clients=60, moved=54), held(54, 54)).memory
    assert LAW(look(21, clients=60, moved=40), memory).memory.rates[INTO].rate == 40 * MB_SLO
    assert LAW(look(22, clients=60, moved=20), memory).memory.rates[INTO].rate == 30 * MB_SLO


def test_a_step_of_clients_counts_in_full_before_the_average_has_all_of_it() -> None:
    memory = LAW(look(20, clients=30, moved=54), held(54, 54)).memory
    seen = LAW(look(24, clients=38, moved=54), memory).memory  # 4 of the 11 seconds: 22 more than before
    assert seen.rates[OUT].rate == pytest.approx((90 - 52) * MB_SLO, rel=0.01)
    later = LAW(look(24, clients=32, moved=54), memory).memory  # within the noise
    assert later.rates[OUT].rate == 54 * MB_SLO


def test_a_step_of_clients_is_not_taken_for_more_than_it_is_while_the_average_climbs() -> None:
    """Clients step from 30 to 70; each look a second later has a second more of it in its average of 11 seconds."""
    memory, left = LAW(look(20, clients=30, moved=54), held(54, 54)).memory, []
    for second in range(1, 16):
        decision = LAW(look(20 + second, clients=30 + 40 * min(second, 11) / 11, moved=20), memory)
        memory = decision.memory
        left.append(memory.rates[OUT].rate / MB_SLO)
        assert decision.warnings == ()
    assert all(rate == pytest.approx(90 - 70, rel=0.01) for rate in left)


def test_a_climb_that_goes_on_for_longer_than_the_window_is_followed() -> None:
    memory = LAW(look(20, clients=10, moved=54), held(54, 54)).memory
    for second in range(1, 31):
        memory = LAW(look(20 + second, clients=10 + 2 * max(0.0, second - 5.5), moved=20), memory).memory
    assert memory.rates[OUT].rate <= (90 - 59) * MB_SLO


def test_copies_below_what_producers_write_are_a_warning() -> None:
    assert "catch up on broker 1" in LAW(look(20, clients=95), held(54, 54)).warnings[0]


def test_a_breach_that_stays_halves_once_a_window() -> None:
    memory, rates = held(40, 40), []
    for at_s in (20, 25, 30, 35, 40):
        memory = LAW(look(at_s, moved=40, p99=150), memory).memory
        rates.append(memory.rates[OUT].rate / MB_SLO)
    assert rates == [20, 20, 20, 10, 10]


def test_a_breach_halves_no_rate_again_while_percentiles_remember_it() -> None:
    long = replace(look(20, moved=40, p99=150), health_window_ms=300_000)
    first = LAW(long, held(40, 40))
    assert why(first)[OUT] == (20.0, "health")
    again = LAW(replace(long, at_ms=300_000, measured_ms=300_000), first.memory)
    assert why(again)[OUT] == (20.0, "health")
    later = LAW(replace(long, at_ms=321_000, measured_ms=321_000), again.memory)
    assert why(later)[OUT] == (10.0, "health")


def test_a_breach_halves_what_passes_where_that_is_less_than_the_rate() -> None:
    assert why(LAW(look(20, moved=12, p99=150), held(40, 40)))[OUT] == (6.0, "health")


def test_the_emptier_direction_is_spared_until_a_cut_of_the_other_one_ended_no_breach() -> None:
    both = FLOW, replace(FLOW, source=2, destination=1)
    into = 1, Side.INTO

    def seen(at_s: int) -> TrafficObservation:
        found = look(at_s, clients=50, moved=40, p99=150)
        one = replace(found.brokers[1], into=NetworkLoad(total=60 * MB_SLO, moved=20 * MB_SLO, capacity=100 * MB_SLO))
        return replace(found, flows=both, brokers={**found.brokers, 1: one})

    start = held(40, 40)
    memory = replace(start, rates={**start.rates, into: start.rates[OUT], (2, Side.OUT): start.rates[OUT]})
    first = LAW(seen(20), memory)
    assert (why(first)[OUT], why(first)[into]) == ((20.0, "health"), (40.0, "health"))
    soon = LAW(seen(30), first.memory)
    assert why(soon)[into] == (40.0, "health")
    later = LAW(seen(35), soon.memory)
    assert (why(later)[OUT], why(later)[into]) == ((10.0, "health"), (10.0, "health"))
    # A breach long after the cut is another one.
    anew = LAW(seen(200), first.memory)
    assert why(anew)[into] == (40.0, "health")


@pytest.mark.parametrize(("copied", "start"), [(None, 9.73), (20, 24.73), (60, 54.0)])
def test_copies_that_run_already_start_from_what_log_dirs_show(copied: int | None, start: float) -> None:
    seen = look(0, moved=5)
    sides = {b: replace(s, out=newer(s.out, copied), into=newer(s.into, copied)) for b, s in seen.brokers.items()}
    assert why(LAW(replace(seen, brokers=sides), Memory()))[OUT][0] == start


def newer(load: NetworkLoad, copied: int | None) -> NetworkLoad:
    return replace(load, copied=None if copied is None else copied * MB_SLO)


def test_a_breach_below_capacity_lowers_what_the_network_is_believed_to_carry() -> None:
    memory = LAW(look(20, moved=30, p99=150), held(40, 40)).memory
    assert memory.rates[OUT].learnt == 60 * MB_SLO
    later = LAW(look(25, moved=10), memory).memory
    assert 60 * MB_SLO < later.rates[OUT].learnt < 61 * MB_SLO
    assert later.rates[OUT].rate <= 0.9 * later.rates[OUT].learnt - 30 * MB_SLO + 1


def test_more_partitions_under_min_isr_halve_every_rate() -> None:
    seen = replace(look(20, moved=40), under_min_isr=3)
    first = LAW(seen, replace(held(40, 40), under_min_isr=1))
    assert why(first) == {OUT: (20.0, "health"), INTO: (20.0, "health")}
    assert first.memory.rates[OUT].learnt == 0
    again = LAW(replace(look(35, moved=20), under_min_isr=3), first.memory)
    assert {binding for _, binding in why(again).values()} == {"rise"}


def test_without_metrics_rates_stay_then_fall_to_the_floor() -> None:
    memory = held(40, 40)
    for at_s in (30, 60):
        decision = LAW(TrafficObservation(at_ms=at_s * 1000, flows=(FLOW,)), memory)
        assert decision.rates is None
        memory = decision.memory
    assert memory.failures == 2
    rates = []
    for at_s in range(125, 500, 5):
        memory = LAW(TrafficObservation(at_ms=at_s * 1000, flows=(FLOW,)), memory).memory
        rates.append(memory.rates[OUT].rate / MB_SLO)
    assert rates[:2] == [36.0, 32.4]
    assert rates[-1] == 2.2


def test_old_metrics_count_as_none() -> None:
    old = replace(look(20, moved=10), at_ms=100_000)
    assert {b for _, b in why(LAW(old, held(40, 40, at_s=60))).values()} == {"hold"}
    future = replace(look(20, moved=10), at_ms=10_000)
    assert {b for _, b in why(LAW(future, held(40, 40))).values()} == {"hold"}


def test_one_broker_without_metrics_keeps_its_rate_and_stops_no_other() -> None:
    seen = look(20, moved=40)
    gap = replace(seen, brokers={1: seen.brokers[1], 2: SeenBroker(broker=2)})
    assert why(LAW(gap, held(40, 45))) == {OUT: (40.5, "peers"), INTO: (45.0, "hold")}


def test_a_clock_that_jumped_back_changes_nothing_and_times_begin_anew() -> None:
    decision = LAW(look(50, moved=40, p99=150), held(40, 40, at_s=500))
    assert decision.rates is None
    assert "went back by 450 s" in decision.warnings[0]
    assert LAW(look(55, moved=40, p99=150), decision.memory).memory.rates[OUT].rate == 20 * MB_SLO


def test_a_dead_broker_keeps_its_rate() -> None:
    seen = look(500, moved=40)
    dead = replace(seen, brokers={**seen.brokers, 2: replace(seen.brokers[2], is_alive=False)})
    assert why(LAW(dead, held(40, 40)))[INTO] == (40.0, "hold")


def test_a_quota_that_is_reached_in_part_is_set_higher() -> None:
    memory, seen = held(54, 54), look(30, moved=43.2)
    for at_s in range(30, 200, 5):
        seen = look(at_s, moved=min(54.0, 0.8 * memory.rates[OUT].rate / MB_SLO))
        memory = LAW(seen, memory).memory
    assert memory.reached == pytest.approx(0.8, abs=0.01)
    assert 0.8 * memory.rates[OUT].rate / MB_SLO == pytest.approx(54, abs=1)


def test_hours_with_a_factor_or_a_reserve() -> None:
    night = SloSettings(slack=0.1, burst_share=0.8, rules=(parse_time_rule("0-24 50%"),))
    assert why(slo_law(night)(look(0), Memory()))[OUT] == (27.0, "capacity")
    kept = SloSettings(slack=0.1, burst_share=0.8, rules=(parse_time_rule("0-24 reserve 40%"),))
    assert why(slo_law(kept)(look(0), Memory()))[OUT] == (27.0, "capacity")


def without_traffic(p99: float | None = None) -> TrafficObservation:
    seen = {b: SeenBroker(broker=b, produce_p99_ms=p99) for b in (1, 2)}
    return TrafficObservation(at_ms=0, measured_ms=0, window_ms=11_000, brokers=seen, flows=(FLOW,))


def test_without_traffic_a_statement_or_a_latency_is_needed() -> None:
    with pytest.raises(UsageError, match="nothing bounds the rates of broker 1, 2") as refusal:
        LAW(without_traffic(), Memory())
    assert refusal.value.hint is not None
    stated = slo_law(SloSettings(slack=0.1, burst_share=0.8, capacity=100 * MB_SLO, client_rate=60 * MB_SLO))
    assert why(stated(without_traffic(), Memory()))[OUT] == (27.0, "capacity")


def test_with_latencies_alone_rates_rise_by_a_tenth_a_window_and_are_halved_by_a_breach() -> None:
    memory = LAW(without_traffic(5), Memory()).memory
    assert memory.rates[OUT].rate == int(2.2 * MB_SLO)
    for at_s in range(5, 300, 5):
        seen = replace(without_traffic(5), at_ms=at_s * 1000, measured_ms=at_s * 1000)
        memory = LAW(seen, memory).memory
    assert 10 * MB_SLO < memory.rates[OUT].rate < 20 * MB_SLO
    worse = replace(without_traffic(500), at_ms=300_000, measured_ms=300_000)
    assert LAW(worse, memory).memory.rates[OUT].rate == memory.rates[OUT].rate // 2


def test_an_unknown_capacity_is_learnt_from_totals_without_a_breach() -> None:
    def totals(at_s: int, moved: float, p99: float) -> TrafficObservation:
        seen = look(at_s, moved=moved, p99=p99)
        brokers = {
            b: replace(s, out=replace(s.out, capacity=None), into=replace(s.into, capacity=None), produce_p99_ms=p99)
            for b, s in seen.brokers.items()
        }
        return replace(seen, brokers=brokers)

    memory = LAW(totals(0, 0, 5), Memory()).memory
    for at_s in range(5, 300, 5):
        moved = memory.rates[OUT].rate / MB_SLO
        memory = LAW(totals(at_s, moved, 150 if moved > 60 else 5), memory).memory
    assert 70 * MB_SLO < memory.rates[OUT].learnt < 100 * MB_SLO
    assert 20 * MB_SLO < memory.rates[OUT].rate < 60 * MB_SLO


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


def seen(broker: int, kind: str, sent: float | None, received: float | None) -> SeenBroker:
    return SeenBroker(broker=broker, instance_type=kind, out=NetworkLoad(total=sent), into=NetworkLoad(total=received))


def test_a_look_asks_as_kafka_kit_does_and_tags_are_kept(rig: Rig) -> None:
    found = rig.measure()
    assert found == TrafficObservation(
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

        def query(self, expression: str, at: datetime) -> tuple[MetricSample, ...]:
            values = {"reassignment": (), "bytesin": (7.0, 70.0), "bytesout": (5.0, 50.0)}
            told: tuple[float, ...] = next((v for word, v in values.items() if word in expression), ())
            labels = ({"broker_id": "1", "kind": "big"}, {"broker_id": "2", "kind": "small"})
            return tuple(MetricSample(of, value, at) for of, value in zip(labels, told, strict=False))

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

        def check_keys(self) -> None: ...

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
    assert "two hosts are broker 1, the later one is used: host a.example, c" in found.problems


def test_optional_queries_tell_copies_and_latency() -> None:
    asked = HostQueriesAsked(queries=TrafficOfHosts(copies_tx="c{*}", produce_ms="p{*}.rollup(max, 60)"), window_s=60)
    texts = asked.texts()
    assert (texts["moved_out"], texts["produce_p99_ms"]) == ("c{*}.rollup(avg, 60)", "p{*}.rollup(max, 60)")
    assert "moved_into" not in texts


def test_a_tags_value_ends_at_its_second_colon() -> None:
    assert read_tags(["broker_id:7:x", "instance-type:i3:y", "plain"], ASKED) == HostTags(broker=7, instance_type="i3")


AT = datetime(2026, 1, 1, tzinfo=UTC)


class FakeService:
    source = "fake metrics"

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.asked = error, 0

    def query(self, expression: str, at: datetime) -> tuple[MetricSample, ...]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        value = 9.0 * MB if "reassignment" not in expression else 2.0 * MB
        return tuple(MetricSample({"broker_id": str(b)}, value, at - timedelta(seconds=10)) for b in (1, 2, 3))


def test_values_are_told_by_broker_and_what_makes_no_sense_is_left_out() -> None:
    answers = {
        "into": (
            MetricSample({"pod": "kafka-3", "kind": "big"}, 5.0, AT),
            MetricSample({"pod": "x"}, 1.0, AT),
            MetricSample({}, 1.0, AT),
        ),
        "out": (MetricSample({"pod": "kafka-3"}, float("nan"), AT), MetricSample({"pod": "4"}, -1.0, AT)),
        "queue_ms": (MetricSample({"pod": "kafka-3"}, 7.0, AT - timedelta(hours=1)),),
    }
    found = measured_of(answers, TrafficQueries(label="pod", type_label="kind"), 5, 60)
    assert list(found.brokers) == [3]
    assert found.brokers[3].into == NetworkLoad(total=5.0)
    assert found.brokers[3].out == NetworkLoad()
    assert (found.brokers[3].instance_type, found.window_ms) == ("big", 60_000)
    assert found.brokers[3].queue_ms == 7.0
    assert found.measured_ms == int(AT.timestamp() * 1000)


def test_queries_have_the_label_the_matchers_and_the_window() -> None:
    texts = TrafficQueries(label="pod", selector='namespace="k"', window_s=60).texts()
    assert texts["moved_into"] == (
        'sum by (pod) (rate(kafka_server_brokertopicmetrics_reassignmentbytesin_total{topic="",namespace="k"}[60s]))'
    )
    typed = TrafficQueries(type_label="kind").texts()["into"]
    assert typed.count("sum by (broker_id, kind)") == 2
    assert not any(word in text for text in texts.values() for word in ("LABEL", "SELECTOR", "WINDOW"))


@pytest.mark.parametrize(("error", "asked"), [(TryLaterError("no answer"), 1), (OperationFailedError("bad query"), 6)])
def test_a_service_that_fails_is_a_problem_in_words_and_one_that_is_away_is_not_asked_on(
    error: Exception, asked: int
) -> None:
    service = FakeService(error)
    found = measure_with(service, FakeClock(), TrafficQueries())()
    assert (service.asked, found.measured_ms, found.brokers) == (asked, -1, {})
    assert str(error) in found.problems[0]


def test_a_service_that_stops_answering_is_asked_once_more_and_no_further() -> None:
    class Hanging(FakeService):
        def query(self, expression: str, at: datetime) -> tuple[MetricSample, ...]:
            if self.asked:
                self.asked += 1
                raise TryLaterError("no answer")
            return super().query(expression, at)

    service = Hanging()
    found = measure_with(service, FakeClock(), TrafficQueries())()
    assert (service.asked, len(found.problems), sorted(found.brokers)) == (3, 2, [1, 2, 3])


def test_a_law_is_told_both_what_the_service_and_what_the_brokers_tell() -> None:
    rig, seen = PacerRig(), list[TrafficObservation]()

    def law(observed: TrafficObservation, memory: Memory) -> RateDecision:
        seen.append(observed)
        return RateDecision(rates=None, memory=memory)

    rig.cluster.add_topic("v", {0: (1, 4)})
    rig.cluster.kill(4)
    rig.begin()
    pacer, _ = rig.pacer(law=law, measure=measure_with(FakeService(), rig.clock, TrafficQueries()))
    pacer.tick()
    (observed,) = seen
    assert observed.brokers[3].into == NetworkLoad(total=9.0 * MB, moved=2.0 * MB, copied=1.0 * MB)
    assert not observed.brokers[4].is_alive
    assert observed.under_replicated == 1
    assert [(f.source, f.destination, f.partitions) for f in observed.flows] == [(1, 3, 1)]
    assert 0 < observed.flows[0].left_bytes < 20 * MB
    assert observed.at_ms - observed.measured_ms == 10_000
