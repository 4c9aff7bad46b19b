"""`kafkakit streams`: names over topics, what groups committed, lag and latency, records, and bombs."""

from kafkakit.cli.command_classes import CliCommand, new_group
from kafkakit.streams.assigner.commands import app as assigner
from kafkakit.streams.commits.commands.app import app as commits
from kafkakit.streams.demo.commands import demo
from kafkakit.streams.failover.commands.app import app as failover
from kafkakit.streams.failover.commands.app import move, repartition, verify_drain
from kafkakit.streams.lag.commands import app as lag
from kafkakit.streams.lanes.commands import dlq, reconcile, route, rules
from kafkakit.streams.moves.commands import balance, evacuate
from kafkakit.streams.records.commands import bombs_app as bombs
from kafkakit.streams.records.commands import records_app as records
from kafkakit.streams.routes.commands import app as inspecting
from kafkakit.streams.routes.commands import app as making
from kafkakit.streams.routes.commands.app import app as lane
from kafkakit.streams.routes.commands.app import pathway

app = new_group(
    "Create streams and their lanes, inspect and edit committed offsets, measure lag and latency, show records, "
    "handle rejected ones, find bombs, and move streams to other clusters."
)
app.command("create", cls=CliCommand, short_help="Create a stream with a topic for each lane.")(making.create)
app.command("list", cls=CliCommand, short_help="List the streams.")(inspecting.list_streams)
app.command("show", cls=CliCommand, short_help="Show a stream, its topics and their readers.")(inspecting.show)
app.command("history", cls=CliCommand, short_help="Show the changes of a stream.")(inspecting.history)
app.command("delete", cls=CliCommand, short_help="Delete a stream, and with --topics its topics.")(making.delete)
app.command("link", cls=CliCommand, short_help="Make an existing topic a part of a stream.")(making.link)
app.command("topology", cls=CliCommand, short_help="Show the graph of streams.")(inspecting.topology)
app.command("resolve", cls=CliCommand, short_help="Print addresses and topics for plain clients.")(inspecting.resolve)
app.command("reconcile", cls=CliCommand, short_help="Compare the two streams of a dual write.")(reconcile)
lane.command("route", cls=CliCommand, short_help="Count which lane sampled records would go to.")(route)
lane.command("rules", cls=CliCommand, short_help="Show or replace the rules of a stream.")(rules)
app.add_typer(lane, name="lane")
app.add_typer(assigner, name="assigner")
app.add_typer(bombs, name="bombs")
app.add_typer(commits, name="commits")
app.add_typer(dlq, name="dlq")
app.add_typer(failover, name="failover")
app.command("move", cls=CliCommand, short_help="Move a stream to another cluster.")(move)
app.command("repartition", cls=CliCommand, short_help="Give a lane another number of partitions.")(repartition)
app.command("evacuate", cls=CliCommand, short_help="Move every stream off a cluster.")(evacuate)
app.command("balance", cls=CliCommand, short_help="Spread streams over clusters by what is written.")(balance)
app.command("verify-drain", cls=CliCommand, short_help="Check a drain certificate.")(verify_drain)
app.add_typer(lag, name="lag")
app.add_typer(records, name="records")
app.command("pathway", cls=CliCommand, short_help="Show pathway latencies out of the headers of records.")(pathway)
app.command("demo", cls=CliCommand, short_help="Show a stream while things go wrong, on two clusters.")(demo)
