"""`kafkakit streams`: commits of consumer groups, how far behind they are, records, lanes and rejected records."""

from kafkakit.cli.command_classes import new_group
from kafkakit.streams.commits.commands.app import app as commits
from kafkakit.streams.lag.commands.app import app as lag
from kafkakit.streams.lanes.commands.app import dlq, lane
from kafkakit.streams.records.commands import app as records

app = new_group("Inspect and edit committed offsets, measure lag in time, show records, and handle rejected ones.")
app.add_typer(commits, name="commits")
app.add_typer(lag, name="lag")
app.add_typer(records, name="records")
app.add_typer(lane, name="lane")
app.add_typer(dlq, name="dlq")
