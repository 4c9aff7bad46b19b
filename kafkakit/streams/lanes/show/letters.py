"""Rejected records as tables, and one of them with all that is known."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from kafkakit.core.errors import OperationFailedError
from kafkakit.core.printable import printable
from kafkakit.core.quantities import counted
from kafkakit.core.tables import text_table
from kafkakit.report.blocks import attributes
from kafkakit.report.report import Report
from kafkakit.streams.lanes.decide.dead_letters import DeadLetter
from kafkakit.streams.model.commit import utc_text
from kafkakit.streams.model.provenance import Provenance
from kafkakit.streams.records.api import Found, bytes_field, bytes_text

COLUMNS = (
    "place", "held", "failed", "reason", "group", "lane", "tries", "hops", "key", "bytes", "replayed", "origin",
    "error_class",
)  # fmt: skip
_SHOWN_BYTES = 60
"""Bytes of a key in a table."""


def letters_report(stream: str, letters: Sequence[DeadLetter], matching: Mapping[str, int], strange: int) -> Report:
    """The first records that match; `matching` counts all of them by reason, `strange` are no entries of a ledger."""
    total = sum(matching.values())
    lines = [f"stream {stream}: {counted(total, 'rejected record')}"]
    lines += [f"  {number:>7,}  {printable(reason)}" for reason, number in sorted(matching.items())]
    if letters:
        lines += ["", text_table(COLUMNS, map(_row, letters))]
    if total > len(letters):
        lines.append(f"the first {len(letters):,} are shown; --limit shows more")
    warnings = (f"{counted(strange, 'record')} of the reject ledger cannot be read",) if strange else ()
    return Report(
        command="streams dlq list",
        data={
            "stream": stream,
            "matching": total,
            "by_reason": dict(sorted(matching.items())),
            "unreadable_references": strange,
            "records": [letter_data(letter) for letter in letters],
        },
        text="\n".join(lines),
        columns=COLUMNS,
        rows=tuple(_row(letter) for letter in letters),
        warnings=warnings,
    )


def letter_report(letter: DeadLetter, found: Found, most_bytes: int) -> Report:
    """One rejected record; it fails where there is none at its place any more."""
    problem = found.problem or found.entries[0].instead
    record = None if problem else found.entries[0]
    held = "in the DLQ lane" if letter.entry is None else "by reference"
    lines = [f"{printable(letter.name)} on cluster {letter.cluster_id}", f"  held         {held}"]
    lines += _provenance_lines(letter.provenance)
    lines.append(f"  replayed     {'yes' if letter.is_replayed else 'no'}")
    if record is not None:
        lines.append(f"  time         {utc_text(record.at_ms) if record.at_ms >= 0 else 'none'}")
        lines.append(f"  key          {bytes_text(record.key, most_bytes)}")
        lines.append(f"  value        {bytes_text(record.value, most_bytes)}")
        lines += [
            f"  header       {printable(name)} = {bytes_text(value, most_bytes)}" for name, value in record.headers
        ]
    if problem:
        lines.append(f"  record       {problem}")
    body = None
    if record is not None:
        body = {
            "timestamp_ms": record.at_ms if record.at_ms >= 0 else None,
            "key": bytes_field(record.key, most_bytes),
            "value": bytes_field(record.value, most_bytes),
            "headers": [{"name": name, "value": bytes_field(value, most_bytes)} for name, value in record.headers],
        }
    return Report(
        command="streams dlq show",
        data={**letter_data(letter), "problem": problem or None, "record": body},
        text="\n".join(lines),
        failure=OperationFailedError(f"{printable(letter.name)}: {problem}") if problem else None,
    )


def letter_data(letter: DeadLetter) -> dict[str, object]:
    """A rejected record for programs."""
    found = letter.provenance
    return {
        "cluster_id": letter.cluster_id,
        "place": letter.name,
        "topic": letter.place.topic,
        "partition": letter.place.partition,
        "offset": letter.offset,
        "held": "copy" if letter.entry is None else "reference",
        "replayed": letter.is_replayed,
        "timestamp_ms": letter.at_ms,
        "key": bytes_field(letter.key, 1_000),
        "bytes": letter.size_bytes,
        "provenance": None if found is None else _provenance_data(found),
    }


def reason_of(letter: DeadLetter) -> str:
    """The reason that a list counts it under."""
    return letter.provenance.failure.reason if letter.provenance else "no readable provenance"


def tally(letters: Iterator[DeadLetter], most: int) -> tuple[list[DeadLetter], Counter[str]]:
    """The first letters, and the number of all of them by reason."""
    first: list[DeadLetter] = []
    reasons: Counter[str] = Counter()
    for letter in letters:
        reasons[reason_of(letter)] += 1
        if len(first) < most:
            first.append(letter)
    return first, reasons


def _provenance_data(found: Provenance) -> dict[str, object]:
    origin, failure = found.origin, found.failure
    return {
        **attributes(origin, "stream lane segment epoch cluster_id topic partition offset"),
        "timestamp_ms": origin.at_ms,
        "group": failure.group,
        "reason": failure.reason,
        "failed_ms": failure.at_ms,
        **attributes(failure, "tries error_class error_text"),
        "hops": found.hops,
    }


def _provenance_lines(found: Provenance | None) -> Iterator[str]:
    if found is None:
        yield "  provenance   none that can be read"
        return
    origin, failure = found.origin, found.failure
    tries = counted(failure.tries, "try", "tries")
    yield f"  reason       {printable(failure.reason)}, after {tries} of group {printable(failure.group)}"
    yield f"  failed       {utc_text(failure.at_ms)}"
    if failure.error_class or failure.error_text:
        yield f"  error        {printable(failure.error_class)}: {printable(failure.error_text)}"
    yield f"  origin       {_origin(found)} on cluster {printable(origin.cluster_id)}"
    yield f"  route        stream {origin.stream}, lane {origin.lane}, segment {origin.segment}, epoch {origin.epoch}"
    if origin.at_ms is not None:
        yield f"  written      {utc_text(origin.at_ms)}"
    yield f"  moved        {counted(found.hops, 'time')}"


def _origin(found: Provenance) -> str:
    return printable(f"{found.origin.topic}/{found.origin.partition}@{found.origin.offset}")


def _row(letter: DeadLetter) -> tuple[object, ...]:
    found = letter.provenance
    key = None if letter.key is None else bytes_text(letter.key, _SHOWN_BYTES)
    held = "copy" if letter.entry is None else "reference"
    if found is None:
        nothing = (None,) * 6
        return (letter.name, held, *nothing, key, letter.size_bytes, letter.is_replayed, None, None)
    failure = found.failure
    return (
        printable(letter.name), held, utc_text(failure.at_ms), printable(failure.reason), printable(failure.group),
        found.origin.lane, failure.tries, found.hops, key, letter.size_bytes, letter.is_replayed, _origin(found),
        printable(failure.error_class),
    )  # fmt: skip
