"""`kafkakit streams dlq`."""

from kafkakit.cli.command_classes import CliCommand, new_group
from kafkakit.streams.lanes.commands.changes import copy, purge, replay
from kafkakit.streams.lanes.commands.letters import list_, show

dlq = new_group("List, replay and purge rejected records.")
dlq.command("list", cls=CliCommand, short_help="List rejected records.")(list_)
dlq.command("show", cls=CliCommand, short_help="Show one rejected record and its provenance.")(show)
dlq.command("replay", cls=CliCommand, short_help="Write rejected records to their original lane again.")(replay)
dlq.command("purge", cls=CliCommand, short_help="Delete rejected records for good.")(purge)
dlq.command("copy", cls=CliCommand, short_help="Copy rejected records before retention deletes them.")(copy)
