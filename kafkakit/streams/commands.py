"""`kafkakit streams`: what groups committed, how far behind they are, how long records were under way, and bombs."""

from kafkakit.cli.command_classes import CliCommand, new_group
from kafkakit.streams.bombs.commands.app import app as bombs
from kafkakit.streams.commits.commands.app import app as commits
from kafkakit.streams.lag.commands.app import app as lag
from kafkakit.streams.pathways.commands import pathway
from kafkakit.streams.records.commands import app as records

app = new_group("Inspect and edit committed offsets, measure lag and latency, show records, and find bombs.")
app.add_typer(bombs, name="bombs")
app.add_typer(commits, name="commits")
app.add_typer(lag, name="lag")
app.add_typer(records, name="records")
app.command("pathway", cls=CliCommand, short_help="Show pathway latencies out of the headers of records.")(pathway)
