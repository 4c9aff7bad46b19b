"""What other tools use of `streams lanes`: the reject ledger, which must have an entry before a commit passes it, and
what reads and copies dead letters."""

from kafkakit.streams.lanes.act.dead_letters import LaneReader, RejectCopier, ReplayStates, StreamClusters
from kafkakit.streams.lanes.act.reject_ledger import BatchRecord, BatchWriter, RejectLedger
from kafkakit.streams.lanes.decide import CopyOutcome
