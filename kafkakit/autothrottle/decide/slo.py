"""The law `slo`: as fast as objectives allow, from measured traffic, in steps that fit a quota's window.

For each broker and direction: what clients leave of the capacity less a reserve, no more than the peers at the other
end may pass, no less than what lets copies catch up. A breach halves a rate at once; a rise takes at most a share of
the capacity that is free, since brokers let `quota_s` times a rise through at line speed. The limit comes from the
traffic of clients only, so a rate does not feed back into it: under constant load rates settle and stay.

Sides of brokers say what copies take, what they may take, and what is breached. Settings name what the law cannot do
without. In some hours of the week copies may take more or less: a table of rules, of which the first that fits
counts.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from kafkakit.autothrottle.decide.law import (
    INFINITE,
    BrokerSide,
    Law,
    Memory,
    RateDecision,
    RateMemory,
    RateReason,
    Side,
    load_of,
    peers_of,
    rates_of,
    sides_of,
    unit_faults,
    within_peers,
)
from kafkakit.autothrottle.decide.measurements import NetworkLoad, SeenBroker, TrafficObservation
from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import format_rate, parse_percent


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRule:
    """From `first_hour` up to `end_hour` of the `days` (0 is Monday; past midnight where the end is the lower one).

    `factor` multiplies what copies may take; `reserve` replaces the share of a capacity that stays free.
    """

    days: frozenset[int]
    first_hour: int
    end_hour: int
    factor: float = 1.0
    reserve: float | None = None

    def holds(self, day: int, hour: int) -> bool:
        """True when the rule speaks of this hour; hours after midnight belong to the day before."""
        if self.first_hour < self.end_hour:
            return day in self.days and self.first_hour <= hour < self.end_hour
        return (day in self.days and hour >= self.first_hour) or ((day - 1) % 7 in self.days and hour < self.end_hour)


@dataclass(frozen=True, slots=True, kw_only=True)
class SloSettings:
    """Options of the law; rates in bytes/s, times in milliseconds where they say so.

    `reserve` is the share of a capacity that stays free beside clients and copies, and `client_rate` what clients
    may take, for sources without traffic. Objectives: `p99_ms` of produce requests, `queue_ms` in the request queue.

    `quota_s` is the brokers' averaging window (`replication.quota.window.num` samples of a second); metrics best
    average over as long. After a raise, `quota_s` times its amount passes at once, so a raise takes at most
    `burst_share` of what is free. It ends `slack` below the limit, and only what is above the limit is cut, so that
    noise asks for no writes. A breach multiplies a rate by `back_off`; where nothing but latency bounds a rate, it
    rises by `probe`. Where clients rise by more than `jump` of the capacity between two looks, that is taken for a
    step. Without metrics for `hold_ms` rates fall by `decay` a look, down to the floor.
    """

    reserve: float = 0.1
    capacity: float | None = None
    client_rate: float | None = None
    p99_ms: float | None = None
    queue_ms: float | None = None
    min_rate: int = 1_000_000
    quota_s: int = 11
    burst_share: float = 0.4
    slack: float = 0.08
    back_off: float = 0.5
    probe: float = 0.1
    jump: float = 0.03
    stale_ms: int = 45_000
    hold_ms: int = 120_000
    decay: float = 0.9
    rules: tuple[TimeRule, ...] = ()
    utc_offset_s: int = 0

    def stated_capacity(self, load: NetworkLoad) -> float | None:
        """What the network can do: as the side's load says, or stated for all."""
        return load.capacity or self.capacity

    def breach(self, seen: SeenBroker) -> str:
        """What of the broker's health is worse than its objective, empty for nothing."""
        for what, value, most in (
            ("produce p99", seen.produce_p99_ms, self.p99_ms),
            ("request queue", seen.queue_ms, self.queue_ms),
        ):
            if value is not None and most is not None and value > most:
                return f"{what} {value:.0f} ms, objective {most:.0f} ms"
        return ""

    def has_health(self, seen: SeenBroker) -> bool:
        """True when an objective and its measurement are both there."""
        p99 = self.p99_ms is not None and seen.produce_p99_ms is not None
        return p99 or (self.queue_ms is not None and seen.queue_ms is not None)

    def is_enough(self, seen: SeenBroker, load: NetworkLoad) -> bool:
        """True when traffic, a statement or an objective bounds the rate of this side."""
        stated = self.stated_capacity(load) is not None
        return self.has_health(seen) or (stated and (load.total is not None or self.client_rate is not None))

    def refusal(self, brokers: Iterable[SeenBroker | None]) -> UsageError:
        """The error where nothing bounds the rate of any broker from the first look on."""
        known = sorted({seen.broker for seen in brokers if seen is not None})
        ids = ", ".join(map(str, known[:8])) + (", ..." if len(known) > 8 else "")
        return UsageError(f"nothing bounds the rates of broker {ids or '?'} for the slo law", hint=_SETTINGS_HINT)


