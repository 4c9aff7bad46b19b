"""What other tools use of `streams lanes`: the choice of a lane, provenance, rejects, and dual writes compared."""

from kafkakit.streams.lanes.decide.provenance import (
    OWN_HEADERS,
    Provenance,
    RecordFailure,
    RecordOrigin,
    provenance_headers,
    read_provenance,
)
from kafkakit.streams.lanes.decide.reconciliation import reconcile, seen_record
from kafkakit.streams.lanes.decide.reject_ledger import REJECTS_TOPIC, Reject, decode_reject, encode_reject
from kafkakit.streams.lanes.decide.rules import LaneChooser

__all__ = [
    "OWN_HEADERS",
    "REJECTS_TOPIC",
    "LaneChooser",
    "Provenance",
    "RecordFailure",
    "RecordOrigin",
    "Reject",
    "decode_reject",
    "encode_reject",
    "provenance_headers",
    "read_provenance",
    "reconcile",
    "seen_record",
]
