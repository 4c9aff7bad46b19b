"""Tags of many objects in one request."""

import time
from dataclasses import dataclass

from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.act.writes import Writes, Written
from kafkakit.registry.decide.access import Caller
from kafkakit.registry.decide.inventory import NO_TAGS, Inventory
from kafkakit.registry.decide.replies import EMPTY
from kafkakit.registry.decide.requests import Role
from kafkakit.registry.decide.tags import Kind, Tags
from kafkakit.registry.decide.v2.messages import ChangeTagsReply, ChangeTagsRequest, ObjectChange, TagResult
from kafkakit.registry.decide.v2.tag_changes import (
    changed_result,
    results_of,
    tags_after,
)
from kafkakit.registry.decide.v2.views import missing


@dataclass(frozen=True, slots=True, kw_only=True)
class TagsWritten(Written):
    """What came of a request, for the caller."""

    results: ChangeTagsReply


class TagWrites:
    """Carries requests out in a thread; what the inventory lacks is looked up in the cluster."""

    def __init__(self, writes: Writes, tags: TagStore, inventory: Inventory) -> None:
        self._writes, self._tags, self._inventory = writes, tags, inventory

    def prepare(self, request: ChangeTagsRequest, caller: Caller) -> "PreparedTags":
        """What the request needs of the inventory, read in its thread."""
        inventory = self._inventory
        known: set[tuple[str, str]] = {
            (change.kind, change.name) for change in request.changes if inventory.knows(Kind(change.kind), change.name)
        }
        return PreparedTags(request, caller, known, self._tags.acting_for(caller.name), self._writes)


class PreparedTags:
    """One request, with what was known when it came."""

    def __init__(
        self, request: ChangeTagsRequest, caller: Caller, known: set[tuple[str, str]], tags: TagStore, writes: Writes
    ) -> None:
        self._request, self._caller, self._known, self._tags, self._writes = request, caller, known, tags, writes
        self._written = list[tuple[Kind, str, Tags]]()

    def __call__(self, end_s: float) -> TagsWritten:
        """Carry it out until so many seconds of the monotonic clock."""
        results = results_of(self._request, self._change, lambda: time.monotonic() > end_s)
        return TagsWritten(reply=EMPTY, tags=tuple(self._written), results=results)

    def _change(self, change: ObjectChange) -> TagResult:
        kind = Kind(change.kind)
        self._caller.require(Role.TAG, change.kind, (change.name,))
        is_known = (change.kind, change.name) in self._known
        if not is_known and (kind is Kind.BROKER or not self._writes.finds_topic(change.name)):
            raise missing(kind, change.name)
        if self._request.dry_run:
            present = self._tags.get(kind, change.name) or NO_TAGS
            return changed_result(change, present, tags_after(change, present))
        seen = list[Tags]()

        def replace(present: Tags) -> Tags:
            seen.append(present)
            return tags_after(change, present)

        after = self._tags.change(kind, change.name, replace)
        self._written.append((kind, change.name, after))
        return changed_result(change, seen[-1], after)
