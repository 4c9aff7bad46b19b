"""`kafkakit streams commits`: commits that hold many offsets, looked into and repaired."""

from kafkakit.cli.command_classes import CliCommand, new_group
from kafkakit.streams.commits.commands.checks import limits, verify
from kafkakit.streams.commits.commands.deletion import delete
from kafkakit.streams.commits.commands.editing import replay, reset, translate
from kafkakit.streams.commits.commands.live import explain, show, watch
from kafkakit.streams.commits.commands.offline import decode, diff, encode
from kafkakit.streams.commits.commands.records import reject, skip, unack
from kafkakit.streams.commits.commands.recovery import finish, undo

app = new_group("Inspect and edit commits that hold many offsets.")

app.command("show", cls=CliCommand, short_help="Show what a group committed, offset by offset.")(show)
app.command("explain", cls=CliCommand, short_help="Explain why an offset is pending, and since when.")(explain)
app.command("watch", cls=CliCommand, short_help="Watch a group's commits.")(watch)
app.command("verify", cls=CliCommand, short_help="Check groups for what loses or repeats records.")(verify)
app.command("limits", cls=CliCommand, short_help="Show how full the metadata of all groups is.")(limits)
app.command("decode", cls=CliCommand, short_help="Decode a commit's metadata from a string.")(decode)
app.command("encode", cls=CliCommand, short_help="Write a commit's metadata from JSON.")(encode)
app.command("diff", cls=CliCommand, short_help="Show what changed between two commits.")(diff)
app.command("reset", cls=CliCommand, short_help="Move the committed offset of a group without members.")(reset)
app.command("skip", cls=CliCommand, short_help="Mark records as done, such as a poison pill.")(skip)
app.command("unack", cls=CliCommand, short_help="Deliver done records again.")(unack)
app.command("reject", cls=CliCommand, short_help="Mark records as rejected.")(reject)
app.command("replay", cls=CliCommand, short_help="Deliver a window of records again.")(replay)
app.command("translate", cls=CliCommand, short_help="Convert commits to another kind of metadata.")(translate)
app.command("delete", cls=CliCommand, short_help="Delete the commits of a group without members.")(delete)
app.command("undo", cls=CliCommand, short_help="Restore the commits that an edit replaced.")(undo)
app.command("finish", cls=CliCommand, short_help="Finish an edit that was interrupted.")(finish)
