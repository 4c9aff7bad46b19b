"""The calls of the registry carried out by this process, on the cluster and on the store of its tags."""

import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from kafkakit.execution.act.audit_log import AuditLog
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.data import DataPlane
from kafkakit.registry.act.checkpoints import translate_offsets, translate_with_intervals
from kafkakit.registry.act.cluster_reader import ClusterReader
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.act.writes import Writes
from kafkakit.registry.decide.changes import changed_meanwhile
from kafkakit.registry.decide.facts import change_between
from kafkakit.registry.decide.history import StoredEntry, etag_of
from kafkakit.registry.decide.inventory import Inventory
from kafkakit.registry.decide.reads import answer_read
from kafkakit.registry.decide.replies import join_json, to_json
from kafkakit.registry.decide.requests import AnyRequest, Rpc, TranslateRequest, given_fields
from kafkakit.registry.decide.tags import Kind, Tags, merged
from kafkakit.registry.decide.v2.history_pages import check_history, history_page
from kafkakit.registry.decide.v2.messages import HistoryRequest, TranslateOffsetsRequest

LIMIT_S = 60.0


class LocalCalls:
    """Implements `RegistryCalls`; the cluster is read with the first call. Changes go into the audit log."""

    def __init__(
        self,
        admin: ClusterAdmin,
        tags: TagStore,
        clock: Clock,
        data: Callable[[], DataPlane],
        audit: AuditLog,
        caller: str,
        warn: Callable[[str], None],
    ) -> None:
        self._admin, self._tags, self._clock, self._data = admin, tags, clock, data
        self._audit, self._caller, self._warn = audit, caller, warn
        self._inventory = Inventory()

    def call(self, rpc: Rpc, request: AnyRequest) -> bytes:
        """See `RegistryCalls`."""
        if isinstance(request, TranslateRequest):
            return to_json(translate_offsets(self._data(), request, LIMIT_S))
        self._read_once()
        if rpc.is_read:
            return join_json([to_json(reply) for reply in answer_read(rpc.name, request, self._inventory)])
        prepared = Writes(self._admin, self._tags, self._clock, self._inventory).prepare(
            rpc.name, request, self._caller
        )
        return self._audited(
            {"call": rpc.name, "params": given_fields(request)},
            lambda: to_json(prepared(time.monotonic() + LIMIT_S).reply),
        )

    def change_tags(self, kind: Kind, name: str, before: Tags, after: Tags) -> None:
        """See `RegistryCalls`; one compare-and-set."""
        params = {"kind": str(kind), "name": name, "before": dict(before), "after": dict(after)}
        self._audited({"call": "ChangeTags", "params": params}, lambda: self._replace(kind, name, before, after))

    def tags_of_brokers(self, ids: Sequence[int]) -> dict[int, Tags]:
        """See `RegistryCalls`."""
        self._read_once()
        known = [broker for broker in ids if self._inventory.knows(Kind.BROKER, str(broker))]
        return {broker: self._tags.get(Kind.BROKER, str(broker)) or {} for broker in known}

    def history_page(self, request: HistoryRequest) -> bytes:
        """See `RegistryCalls`."""
        check_history(request)
        history = self._tags.history
        kind, name = Kind(request.kind or Kind.TOPIC), request.name
        objects = [(kind, name, history.of(kind, name))] if name else history.all()

        def is_made(kind: Kind, name: str, entry: StoredEntry) -> bool:
            return entry.after == etag_of(self._tags.get(kind, name))

        return msgspec.json.encode(history_page(request, objects, is_made, history.now_s()))

    def offset_intervals(self, request: TranslateOffsetsRequest) -> bytes:
        """See `RegistryCalls`."""
        return msgspec.json.encode(translate_with_intervals(self._data(), request, LIMIT_S))

    def _replace(self, kind: Kind, name: str, before: Tags, after: Tags) -> bytes:
        def change(present: Tags) -> Tags:
            if present != before:
                raise changed_meanwhile(kind, name)
            return merged(kind, name, {}, after)

        self._tags.acting_for(self._caller).change(kind, name, change)
        return b""

    def _audited(self, what: Mapping[str, object], work: Callable[[], bytes]) -> bytes:
        with self._audit.around({"caller": self._caller, **what}):
            return work()

    def _read_once(self) -> None:
        if self._inventory.began_at is None:
            facts = ClusterReader(self._admin, self._tags, self._clock).facts()
            self._inventory.apply(change_between(None, facts))
            if facts.unreadable:
                self._warn(f"{len(facts.unreadable)} records hold no tags, such as {facts.unreadable[0]}")
