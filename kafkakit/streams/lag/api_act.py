"""What other tools use of `streams lag`: the reader of the commit log."""

from kafkakit.streams.lag.act.tail import OFFSETS_TOPIC, OffsetsTail

__all__ = ["OFFSETS_TOPIC", "OffsetsTail"]
