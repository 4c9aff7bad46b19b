"""Tokens for moving failing records away, the rate of failures, and dependencies that are down."""

from dataclasses import dataclass, field

from kafkakit.streams.client.decide.rules import MoveRule, RetryRule

_MEMORY = 0.98
"""Weight of the past in the share of failures: about the latest 50 tries count."""

_NEVER_MS = 1 << 62


class MoveBudget:
    """What a consumer may move away; see `MoveRule`. A start counts as healthy."""

    __slots__ = ("_rule", "failed_share", "tokens")

    def __init__(self, rule: MoveRule) -> None:
        self._rule = rule
        self.tokens = min(rule.first_tokens, rule.max_tokens)
        self.failed_share = 0.0

    def succeeded(self, count: int) -> None:
        """Note tries that succeeded."""
        self.tokens = min(self._rule.max_tokens, self.tokens + count / self._rule.acks_per_move)
        self.failed_share *= _MEMORY**count

    def failed(self) -> None:
        """Note a try that failed."""
        self.failed_share = self.failed_share * _MEMORY + 1 - _MEMORY

    def take(self) -> bool:
        """Pay for one move; False where there is no token, or failures look like an outage."""
        if self.tokens < 1 or self.failed_share >= self._rule.outage_share:
            return False
        self.tokens -= 1
        return True


@dataclass(slots=True)
class _Down:
    failures: int = 0
    probe_at_ms: int = 0
    is_probed: bool = False


@dataclass(slots=True)
class Dependencies:
    """Which dependencies are down, and when one record may try each again; for all partitions of a consumer.

    Waits grow as the rule says. Times are milliseconds of a clock that never goes back.
    """

    rule: RetryRule
    _down: dict[str, _Down] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """The dependencies that are down, sorted."""
        return tuple(sorted(self._down))

    def failed(self, name: str, now_ms: int, *, was_probe: bool) -> None:
        """A record found it down: the next try is later if it was the one that was to find out."""
        down = self._down.get(name)
        if down is None:
            self._down[name] = _Down(failures=1, probe_at_ms=now_ms + self.rule.delay_ms(1))
        elif was_probe:
            down.failures += 1
            down.is_probed = False
            down.probe_at_ms = now_ms + self.rule.delay_ms(down.failures)

    def may_probe(self, name: str, now_ms: int) -> bool:
        """True when one record may try it now."""
        down = self._down.get(name)
        return down is None or (not down.is_probed and down.probe_at_ms <= now_ms)

    def next_probe_ms(self, name: str) -> int:
        """When one record may try it; far away while one does."""
        down = self._down.get(name)
        if down is None:
            return 0
        return _NEVER_MS if down.is_probed else down.probe_at_ms

    def probing(self, name: str) -> None:
        """A record is trying it."""
        if name in self._down:
            self._down[name].is_probed = True

    def given_up(self, name: str) -> None:
        """The record that was trying it was taken from this consumer; another one may try."""
        if name in self._down:
            self._down[name].is_probed = False

    def answered(self, name: str) -> None:
        """A record that waited for it succeeded."""
        self._down.pop(name, None)
