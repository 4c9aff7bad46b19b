"""What a search tried on its way, for those who want to see it."""

from collections.abc import Callable
from dataclasses import dataclass

from kafkakit.placement.by_size.attempt import Attempt
from kafkakit.placement.by_size.lp_relaxation import BalanceGoal
from kafkakit.placement.by_size.slots import SlotTable
from kafkakit.placement.problem import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A plan that was made: the deviation sought and reached (in the aim's unit), bytes and replicas to copy.

    `outside` are bytes that stayed outside the limits.
    """

    sought: int
    reached: int
    cost: int
    moves: int
    outside: int


class Notebook:
    """A watch that writes down what is tried and passes everything else on."""

    def __init__(self, watch: Watch, table: SlotTable, balance: BalanceGoal) -> None:
        self._watch = watch
        self._table = table
        self._balance = balance
        self.tries: list[Tried] = []

    def phase(self, text: str) -> None:
        """Pass on."""
        self._watch.phase(text)

    def stopped(self) -> bool:
        """Pass on."""
        return self._watch.stopped()

    def solving(self, end: Callable[[], None] | None) -> None:
        """Pass on."""
        self._watch.solving(end)

    def tried(self, max_deviation: int, found: Attempt) -> None:
        """Write down. O(replicas)."""
        reached = self._balance.measure(self._table.loads(found.at))
        self.tries.append(
            Tried(sought=max_deviation, reached=reached, cost=found.cost, moves=found.moves, outside=found.outside)
        )
        self._watch.tried(max_deviation, found)
