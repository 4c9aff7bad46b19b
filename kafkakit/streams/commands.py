"""`kafkakit streams`: names over topics, what groups committed, lag and latency, records, and bombs.

A command's module is imported when the command is resolved: what one of them needs, most of the others do not.
"""

from kafkakit.cli.root import Entry, lazy_group

_ROUTES, _LANES = "kafkakit.streams.routes.commands.app", "kafkakit.streams.lanes.commands"
_FAILOVER, _MOVES = "kafkakit.streams.failover.commands.app", "kafkakit.streams.moves.commands"
_RECORDS, _DEMO = "kafkakit.streams.records.commands", "kafkakit.streams.demo.commands"

app = lazy_group(
    "Create streams and their lanes, inspect and edit committed offsets, measure lag and latency, show records, "
    "handle rejected ones, find bombs, and move streams to other clusters.",
    (
        Entry("create", _ROUTES, "Create a stream with a topic for each lane.", app="create"),
        Entry("list", _ROUTES, "List the streams.", app="list_streams"),
        Entry("show", _ROUTES, "Show a stream, its topics and their readers.", app="show"),
        Entry("history", _ROUTES, "Show the changes of a stream.", app="history"),
        Entry("delete", _ROUTES, "Delete a stream, and with --topics its topics.", app="delete"),
        Entry("link", _ROUTES, "Make an existing topic a part of a stream.", app="link"),
        Entry("topology", _ROUTES, "Show the graph of streams.", app="topology"),
        Entry("resolve", _ROUTES, "Print addresses and topics for plain clients.", app="resolve"),
        Entry("reconcile", _LANES, "Compare the two streams of a dual write.", app="reconcile"),
        Entry("move", _FAILOVER, "Move a stream to another cluster.", app="move"),
        Entry("repartition", _FAILOVER, "Give a lane another number of partitions.", app="repartition"),
        Entry("evacuate", _MOVES, "Move every stream off a cluster.", app="evacuate"),
        Entry("balance", _MOVES, "Spread streams over clusters by what is written.", app="balance"),
        Entry("verify-drain", _FAILOVER, "Check a drain certificate.", app="verify_drain"),
        Entry("pathway", _ROUTES, "Show pathway latencies out of the headers of records.", app="pathway"),
        Entry("demo", _DEMO, "Show a stream while things go wrong, on two clusters.", app="demo"),
        Entry(
            "lane",
            _ROUTES,
            also=(
                Entry("route", _LANES, "Count which lane sampled records would go to.", app="route"),
                Entry("rules", _LANES, "Show or replace the rules of a stream.", app="rules"),
            ),
        ),
        Entry("assigner", "kafkakit.streams.assigner.commands"),
        Entry("bombs", _RECORDS, app="bombs_app"),
        Entry("commits", "kafkakit.streams.commits.commands.app"),
        Entry("dlq", _LANES, app="dlq"),
        Entry("failover", _FAILOVER),
        Entry("lag", "kafkakit.streams.lag.commands"),
        Entry("records", _RECORDS, app="records_app"),
    ),
)
