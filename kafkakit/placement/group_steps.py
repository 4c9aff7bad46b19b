"""Where copies may go under constraints by tags: one at a time where they look at each other's brokers.

Filling one opening of each partition after another keeps every step a flow. A look ahead leaves out the brokers from
which a set could not be completed any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kafkakit.placement.group_rooms import Grouping, Room
from kafkakit.placement.group_tags import TagRules


@dataclass(slots=True)
class TagSteps:
    """The brokers open to the next copy of a partition; each kind of partition is looked at once."""

    grouping: Grouping
    tags: TagRules
    repairs: bool = True
    _known: dict[object, tuple[int, frozenset[int]]] = field(default_factory=dict)

    def next_copy(self, index: int, kept: Sequence[int], wanted: int) -> tuple[int, frozenset[int]]:
        """How many of the copies that partition `index` lacks find a place, and the brokers that the first may go to.

        Without spread over tags all of its copies may go to these brokers.
        """
        topic = self.grouping.topics[index]
        if not self.tags.spreads:
            key: object = topic
            if key not in self._known:
                self._known[key] = 0, self.tags.open_to(topic, (), wanted, self.grouping.taking)
            open_to = self._known[key][1]
            return self.room(open_to, kept, wanted).units, open_to
        return self._ahead(topic, tuple(kept), wanted)

    def room(self, open_to: frozenset[int], kept: Sequence[int], wanted: int) -> Room:
        """The room on these brokers alone, see `Grouping.room_beside`."""
        return self.grouping.narrowed(open_to).room_beside(kept, wanted, repairs=self.repairs)

    def _ahead(self, topic: str, kept: tuple[int, ...], wanted: int) -> tuple[int, frozenset[int]]:
        if len(kept) >= wanted:
            return 0, frozenset()
        key = topic if self.tags.constraints != self.tags.spread_over else "", tuple(sorted(kept)), wanted
        if key not in self._known:
            self._known[key] = self._looked(topic, kept, wanted)
        return self._known[key]

    def _looked(self, topic: str, kept: tuple[int, ...], wanted: int) -> tuple[int, frozenset[int]]:
        free = self.tags.open_to(topic, kept, wanted, self.grouping.taking).difference(kept)
        room = self.room(free, kept, len(kept) + 1)
        if not room.units:
            return 0, frozenset()
        reached: dict[object, tuple[int, list[int]]] = {}
        for group, offer in room.offers.items():
            for broker in offer.brokers:
                if not (offer.must or offer.free or (offer.again and room.repeats)):
                    continue
                # Brokers of one group with the same values lead equally far, but for the one that is used up.
                kind = group, self.tags.kind_of(topic, (broker,))
                if kind not in reached:
                    reached[kind] = 1 + self._ahead(topic, (*kept, broker), wanted)[0], []
                reached[kind][1].append(broker)
        most = max((n for n, _ in reached.values()), default=0)
        return most, frozenset(b for n, brokers in reached.values() if n == most for b in brokers)
