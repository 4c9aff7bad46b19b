"""Which partitions break the rack rule, what each needs, and which cannot be mended."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.placement.openings.broker_pool import Fleet, fleet_of
from kafkakit.placement.openings.crowded import Crowded
from kafkakit.placement.openings.openings import Group, Racks, Receivers
from kafkakit.placement.problem import Minimize, PlannedPartition
from kafkakit.placement.stranded import set_stranded_apart
from kafkakit.topicmappr.decide.fix_racks.needs import Mending, Need, Unmendable, need_of, spread_need
from kafkakit.topicmappr.decide.fix_racks.request import FixRacksRequest
from kafkakit.topicmappr.decide.pins import pinned_indices
from kafkakit.topicmappr.decide.scope import Scope, TopicScope, scope_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RackProblem:
    """`mendings` and `unmendable` by partition index; `stranded` break the rule and cannot be copied.

    `racks` are those that the rule looks at. `pinned` partitions stay as they are, `standing` are those of them that
    break the rule.
    """

    scope: Scope
    fleet: Fleet
    racks: Racks
    receivers: Receivers
    mendings: Mapping[int, Mending]
    unmendable: Mapping[int, Unmendable]
    stranded: tuple[PlannedPartition, ...]
    pinned: tuple[TopicPartition, ...] = ()
    standing: tuple[TopicPartition, ...] = ()

    def groups(self) -> list[Group]:
        """Partitions whose new copies may go to the same places."""
        found: dict[int, Group] = {}
        for i, mending in self.mendings.items():
            # Equal needs are one object, see `rack_problem`.
            found.setdefault(id(mending), Group(mending.room)).members.append(i)
        return list(found.values())

    def crowded(self) -> list[Crowded]:
        """The sets that must give replicas up, for the flow that chooses which."""
        return [self._crowded(i, m) for i, m in self.mendings.items()]

    def _crowded(self, index: int, mending: Mending) -> Crowded:
        p = self.scope.partitions[index]
        fit = self.fleet.live if p.in_sync is None else self.fleet.live & p.in_sync
        return Crowded(
            index=index,
            replicas=p.current,
            stay=len(p.current) - mending.moves,
            base=mending.base,
            slots=mending.slots,
            extra=mending.extra,
            stale=frozenset(p.current) - fit,
        )


def rack_problem(snapshot: ClusterSnapshot, request: FixRacksRequest) -> RackProblem:
    """Look at every chosen partition; raises `UsageError` when the brokers have no racks at all. O(partitions)."""
    fleet = fleet_of(snapshot)
    receivers = Receivers.of(sorted(fleet.open), fleet.racks)
    if not any(receivers.by_rack):
        raise UsageError("no live broker has a rack, so there is no rack rule to mend", hint="set broker.rack")
    sized = request.minimize is Minimize.BYTES
    scope = scope_of(snapshot, TopicScope(topics=request.topics, topics_exclude=request.topics_exclude, sized=sized))
    racks = {b: r for b, r in fleet.racks.items() if not request.spread or r in receivers.by_rack}
    known: dict[object, Need] = {}
    needs = ((i, _need(p, racks, receivers, request, known)) for i, p in enumerate(scope.partitions))
    wrong = {i: need for i, need in needs if need is not None}
    pinned = frozenset(pinned_indices(scope.partitions, request.pinned, ()))
    broken = {i: need for i, need in wrong.items() if i not in pinned}
    _, stranded = set_stranded_apart(tuple(scope.partitions[i] for i in broken), fleet.live)
    apart = {p.key for p in stranded}
    movable = {i: need for i, need in broken.items() if scope.partitions[i].key not in apart}
    return RackProblem(
        scope=scope,
        fleet=fleet,
        racks=racks,
        receivers=receivers,
        mendings={i: need for i, need in movable.items() if isinstance(need, Mending)},
        unmendable={i: need for i, need in movable.items() if isinstance(need, Unmendable)},
        stranded=stranded,
        pinned=tuple(scope.partitions[i].key for i in sorted(pinned)),
        standing=tuple(scope.partitions[i].key for i in sorted(pinned & wrong.keys())),
    )


def _need(
    p: PlannedPartition, racks: Racks, receivers: Receivers, request: FixRacksRequest, known: dict[object, Need]
) -> Need:
    """The partition's need, from the known ones where the same case came before."""
    inside = [(b, rack) for b in p.current if (rack := racks.get(b))]
    used = Counter(rack for _, rack in inside)
    loose = tuple(b for b in receivers.by_rack.get(None, ()) if b not in p.current)
    if request.spread:
        # Brokers matter one by one only where a rack holds a replica and takes another.
        crowds = len(inside) >= sum(1 for rack in receivers.by_rack if rack)
        key: object = (tuple(sorted(inside)) if crowds else tuple(sorted(used.items())), loose)
        if key not in known:
            known[key] = spread_need(inside, loose, receivers)
        return known[key]
    if len(used) == len(inside):
        return None
    key = (tuple(sorted(used.items())), loose)
    if key not in known:
        known[key] = need_of(used, loose, receivers, request.min_rack_ids)
    return known[key]