def slo_law(settings: SloSettings) -> Law:
    """The law with these options; it raises `UsageError` where no measurement and no statement bounds a rate."""

    def law(observed: TrafficObservation, memory: Memory) -> RateDecision:
        if observed.at_ms < memory.at_ms:
            return _after_jump(observed, memory)
        return _SloDecision(settings, observed, memory).decide()

    return law


def _after_jump(observed: TrafficObservation, memory: Memory) -> RateDecision:
    """Leave all as it is, and count times from now on."""
    now = observed.at_ms
    rates = {
        s: replace(r, changed_ms=now, calm_since_ms=min(r.calm_since_ms, now), seen_ms=now if r.seen_ms >= 0 else -1)
        for s, r in memory.rates.items()
    }
    words = f"the clock went back by {(memory.at_ms - now) / 1000:.0f} s: rates stay"
    return RateDecision(rates=None, memory=replace(memory, rates=rates, at_ms=now), warnings=(words,))


@dataclass(slots=True, kw_only=True)
class SideState:
    """One side at one look: `limit` is what copies may take by traffic, infinite where nothing measured bounds it."""

    side: BrokerSide
    load: NetworkLoad
    old: RateMemory | None
    floor: float
    breach: str
    is_fresh: bool
    capacity: float = INFINITE
    learnt: float = 0.0
    moved: float = 0.0
    clients: float = -1.0
    base: float = -1.0
    base_ms: int = -1
    limit: float = INFINITE
    free: float = 0.0
    is_probing: bool = False
    is_news: bool = False
    is_doubted: bool = False
    fault: str = ""
    text: str = "objectives are met"


class _SloDecision:
    """One decision; O(brokers + flows)."""

    def __init__(self, settings: SloSettings, observed: TrafficObservation, memory: Memory) -> None:
        self._settings, self._observed, self._memory = settings, observed, memory
        self._sides = SideReader(settings, observed, memory)
        self._fresh, self._reached = self._sides.fresh, self._sides.reached

    def decide(self) -> RateDecision:
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
            reasons.append(RateReason(broker=side[0], side=side[1], rate=rate, binding=binding, text=text))
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
        return RateDecision(
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
            base=state.base,
            base_ms=state.base_ms,
        )


_LEAST_REACHED = 0.7
_CATCH_UP = 1.1  # of what producers write: a copy that only keeps pace never ends
_REGAIN_PER_S = 0.0005
_LEARN_AFTER_MS = 600_000
_FUTURE_MS = 2_000


