"""`kafkakit fleet`: snapshots of many clusters."""

from kafkakit.cli.command_classes import CliCommand, new_group
from kafkakit.fleet.commands.collect import collect
from kafkakit.fleet.commands.segments import segments
from kafkakit.fleet.commands.synth import synth

app = new_group("Collect snapshots of many clusters, or make some to try audits on.")
app.command("collect", cls=CliCommand, short_help="Write snapshots of clusters into a store.")(collect)
app.command("segments", cls=CliCommand, short_help="Read log dirs of this host into a store.")(segments)
app.command("synth", cls=CliCommand)(synth)
