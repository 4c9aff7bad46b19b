"""`kafkakit streams`: names over topics, what groups committed, lag and latency, records, and bombs.

A command's module is imported when the command is resolved: what one of them needs, most of the others do not.
"""

from kafkakit.cli.root import CommandSource, lazy_group

_ROUTES, _LANES = "kafkakit.streams.routes.commands.app", "kafkakit.streams.lanes.commands"
_FAILOVER, _MOVES = "kafkakit.streams.failover.commands.app", "kafkakit.streams.moves.commands"
_RECORDS, _DEMO = "kafkakit.streams.records.commands", "kafkakit.streams.demo.commands"

app = lazy_group(
    "Create streams and their lanes, inspect and edit committed offsets, measure lag and latency, show records, "
    "handle rejected ones, find bombs, and move streams to other clusters.",
    (
        CommandSource("create", _ROUTES, "Create a stream with a topic for each lane.", app="create"),
        CommandSource("list", _ROUTES, "List the streams.", app="list_streams"),
        CommandSource("show", _ROUTES, "Show a stream, its topics and their readers.", app="show"),
        CommandSource("history", _ROUTES, "Show the changes of a stream.", app="history"),
        CommandSource("delete", _ROUTES, "Delete a stream, and with --topics its topics.", app="delete"),
        CommandSource("link", _ROUTES, "Make an existing topic a part of a stream.", app="link"),
        CommandSource("topology", _ROUTES, "Show the graph of streams.", app="topology"),
        CommandSource("resolve", _ROUTES, "Print addresses and topics for plain clients.", app="resolve"),
        CommandSource("reconcile", _LANES, "Compare the two streams of a dual write.", app="reconcile"),
        CommandSource("move", _FAILOVER, "Move a stream to another cluster.", app="move"),
        CommandSource("repartition", _FAILOVER, "Give a lane another number of partitions.", app="repartition"),
        CommandSource("evacuate", _MOVES, "Move every stream off a cluster.", app="evacuate"),
        CommandSource("balance", _MOVES, "Spread streams over clusters by what is written.", app="balance"),
        CommandSource("verify-drain", _FAILOVER, "Check a drain certificate.", app="verify_drain"),
        CommandSource("pathway", _ROUTES, "Show pathway latencies out of the headers of records.", app="pathway"),
        CommandSource("demo", _DEMO, "Show a stream while things go wrong, on two clusters.", app="demo"),
        CommandSource(
            "lane",
            _ROUTES,
            also=(
                CommandSource("route", _LANES, "Count which lane sampled records would go to.", app="route"),
                CommandSource("rules", _LANES, "Show or replace the rules of a stream.", app="rules"),
            ),
        ),
        CommandSource("assigner", "kafkakit.streams.assigner.commands"),
        CommandSource("bombs", _RECORDS, app="bombs_app"),
        CommandSource("commits", "kafkakit.streams.commits.commands.app"),
        CommandSource("dlq", _LANES, app="dlq"),
        CommandSource("failover", _FAILOVER),
        CommandSource("lag", "kafkakit.streams.lag.commands"),
        CommandSource("records", _RECORDS, app="records_app"),
    ),
)
