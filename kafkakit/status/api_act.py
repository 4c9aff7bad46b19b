"""What other tools use of `status` where they act: what partitions that are not whole need."""

from kafkakit.status.act.reading import min_isr_of_unwell
