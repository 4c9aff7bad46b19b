"""What other tools use of `streams lanes`: the reject ledger, which must have an entry before a commit passes it."""

from kafkakit.streams.lanes.act.reject_ledger import RejectLedger
