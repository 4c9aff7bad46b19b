"""What was collected, written or is stored, and the files that collect regularly."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime

from kafkakit.core.cluster_facts import StorageReading
from kafkakit.core.errors import KafkakitError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import count_of, format_bytes, format_span
from kafkakit.core.storage_documents import encode_reading
from kafkakit.metricsfetcher.decide import FetchResult, StoreKind, StorePlace
from kafkakit.report.exports import cron_line, files_report, folder_of, service_text, timer_text
from kafkakit.report.report import FactList, Part, RawDocument, Report, ResultTable, attributes

_COLUMNS = ("partition", "size_bytes", "smallest_copy_bytes")
LABEL_WIDTH = 9


def fetch_report(
    collected: FetchResult,
    place: str,
    written: Mapping[str, int],
    refusal: KafkakitError | None,
    *,
    dry_run: bool,
    verbose: bool = False,
) -> Report:
    """What was collected, and what became of it; `dry_run` and `verbose` show every value."""
    reading = collected.reading
    lines: list[Part] = [_summary(reading)]
    if refusal is None and dry_run:
        lines += [f"dry run: {place} was not written; it would hold", encode_reading(reading).decode().rstrip()]
    elif verbose:
        lines.append(encode_reading(reading).decode().rstrip())
    lines += [f"wrote {name} ({size:,} bytes)" for name, size in written.items()]
    data = {**_facts(reading), "place": place, "written": dict(written), "problems": list(collected.problems)}
    return Report(
        command="metricsfetcher fetch",
        data={**data, **_values(reading)} if dry_run or verbose else data,
        sections=lines,
        table=ResultTable(("written", "bytes"), tuple(written.items())),
        warnings=collected.problems,
        failure=refusal,
    )


def document_report(collected: FetchResult, refusal: KafkakitError | None) -> Report:
    """The reading itself, as the file would be."""
    reading = collected.reading
    return Report(
        command="metricsfetcher fetch",
        data={**_facts(reading), "problems": list(collected.problems), **_values(reading)},
        sections=(RawDocument("" if refusal else encode_reading(reading).decode()),),
        table=ResultTable(_COLUMNS, _rows(reading, list(reading.sizes.bytes_of))),
        warnings=collected.problems,
        failure=refusal,
    )


def stored_report(reading: StorageReading, now: datetime, shown: int) -> Report:
    """What a store holds, how old it is, and its `shown` largest partitions."""
    sizes = reading.sizes
    largest = _rows(reading, sorted(sizes.bytes_of, key=lambda key: (-sizes.bytes_of[key], key))[:shown])
    age_s = max(0.0, (now - reading.taken_at).total_seconds())
    cells = [(key, format_bytes(size), format_bytes(least)) for key, size, least in largest]
    free = reading.free.bytes_of
    brokers = [(b, format_bytes(free[b])) for b in sorted(free, key=lambda b: (free[b], b))[:shown]]
    sections: list[Part] = [_summary(reading), FactList((("age", format_span(age_s)),), LABEL_WIDTH)]
    for title, columns, rows in (
        ("largest partitions", ("partition", "size", "smallest copy"), cells),
        ("least free storage", ("broker", "free"), brokers),
    ):
        sections += ["", title, ResultTable(columns, rows)] if rows else []
    return Report(
        command="metricsfetcher show",
        data={**_facts(reading), "age_s": round(age_s), **_values(reading)},
        sections=sections,
        table=ResultTable(_COLUMNS, largest),
    )


def unit_report(
    program: Sequence[str], options: Sequence[str], place: StorePlace, every_minutes: int, *, as_cron: bool
) -> Report:
    """A systemd service with its timer, or a line for cron; `options` are those of `fetch`, quoted for a shell."""
    script = " ".join([shlex.join([*program, "metricsfetcher", "fetch"]), *options])
    if not script.isprintable():
        raise UsageError("a path or name holds a character that does not print")
    if place.kind is StoreKind.STDOUT:
        raise UsageError("a timer has no reader of stdout", hint="write zookeeper, topic:NAME or file:PATH")
    if place.kind is StoreKind.FILE and not place.name.startswith("/"):
        raise UsageError(f"{place.name:.80} is not absolute", hint="write a path that begins with /")
    name, what = "kafkakit-metricsfetcher", "Sizes of partitions and free storage of brokers for topicmappr"
    if as_cron:
        files = {f"{name}.cron": cron_line(f"*/{every_minutes} * * * *", f"{script} >/dev/null")}
    else:
        places = [folder_of(place.name)] if place.kind is StoreKind.FILE else []
        environment = "/etc/kafkakit/metricsfetcher.env"
        files = {
            f"{name}.service": service_text(what, script, places, timeout="10min", environment=environment),
            f"{name}.timer": timer_text(what, f"*:0/{every_minutes}", delay="30s"),
        }
    return files_report("metricsfetcher unit", "cron" if as_cron else "systemd", files)


def _summary(reading: StorageReading) -> FactList:
    sizes, free = reading.sizes.bytes_of, reading.free.bytes_of
    whole = f"{format_bytes(sum(sizes.values()))} in one copy of each"
    facts = [
        ("source", reading.source),
        ("sizes", f"{count_of(len(sizes), 'partition')} of {count_of(_topics(reading), 'topic')}, {whole}"),
    ]
    if reading.sizes.smallest_of:
        most = max(sizes[key] - least for key, least in reading.sizes.smallest_of.items())
        differing = count_of(len(reading.sizes.smallest_of), "partition")
        facts.append(("copies", f"differ in {differing}, by up to {format_bytes(most)}"))
    if free:
        span = f"{format_bytes(min(free.values()))} to {format_bytes(max(free.values()))} on each"
        facts.append(("free", f"{count_of(len(free), 'broker')}, {span}"))
    return FactList(facts, LABEL_WIDTH)


def _facts(reading: StorageReading) -> dict[str, object]:
    sizes, free = reading.sizes, reading.free
    return {
        **attributes(reading, "source taken_at"),
        "oldest_value_at": min([reading.taken_at, *sizes.times.values(), *free.times.values()]),
        "partitions": len(sizes.bytes_of),
        "topics": _topics(reading),
        "brokers": len(free.bytes_of),
        "bytes_of_one_copy": sum(sizes.bytes_of.values()),
    }


def _values(reading: StorageReading) -> dict[str, object]:
    sizes, free = reading.sizes, reading.free
    return {
        "sizes": [
            {
                **attributes(key, "topic partition"),
                "bytes": size,
                "smallest_bytes": sizes.smallest_of.get(key, size),
                "at": sizes.times.get(key, sizes.taken_at),
            }
            for key, size in sorted(sizes.bytes_of.items())
        ],
        "free": [
            {"broker": b, "bytes": n, "at": free.times.get(b, free.taken_at)} for b, n in sorted(free.bytes_of.items())
        ],
    }


def _rows(reading: StorageReading, keys: Sequence[TopicPartition]) -> tuple[tuple[str, int, int], ...]:
    sizes = reading.sizes
    return tuple((str(k), sizes.bytes_of[k], sizes.smallest_of.get(k, sizes.bytes_of[k])) for k in keys)


def _topics(reading: StorageReading) -> int:
    return len({key.topic for key in reading.sizes.bytes_of})
