"""What other tools use of `streams records`: places of records in words, and how their bytes are shown."""

from kafkakit.streams.records.decide import Entry, Found, parse_place
from kafkakit.streams.records.show import bytes_field, bytes_text

__all__ = ["Entry", "Found", "bytes_field", "bytes_text", "parse_place"]
