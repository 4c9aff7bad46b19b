"""What other tools use of `streams records`: what a log holds at an offset, places in words, and bytes as shown."""

from kafkakit.streams.records.decide import (
    LogEntry,
    ReadResult,
    TransactionOutcome,
    bytes_field,
    bytes_text,
    parse_place,
)
