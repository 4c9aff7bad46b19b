"""The law `slo`: as fast as objectives allow, from measured traffic, in steps that fit a quota's window.

For each broker and direction: what clients leave of the capacity less a reserve, no more than the peers at the other
end may pass, no less than what lets copies catch up. A breach halves a rate at once; a rise takes at most a share of
the capacity that is free, since brokers let `quota_s` times a rise through at line speed. The limit comes from
the traffic of clients alone, so a rate does not feed back into it: under constant load rates settle and stay.
"""

from dataclasses import dataclass, replace

from kafkakit.autothrottle.decide.flow_graph import INFINITE, load_of, peers_of, sides_of, within_peers
from kafkakit.autothrottle.decide.law import BrokerSide, Decision, Law, Memory, RateMemory, Reason, Side, rates_of
from kafkakit.autothrottle.decide.observed import Load, Observed
from kafkakit.autothrottle.decide.slo_settings import SloSettings
from kafkakit.autothrottle.decide.time_rules import rule_at
from kafkakit.core.quantities import format_rate

_LEAST_REACHED = 0.7
_CATCH_UP = 1.1  # of what producers write: a copy that only keeps pace never ends
_REGAIN_PER_S = 0.0005
_LEARN_AFTER_MS = 600_000
_FUTURE_MS = 2_000


@dataclass(slots=True, kw_only=True)
class _SideState:
    """One side at one look: `limit` is what copies may take by traffic, infinite where nothing measured bounds it."""

    side: BrokerSide
    load: Load
    old: RateMemory | None
    floor: float
    breach: str
    is_fresh: bool
    capacity: float = INFINITE
    learnt: float = 0.0
    moved: float = 0.0
    limit: float = INFINITE
    free: float = 0.0
    is_probing: bool = False
    is_news: bool = False
    text: str = "objectives are met"


def slo_law(settings: SloSettings) -> Law:
    """The law with these options; it raises `UsageError` where no measurement and no statement bounds a rate."""

    def law(observed: Observed, memory: Memory) -> Decision:
        if observed.at_ms < memory.at_ms:
            return _after_jump(observed, memory)
        return _Look(settings, observed, memory).decide()

    return law


def _after_jump(observed: Observed, memory: Memory) -> Decision:
    """Leave all as it is, and count times from now on."""
    now = observed.at_ms
    rates = {
        s: replace(r, changed_ms=now, calm_since_ms=min(r.calm_since_ms, now), seen_ms=now if r.seen_ms >= 0 else -1)
        for s, r in memory.rates.items()
    }
    words = f"the clock went back by {(memory.at_ms - now) / 1000:.0f} s: rates stay"
    return Decision(rates=None, memory=replace(memory, rates=rates, at_ms=now), warnings=(words,))


