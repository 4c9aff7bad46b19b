"""`kafkakit streams`: what consumer groups committed, and how far behind they are."""

from kafkakit.command import new_group
from kafkakit.streams.commits.cli import app as commits
from kafkakit.streams.lag.cli import app as lag

app = new_group("Look into committed offsets, mend them, and measure lag in time.")
app.add_typer(commits, name="commits")
app.add_typer(lag, name="lag")
