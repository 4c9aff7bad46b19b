"""What other tools use of `lint`: its readers of files."""

from kafkakit.lint.act.read_files import read_files

__all__ = ["read_files"]
