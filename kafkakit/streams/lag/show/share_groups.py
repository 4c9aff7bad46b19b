"""Where share groups stand, as text, rows and plain data."""

from collections.abc import Mapping

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import KafkakitError, OperationFailedError, TryLaterError
from kafkakit.core.group_facts import GroupState, ShareOffset
from kafkakit.core.printable import printable
from kafkakit.core.tables import text_table
from kafkakit.report.report import Report

COLUMNS = ("group", "state", "topic", "partition", "start_offset", "lag", "error")


def share_group_report(
    states: Mapping[str, GroupState], found: Mapping[str, tuple[ShareOffset, ...] | ItemError]
) -> Report:
    """One line for each partition of each group; groups that cannot be read are the failure."""
    rows: list[tuple[object, ...]] = []
    refused: dict[str, ItemError] = {}
    for group, offsets in sorted(found.items()):
        if isinstance(offsets, ItemError):
            refused[group] = offsets
            continue
        for one in offsets:
            error = None if one.error is None else str(one.error)
            place = (one.place.topic, one.place.partition)
            rows.append((group, states[group].value, *place, one.start, one.lag, error))
        if not offsets:
            rows.append((group, states[group].value, None, None, None, None, None))
    columns: tuple[str, ...] = COLUMNS
    lines = rows
    if all(row[-1] is None for row in rows):
        columns, lines = COLUMNS[:-1], [row[:-1] for row in rows]
    text = text_table(columns, lines) if rows else "no share groups found" if not refused else "not known"
    return Report(
        command="streams lag share-groups",
        data={
            "groups": [{"group": g, "state": states[g].value, "partitions": _data(found[g])} for g in sorted(found)],
        },
        text=text + "\n",
        columns=COLUMNS,
        rows=tuple(rows),
        failure=_failure(refused),
    )


def _data(offsets: tuple[ShareOffset, ...] | ItemError) -> list[dict[str, object]] | None:
    if isinstance(offsets, ItemError):
        return None
    return [
        {
            "topic": one.place.topic,
            "partition": one.place.partition,
            "start_offset": one.start,
            "lag": one.lag,
            "error": None if one.error is None else str(one.error),
        }
        for one in offsets
    ]


def _failure(refused: Mapping[str, ItemError]) -> KafkakitError | None:
    if not refused:
        return None
    group, error = min(refused.items())
    others = f" (and {len(refused) - 1} more groups)" if len(refused) > 1 else ""
    message = f"share group {printable(group)} cannot be read: {error}{others}"
    if any(e.retriable for e in refused.values()):
        return TryLaterError(message)
    return OperationFailedError(message, hint="reading a group needs the right DESCRIBE on it and on its topics")
