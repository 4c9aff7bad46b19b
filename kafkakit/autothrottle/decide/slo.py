"""The law `slo`: as fast as objectives allow, from measured traffic, in steps that fit a quota's window.

For each broker and direction: what clients leave of the capacity less a reserve, no more than the peers at the other
end may pass, no less than what lets copies catch up. A breach halves a rate at once; a rise takes at most a share of
the capacity that is free, since brokers let `quota_s` times a rise through at line speed. The limit comes from
the traffic of clients alone, so a rate does not feed back into it: under constant load rates settle and stay.
"""

from dataclasses import replace

from kafkakit.autothrottle.decide.flow_graph import peers_of, sides_of, within_peers
from kafkakit.autothrottle.decide.law import BrokerSide, Decision, Law, Memory, RateMemory, Reason, rates_of
from kafkakit.autothrottle.decide.observed import Observed
from kafkakit.autothrottle.decide.slo_settings import SloSettings
from kafkakit.autothrottle.decide.slo_sides import SideReader, SideState
from kafkakit.core.quantities import format_rate


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
        self._settings, self._observed, self._memory = settings, observed, memory
        self._sides = SideReader(settings, observed, memory)
        self._fresh, self._reached = self._sides.fresh, self._sides.reached

    def decide(self) -> Decision:
        """Rates, reasons and what to remember."""
        observed, memory = self._observed, self._memory
        states = {s: self._sides.state(s, ingest) for s, ingest in sides_of(observed.flows).items()}
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
            measured_ms=observed.measured_ms if self._fresh else memory.measured_ms,
            under_min_isr=memory.under_min_isr if observed.under_min_isr is None else observed.under_min_isr,
            short_since_ms=self._sides.units.short_since_ms,
        )
        low = sorted({t.side[0] for t in states.values() if t.is_fresh and t.limit < t.floor})
        warnings = [f"no usable metrics, {new.failures} look(s) in a row"] if blind else []
        warnings += self._sides.units.warnings
        if low:
            ids = ", ".join(map(str, low[:8])) + (", ..." if len(low) > 8 else "")
            warnings.append(f"clients leave less than copies need to catch up on broker {ids}; pause moves there")
        default = self._settings.min_rate
        return Decision(
            rates=rates_of(rates, memory, default=default), memory=new, reasons=tuple(reasons), warnings=tuple(warnings)
        )

    def _rate(self, state: SideState, allowed: float) -> tuple[int, str, str]:
        """The rate, what binds it, and that in words; all but the rate itself counts in bytes that really pass."""
        settings, old = self._settings, state.old
        if not state.is_fresh:
            return self._blind(state)
        if state.fault:
            return self._setting(state.floor), "floor", state.fault
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
            # What is set above what passes limits nothing: halving it alone might change nothing.
            lower = min(now, state.moved) * settings.back_off if state.is_news else now
            return self._setting(max(state.floor, min(top, lower))), "health", state.breach
        if now > top:
            # A cut below what passes stops copies until their window has drained, and lets a burst through after it.
            lower = max(top, min(state.moved, state.limit))
            return self._setting(min(lower, now)), binding, text
        aim = max(state.floor, top * (1 - settings.slack))
        if now >= aim:
            return old.rate, "hold", text
        if state.is_doubted:
            return old.rate, "hold", "less traffic is measured than copies take"
        rise = min(aim, now + self._step(state))
        return self._setting(max(rise, state.floor)), binding if rise == aim else "rise", text

    def _setting(self, rate: float) -> int:
        return max(1, int(rate / self._reached))

    def _step(self, state: SideState) -> float:
        """The most that a rate may rise by: `quota_s` times that passes at line speed."""
        settings, old = self._settings, state.old
        if state.is_doubted:
            return 0.0
        if not state.is_probing:
            return settings.burst_share * state.free / settings.quota_s
        # The burst must be seen in latencies before the next.
        waits = old is not None and self._observed.at_ms - old.changed_ms < 1000 * settings.quota_s
        return 0.0 if waits else settings.probe * max(state.moved, settings.min_rate)

    def _blind(self, state: SideState) -> tuple[int, str, str]:
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

    def _remember(self, state: SideState, rate: int, binding: str) -> RateMemory:
        old, now = state.old, self._observed.at_ms
        return RateMemory(
            rate=rate,
            changed_ms=old.changed_ms if old and old.rate == rate else now,
            calm_since_ms=now if state.is_news else old.calm_since_ms if old else -1,
            clients=state.clients if state.is_fresh else old.clients if old else -1,
            seen_ms=now if state.is_fresh else old.seen_ms if old else -1,
            learnt=state.learnt,
        )
