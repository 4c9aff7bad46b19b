"""Topics, brokers and names of the registry as the results of commands."""

from collections.abc import Sequence

from msgspec import UNSET, to_builtins

from kafkakit.core.tables import text_table
from kafkakit.registry.decide.entries import BrokerEntry, TopicEntry
from kafkakit.registry.decide.tags import Tags
from kafkakit.registry.decide.v2.messages import HistoryEntry, TranslatedOffset, ValueChange
from kafkakit.report.blocks import attributes, records
from kafkakit.report.report import Report


def topics_report(topics: Sequence[TopicEntry]) -> Report:
    """Topics with their tags."""
    columns = ("name", "partitions", "replication", "tags")
    rows = tuple((t.name, t.partitions, t.replication, tag_words(t.tags)) for t in topics)
    data = [
        {
            **attributes(t, "name partitions replication tags configs"),
            **({"replicas": {number: row.ids for number, row in t.replicas.items()}} if t.replicas else {}),
        }
        for t in topics
    ]
    return _report("registry topics", "topics", data, columns, rows)


def brokers_report(brokers: Sequence[BrokerEntry]) -> Report:
    """Brokers with their tags."""
    columns = ("id", "host", "port", "rack", "tags")
    rows = tuple((b.id, b.host, b.port, b.rack, tag_words(b.tags)) for b in brokers)
    data = [
        {
            **dict(zip(columns[:4], row, strict=False)),
            **attributes(b, "interbrokerprotocolversion logmessageformat tags"),
        }
        for b, row in zip(brokers, rows, strict=True)
    ]
    return _report("registry brokers", "brokers", data, columns, rows)


def names_report(command: str, what: str, names: Sequence[str | int]) -> Report:
    """Names or ids, one a line."""
    text = "".join(f"{name}\n" for name in names) or f"no {what}\n"
    rows = tuple((name,) for name in names)
    return Report(command=command, data={what: list(names)}, text=text, columns=(what,), rows=rows)


def offsets_report(offsets: Sequence[TranslatedOffset]) -> Report:
    """Upstream and local offset of each partition, until where the true one may lie, and what may be read twice."""
    columns = (
        "partition", "upstream_offset", "local_offset", "local_end_offset", "exact", "may_repeat",
        "assumes_no_own_records",
    )  # fmt: skip
    rows = tuple(
        (
            f"{o.topic}:{o.partition}",
            o.upstream_offset,
            o.local_offset,
            None if o.local_end_offset is UNSET else o.local_end_offset,
            o.exact,
            None if o.may_repeat is UNSET else o.may_repeat,
            o.assumes_no_own_records,
        )
        for o in offsets
    )
    return _report("registry translate-offsets", "offsets", records(columns, rows), columns, rows)


def history_report(entries: Sequence[HistoryEntry]) -> Report:
    """Who changed which tags, the newest change first."""
    columns = ("at", "kind", "name", "by", "changes")
    rows = tuple((e.at, e.kind, e.name, e.by, "; ".join(map(_change_words, e.changes))) for e in entries)
    return _report("registry history", "entries", to_builtins(entries), columns, rows)


def _change_words(change: ValueChange) -> str:
    """As in a difference: `+key:new`, `-key:old`, `key:old->new`."""
    if change.old is UNSET:
        return f"+{change.key}:{change.new}"
    return f"-{change.key}:{change.old}" if change.new is UNSET else f"{change.key}:{change.old}->{change.new}"


def tag_words(tags: Tags) -> str:
    """`key:value` texts, sorted."""
    return ",".join(f"{key}:{value}" for key, value in sorted(tags.items()))


def _report(
    command: str, what: str, data: Sequence[object], columns: tuple[str, ...], rows: tuple[tuple[object, ...], ...]
) -> Report:
    text = f"{text_table(columns, rows)}\n" if rows else f"no {what}\n"
    return Report(command=command, data={what: data}, text=text, columns=columns, rows=rows)
