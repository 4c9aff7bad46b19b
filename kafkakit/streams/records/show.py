"""Records as text, rows and JSON fields: text where bytes are UTF-8, else hexadecimal digits or base64."""

from base64 import b64encode
from collections.abc import Iterator

from kafkakit.core.errors import OperationFailedError
from kafkakit.core.printable import printable
from kafkakit.core.quantities import counted
from kafkakit.report.report import Report
from kafkakit.streams.model.commit import utc_text
from kafkakit.streams.records.decide import Entry, Fate, Found

COLUMNS = ("offset", "last", "timestamp_ms", "timestamp_type", "key", "value", "value_bytes", "transaction", "instead")
FATES = {
    Fate.COMMITTED: "committed",
    Fate.ABORTED: "aborted: read_committed consumers pass over it",
    Fate.OPEN: "open: read_committed consumers wait for its end",
    Fate.UNKNOWN: "its end was not read in time",
}


def records_report(found: Found, cluster_id: str, most_bytes: int) -> Report:
    """What was found; keys, values and headers are cut after `most_bytes`. It fails where nothing was found."""
    place = printable(f"{found.key.topic}/{found.key.partition}@{found.offset}")
    lines = [f"{place} on cluster {cluster_id}: the log holds {found.span.start} to {found.span.end - 1}"]
    if found.span.start == found.span.end:
        lines = [f"{place} on cluster {cluster_id}: the log is empty, the next offset is {found.span.end}"]
    if found.entries and found.problem:
        lines.append(f"{found.offset} was {found.problem}")
    for entry in found.entries:
        lines += ["", *_lines(entry, most_bytes)]
    return Report(
        command="streams records show",
        data={
            "cluster_id": cluster_id,
            "topic": found.key.topic,
            "partition": found.key.partition,
            "offset": found.offset,
            "log_start": found.span.start,
            "log_stable": found.span.stable,
            "log_end": found.span.end,
            "problem": found.problem or None,
            "records": [_data(entry, most_bytes) for entry in found.entries],
        },
        text="\n".join(lines),
        columns=COLUMNS,
        rows=tuple(_row(entry, most_bytes) for entry in found.entries),
        failure=None if found.entries else OperationFailedError(f"{place}: {found.problem}"),
    )


def _lines(entry: Entry, most: int) -> Iterator[str]:
    batch = entry.batch
    yield f"offset {entry.offset}" if entry.last == entry.offset else f"offsets {entry.offset} to {entry.last}"
    if entry.instead:
        of = f" of producer {batch.producer_id}, epoch {batch.producer_epoch}" if batch.is_control else ""
        yield f"  {entry.instead}{of}"
    if entry.at_ms >= 0:
        yield f"  time         {utc_text(entry.at_ms)} ({entry.time_type})"
    if not entry.instead:
        yield f"  key          {bytes_text(entry.key, most)}"
        yield f"  value        {bytes_text(entry.value, most)}"
        for name, value in entry.headers:
            yield f"  header       {printable(name)} = {bytes_text(value, most)}"
    if entry.fate is not None:
        yield f"  transaction  {FATES[entry.fate]} (producer {batch.producer_id}, epoch {batch.producer_epoch})"


def bytes_text(data: bytes | None, most: int) -> str:
    """Bytes for people: UTF-8 as it is, others as hexadecimal digits, with their size; cut after `most`."""
    if data is None:
        return "null"
    text = _decoded(data, most)
    shown = f"hex {data[:most].hex()}" if text is None else printable(text)
    cut = f", the first {most:,} shown" if len(data) > most else ""
    return f"{shown} ({counted(len(data), 'byte')}{cut})" if data else "empty"


def _decoded(data: bytes, most: int) -> str | None:
    """The first bytes as text, without a character that the cut splits; None where all of it is no UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    return data[:most].decode(errors="ignore")


def bytes_field(data: bytes | None, most: int) -> dict[str, object] | None:
    """Bytes for programs: `text` or `base64`, `bytes` and `truncated`; None for null."""
    if data is None:
        return None
    text = _decoded(data, most)
    held = {"base64": b64encode(data[:most]).decode()} if text is None else {"text": text}
    return {**held, "bytes": len(data), "truncated": len(data) > most}


def _data(entry: Entry, most: int) -> dict[str, object]:
    batch = entry.batch
    return {
        "offset": entry.offset,
        "last_offset": entry.last,
        "instead": entry.instead or None,
        "timestamp_ms": entry.at_ms if entry.at_ms >= 0 else None,
        "timestamp_type": entry.time_type,
        "key": bytes_field(entry.key, most),
        "value": bytes_field(entry.value, most),
        "headers": [{"name": name, "value": bytes_field(value, most)} for name, value in entry.headers],
        "compression": batch.codec_name,
        "transaction": entry.fate,
        "producer_id": batch.producer_id if batch.producer_id >= 0 else None,
        "producer_epoch": batch.producer_epoch if batch.producer_id >= 0 else None,
    }


def _row(entry: Entry, most: int) -> tuple[object, ...]:
    key, value = (None if data is None else bytes_text(data, most) for data in (entry.key, entry.value))
    size = None if entry.value is None else len(entry.value)
    at_ms = entry.at_ms if entry.at_ms >= 0 else None
    return (entry.offset, entry.last, at_ms, entry.time_type, key, value, size, entry.fate, entry.instead or None)
