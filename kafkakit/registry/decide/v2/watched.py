"""What one watch shows of the events: objects as they are by now, and those that are gone or match no more."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import UNSET

from kafkakit.registry.decide.faults import invalid
from kafkakit.registry.decide.inventory import Inventory
from kafkakit.registry.decide.tags import Kind
from kafkakit.registry.decide.v2.messages import BrokerView, TopicView, WatchEvent, WatchRequest
from kafkakit.registry.decide.v2.selection import Selection
from kafkakit.registry.decide.v2.views import parse_mask, view_of


class Watched:
    """The choice of one client; `RpcError` where it cannot be meant.

    Whether an object matched before is not known: the first time that it does not, a `delete` is shown.
    """

    def __init__(self, request: WatchRequest, inventory: Inventory, selection: Selection) -> None:
        if not request.kind and (request.query or request.fields):
            raise invalid("query and fields are for one kind: give kind, too")
        self._kinds = frozenset({Kind(request.kind)} if request.kind else Kind)
        self._masks = {kind: parse_mask(kind, request.fields) for kind in self._kinds}
        if request.query:
            selection.names(Kind(request.kind), request.query)
        self._query, self._inventory, self._selection = request.query, inventory, selection
        self._without: set[tuple[Kind, str]] = set()

    def shown(self, events: Sequence[tuple[int, Kind, str]], id_of: Callable[[int], str]) -> tuple[WatchEvent, ...]:
        """The events to show, the last one of each object alone; O(events)."""
        latest = {(kind, name): number for number, kind, name in events if kind in self._kinds}
        matching = {
            kind: self._selection.among(kind, [name for of, name in latest if of is kind], self._query)
            for kind in self._kinds
        }
        found = sorted((number, kind, name) for (kind, name), number in latest.items())
        return tuple(
            event
            for number, kind, name in found
            for event in self._event(id_of(number), kind, name, is_there=name in matching[kind])
        )

    def _event(self, event_id: str, kind: Kind, name: str, *, is_there: bool) -> Iterator[WatchEvent]:
        view = view_of(kind, name, self._inventory, self._masks[kind]) if is_there else None
        if view is not None:
            self._without.discard((kind, name))
            yield WatchEvent(
                type="put",
                event_id=event_id,
                kind=kind,
                name=name,
                topic=view if isinstance(view, TopicView) else UNSET,
                broker=view if isinstance(view, BrokerView) else UNSET,
            )
        elif (kind, name) not in self._without:
            self._without.add((kind, name))
            yield WatchEvent(type="delete", event_id=event_id, kind=kind, name=name)
