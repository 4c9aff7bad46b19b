"""What other tools use of `streams lanes`: the choice of a lane, provenance, rejects, and dual writes compared."""

from kafkakit.streams.lanes.decide.provenance import RecordFailure, RecordOrigin, provenance_headers, read_provenance
from kafkakit.streams.lanes.decide.reconciliation import reconcile, seen_record
from kafkakit.streams.lanes.decide.reject_ledger import Reject
from kafkakit.streams.lanes.decide.rules import LaneChooser
