"""`kafkakit streams`: what consumer groups committed, and how far behind they are."""

from kafkakit.cli.command_classes import new_group
from kafkakit.streams.commits.commands.app import app as commits
from kafkakit.streams.lag.commands.app import app as lag
from kafkakit.streams.records.commands import app as records

app = new_group("Inspect and edit committed offsets, measure lag in time, and show records.")
app.add_typer(commits, name="commits")
app.add_typer(lag, name="lag")
app.add_typer(records, name="records")
