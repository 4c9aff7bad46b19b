"""The sides of brokers as the law `slo` sees them: what copies take, what they may take, and what is breached."""

from dataclasses import dataclass

from kafkakit.autothrottle.decide.flow_graph import INFINITE, load_of
from kafkakit.autothrottle.decide.law import BrokerSide, Memory, RateMemory, Side
from kafkakit.autothrottle.decide.measured_units import unit_faults
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
class SideState:
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
    clients: float = -1.0
    limit: float = INFINITE
    free: float = 0.0
    is_probing: bool = False
    is_news: bool = False
    is_doubted: bool = False
    fault: str = ""
    text: str = "objectives are met"


class SideReader:
    """Reads one look; `fresh` says whether its metrics count, `reached` what share of a setting copies reach."""

    def __init__(self, settings: SloSettings, observed: Observed, memory: Memory) -> None:
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
        """What clients take by now: an average that jumps has only part of the step in it yet."""
        mean, old, window_ms = state.clients, state.old, self._observed.window_ms
        passed_ms = self._observed.measured_ms - self._memory.measured_ms
        if old is None or old.clients < 0 or not 0 < passed_ms < window_ms:
            return mean
        rise = mean - old.clients
        return old.clients + rise * window_ms / passed_ms if rise > self._settings.jump * state.capacity else mean

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
