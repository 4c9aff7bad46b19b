"""`kafkakit streams failover`: the commands."""

from kafkakit.cli.command_classes import CliCommand, new_group
from kafkakit.streams.failover.commands import moving, planned, proving, rehearsing, watching

app = new_group("Move a stream to another cluster without loss, and prove it.")
app.command("plan", cls=CliCommand, short_help="Show what a failover would do and need.")(moving.plan)
app.command("run", cls=CliCommand, short_help="Move a stream to another cluster.")(moving.run)
app.command("back", cls=CliCommand, short_help="Return a stream to the cluster that it left.")(planned.back)
app.command("status", cls=CliCommand, short_help="Show where the newest operation stands.")(watching.status)
app.command("resume", cls=CliCommand, short_help="Continue the open operation.")(moving.resume)
app.command("abort", cls=CliCommand, short_help="Take an operation back before producers have moved.")(moving.abort)
app.command("certify", cls=CliCommand, short_help="Continue until the old topics are drained.")(proving.certify)
app.command("retire", cls=CliCommand, short_help="Continue until the old topics are retired.")(proving.retire)
app.command("reclaim", cls=CliCommand, short_help="Delete the old topics of a retired operation.")(proving.reclaim)
app.command("rehearse", cls=CliCommand, short_help="Rehearse a failover on a shadow stream.")(rehearsing.rehearse)
app.command("history", cls=CliCommand, short_help="Show all operations and commands of a stream.")(watching.history)
