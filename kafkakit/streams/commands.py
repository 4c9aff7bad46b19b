"""`kafkakit streams`: what consumer groups committed, how far behind they are, and what records hold."""

from kafkakit.cli.command_classes import new_group
from kafkakit.streams.bombs.commands.app import app as bombs
from kafkakit.streams.commits.commands.app import app as commits
from kafkakit.streams.lag.commands.app import app as lag
from kafkakit.streams.records.commands import app as records

app = new_group("Inspect and edit committed offsets, measure lag in time, show records and find bombs.")
app.add_typer(bombs, name="bombs")
app.add_typer(commits, name="commits")
app.add_typer(lag, name="lag")
app.add_typer(records, name="records")
