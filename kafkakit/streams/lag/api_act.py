"""What other tools use of `streams lag`: the reader of the commit log, and of topics' retention."""

from kafkakit.streams.lag.act.reading import OffsetsTail, topic_facts
