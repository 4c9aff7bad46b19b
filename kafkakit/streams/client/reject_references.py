"""What a consumer gives up, by reference: entries of the reject ledger, on the cluster that holds the record."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import DataPlane
from kafkakit.streams.client.dead_letter_lane import failure_in, place_of
from kafkakit.streams.client.dead_letters import RejectedRecord
from kafkakit.streams.client.options import ConsumerHooks
from kafkakit.streams.lanes.api_act import RejectLedger
from kafkakit.streams.model.provenance import Reject


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPorts:
    """What the ledger of one cluster takes; it connects with the first entry."""

    admin: ClusterAdmin
    data: DataPlane


class RejectReferences:
    """A `RejectSink`: the record stays in its topic, and `kafkakit streams dlq` lists and copies it from there.

    `kafkakit streams dlq copy` must run before retention deletes the topic's records. For one thread.
    """

    def __init__(self, open_ledger: Callable[[str], RejectLedger]) -> None:
        self._open, self._ledgers = open_ledger, dict[str, RejectLedger]()

    def __call__(self, rejected: RejectedRecord) -> None:
        """Write an entry and wait until all in-sync replicas have it; raises as `RejectLedger.add`."""
        record = rejected.record
        source = record.origin.source
        if source.cluster_id not in self._ledgers:
            self._ledgers[source.cluster_id] = self._open(source.cluster_id)
        place = place_of(record.origin, record.offset, rejected.epoch, record.timestamp_ms)
        entry = Reject(topic_id=source.topic_id, place=place, failure=failure_in(rejected))
        self._ledgers[source.cluster_id].add([entry])


def with_references(hooks: ConsumerHooks, references: RejectReferences) -> ConsumerHooks:
    """The hooks with the ledger: for all that is rejected where nothing else takes it, and in place of what fails."""
    return replace(hooks, reject=hooks.reject or references, spare=references)