class SideReader:
    """Reads one look; `fresh` says whether its metrics count, `reached` what share of a setting copies reach."""

    def __init__(self, settings: SloSettings, observed: TrafficObservation, memory: Memory) -> None:
        self._settings = settings
        self._observed = observed
        self._memory = memory
        self._window_ms = max(observed.window_ms, observed.health_window_ms)
        self._before_ms = observed.measured_ms - self._window_ms
        age = observed.at_ms - observed.measured_ms
        self.fresh = observed.measured_ms >= 0 and -_FUTURE_MS <= age <= settings.stale_ms
        rule = rule_at(settings.rules, observed.at_ms, settings.utc_offset_s)
        self._factor = rule.factor if rule else 1.0
        self._reserve = settings.reserve if rule is None or rule.reserve is None else rule.reserve
        counts = observed.under_min_isr, memory.under_min_isr
        self._isr_shrank = counts[0] is not None and counts[1] is not None and counts[0] > counts[1]
        self.reached = self._share_reached() if self.fresh else memory.reached
        self.units = unit_faults(observed, memory, settings.stated_capacity)

    def state(self, side: BrokerSide, ingest: float) -> SideState:
        """One side, past which producers write `ingest` bytes/s to the partitions that move."""
        settings, seen = self._settings, self._observed.brokers.get(side[0])
        load, old = load_of(self._observed, side), self._memory.rates.get(side)
        floor = max(settings.min_rate, _CATCH_UP * ingest)
        fresh = self.fresh and seen is not None and seen.is_alive and settings.is_enough(seen, load)
        state = SideState(side=side, load=load, old=old, floor=floor, breach="", is_fresh=fresh)
        if old is not None:
            state.learnt = old.learnt
        if not fresh or seen is None:
            return state
        state.fault, state.is_doubted = self.units.reasons.get(side, ""), side in self.units.doubted
        if state.fault:  # nothing is learnt from it, and it leaves no more than the minimum
            usable = (settings.stated_capacity(load) or state.learnt or INFINITE) * (1 - self._reserve)
            state.floor = state.limit = min(state.floor, usable)
            return state
        state.breach = settings.breach(seen)
        # Of a breach that stays, only what was measured wholly after the last back-off tells that it was too small.
        is_after = old is None or old.calm_since_ms < 0 or self._before_ms >= old.calm_since_ms
        state.is_news = bool(state.breach) and is_after and not self._is_emptier(side)
        self._learn(state, settings.stated_capacity(load))
        self._limit(state)
        if self._isr_shrank and not state.breach:
            state.breach, state.is_news = "more partitions under min ISR", True
        return state

    def _is_emptier(self, side: BrokerSide) -> bool:
        """True when the broker's other direction is clearly the fuller one: a latency tells of both.

        What each is believed to carry may be wrong: where a cut of the other one ended no breach, both count.
        """
        other = side[0], Side.OUT if side[1] is Side.INTO else Side.INTO
        cut = self._memory.rates.get(other)
        if cut is not None and max(0, self._before_ms - 2 * self._window_ms) <= cut.calm_since_ms <= self._before_ms:
            return False
        fullness = []
        for one in (side, other):
            load, old = load_of(self._observed, one), self._memory.rates.get(one)
            carried = (old.learnt if old else 0.0) or self._settings.stated_capacity(load) or INFINITE
            fullness.append((load.total or 0.0) / carried)
        return fullness[0] < 0.9 * fullness[1]

    def _learn(self, state: SideState, stated: float | None) -> None:
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

    def _limit(self, state: SideState) -> None:
        """What copies may take: capacity less reserve less clients, times the factor of the hour."""
        load, settings = state.load, self._settings
        held = state.old.rate * self.reached if state.old else 0.0
        usable = state.capacity * (1 - self._reserve)
        state.floor = min(state.floor, usable)
        if load.total is None:
            state.moved = held if load.moved is None else load.moved
            clients, what = settings.client_rate or 0.0, "kept for clients"
        else:
            state.moved = min(load.total, held if load.moved is None else load.moved)
            state.clients = load.total - state.moved
            clients, what = self._clients_now(state), "of clients"
        state.limit = (usable - clients) * self._factor
        state.is_probing = usable == INFINITE or (load.total is None and settings.client_rate is None)
        state.free = 0.0 if state.is_probing else max(0.0, state.capacity - clients - state.moved)
        if not state.is_probing:
            state.text = f"{format_rate(int(state.capacity))} less {self._reserve:.0%} reserve and "
            state.text += f"{format_rate(int(clients))} {what}"
        if self._factor != 1:
            state.text += f", times {self._factor:g} by the hour"

    def _clients_now(self, state: SideState) -> float:
        """What clients take by now: an average that jumps has only part of the step in it yet.

        What enters the window is what leaves it and `rise * window / passed`; what leaves it is what they took a window
        ago, which is the average before the rise, as long as that lies in the window.
        """
        mean, old, window_ms, now_ms = state.clients, state.old, self._observed.window_ms, self._observed.measured_ms
        passed_ms = now_ms - self._memory.measured_ms
        if old is None or old.clients < 0 or not 0 < passed_ms < window_ms:
            return mean
        rise = mean - old.clients
        if rise <= self._settings.jump * state.capacity:
            return mean
        rises_on = old.base >= 0 and 0 < now_ms - old.base_ms <= window_ms
        state.base, state.base_ms = (old.base, old.base_ms) if rises_on else (old.clients, self._memory.measured_ms)
        return max(mean, state.base + rise * window_ms / passed_ms)

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


_SETTINGS_HINT = "state capacities and the bytes/s to keep for clients, or give it produce latencies and an objective"

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_RULE = re.compile(r"(?:([a-z]{3})(?:-([a-z]{3}))? )?([0-9]{1,2})-([0-9]{1,2}) (reserve )?([0-9.]+ *%)")
_TIME_RULE_HINT = "write [DAY[-DAY] ]HOUR-HOUR PERCENT, such as 'mon-fri 8-20 50%', or 'mon-fri 8-20 reserve 30%'"
_HOUR_MS = 3_600_000


def parse_time_rule(text: str) -> TimeRule:
    """Read `mon-fri 8-20 50%`, `22-6 100%` or `sat 0-24 reserve 5%`; raises `UsageError` for anything else."""
    match = _RULE.fullmatch(text.strip().lower())
    days = [d for d in match.groups()[:2] if d] if match else []
    if match is None or not set(days) <= set(DAYS) or int(match[3]) > 23 or int(match[4]) > 24:
        raise UsageError(f"{text!r:.60} is not a time rule", hint=_TIME_RULE_HINT)
    first, last = (DAYS.index(days[0]), DAYS.index(days[-1])) if days else (0, 6)
    share: Fraction = parse_percent(match[6], text[:40])
    if share == (1 if match[5] else 0):
        raise UsageError(f"{text!r:.60} leaves nothing for copies", hint=_TIME_RULE_HINT)
    return TimeRule(
        days=frozenset((first + n) % 7 for n in range((last - first) % 7 + 1)),
        first_hour=int(match[3]),
        end_hour=int(match[4]),
        factor=1.0 if match[5] else float(share),
        reserve=float(share) if match[5] else None,
    )


def rule_at(rules: Iterable[TimeRule], at_ms: int, utc_offset_s: int) -> TimeRule | None:
    """The first rule that holds at this moment (milliseconds since 1970, UTC) at this offset from UTC."""
    hours = (at_ms + utc_offset_s * 1000) // _HOUR_MS
    day = (hours // 24 + 3) % 7  # 1 January 1970 was a Thursday
    return next((rule for rule in rules if rule.holds(day, hours % 24)), None)
