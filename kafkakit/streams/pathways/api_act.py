"""What other tools use of `streams pathway`: reading the newest records of topics."""

from kafkakit.streams.pathways.act import read_pathways
