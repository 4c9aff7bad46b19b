"""`kafkakit streams commits`: commits that hold many offsets, looked into and repaired."""

from kafkakit.cli.command_classes import CliCommand, new_group
from kafkakit.streams.commits.commands.checks import limits, verify
from kafkakit.streams.commits.commands.editing import replay, reset, translate
from kafkakit.streams.commits.commands.live import explain, show, watch
from kafkakit.streams.commits.commands.offline import decode, diff, encode
from kafkakit.streams.commits.commands.records import reject, skip, unack
from kafkakit.streams.commits.commands.recovery import finish, undo

app = new_group("Look into commits that hold many offsets, and repair them.")

app.command("show", cls=CliCommand, short_help="Show what a group committed, offset by offset.")(show)
app.command("explain", cls=CliCommand, short_help="Say why an offset is pending, and since when.")(explain)
app.command("watch", cls=CliCommand, short_help="Keep looking at a group's commits.")(watch)
app.command("verify", cls=CliCommand, short_help="Check groups for losses and repeats ahead.")(verify)
app.command("limits", cls=CliCommand, short_help="Show how full the metadata of all groups is.")(limits)
app.command("decode", cls=CliCommand, short_help="Say what a commit's metadata means, from a string.")(decode)
app.command("encode", cls=CliCommand, short_help="Write a commit's metadata from JSON.")(encode)
app.command("diff", cls=CliCommand, short_help="Say what changed between two commits.")(diff)
app.command("reset", cls=CliCommand, short_help="Move the committed offset of a group without members.")(reset)
app.command("skip", cls=CliCommand, short_help="Count records as done, such as a poison pill.")(skip)
app.command("unack", cls=CliCommand, short_help="Let records that are done be delivered again.")(unack)
app.command("reject", cls=CliCommand, short_help="Give records up, and keep that on record.")(reject)
app.command("replay", cls=CliCommand, short_help="Open a window of records again.")(replay)
app.command("translate", cls=CliCommand, short_help="Write commits in another kind of metadata.")(translate)
app.command("undo", cls=CliCommand, short_help="Bring back the commits that an edit replaced.")(undo)
app.command("finish", cls=CliCommand, short_help="Finish an edit that was interrupted.")(finish)
