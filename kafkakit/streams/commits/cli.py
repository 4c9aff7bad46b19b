"""`kafkakit streams commits`: commits that hold many offsets, looked into and mended."""

from kafkakit.command import KitCommand, new_group
from kafkakit.streams.commits.pasted.cli import decode

app = new_group("Look into commits that hold many offsets, and mend them.")

app.command("decode", cls=KitCommand, short_help="Say what a commit's metadata means, from a string.")(decode)
