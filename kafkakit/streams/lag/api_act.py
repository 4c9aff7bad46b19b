"""What other tools use of `streams lag`: the reader of the commit log, and of topics' retention."""

from kafkakit.streams.lag.act.tail import OFFSETS_TOPIC, OffsetsTail
from kafkakit.streams.lag.act.topic_settings import topic_facts
