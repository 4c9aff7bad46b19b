"""What other tools use of `lint`: its readers of files and clusters, and its configuration."""

from kafkakit.lint.act import live_pieces, read_config, read_files, with_topics
