"""`kafkakit streams`: what consumer groups committed, and how far behind they are."""

from kafkakit.cli.command_classes import new_group
from kafkakit.streams.commits.commands.app import app as commits
from kafkakit.streams.lag.commands.app import app as lag

app = new_group("Inspect and edit committed offsets, and measure lag in time.")
app.add_typer(commits, name="commits")
app.add_typer(lag, name="lag")
