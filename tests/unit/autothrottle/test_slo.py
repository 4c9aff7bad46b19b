"""The slo law, look by look: what binds a rate, and what it does without metrics or with a clock that jumps."""

from dataclasses import replace

import pytest

from kafkakit.autothrottle.decide.law import Decision, Memory, RateMemory, Side
from kafkakit.autothrottle.decide.measurements import BrokerSeen, Flow, Load, Observed
from kafkakit.autothrottle.decide.slo import SloSettings, parse_time_rule, slo_law
from kafkakit.core.errors import UsageError

MB = 1_000_000
OUT, INTO = (1, Side.OUT), (2, Side.INTO)
SETTINGS = SloSettings(p99_ms=100, slack=0.1, burst_share=0.8)
FLOW = Flow(source=1, destination=2, partitions=1, left_bytes=10**10, ingest_per_s=2 * MB)


def look(
    at_s: float, *, clients: float = 30, into: float = 30, moved: float = 0, p99: float | None = 5, flow: Flow = FLOW
) -> Observed:
    """Brokers 1 and 2 on lines of 100 MB/s; figures in MB/s."""
    loads = [Load(total=(c + moved) * MB, moved=moved * MB, capacity=100 * MB) for c in (clients, into)]
    seen = {
        1: BrokerSeen(broker=1, out=loads[0], produce_p99_ms=p99),
        2: BrokerSeen(broker=2, into=loads[1], produce_p99_ms=5),
    }
    at_ms = int(at_s * 1000)
    return Observed(at_ms=at_ms, measured_ms=at_ms, window_ms=11_000, brokers=seen, flows=(flow,))


def held(out: float, into: float, *, at_s: float = 0, seen: bool = True) -> Memory:
    now = int(at_s * 1000)
    rates = {
        s: RateMemory(rate=int(r * MB), changed_ms=now, calm_since_ms=-1, seen_ms=now if seen else -1)
        for s, r in ((OUT, out), (INTO, into))
    }
    return Memory(rates=rates, at_ms=now)


def why(decision: Decision) -> dict[tuple[int, Side], tuple[float, str]]:
    return {(r.broker, r.side): (round(r.rate / MB, 2), r.binding) for r in decision.reasons}


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
def test_what_binds(memory: Memory, seen: Observed, out: tuple[float, str], into: tuple[float, str]) -> None:
    decision = LAW(seen, memory)
    assert why(decision) == {OUT: out, INTO: into}


def test_the_end_that_its_peer_limits_falls_with_what_passes() -> None:
    memory = LAW(look(20, clients=60, moved=54), held(54, 54)).memory
    assert LAW(look(21, clients=60, moved=40), memory).memory.rates[INTO].rate == 40 * MB
    assert LAW(look(22, clients=60, moved=20), memory).memory.rates[INTO].rate == 30 * MB


def test_a_step_of_clients_counts_in_full_before_the_average_has_all_of_it() -> None:
    memory = LAW(look(20, clients=30, moved=54), held(54, 54)).memory
    seen = LAW(look(24, clients=38, moved=54), memory).memory  # 4 of the 11 seconds: 22 more than before
    assert seen.rates[OUT].rate == pytest.approx((90 - 52) * MB, rel=0.01)
    later = LAW(look(24, clients=32, moved=54), memory).memory  # within the noise
    assert later.rates[OUT].rate == 54 * MB


def test_copies_below_what_producers_write_are_a_warning() -> None:
    assert "catch up on broker 1" in LAW(look(20, clients=95), held(54, 54)).warnings[0]


def test_a_breach_that_stays_halves_once_a_window() -> None:
    memory, rates = held(40, 40), []
    for at_s in (20, 25, 30, 35, 40):
        memory = LAW(look(at_s, moved=40, p99=150), memory).memory
        rates.append(memory.rates[OUT].rate / MB)
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

    def seen(at_s: int) -> Observed:
        found = look(at_s, clients=50, moved=40, p99=150)
        one = replace(found.brokers[1], into=Load(total=60 * MB, moved=20 * MB, capacity=100 * MB))
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


def newer(load: Load, copied: int | None) -> Load:
    return replace(load, copied=None if copied is None else copied * MB)


def test_a_breach_below_capacity_lowers_what_the_network_is_believed_to_carry() -> None:
    memory = LAW(look(20, moved=30, p99=150), held(40, 40)).memory
    assert memory.rates[OUT].learnt == 60 * MB
    later = LAW(look(25, moved=10), memory).memory
    assert 60 * MB < later.rates[OUT].learnt < 61 * MB
    assert later.rates[OUT].rate <= 0.9 * later.rates[OUT].learnt - 30 * MB + 1


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
        decision = LAW(Observed(at_ms=at_s * 1000, flows=(FLOW,)), memory)
        assert decision.rates is None
        memory = decision.memory
    assert memory.failures == 2
    rates = []
    for at_s in range(125, 500, 5):
        memory = LAW(Observed(at_ms=at_s * 1000, flows=(FLOW,)), memory).memory
        rates.append(memory.rates[OUT].rate / MB)
    assert rates[:2] == [36.0, 32.4]
    assert rates[-1] == 2.2