class _Look:
    """One decision; O(brokers + flows)."""

    def __init__(self, settings: SloSettings, observed: Observed, memory: Memory) -> None:
        self._settings = settings
        self._observed = observed
        self._memory = memory
        age = observed.at_ms - observed.measured_ms
        self._fresh = observed.measured_ms >= 0 and -_FUTURE_MS <= age <= settings.stale_ms
        rule = rule_at(settings.rules, observed.at_ms, settings.utc_offset_s)
        self._factor = rule.factor if rule else 1.0
        self._reserve = settings.reserve if rule is None or rule.reserve is None else rule.reserve
        counts = observed.under_min_isr, memory.under_min_isr
        self._isr_shrank = counts[0] is not None and counts[1] is not None and counts[0] > counts[1]
        self._reached = self._share_reached() if self._fresh else memory.reached

    def decide(self) -> Decision:
        """Rates, reasons and what to remember."""
        observed, memory = self._observed, self._memory
        states = {s: self._state(s, ingest) for s, ingest in sides_of(observed.flows).items()}
        peers = peers_of(observed.flows)
        # A peer's floor may be above its limit, and a side that nothing is known of keeps what it has.
        passing = {
            s: max(t.floor, t.limit if t.is_fresh or t.old is None else t.old.rate * self._reached)
            for s, t in states.items()
        }
        allowed = within_peers(passing, peers)
        rates: dict[BrokerSide, RateMemory] = {}
        reasons = []
        for side, state in states.items():
            rate, binding, text = self._rate(state, allowed[side])
            rates[side] = self._remember(state, rate, binding)
            reasons.append(Reason(broker=side[0], side=side[1], rate=rate, binding=binding, text=text))
        for side, old in memory.rates.items():
            seen = observed.brokers.get(side[0])
            if side not in states and seen is not None and not seen.is_alive:
                rates[side] = old
        blind = bool(states) and not any(t.is_fresh for t in states.values())
        if blind and self._fresh and memory.at_ms < 0:
            raise self._settings.refusal(observed.brokers.get(side[0]) for side in states)
        new = Memory(
            rates=rates,
            failures=memory.failures + 1 if blind else 0,
            at_ms=observed.at_ms,
            reached=self._reached,
            under_min_isr=memory.under_min_isr if observed.under_min_isr is None else observed.under_min_isr,
        )
        low = sorted({t.side[0] for t in states.values() if t.is_fresh and t.limit < t.floor})
        warnings = [f"no usable metrics, {new.failures} look(s) in a row"] if blind else []
        if low:
            ids = ", ".join(map(str, low[:8])) + (", ..." if len(low) > 8 else "")
            warnings.append(f"clients leave less than copies need to catch up on broker {ids}; pause moves there")
        default = self._settings.min_rate
        return Decision(
            rates=rates_of(rates, memory, default=default), memory=new, reasons=tuple(reasons), warnings=tuple(warnings)
        )

    def _share_reached(self) -> float:
        """What share of a setting copies reach: the best of the sides that kept their rate for a whole window."""
        observed = self._observed
        settled = observed.measured_ms - observed.window_ms - self._settings.quota_s * 1000
        shares = [
            moved / old.rate
            for side, old in self._memory.rates.items()
            if old.changed_ms <= settled and (moved := load_of(observed, side).moved) is not None
        ]
        now = self._memory.reached
        if not shares:
            return now
        best = min(1.0, max(shares))
        if best < _LEAST_REACHED:
            return now  # no throttle binds anywhere
        return best if best > now else now + 0.5 * (best - now)

    def _state(self, side: BrokerSide, ingest: float) -> _SideState:
        settings, seen = self._settings, self._observed.brokers.get(side[0])
        load, old = load_of(self._observed, side), self._memory.rates.get(side)
        floor = max(settings.min_rate, _CATCH_UP * ingest)
        fresh = self._fresh and seen is not None and seen.is_alive and settings.is_enough(seen, load)
        state = _SideState(side=side, load=load, old=old, floor=floor, breach="", is_fresh=fresh)
        if old is not None:
            state.learnt = old.learnt
        if not fresh or seen is None:
            return state
        state.breach = settings.breach(seen)
        # Of a breach that stays, only what was measured wholly after the last back-off tells that it was too small.
        before = self._observed.measured_ms - max(self._observed.window_ms, self._observed.health_window_ms)
        is_after = old is None or old.calm_since_ms < 0 or before >= old.calm_since_ms
        state.is_news = bool(state.breach) and is_after and not self._is_emptier(side)
        self._learn(state, settings.stated_capacity(load))
        self._limit(state)
        if self._isr_shrank and not state.breach:
            state.breach, state.is_news = "more partitions under min ISR", True
        return state

    def _is_emptier(self, side: BrokerSide) -> bool:
        """True when the broker's other direction is clearly the fuller one: a latency tells of both."""
        fullness = []
        for one in (side, (side[0], Side.OUT if side[1] is Side.INTO else Side.INTO)):
            load, old = load_of(self._observed, one), self._memory.rates.get(one)
            carried = (old.learnt if old else 0.0) or self._settings.stated_capacity(load) or INFINITE
            fullness.append((load.total or 0.0) / carried)
        return fullness[0] < 0.9 * fullness[1]

    def _learn(self, state: _SideState, stated: float | None) -> None:
        """What the network carries: as stated, less where a breach showed less, and from totals where nothing is."""
        total, old = state.load.total, state.old
        most = INFINITE if stated is None else stated
        learnt, calm_ms = state.learnt, INFINITE
        if old is not None and old.calm_since_ms >= 0:
            calm_ms = self._observed.at_ms - old.calm_since_ms
        if learnt:
            learnt *= 1 + _REGAIN_PER_S * max(0, self._observed.at_ms - max(self._memory.at_ms, 0)) / 1000
        if total is not None:
            if stated is None and not state.breach and calm_ms > _LEARN_AFTER_MS:
                learnt = max(learnt, total * (1 + 2 * (self._reserve + self._settings.probe)))
            # Where the total is near what the network carries anyway, or far below, a breach teaches nothing.
            believed = min(most, learnt or INFINITE)
            near = (1 - self._reserve if believed == most else 1.0) * believed
            unexplained = total < near and (believed == INFINITE or total > believed / 3)
            if state.is_news and unexplained:
                learnt = total
        state.learnt = 0.0 if learnt >= most else learnt
        state.capacity = min(most, state.learnt or INFINITE)

    def _limit(self, state: _SideState) -> None:
        """What copies may take: capacity less reserve less clients, times the factor of the hour."""
        load, settings = state.load, self._settings
        held = state.old.rate * self._reached if state.old else 0.0
        usable = state.capacity * (1 - self._reserve)
        state.floor = min(state.floor, usable)
        if load.total is None:
            state.moved = held if load.moved is None else load.moved
            clients, what = settings.client_rate or 0.0, "kept for clients"
        else:
            state.moved = min(load.total, held if load.moved is None else load.moved)
            clients, what = load.total - state.moved, "of clients"
        state.limit = (usable - clients) * self._factor
        state.is_probing = usable == INFINITE or (load.total is None and settings.client_rate is None)
        state.free = 0.0 if state.is_probing else max(0.0, state.capacity - clients - state.moved)
        if not state.is_probing:
            state.text = f"{format_rate(int(state.capacity))} less {self._reserve:.0%} reserve and "
            state.text += f"{format_rate(int(clients))} {what}"
        if self._factor != 1:
            state.text += f", times {self._factor:g} by the hour"

    def _rate(self, state: _SideState, allowed: float) -> tuple[int, str, str]:
        """The rate, what binds it, and that in words; all but the rate itself counts in bytes that really pass."""
        settings, old = self._settings, state.old
        if not state.is_fresh:
            return self._blind(state)
        top = max(state.floor, min(allowed, state.limit))
        binding, text = (
            ("capacity", state.text) if allowed >= state.limit else ("peers", "what the other ends may pass")
        )
        if state.limit <= state.floor:
            binding, text = "floor", f"what copies need; clients leave {format_rate(max(0, int(state.limit)))}"
        if old is None:
            start = top * (1 - settings.slack)
            if state.is_probing:
                start = min(start, state.moved + self._step(state))
            elif (runs := max(state.moved, state.load.copied or 0.0)) > 0:  # maybe under a throttle that is not known
                start = min(start, runs + self._step(state))
            return self._setting(max(state.floor, start)), binding, text
        now = old.rate * self._reached
        if state.breach:
            lower = now * settings.back_off if state.is_news else now
            return self._setting(max(state.floor, min(top, lower))), "health", state.breach
        if now > top:
            return self._setting(top), binding, text
        aim = max(state.floor, top * (1 - settings.slack))
        if now >= aim:
            return old.rate, "hold", text
        rise = min(aim, now + self._step(state))
        return self._setting(max(rise, state.floor)), binding if rise == aim else "rise", text

    def _setting(self, rate: float) -> int:
        return max(1, int(rate / self._reached))

    def _step(self, state: _SideState) -> float:
        """The most that a rate may rise by: `quota_s` times that passes at line speed."""
        settings, old = self._settings, state.old
        if not state.is_probing:
            return settings.burst_share * state.free / settings.quota_s
        # The burst must be seen in latencies before the next.
        waits = old is not None and self._observed.at_ms - old.changed_ms < 1000 * settings.quota_s
        return 0.0 if waits else settings.probe * max(state.moved, settings.min_rate)

    def _blind(self, state: _SideState) -> tuple[int, str, str]:
        """Without metrics: what was set, for a while, then less and less."""
        old, settings = state.old, self._settings
        floor = max(1, int(state.floor / self._reached))
        if old is None:
            return floor, "floor", "no metrics, or no capacity"
        seen = self._observed.brokers.get(state.side[0])
        if seen is not None and not seen.is_alive:
            return old.rate, "hold", "the broker is not alive"
        if old.seen_ms >= 0 and self._observed.at_ms - old.seen_ms <= settings.hold_ms:
            return old.rate, "hold", "no metrics: the rate stays for a while"
        return max(min(floor, old.rate), int(old.rate * settings.decay), 1), "decay", "no metrics for long"

    def _remember(self, state: _SideState, rate: int, binding: str) -> RateMemory:
        old, now = state.old, self._observed.at_ms
        return RateMemory(
            rate=rate,
            changed_ms=old.changed_ms if old and old.rate == rate else now,
            calm_since_ms=now if state.is_news else old.calm_since_ms if old else -1,
            seen_ms=now if state.is_fresh else old.seen_ms if old else -1,
            learnt=state.learnt,
        )
