"""What other tools use of `lint`: its readers of files and clusters, and its configuration."""

from kafkakit.lint.act.live import live_pieces, with_topics
from kafkakit.lint.act.read_files import read_files
from kafkakit.lint.act.rules import read_config
