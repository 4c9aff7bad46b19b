"""`kafkakit streams commits`: commits that hold many offsets, looked into and mended."""

from kafkakit.cli.command_classes import KitCommand, new_group
from kafkakit.streams.commits.commands.checks import limits, verify
from kafkakit.streams.commits.commands.editing import mount
from kafkakit.streams.commits.commands.live import explain, show, watch
from kafkakit.streams.commits.commands.offline import decode, diff, encode

app = new_group("Look into commits that hold many offsets, and mend them.")

app.command("show", cls=KitCommand, short_help="Show what a group committed, offset by offset.")(show)
app.command("explain", cls=KitCommand, short_help="Say why an offset is pending, and since when.")(explain)
app.command("watch", cls=KitCommand, short_help="Keep looking at a group's commits.")(watch)
app.command("verify", cls=KitCommand, short_help="Check groups for losses and repeats ahead.")(verify)
app.command("limits", cls=KitCommand, short_help="Show how full the metadata of all groups is.")(limits)
app.command("decode", cls=KitCommand, short_help="Say what a commit's metadata means, from a string.")(decode)
app.command("encode", cls=KitCommand, short_help="Write a commit's metadata from JSON.")(encode)
app.command("diff", cls=KitCommand, short_help="Say what changed between two commits.")(diff)
mount(app)
