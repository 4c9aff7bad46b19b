"""Messages about log dirs: what does not fit, what cannot be balanced, and why."""

from collections.abc import Mapping, Sequence

from kafkakit.core.quantities import counted, format_bytes
from kafkakit.placement.by_size.lp_relaxation import PPM
from kafkakit.placement.log_dirs_balance import BalancedDirs, BrokerDirState, DirBalancer
from kafkakit.placement.problem import PlannedPartition

SHOWN = 3
SHOWN_LINES = 10


def first_few(lines: Sequence[str]) -> list[str]:
    """The first ten lines and how many more there are, as a large cluster may have one for every broker."""
    more = len(lines) - SHOWN_LINES
    return [*lines[:SHOWN_LINES], *([f"{more} more of this kind on log dirs"] if more > 0 else [])]


def homeless_words(
    state: BrokerDirState, left: Sequence[tuple[int, int]], partitions: Sequence[PlannedPartition]
) -> str:
    """Copies for which no dir has space."""
    first = ", ".join(f"{partitions[p].key} ({format_bytes(size)})" for size, p in left[:SHOWN])
    more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
    largest = max((r for r, takes in zip(state.room, state.open, strict=True) if takes), default=0)
    return (
        f"broker {state.broker}: no log dir has space for {first}{more} (the most is {format_bytes(largest)}); "
        "no dir is named for them, the broker will choose one"
    )


def early_words(state: BrokerDirState, chosen: Mapping[int, int], partitions: Sequence[PlannedPartition]) -> str:
    """Copies that fit only after others have left."""
    coming = [0] * len(state.dirs)
    for n, size in ((chosen[p], size) for size, p in state.arrivals if p in chosen):
        coming[n] += size
    tight = [n for n, load in enumerate(coming) if load > state.room[n]]
    names = ", ".join(
        f"{state.dirs[n].path} gets {format_bytes(coming[n])} and has space for {format_bytes(state.room[n])} now"
        for n in tight[:SHOWN]
    )
    return f"broker {state.broker}: new copies fit only once others have left: {names}; apply in small batches"


def broken_words(state: BrokerDirState) -> list[str]:
    """Dirs that a balance inside the broker cannot touch."""
    return [
        f"broker {state.broker}: log dir {d.path} is offline, nothing can be moved out of it"
        for d in state.dirs
        if d.error is not None
    ]


def cordoned_words(state: BrokerDirState) -> list[str]:
    """Dirs that a balance inside the broker leaves as they are."""
    return [
        f"broker {state.broker}: log dir {d.path} is cordoned, it is left out of the balance"
        for d in state.dirs
        if d.cordoned and d.error is None
    ]


def nearest_words(state: BrokerDirState, balancer: DirBalancer, best: BalancedDirs, band: int) -> str:
    """A band that cannot be had: how near the plan comes, which dir is furthest off, and why."""
    share = balancer.share.tolist()[1:]
    even = [n for n, takes in enumerate(state.open) if takes]
    off = max(even, key=lambda n: (abs(best.used[n] - share[n]) * PPM // max(share[n], 1), -n))
    path, used, side = state.dirs[off].path, best.used[off], "above" if best.used[off] > share[off] else "below"
    return (
        f"broker {state.broker}: its log dirs cannot be brought within {_percent(band)} of their shares, the nearest "
        f"found is {_percent(best.reached)}: {path} ends with {format_bytes(used)}, {side} its share of "
        f"{format_bytes(share[off])}; {_reason(state, balancer, share, band)}"
    )


def _reason(state: BrokerDirState, balancer: DirBalancer, share: Sequence[int], band: int) -> str:
    """A dir that cannot keep its limits whatever is planned, or that copies do not divide finely enough."""
    fixed, ceiling = balancer.table.fixed.tolist()[1:], balancer.limits.ceiling.tolist()[1:]
    for n, d in enumerate(state.dirs):
        margin = share[n] * band // PPM
        if state.open[n] and fixed[n] > share[n] + margin:
            return f"{format_bytes(fixed[n])} in {d.path} may not be moved"
        if state.open[n] and ceiling[n] < share[n] - margin:
            return f"{d.path} may hold no more than {format_bytes(ceiling[n])} of these files"
    largest = max((size for size, *_ in (*state.arrivals, *state.standing)), default=0)
    return f"copies cannot be split, and the largest that may move has {format_bytes(largest)}"


def _percent(millionths: int) -> str:
    return f"{millionths / PPM * 100:.4g}%"


def unmeasured_note(states: Sequence[BrokerDirState]) -> list[str]:
    """One line on brokers that do not tell the size of their dirs."""
    silent = [s.broker for s in states if any(d.is_open for d in s.dirs) and not any(s.open)]
    lines = []
    if silent:
        more = f" and {len(silent) - SHOWN} more" if len(silent) > SHOWN else ""
        lines.append(
            f"broker {', '.join(map(str, silent[:SHOWN]))}{more}: the size of log dirs is not known, so none is named "
            "for new copies"
        )
    unsized = sum(s.unsized for s in states)
    if unsized:
        lines.append(f"no log dir is named for {counted(unsized, 'new copy', 'new copies')} of unknown size")
    return lines
