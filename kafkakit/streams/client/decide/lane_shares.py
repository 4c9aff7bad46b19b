"""Which lane gets the next free worker: weighted fair shares, with workers that only the first lane may have."""

from collections.abc import Collection, Mapping

from kafkakit.streams.model.route import LIVE


class LaneShares:
    """Weighted fair shares of records among lanes that have work; `strict` gives `live` all it can take first.

    While `live` is among the lanes, the others together take at most `workers` less a quarter (one at least), so that
    a live record does not wait for a slow one to end. A lane without work collects no claim.
    """

    __slots__ = ("_others_limit", "_running", "_spent", "_strict", "_weights", "_workers")

    def __init__(self, weights: Mapping[str, int], workers: int, *, strict: bool) -> None:
        self._strict = strict and LIVE in weights
        self._weights = dict(weights)
        self._spent = dict.fromkeys(weights, 0.0)
        self._running = dict.fromkeys(weights, 0)
        reserved = max(1, workers // 4) if LIVE in weights and len(weights) > 1 else 0
        self._others_limit = max(1, workers - reserved)
        self._workers = workers

    def update(self, weights: Mapping[str, int]) -> None:
        """The lanes and weights of a newer route; lanes that stay keep what they spent."""
        least = min(self._spent.values(), default=0.0)
        self._weights = dict(weights)
        for lane in weights:
            self._spent.setdefault(lane, least)
            self._running.setdefault(lane, 0)

    @property
    def are_all_busy(self) -> bool:
        """True while no worker is free."""
        return sum(self._running.values()) >= self._workers

    def order(self, ready: Collection[str]) -> list[str]:
        """The lanes that may have a worker now, the one whose turn it is first."""
        others = sum(count for lane, count in self._running.items() if lane != LIVE)
        allowed = [lane for lane in ready if lane == LIVE or others < self._others_limit]
        return sorted(allowed, key=lambda lane: (not (self._strict and lane == LIVE), self._spent[lane], lane))

    def started(self, lane: str, records: int, ready: Collection[str]) -> None:
        """A worker took so many records of a lane; `ready` are the lanes with work before that."""
        self._running[lane] += 1
        # A lane that had no work starts where the busy ones are: it may not catch up on what it never wanted.
        floor = min((self._spent[other] for other in ready), default=0.0)
        for other in self._spent:
            if other not in ready:
                self._spent[other] = max(self._spent[other], floor)
        self._spent[lane] += records / self._weights.get(lane, 1)

    def ended(self, lane: str) -> None:
        """The worker is free again."""
        self._running[lane] -= 1