def test_old_metrics_count_as_none() -> None:
    old = replace(look(20, moved=10), at_ms=100_000)
    assert {b for _, b in why(LAW(old, held(40, 40, at_s=60))).values()} == {"hold"}
    future = replace(look(20, moved=10), at_ms=10_000)
    assert {b for _, b in why(LAW(future, held(40, 40))).values()} == {"hold"}


def test_one_broker_without_metrics_keeps_its_rate_and_stops_no_other() -> None:
    seen = look(20, moved=40)
    gap = replace(seen, brokers={1: seen.brokers[1], 2: BrokerSeen(broker=2)})
    assert why(LAW(gap, held(40, 45))) == {OUT: (40.5, "peers"), INTO: (45.0, "hold")}


def test_a_clock_that_jumped_back_changes_nothing_and_times_begin_anew() -> None:
    decision = LAW(look(50, moved=40, p99=150), held(40, 40, at_s=500))
    assert decision.rates is None
    assert "went back by 450 s" in decision.warnings[0]
    assert LAW(look(55, moved=40, p99=150), decision.memory).memory.rates[OUT].rate == 20 * MB


def test_a_dead_broker_keeps_its_rate() -> None:
    seen = look(500, moved=40)
    dead = replace(seen, brokers={**seen.brokers, 2: replace(seen.brokers[2], is_alive=False)})
    assert why(LAW(dead, held(40, 40)))[INTO] == (40.0, "hold")


def test_a_quota_that_is_reached_in_part_is_set_higher() -> None:
    memory, seen = held(54, 54), look(30, moved=43.2)
    for at_s in range(30, 200, 5):
        seen = look(at_s, moved=min(54.0, 0.8 * memory.rates[OUT].rate / MB))
        memory = LAW(seen, memory).memory
    assert memory.reached == pytest.approx(0.8, abs=0.01)
    assert 0.8 * memory.rates[OUT].rate / MB == pytest.approx(54, abs=1)


def test_hours_with_a_factor_or_a_reserve() -> None:
    night = SloSettings(slack=0.1, burst_share=0.8, rules=(parse_time_rule("0-24 50%"),))
    assert why(slo_law(night)(look(0), Memory()))[OUT] == (27.0, "capacity")
    kept = SloSettings(slack=0.1, burst_share=0.8, rules=(parse_time_rule("0-24 reserve 40%"),))
    assert why(slo_law(kept)(look(0), Memory()))[OUT] == (27.0, "capacity")


def without_traffic(p99: float | None = None) -> Observed:
    seen = {b: BrokerSeen(broker=b, produce_p99_ms=p99) for b in (1, 2)}
    return Observed(at_ms=0, measured_ms=0, window_ms=11_000, brokers=seen, flows=(FLOW,))


def test_without_traffic_a_statement_or_a_latency_is_needed() -> None:
    with pytest.raises(UsageError, match="nothing bounds the rates of broker 1, 2") as refusal:
        LAW(without_traffic(), Memory())
    assert refusal.value.hint is not None
    stated = slo_law(SloSettings(slack=0.1, burst_share=0.8, capacity=100 * MB, client_rate=60 * MB))
    assert why(stated(without_traffic(), Memory()))[OUT] == (27.0, "capacity")


def test_with_latencies_alone_rates_rise_by_a_tenth_a_window_and_are_halved_by_a_breach() -> None:
    memory = LAW(without_traffic(5), Memory()).memory
    assert memory.rates[OUT].rate == int(2.2 * MB)
    for at_s in range(5, 300, 5):
        seen = replace(without_traffic(5), at_ms=at_s * 1000, measured_ms=at_s * 1000)
        memory = LAW(seen, memory).memory
    assert 10 * MB < memory.rates[OUT].rate < 20 * MB
    worse = replace(without_traffic(500), at_ms=300_000, measured_ms=300_000)
    assert LAW(worse, memory).memory.rates[OUT].rate == memory.rates[OUT].rate // 2


def test_an_unknown_capacity_is_learnt_from_totals_without_a_breach() -> None:
    def totals(at_s: int, moved: float, p99: float) -> Observed:
        seen = look(at_s, moved=moved, p99=p99)
        brokers = {
            b: replace(s, out=replace(s.out, capacity=None), into=replace(s.into, capacity=None), produce_p99_ms=p99)
            for b, s in seen.brokers.items()
        }
        return replace(seen, brokers=brokers)

    memory = LAW(totals(0, 0, 5), Memory()).memory
    for at_s in range(5, 300, 5):
        moved = memory.rates[OUT].rate / MB
        memory = LAW(totals(at_s, moved, 150 if moved > 60 else 5), memory).memory
    assert 70 * MB < memory.rates[OUT].learnt < 100 * MB
    assert 20 * MB < memory.rates[OUT].rate < 60 * MB
