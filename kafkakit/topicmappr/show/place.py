"""The report of a new topic's placement."""

from collections.abc import Iterator

from kafkakit.core.quantities import counted, format_bytes
from kafkakit.core.shell_words import quote
from kafkakit.core.tables import text_table
from kafkakit.report.blocks import capped, section, text_of
from kafkakit.report.report import Report
from kafkakit.topicmappr.decide.place import NewTopic
from kafkakit.topicmappr.show.plan_blocks import ids

SHOWN_PARTITIONS = 40
REST = "... and {} more (all of them in the map file)"
# Linux refuses a single argument of 128 KiB or more (MAX_ARG_STRLEN in its binfmts.h).
MAX_ARGUMENT = 131_071


def place_report(placed: NewTopic, map_file: str, address: str | None) -> Report:
    """Lists, loads per broker, the map file and the command that creates the topic."""
    return Report(
        command="topicmappr place",
        data={
            "topic": placed.topic,
            "partitions": [{"partition": n, "replicas": row} for n, row in enumerate(placed.lists)],
            "partition_bytes": placed.shape.partition_bytes,
            "replica_assignment": placed.argument,
            "brokers": placed.shares,
            "notes": placed.notes,
            "map_file": map_file,
        },
        text=text_of(_lines(placed, map_file, address)),
        columns=("topic", "partition", "replicas"),
        rows=tuple((placed.topic, n, row) for n, row in enumerate(placed.lists)),
    )


def _lines(placed: NewTopic, map_file: str, address: str | None) -> Iterator[str]:
    shape = placed.shape
    size = f", about {format_bytes(shape.partition_bytes)} each" if shape.partition_bytes is not None else ""
    yield f"New topic {placed.topic}: {counted(shape.partitions, 'partition')}, replication {shape.replication}{size}"
    lists = list(enumerate(placed.lists))
    shown = capped(lists, lambda row: f"p{row[0]}: {ids(row[1])}", SHOWN_PARTITIONS, REST)
    yield from section("Replicas:", shown)
    yield from section("Brokers (all topics):", _table(placed).splitlines())
    yield from (f"note: {note}" for note in placed.notes)
    yield from ("", f"New map: {map_file}")
    command = create_command(placed, address)
    if command is None:
        yield "The assignment is too long for one argument of kafka-topics; use the map file"
    else:
        yield from ("Create the topic with:", command)


def _table(placed: NewTopic) -> str:
    by_bytes = placed.shape.partition_bytes is not None
    head = ("broker", "rack", "replicas", "new", "leaders", "new", *(("bytes", "new") if by_bytes else ()))
    return text_table(
        head,
        [
            (s.broker, s.rack, s.replicas, s.new_replicas, s.leaders, s.new_leaders)
            + ((format_bytes(s.bytes), format_bytes(s.new_bytes)) if by_bytes else ())
            for s in placed.shares
        ],
    )


def create_command(placed: NewTopic, address: str | None) -> str | None:
    """The command of Kafka's own tool; None when the assignment is longer than an argument may be."""
    if len(placed.argument) > MAX_ARGUMENT:
        return None
    server = quote(address) if address else "HOST:PORT"
    return (
        f"kafka-topics.sh --bootstrap-server {server} --create --topic {quote(placed.topic)} "
        f"--replica-assignment {placed.argument}"
    )
