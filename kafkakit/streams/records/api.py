"""What other tools use of `streams records`: entries of a log, places in words, and how bytes are shown."""

from kafkakit.streams.records.decide import Entry, Fate, Found, parse_place
from kafkakit.streams.records.show import bytes_field, bytes_text

__all__ = ["Entry", "Fate", "Found", "bytes_field", "bytes_text", "parse_place"]
