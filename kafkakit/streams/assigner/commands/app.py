"""`kafkakit streams assigner`: the commands."""

from kafkakit.cli.command_classes import CliCommand, new_group
from kafkakit.streams.assigner.commands import inspecting, running

app = new_group("Share the partitions of streams out among workers, and watch the streams' clusters.")
app.command("run", cls=CliCommand, short_help="Run an Assigner.")(running.run)
app.command("show", cls=CliCommand, short_help="Show the Assigner, clusters and workers.")(inspecting.show)
app.command("drain", cls=CliCommand, short_help="Take all partitions from a worker.")(inspecting.drain)
app.command("explain", cls=CliCommand, short_help="Show why partitions are read where they are.")(inspecting.explain)
app.command("simulate", cls=CliCommand, short_help="Show what deaths would lead to.")(inspecting.simulate)
