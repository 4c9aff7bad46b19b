"""Batches that are not safe to decompress, as findings, rows and data; and what became of a quarantine."""

from collections.abc import Sequence
from dataclasses import replace

from kafkakit.core.errors import ExitCode, TryLaterError
from kafkakit.core.findings import Finding, Rule, Severity, findings_data, findings_text, in_order
from kafkakit.core.printable import printable
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.core.shell_words import quote
from kafkakit.report.blocks import attributes
from kafkakit.report.report import Report
from kafkakit.streams.bombs.decide import BombScan, FoundBatch, KeptBatch
from kafkakit.streams.model.commit import amount, utc_text
from kafkakit.streams.model.guarded_reads import VerdictKind

COLUMNS = (
    "topic", "partition", "offset", "last_offset", "verdict", "codec", "bytes", "at_most_bytes", "declared_bytes",
    "ratio", "records", "producer_id", "producer_epoch", "first_ms", "max_ms", "reason",
)  # fmt: skip
BOMB = Rule("decompression-bomb", Severity.ERROR, "no batch becomes larger than the limit when it is decompressed")
CORRUPT = Rule("corrupt-batch", Severity.ERROR, "a batch is what its format asks for")
UNREAD = Rule("partition-unread", Severity.WARNING, "all partitions can be read to their end")


def batch_words(found: FoundBatch) -> str:
    """One batch in a line without its place."""
    verdict, batch = found.verdict, found.verdict.batch
    last = verdict.end - 1
    where = f"offset {last}" if last == verdict.start else f"offsets {verdict.start} to {last}"
    if batch is None:
        return printable(f"{where}: {verdict.reason}")
    size = f"{batch.codec_name} batch of {format_bytes(verdict.size)}"
    if verdict.kind is VerdictKind.CORRUPT:
        what = f"{size} is corrupt: {verdict.reason}"
    else:
        what = f"{size} can hold {format_bytes(verdict.at_most_bytes)}, {verdict.ratio:,.0f} times its size"
        what += f" ({verdict.reason})" if verdict.reason else ""
    producer = f", producer {batch.producer_id} epoch {batch.producer_epoch}" if batch.producer_id >= 0 else ""
    times = f"times {utc_text(batch.base_ms)} to {utc_text(batch.max_ms)}"
    return printable(f"{what}; {where}, {amount(batch.count, 'record')}{producer}, {times}")


def found_line(found: FoundBatch) -> str:
    """One batch in a line with its place."""
    return f"{printable(found.place)}: {batch_words(found)}"


def scan_report(scan: BombScan, program: str) -> Report:
    """What a scan found. It exits 1 with findings; 75 without one where a partition was not read to its end."""
    findings = _findings(scan, program)
    unread = [f"{printable(str(key))}: {printable(reason)}" for key, reason in sorted(scan.unread.items())]
    total = len(scan.found) + scan.more
    head = (
        f"cluster {scan.cluster_id}: {counted(scan.partitions, 'partition')}, {scan.batches:,} batches"
        f" ({format_bytes(scan.size)}) read, limit {amount(scan.limit_bytes, 'byte')}"
    )
    more = f"and {scan.more} more batches that are not listed\n" if scan.more else ""
    missing = TryLaterError(
        f"{len(unread)} of {counted(scan.partitions, 'partition')} not read to the end: {unread[0]}" if unread else "",
        hint="what was read holds no batch over the limit",
    )
    return Report(
        command="streams bombs scan",
        data={
            **attributes(scan, "cluster_id limit_bytes partitions batches"),
            "bytes": scan.size,
            "found": total,
            "listed": [dict(zip(COLUMNS, batch_row(found), strict=True)) for found in scan.found],
            "unread": [
                {"topic": key.topic, "partition": key.partition, "reason": reason}
                for key, reason in sorted(scan.unread.items())
            ],
            **findings_data(findings),
        },
        text=f"{head}\n\n{findings_text(findings)}{more}",
        columns=COLUMNS,
        rows=tuple(batch_row(found) for found in scan.found),
        failure=missing if unread and not total else None,
        code=ExitCode.FAILED if total else ExitCode.DONE,
    )


def batch_row(found: FoundBatch) -> tuple[object, ...]:
    """One batch, under `COLUMNS`."""
    verdict, batch = found.verdict, found.verdict.batch
    first = (*found.key, verdict.start, verdict.end - 1, verdict.kind.value)
    sizes = (verdict.size, verdict.at_most_bytes, verdict.declared_bytes, round(verdict.ratio, 1))
    if batch is None:
        return (*first, None, *sizes, None, None, None, None, None, verdict.reason)
    producer = (batch.producer_id, batch.producer_epoch) if batch.producer_id >= 0 else (None, None)
    times = (batch.base_ms, batch.max_ms)
    return (*first, batch.codec_name, *sizes, batch.count, *producer, *times, verdict.reason or None)


def quarantine_report(
    kept: Sequence[KeptBatch], cluster_id: str, folder: str, edit: Report | None, *, is_planned: bool
) -> Report:
    """Which batches are in quarantine, or would be, and what becomes of the group's commits (`edit`)."""
    words = "would be written below" if is_planned else "are kept below" if len(kept) > 1 else "is kept below"
    lines = [f"cluster {cluster_id}: {counted(len(kept), 'batch', 'batches')} {words} {printable(folder)}"]
    if not kept:
        lines = [f"cluster {cluster_id}: no batch is over the limit, nothing was written"]
    for one in kept:
        lines.append(f"  {found_line(one.found)}")
        if one.path:
            lines.append(f"    {printable(one.path)}")
    report = Report(
        command="streams bombs quarantine",
        data={
            "cluster_id": cluster_id,
            "folder": folder,
            "planned": is_planned,
            "batches": [
                {**dict(zip(COLUMNS, batch_row(one.found), strict=True)), "path": one.path or None} for one in kept
            ],
            "edit": None if edit is None else edit.data,
        },
        text="\n".join(lines),
        columns=(*COLUMNS, "path"),
        rows=tuple((*batch_row(one.found), one.path or None) for one in kept),
    )
    if edit is None:
        return report
    return replace(report, text=f"{report.text}\n\n{edit.text}", failure=edit.failure)


def _findings(scan: BombScan, program: str) -> tuple[Finding, ...]:
    found = []
    for one in scan.found:
        rule = CORRUPT if one.verdict.kind is VerdictKind.CORRUPT else BOMB
        command = f"{program} streams bombs quarantine {quote(one.key.topic)} --partition {one.key.partition}"
        hint = f"{command} --offsets {one.verdict.start} --limit {scan.limit_bytes}"
        found.append(rule.finding(printable(one.place), batch_words(one), hint))
    for key, reason in sorted(scan.unread.items()):
        found.append(UNREAD.finding(printable(str(key)), printable(reason), "scan it again when its leader answers"))
    return in_order(found)
