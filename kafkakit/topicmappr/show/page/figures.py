"""What the page shows, worked out of a plan: loads per broker and rack before and after, copies in and out."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kafkakit.core.plan import BrokerLoad, Move, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """One broker before and after; None for a side on which it has no row, `copies_in` counts new copies."""

    broker: int
    rack: str | None
    before: BrokerLoad
    after: BrokerLoad
    copies_in: int
    copies_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RackRow:
    """One rack before and after: (replicas, leaders, bytes); bytes are None when one of them is unknown."""

    rack: str | None
    brokers: int
    before: tuple[int, int, int | None]
    after: tuple[int, int, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What the plan moves: bytes are None when a size is unknown, `reordered` lists change without a copy."""

    partitions: int
    copies: int
    bytes_moved: int | None
    reordered: int
    dir_moves: int


@dataclass(frozen=True, slots=True)
class Measure:
    """A load to show: its title, its values before and after in the order of the rows, its unit.

    `over` are the positions that the range is told of; None: all.
    """

    title: str
    before: tuple[int, ...]
    after: tuple[int, ...]
    unit: str
    over: frozenset[int] | None = None


def broker_rows(plan: Plan) -> tuple[BrokerRow, ...]:
    """Every broker of the plan, by id. O(brokers + moves)."""
    before = {load.broker: load for load in plan.before.brokers}
    after = {load.broker: load for load in plan.after.brokers}
    into: Counter[int] = Counter()
    out: Counter[int] = Counter()
    for move in plan.moves:
        into.update(move.adding)
        out.update(move.removing)
    rows = []
    for broker in sorted({*before, *after}):
        old = before.get(broker) or _empty(after[broker])
        new = after.get(broker) or _empty(before[broker])
        rows.append(
            BrokerRow(
                broker=broker,
                rack=new.rack or old.rack,
                before=old,
                after=new,
                copies_in=into[broker],
                copies_out=out[broker],
            )
        )
    return tuple(rows)


def _empty(like: BrokerLoad) -> BrokerLoad:
    return BrokerLoad(broker=like.broker, rack=like.rack, replicas=0, leaders=0, bytes=0)


def rack_rows(rows: Sequence[BrokerRow]) -> tuple[RackRow, ...]:
    """Brokers summed up by rack; those without one come last."""
    members: dict[str | None, list[BrokerRow]] = defaultdict(list)
    for row in rows:
        members[row.rack].append(row)
    ordered = sorted(members, key=lambda rack: (rack is None, rack or ""))
    return tuple(
        RackRow(
            rack=rack,
            brokers=len(members[rack]),
            before=_sum([row.before for row in members[rack]]),
            after=_sum([row.after for row in members[rack]]),
        )
        for rack in ordered
    )


def _sum(loads: Sequence[BrokerLoad]) -> tuple[int, int, int | None]:
    sizes = [load.bytes for load in loads]
    known = None if None in sizes else sum(s for s in sizes if s is not None)
    return sum(load.replicas for load in loads), sum(load.leaders for load in loads), known


def totals_of(plan: Plan) -> Totals:
    """Count what moves. O(moves)."""
    copies = reordered = 0
    size: int | None = 0
    for move in plan.moves:
        adding = len(move.adding)
        copies += adding
        reordered += not adding and not move.removing
        if adding:
            size = None if size is None or move.bytes_moved is None else size + move.bytes_moved
    return Totals(
        partitions=len(plan.moves),
        copies=copies,
        bytes_moved=size,
        reordered=reordered,
        dir_moves=len(plan.dir_moves),
    )


def largest_moves(moves: Sequence[Move], most: int) -> list[Move]:
    """The moves that copy the most bytes, then those of unknown size, then those that copy nothing."""

    def rank(move: Move) -> tuple[bool, int, str, int]:
        size = -1 if move.bytes_moved is None else move.bytes_moved
        return (not move.adding, -size, move.topic, move.partition)

    return sorted(moves, key=rank)[:most]


def measures_of(rows: Sequence[BrokerRow], targets: frozenset[int]) -> tuple[Measure, ...]:
    """Replicas, leaders, and the best that is known of bytes: share of disk used, bytes used, or bytes in scope.

    Ranges are told of the `targets`, since brokers that are emptied would hide how even the others are.
    """
    over = frozenset(k for k, row in enumerate(rows) if row.broker in targets)
    found = [
        _measure("Replicas", rows, lambda load: load.replicas, "count", over),
        _measure("Preferred leaders", rows, lambda load: load.leaders, "count", over),
    ]
    loads = [load for row in rows for load in (row.before, row.after)]
    if loads and all(load.used_bytes is not None and load.capacity_bytes for load in loads):
        found.append(_measure("Disk used, share of capacity", rows, _share, "permille", over))
    elif loads and all(load.used_bytes is not None for load in loads):
        found.append(_measure("Disk used", rows, lambda load: load.used_bytes or 0, "bytes", over))
    elif any(load.bytes for load in loads) and all(load.bytes is not None for load in loads):
        found.append(_measure("Bytes of these topics", rows, lambda load: load.bytes or 0, "bytes", over))
    return tuple(found)


def _measure(
    title: str, rows: Sequence[BrokerRow], value: Callable[[BrokerLoad], int], unit: str, over: frozenset[int]
) -> Measure:
    return Measure(title, tuple(value(row.before) for row in rows), tuple(value(row.after) for row in rows), unit, over)


def _share(load: BrokerLoad) -> int:
    return (load.used_bytes or 0) * 1000 // (load.capacity_bytes or 1)


def request_words(request: Mapping[str, str]) -> tuple[str, list[tuple[str, str]]]:
    """The command and its flags, sorted."""
    return request.get("command", "plan"), sorted((k, v) for k, v in request.items() if k != "command")
