"""A run's budget: which partitions of a plain request are served now, and which wait for another run.

A request is made of changes, one for each partition. They are served in the order of their rank while they fit; one
that does not fit is passed over, so that a large partition does not hold up the small ones behind it. A change is
served whole or not at all. What is left is not a failure: when the request is made again, it continues with it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from kafkakit.core.errors import TryLaterError, UsageError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.plan import StorageFacts
from kafkakit.core.quantities import count_of, format_bytes
from kafkakit.core.text import few_of
from kafkakit.topicmappr.decide.request_fields import PlanBudget
from kafkakit.topicmappr.decide.storage import storage_of

_UNSIZED = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    """One partition that is to change: `copies` are made of it, each of `size_bytes` (None: unknown).

    `key` is its name, `index` stands for it in the answer. A lower `rank` is served earlier; among equals the
    fewest bytes come first, those of unknown size last, then the name.
    """

    index: int
    key: TopicPartition
    copies: int
    size_bytes: int | None = None
    rank: int = 0

    @property
    def bytes(self) -> int | None:
        """What its copies hold together; 0 where none is made."""
        if not self.copies:
            return 0
        return None if self.size_bytes is None else self.copies * self.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftForLater:
    """What a budget left: how many partitions, the copies they need and the bytes in these (None: unknown).

    `beyond` of them cost more than the whole budget by themselves, so that no run with it will serve them.
    """

    partitions: int = 0
    copies: int = 0
    bytes: int | None = 0
    beyond: int = 0


NOTHING_LEFT = LeftForLater()


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSelection:
    """The indices served now, the names of those left, and what these cost."""

    indices: frozenset[int]
    later: tuple[TopicPartition, ...] = ()
    left: LeftForLater = NOTHING_LEFT


def serve(changes: Collection[PartitionChange], budget: PlanBudget) -> BudgetSelection:
    """Serve changes in the order of their ranks while they fit. O(n log n)."""
    if not budget.given:
        return BudgetSelection(indices=frozenset(w.index for w in changes))
    copies = spent = 0
    taken: set[int] = set()
    left: list[PartitionChange] = []
    for change in sorted(changes, key=_order):
        if budget.allows(copies + change.copies, spent + (change.bytes or 0)):
            taken.add(change.index)
            copies += change.copies
            spent += change.bytes or 0
        else:
            left.append(change)
    sizes = [w.bytes for w in left]
    known = [size for size in sizes if size is not None]
    return BudgetSelection(
        indices=frozenset(taken),
        later=tuple(sorted(w.key for w in left)),
        left=LeftForLater(
            partitions=len(left),
            copies=sum(w.copies for w in left),
            bytes=sum(known) if len(known) == len(sizes) else None,
            beyond=sum(1 for w in left if not budget.allows(w.copies, w.bytes or 0)),
        ),
    )


def _order(change: PartitionChange) -> tuple[int, int, TopicPartition]:
    return change.rank, _UNSIZED if change.bytes is None else change.bytes, change.key


def refuse_unsized(
    snapshot: ClusterSnapshot, budget: PlanBudget, changes: Iterable[PartitionChange], facts: StorageFacts | None = None
) -> None:
    """Stop where bytes are limited and the size of a partition that is to be copied is not known.

    Raises `UsageError` for a snapshot without sizes and `TryLaterError` where brokers reported none.
    """
    if budget.max_moved_bytes is None:
        return
    try:
        storage_of(snapshot, facts, brokers=(), partitions=[w.key for w in changes if w.copies])
    except UsageError as error:
        raise UsageError(f"--max-moved-bytes: {error.message}", hint=error.hint) from None
    except TryLaterError as error:
        raise TryLaterError(
            f"--max-moved-bytes: {error.message}",
            hint="try again when all brokers answer, or leave these topics out with --topics-exclude",
        ) from None


def budget_notes(budget: PlanBudget, served: BudgetSelection) -> tuple[str, ...]:
    """What the operator should know of what was left; nothing when all was served."""
    left = served.left
    if not left.partitions:
        return ()
    cost = ""
    if left.copies:
        size = "of unknown size" if left.bytes is None else f"({format_bytes(left.bytes)})"
        cost = f", {count_of(left.copies, 'replica')} to copy {size}"
    verb = "leaves" if None in (budget.max_moves, budget.max_moved_bytes) else "leave"
    notes = [
        f"{budget.words} {verb} {count_of(left.partitions, 'partition')} for later{cost}; "
        "carry this plan out and give the same command again to continue"
    ]
    if left.beyond:
        what = "costs" if left.beyond == 1 else "cost"
        notes.append(f"{left.beyond} of them {what} more than the whole budget, so only a larger one can cover them")
    return tuple(notes)


def budget_argument(argument: str, served: BudgetSelection) -> str:
    """The argument of a bound that holds for the partitions served: it names those that were left."""
    if not served.left.partitions:
        return argument
    left = served.left.partitions
    verb = "is" if left == 1 else "are"
    return f"of what the budget takes, {argument}; {count_of(left, 'partition')} {verb} left for later"


def left_data(left: LeftForLater) -> dict[str, object]:
    """What was left, for JSON and YAML."""
    return {"partitions": left.partitions, "replicas": left.copies, "bytes": left.bytes, "too_large": left.beyond}


def pinned_note(keys: Sequence[TopicPartition], what: str) -> tuple[str, ...]:
    """A note on pinned partitions that the request would have changed; `what` is what becomes of them."""
    if not keys:
        return ()
    return (f"{count_of(len(keys), 'pinned partition')} {what}: {few_of(keys)}",)
