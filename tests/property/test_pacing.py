"""Whatever is observed, rates of the slo law keep their bounds, and more client traffic never gives more to copies."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.autothrottle.decide.law import BrokerSide, Decision, Memory, RateMemory, Side, load_of, sides_of
from kafkakit.autothrottle.decide.measurements import BrokerSeen, Flow, Load, Observed
from kafkakit.autothrottle.decide.slo import SloSettings, slo_law

MB = 1_000_000
SETTINGS = SloSettings(p99_ms=100)
LAW = slo_law(SETTINGS)
BROKERS = range(5)

shares = st.floats(0, 1.1)
loads = st.builds(
    lambda line, clients, moved: Load(total=(clients + moved) * line, moved=moved * line, capacity=line),
    st.sampled_from([125e6, 312e6, 1250e6]),
    shares,
    st.floats(0, 0.9),
)
seen = st.builds(
    lambda into, out, p99: (into, out, p99), loads, loads, st.one_of(st.none(), st.sampled_from([5.0, 5.0, 150.0]))
)
flows = st.lists(
    st.tuples(st.sampled_from(BROKERS), st.integers(1, 4), st.sampled_from([0.0, 2e6, 200e6])), min_size=1, max_size=8
)
memories = st.one_of(
    st.just({}),
    st.dictionaries(st.tuples(st.sampled_from(BROKERS), st.sampled_from(Side)), st.integers(1, 1000 * MB), max_size=10),
)


@st.composite
def looks(draw: st.DrawFn) -> tuple[Observed, Memory]:
    """A look at 100 s and what the law remembers of rates that hold since 0 s."""
    brokers = {}
    for b in BROKERS:
        into, out, p99 = draw(seen)
        brokers[b] = BrokerSeen(broker=b, into=into, out=out, produce_p99_ms=p99)
    found = tuple(
        Flow(source=s, destination=(s + d) % 5, partitions=1, left_bytes=10**9, ingest_per_s=g)
        for s, d, g in draw(flows)
    )
    look = Observed(at_ms=100_000, measured_ms=100_000, window_ms=11_000, brokers=brokers, flows=found)
    rates = {s: RateMemory(rate=r, changed_ms=0, calm_since_ms=-1, seen_ms=95_000) for s, r in draw(memories).items()}
    return look, Memory(rates=rates, at_ms=95_000 if rates else -1)


def rates(decision: Decision) -> dict[BrokerSide, float]:
    """What copies may really take by the decision, bytes/s."""
    return {s: r.rate * decision.memory.reached for s, r in decision.memory.rates.items()}


@settings(max_examples=150, deadline=None)
@given(looks())
def test_rates_keep_their_bounds(given_look: tuple[Observed, Memory]) -> None:
    look, memory = given_look
    decision = LAW(look, memory)
    for side, rate in rates(decision).items():
        load = load_of(look, side)
        assert load.total is not None
        assert load.moved is not None
        assert load.capacity is not None
        usable = 0.9 * min(load.capacity, decision.memory.rates[side].learnt or load.capacity)
        floor = min(max(1.1 * sides_of(look.flows)[side], SETTINGS.min_rate), usable)
        assert floor - 1 <= rate <= max(floor, usable - (load.total - load.moved)) + 1
        if side in memory.rates:
            free = max(0.0, load.capacity - load.total)
            before = memory.rates[side].rate * decision.memory.reached
            assert rate <= max(floor, before + 0.8 * free / 11) + 1
    assert len(decision.reasons) == len(sides_of(look.flows))


@settings(max_examples=150, deadline=None)
@given(looks(), st.sampled_from(BROKERS), st.sampled_from(Side), st.floats(0, 0.5))
def test_more_client_traffic_never_gives_a_higher_rate(
    given_look: tuple[Observed, Memory], broker: int, side: Side, more: float
) -> None:
    look, memory = given_look
    old = look.brokers[broker]
    load = load_of(look, (broker, side))
    assert load.total is not None
    assert load.capacity is not None
    load = replace(load, total=load.total + more * load.capacity)
    busier = replace(old, into=load) if side is Side.INTO else replace(old, out=load)
    calm = replace(look, brokers={b: replace(s, produce_p99_ms=None) for b, s in look.brokers.items()})
    busy = replace(calm, brokers={**calm.brokers, broker: replace(busier, produce_p99_ms=None)})
    before, after = rates(LAW(calm, memory)), rates(LAW(busy, memory))
    for key, rate in after.items():
        assert rate <= before[key] + 1, key


@settings(max_examples=30, deadline=None)
@given(looks())
def test_rates_settle_under_constant_load_and_stay(given_look: tuple[Observed, Memory]) -> None:
    look, memory = given_look
    brokers = {b: replace(s, produce_p99_ms=None) for b, s in look.brokers.items()}
    seen_rates = []
    for tick in range(200):
        at_ms = 100_000 + tick * 11_000
        moved = {s: memory.rates[s].rate if s in memory.rates else 0 for s in sides_of(look.flows)}
        now = {b: _moving(s, look, moved) for b, s in brokers.items()}
        memory = LAW(replace(look, brokers=now, at_ms=at_ms, measured_ms=at_ms), memory).memory
        seen_rates.append({s: r.rate for s, r in memory.rates.items()})
    assert seen_rates[-50:] == [seen_rates[-1]] * 50


def _moving(seen: BrokerSeen, look: Observed, moved: dict[BrokerSide, int]) -> BrokerSeen:
    """The broker with the copies that its rates let through beside the same clients."""
    loads = []
    for side in (Side.INTO, Side.OUT):
        load = load_of(look, (seen.broker, side))
        passing = float(moved.get((seen.broker, side), 0))
        loads.append(replace(load, total=(load.total or 0) - (load.moved or 0) + passing, moved=passing))
    return replace(seen, into=loads[0], out=loads[1])
