"""A log dir for each copy that comes to a broker: the largest first, to the dir that it fills least."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kafkakit.placement.log_dirs_balance.broker_dir_state import BrokerDirState
from kafkakit.placement.log_dirs_balance.dir_balance import pack
from kafkakit.placement.watch import Watch

_SCALE = 40  # bits after the point of a dir's fullness: finer than a byte of a terabyte


@dataclass(slots=True, kw_only=True)
class Destinations:
    """The dir of each arriving partition and what the dirs hold in the end; `left` found no dir below its ceiling.

    `early` says that the copies fit only once others have left.
    """

    chosen: dict[int, int]
    used: list[int]
    left: list[tuple[int, int]] = field(default_factory=list)
    early: bool = False


def choose_destinations(dir_state: BrokerDirState, watch: Watch, *, search: bool) -> Destinations:
    """Give every arrival a dir, all below the ceilings where that is possible.

    First with the room there is now; then, as data leave the broker too, with the room there will be. `search`
    allows to look through all placements of a few copies when simple ways leave some without a dir.
    """
    arrivals = sorted(dir_state.arrivals, key=lambda a: (-a[0], a[1]))
    now = _spread(dir_state, arrivals, dir_state.room)
    if not now.left or not any(dir_state.open):
        return now
    later = [room + gone for room, gone in zip(dir_state.room, dir_state.leaving, strict=True)]
    options = [now]
    for room, early in ((dir_state.room, False), (later, True)):
        if early and room == dir_state.room:
            break
        found = _spread(dir_state, arrivals, room)
        if found.left:
            found = _packed(dir_state, arrivals, room, found, watch, search=search)
        found.early = early
        if not found.left:
            return found
        options.append(found)
    return min(options, key=lambda d: sum(size for size, _ in d.left))


def _spread(dir_state: BrokerDirState, arrivals: Sequence[tuple[int, int]], room: Sequence[int]) -> Destinations:
    """Each in turn to the open dir with room whose use, by capacity, is least with it."""
    used, left = dir_state.kept, list(room)
    dirs = [n for n, takes in enumerate(dir_state.open) if takes]
    capacity = dir_state.capacity
    chosen: dict[int, int] = {}
    homeless: list[tuple[int, int]] = []
    for size, partition in arrivals:
        best, least = -1, 0
        for n in dirs:
            if left[n] >= size:
                use = ((used[n] + size) << _SCALE) // capacity[n]
                if best < 0 or use < least:
                    best, least = n, use
        if best < 0:
            homeless.append((size, partition))
            continue
        chosen[partition] = best
        used[best] += size
        left[best] -= size
    return Destinations(chosen=chosen, used=used, left=homeless)


def _packed(
    dir_state: BrokerDirState,
    arrivals: Sequence[tuple[int, int]],
    room: Sequence[int],
    first: Destinations,
    watch: Watch,
    *,
    search: bool,
) -> Destinations:
    """Try harder to fit all; gives `first` back when that fails too."""
    if sum(size for size, _ in arrivals) > sum(r for r, takes in zip(room, dir_state.open, strict=True) if takes):
        return first
    places = pack(dir_state, arrivals, room, watch, search=search)
    if places is None:
        return first
    used = dir_state.kept
    for (size, _), n in zip(arrivals, places, strict=True):
        used[n] += size
    return Destinations(chosen={p: n for (_, p), n in zip(arrivals, places, strict=True)}, used=used)
