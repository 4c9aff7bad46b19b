"""What the operator is told about log dirs: what does not fit, what cannot be levelled, and why."""

from collections.abc import Mapping, Sequence

from kafkakit.core.quantities import counted, format_bytes
from kafkakit.placement.bytes.balance_goal import PPM
from kafkakit.placement.log_dirs_balance.broker_dir_state import Shelf
from kafkakit.placement.log_dirs_balance.dir_balance import Level, Leveller
from kafkakit.placement.problem import PlannedPartition

SHOWN = 3
SHOWN_LINES = 10


def first_few(lines: Sequence[str]) -> list[str]:
    """The first ten lines and how many more there are, as a fleet may have one for every broker."""
    more = len(lines) - SHOWN_LINES
    return [*lines[:SHOWN_LINES], *([f"{more} more of this kind on log dirs"] if more > 0 else [])]


def homeless_words(shelf: Shelf, left: Sequence[tuple[int, int]], partitions: Sequence[PlannedPartition]) -> str:
    """Copies for which no dir has room."""
    first = ", ".join(f"{partitions[p].key} ({format_bytes(size)})" for size, p in left[:SHOWN])
    more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
    largest = max((r for r, takes in zip(shelf.room, shelf.open, strict=True) if takes), default=0)
    return (
        f"broker {shelf.broker}: no log dir has room for {first}{more} (the roomiest takes {format_bytes(largest)}); "
        "no dir is named for them, the broker will choose one"
    )


def early_words(shelf: Shelf, chosen: Mapping[int, int], partitions: Sequence[PlannedPartition]) -> str:
    """Copies that fit only after others have left."""
    coming = [0] * len(shelf.dirs)
    for n, size in ((chosen[p], size) for size, p in shelf.arrivals if p in chosen):
        coming[n] += size
    tight = [n for n, load in enumerate(coming) if load > shelf.room[n]]
    names = ", ".join(
        f"{shelf.dirs[n].path} gets {format_bytes(coming[n])} and has room for {format_bytes(shelf.room[n])} now"
        for n in tight[:SHOWN]
    )
    return f"broker {shelf.broker}: new copies fit only once others have left: {names}; apply in small batches"


def broken_words(shelf: Shelf) -> list[str]:
    """Dirs that a balance inside the broker cannot touch."""
    return [
        f"broker {shelf.broker}: log dir {d.path} is offline, nothing can be moved out of it"
        for d in shelf.dirs
        if d.error is not None
    ]


def cordoned_words(shelf: Shelf) -> list[str]:
    """Dirs that a balance inside the broker leaves as they are."""
    return [
        f"broker {shelf.broker}: log dir {d.path} is cordoned, it is left out of the balance"
        for d in shelf.dirs
        if d.cordoned and d.error is None
    ]


def nearest_words(shelf: Shelf, leveller: Leveller, best: Level, band: int) -> str:
    """A band that cannot be had: how near the plan comes, which dir is furthest off, and why."""
    share = leveller.share.tolist()[1:]
    even = [n for n, takes in enumerate(shelf.open) if takes]
    off = max(even, key=lambda n: (abs(best.used[n] - share[n]) * PPM // max(share[n], 1), -n))
    path, used, side = shelf.dirs[off].path, best.used[off], "above" if best.used[off] > share[off] else "below"
    return (
        f"broker {shelf.broker}: its log dirs cannot be brought within {_percent(band)} of their shares, the nearest "
        f"found is {_percent(best.reached)}: {path} ends with {format_bytes(used)}, {side} its share of "
        f"{format_bytes(share[off])}; {_reason(shelf, leveller, share, band)}"
    )


def _reason(shelf: Shelf, leveller: Leveller, share: Sequence[int], band: int) -> str:
    """A dir that cannot keep its limits whatever is planned, or that copies do not divide finely enough."""
    fixed, ceiling = leveller.fleet.fixed.tolist()[1:], leveller.limits.ceiling.tolist()[1:]
    for n, d in enumerate(shelf.dirs):
        margin = share[n] * band // PPM
        if shelf.open[n] and fixed[n] > share[n] + margin:
            return f"{format_bytes(fixed[n])} in {d.path} may not be moved"
        if shelf.open[n] and ceiling[n] < share[n] - margin:
            return f"{d.path} may hold no more than {format_bytes(ceiling[n])} of these files"
    largest = max((size for size, *_ in (*shelf.arrivals, *shelf.standing)), default=0)
    return f"copies cannot be split, and the largest that may move has {format_bytes(largest)}"


def _percent(millionths: int) -> str:
    return f"{millionths / PPM * 100:.4g}%"


def unmeasured_note(shelves: Sequence[Shelf]) -> list[str]:
    """One line on brokers that do not tell the size of their dirs."""
    silent = [s.broker for s in shelves if any(d.is_open for d in s.dirs) and not any(s.open)]
    lines = []
    if silent:
        more = f" and {len(silent) - SHOWN} more" if len(silent) > SHOWN else ""
        lines.append(
            f"broker {', '.join(map(str, silent[:SHOWN]))}{more}: the size of log dirs is not known, so none is named "
            "for new copies"
        )
    unsized = sum(s.unsized for s in shelves)
    if unsized:
        lines.append(f"no log dir is named for {counted(unsized, 'new copy', 'new copies')} of unknown size")
    return lines
