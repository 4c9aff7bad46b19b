"""What other tools use of `streams records`: the reader of records."""

from kafkakit.streams.records.act import RecordReader
