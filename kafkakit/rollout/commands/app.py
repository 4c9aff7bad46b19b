"""`kafkakit config`: the commands."""

from kafkakit.cli.command_classes import CliCommand, new_group
from kafkakit.rollout.commands import looking, planning, running

app = new_group("Change configuration step by step: rehearsed, watched, taken back.")
app.command("plan", cls=CliCommand, short_help="Show what a change would do.")(planning.plan)
app.command("apply", cls=CliCommand, short_help="Carry out a plan, watched step by step.")(running.apply)
app.command("resume", cls=CliCommand, short_help="Continue an open rollout.")(running.resume)
app.command("abort", cls=CliCommand, short_help="Take an open rollout back.")(running.abort)
app.command("rollback", cls=CliCommand, short_help="Take back a rollout that ended.")(running.rollback)
app.command("watch", cls=CliCommand, short_help="Watch a cluster's health, and change nothing.")(looking.watch)
app.command("history", cls=CliCommand, short_help="List rollouts, or what one wrote.")(looking.history)
app.command("diff", cls=CliCommand, short_help="Show settings that differ.")(planning.diff)
