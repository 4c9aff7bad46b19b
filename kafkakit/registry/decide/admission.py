"""Whether and when a call is carried out: rates for each caller, and deadlines."""

from collections import OrderedDict
from dataclasses import dataclass

from kafkakit.core.rpc import RpcCode, RpcError

BURST = 10
MAX_CALLERS = 10_000
LONGEST_FACTOR = 3
"""A client's deadline is cut to so many times the usual one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Calls a second for each caller, and the usual deadline."""

    reads_per_s: float
    writes_per_s: float
    timeout_s: float


class Admission:
    """A bucket of tokens for each caller and kind of call: ten at once, then as many a second as its rate.

    A call that finds none waits for its token where that comes before its deadline, and is refused otherwise.
    """

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._free_at: OrderedDict[tuple[str, bool], float] = OrderedDict()

    def deadline_s(self, given_s: float | None) -> float:
        """The seconds that a call may take; what a client gives is cut to three times the usual."""
        usual = self._rates.timeout_s
        return usual if given_s is None else min(given_s, LONGEST_FACTOR * usual)

    def take(self, caller: str, now_s: float, deadline_s: float, *, is_read: bool) -> float:
        """The seconds to wait before the call; `RpcError` where the deadline would pass meanwhile."""
        step_s = 1 / (self._rates.reads_per_s if is_read else self._rates.writes_per_s)
        key = (caller, is_read)
        # When the bucket is full again: one number stands for its level.
        full_at = max(now_s, self._free_at.get(key, now_s)) + step_s
        wait_s = full_at - now_s - BURST * step_s
        if wait_s > deadline_s:
            raise RpcError(RpcCode.RESOURCE_EXHAUSTED, "wait time exceeded", retry_after_s=wait_s - deadline_s)
        self._free_at[key] = full_at
        self._free_at.move_to_end(key)
        if len(self._free_at) > MAX_CALLERS:
            self._free_at.popitem(last=False)
        return max(0.0, wait_s)
