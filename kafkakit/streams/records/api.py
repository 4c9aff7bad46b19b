"""What other tools use of `streams records`: what a log holds at an offset."""

from kafkakit.streams.records.decide import Entry, Fate, Found

__all__ = ["Entry", "Fate", "Found"]
