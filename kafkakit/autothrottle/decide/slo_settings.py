"""The options of the `slo` law, and what it cannot do without."""

from collections.abc import Iterable
from dataclasses import dataclass

from kafkakit.autothrottle.decide.observed import BrokerSeen, Load
from kafkakit.autothrottle.decide.time_rules import TimeRule
from kafkakit.core.errors import UsageError

_HINT = "state capacities and the bytes/s to keep for clients, or give it produce latencies and an objective"


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

    def stated_capacity(self, load: Load) -> float | None:
        """What the network can do: as the side's load says, or stated for all."""
        return load.capacity or self.capacity

    def breach(self, seen: BrokerSeen) -> str:
        """What of the broker's health is worse than its objective, empty for nothing."""
        for what, value, most in (
            ("produce p99", seen.produce_p99_ms, self.p99_ms),
            ("request queue", seen.queue_ms, self.queue_ms),
        ):
            if value is not None and most is not None and value > most:
                return f"{what} {value:.0f} ms, objective {most:.0f} ms"
        return ""

    def has_health(self, seen: BrokerSeen) -> bool:
        """True when an objective and its measurement are both there."""
        p99 = self.p99_ms is not None and seen.produce_p99_ms is not None
        return p99 or (self.queue_ms is not None and seen.queue_ms is not None)

    def is_enough(self, seen: BrokerSeen, load: Load) -> bool:
        """True when traffic, a statement or an objective bounds the rate of this side."""
        stated = self.stated_capacity(load) is not None
        return self.has_health(seen) or (stated and (load.total is not None or self.client_rate is not None))

    def refusal(self, brokers: Iterable[BrokerSeen | None]) -> UsageError:
        """The error where nothing bounds the rate of any broker from the first look on."""
        known = sorted({seen.broker for seen in brokers if seen is not None})
        ids = ", ".join(map(str, known[:8])) + (", ..." if len(known) > 8 else "")
        return UsageError(f"nothing bounds the rates of broker {ids or '?'} for the slo law", hint=_HINT)
