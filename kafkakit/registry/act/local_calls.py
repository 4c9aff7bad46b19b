"""The calls of the registry carried out by this process, on the cluster and on the store of its tags.

Checkpoints of one group, and offset syncs, are read by consumers that each call has for itself.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

import msgspec

from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.execution.act.journal_files import AuditLog
from kafkakit.ports.acting import Clock
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import DataPlane
from kafkakit.registry.act.cluster import InventoryReader, MarkCordoned, Writes, mark_none
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.decide.desired_tags import changed_meanwhile
from kafkakit.registry.decide.inventory import Inventory, change_between
from kafkakit.registry.decide.offsets import checkpoint_topic, fold_checkpoints, read_sync, sync_topic, with_intervals
from kafkakit.registry.decide.requests import (
    AnyRequest,
    CallRoute,
    OffsetsReply,
    TranslateRequest,
    answer_read,
    given_fields,
    join_json,
    to_json,
)
from kafkakit.registry.decide.tags import ObjectKind, StoredEntry, Tags, etag_of, fault, merge_tags
from kafkakit.registry.decide.v2_calls import HistoryRequest, TranslatedOffsets, TranslateOffsetsRequest
from kafkakit.registry.decide.v2_views import check_history, history_page
from kafkakit.streams.model.mirrormaker import OffsetSync

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
        mark: MarkCordoned = mark_none,
    ) -> None:
        self._admin, self._tags, self._clock, self._data, self._mark = admin, tags, clock, data, mark
        self._audit, self._caller, self._warn = audit, caller, warn
        self._inventory = Inventory()

    def call(self, rpc: CallRoute, request: AnyRequest) -> bytes:
        if isinstance(request, TranslateRequest):
            return to_json(translate_offsets(self._data(), request, LIMIT_S))
        self._read_once()
        if rpc.is_read:
            return join_json([to_json(reply) for reply in answer_read(rpc.name, request, self._inventory)])
        prepared = Writes(self._admin, self._tags, self._clock, self._inventory, self._mark).prepare(
            rpc.name, request, self._caller
        )
        return self._audited(
            {"call": rpc.name, "params": given_fields(request)},
            lambda: to_json(prepared(time.monotonic() + LIMIT_S).reply),
        )

    def change_tags(self, kind: ObjectKind, name: str, before: Tags, after: Tags) -> None:
        """See `RegistryCalls`; one compare-and-set."""
        params = {"kind": str(kind), "name": name, "before": dict(before), "after": dict(after)}
        self._audited({"call": "ChangeTags", "params": params}, lambda: self._replace(kind, name, before, after))

    def tags_of_brokers(self, ids: Sequence[int]) -> dict[int, Tags]:
        self._read_once()
        known = [broker for broker in ids if self._inventory.knows(ObjectKind.BROKER, str(broker))]
        return {broker: self._tags.get(ObjectKind.BROKER, str(broker)) or {} for broker in known}

    def history_page(self, request: HistoryRequest) -> bytes:
        check_history(request)
        history = self._tags.history
        kind, name = ObjectKind(request.kind or ObjectKind.TOPIC), request.name
        objects = [(kind, name, history.of(kind, name))] if name else history.all()

        def is_made(kind: ObjectKind, name: str, entry: StoredEntry) -> bool:
            return entry.after == etag_of(self._tags.get(kind, name))

        return msgspec.json.encode(history_page(request, objects, is_made, history.now_s()))

    def offset_intervals(self, request: TranslateOffsetsRequest) -> bytes:
        return msgspec.json.encode(translate_with_intervals(self._data(), request, LIMIT_S))

    def _replace(self, kind: ObjectKind, name: str, before: Tags, after: Tags) -> bytes:
        def change(present: Tags) -> Tags:
            if present != before:
                raise changed_meanwhile(kind, name)
            return merge_tags(kind, name, {}, after)

        self._tags.acting_for(self._caller).change(kind, name, change)
        return b""

    def _audited(self, what: Mapping[str, object], work: Callable[[], bytes]) -> bytes:
        with self._audit.around({"caller": self._caller, **what}, self._warn):
            return work()

    def _read_once(self) -> None:
        if self._inventory.began_at is None:
            facts = InventoryReader(self._admin, self._tags, self._clock).facts()
            self._inventory.apply(change_between(None, facts))
            if facts.unreadable:
                self._warn(f"{len(facts.unreadable)} records hold no tags, such as {facts.unreadable[0]}")


POLL_S = 0.2
MAX_RECORDS = 5_000_000


def translate_offsets(data: DataPlane, request: TranslateRequest, deadline_s: float) -> OffsetsReply:
    """The group's offsets in partition 0 of the checkpoint topic, up to the end it has now; blocks.

    Raises `RpcError`: the topic is missing, a record is damaged, or the deadline has passed.
    """
    if not request.group_id:
        raise fault("GroupId field must be specified")
    topic = checkpoint_topic(request.remote_cluster_alias)
    found: dict[str, tuple[int, int]] = {}

    def take(records: Sequence[Record]) -> None:
        fold_checkpoints(records, request.group_id, found)

    if not _read_topic(data, topic, time.monotonic() + deadline_s, take):
        raise RpcError(
            RpcCode.NOT_FOUND, f"failed to retrieve the log end offset for {topic}:0: there is no such topic"
        )
    return OffsetsReply(offsets=dict(sorted(found.items())))


def translate_with_intervals(data: DataPlane, request: TranslateOffsetsRequest, deadline_s: float) -> TranslatedOffsets:
    """Translated offsets with the intervals that offset syncs allow, if MirrorMaker keeps these here; blocks.

    Raises as `translate_offsets`.
    """
    end_s = time.monotonic() + deadline_s
    asked = TranslateRequest(remote_cluster_alias=request.alias, group_id=request.group)
    offsets = translate_offsets(data, asked, deadline_s).offsets
    # Syncs come after the checkpoints, so that a checkpoint is never newer than they are.
    syncs = read_syncs(data, sync_topic(request.alias), end_s - time.monotonic()) if offsets else None
    return with_intervals(offsets, syncs or (), request.alias)


def read_syncs(data: DataPlane, topic: str, deadline_s: float) -> list[OffsetSync] | None:
    """The offset syncs of a topic in the order of their log, None where there is no such topic; blocks."""
    syncs: list[OffsetSync] = []

    def take(records: Sequence[Record]) -> None:
        syncs.extend(read_sync(record) for record in records if not record.is_null)

    return syncs if _read_topic(data, topic, time.monotonic() + deadline_s, take) else None


def _read_topic(data: DataPlane, topic: str, end_s: float, take: Callable[[Sequence[Record]], None]) -> bool:
    """Hand on what partition 0 holds, up to the end it has now; False where there is no such topic."""
    partition = TopicPartition(topic, 0)
    held = data.offsets([partition], max(0.1, end_s - time.monotonic())).get(partition)
    if not held:
        return held is not None
    with closing(data.consumer([partition])) as consumer:
        seen = 0
        while True:
            records = consumer.poll(POLL_S)
            take([record for record in records if record.offset < held.stop])
            seen += len(records)
            # A compacted end has no record: then the consumer alone knows that it is there.
            if (records and records[-1].offset >= held.stop - 1) or partition in consumer.ended():
                return True
            if time.monotonic() > end_s or seen > MAX_RECORDS:
                raise fault("deadline exceeded", detail=f"after {seen} records of {topic}")
