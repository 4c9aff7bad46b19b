"""Reports on operations: how a run ended, where one stands, all of a stream, and checks of certificates."""

from datetime import UTC, datetime

from kafkakit.core.errors import ExitCode
from kafkakit.core.tables import plain_value, text_table
from kafkakit.report.blocks import optional_section, records, section, text_of
from kafkakit.report.report import Report
from kafkakit.streams.failover.decide.journal import OperationRecord
from kafkakit.streams.failover.decide.operation import Step
from kafkakit.streams.failover.decide.outcome import CertificateCheck, Closing, EndKind, RunEnd

STEP_COLUMNS = ("step", "time", "seconds")
TOPIC_COLUMNS = ("topic", "result")
CODES = {
    EndKind.DONE: ExitCode.DONE,
    EndKind.WAITING: ExitCode.TRY_LATER,
    EndKind.REFUSED: ExitCode.USAGE,
    EndKind.LATE: ExitCode.FAILED,
}


def run_report(command: str, end: RunEnd, program: str = "kafkakit") -> Report:
    """How a run ended: it exits with 0, 75 for waiting, 2 for refused, and 1 where a writer came late."""
    record, stream = end.record, end.record.operation.stream
    rows = _steps(record)
    lines = [f"{end.kind}: stream {stream}, operation {record.operation.id} is {end.step}"]
    lines += optional_section("Reason:", list(end.lines))
    lines += section("Steps:", text_table(STEP_COLUMNS, rows).splitlines())
    lines += _facts(record)
    if end.kind is EndKind.REFUSED:
        command = f"{program} streams failover run {stream} --to {record.request.to}"
        lines += ["", f"to continue with other options: {command}"]
    elif end.kind is not EndKind.DONE:
        lines += ["", f"to continue: {program} streams failover resume {stream}"]
    return Report(
        command=command,
        data={
            "stream": stream,
            "operation": record.operation.id,
            "result": end.kind,
            "step": end.step,
            "reason": end.reason,
            "lines": list(end.lines),
            "records_left": end.records,
            **record_data(record),
        },
        text=text_of(lines),
        columns=STEP_COLUMNS,
        rows=rows,
        code=CODES[end.kind],
    )


def status_report(stream: str, record: OperationRecord | None, step: Step | None, lease: str) -> Report:
    """Where the newest operation of a stream stands; nothing is read of clusters."""
    if record is None:
        text = f"stream {stream}: no operation was ever begun\n"
        return Report(command="streams failover status", data={"stream": stream, "operation": None}, text=text)
    state = step or record.end
    rows = _steps(record)
    lines = [
        f"stream {stream}, operation {record.operation.id}: {state or 'cut before it began'}",
        f"to {record.request.to} (cluster {record.operation.cluster_id}), begun by {record.operation.operator}",
        f"lease: {lease}",
    ]
    lines += section("Steps:", text_table(STEP_COLUMNS, rows).splitlines())
    lines += _facts(record)
    return Report(
        command="streams failover status",
        data={"stream": stream, "operation": record.operation.id, "step": state, **record_data(record)},
        text=text_of(lines),
        columns=STEP_COLUMNS,
        rows=rows,
    )


def closing_report(command: str, closing: Closing) -> Report:
    """What became of an operation's topics; it exits with 1 where a late writer keeps them."""
    record, check = closing.record, closing.check
    late = () if check is None else (*check.late, *check.short)
    lines = [f"stream {record.operation.stream}, operation {record.operation.id}: {record.end or 'open'}"]
    lines += optional_section("Late:", list(late))
    lines += section("Topics:", text_table(TOPIC_COLUMNS, closing.results).splitlines())
    return Report(
        command=command,
        data={
            "stream": record.operation.stream,
            "operation": record.operation.id,
            "step": record.end,
            "reason": "late-writer" if late else "",
            "late": list(late),
            "topics": records(TOPIC_COLUMNS, closing.results),
        },
        text=text_of(lines),
        columns=TOPIC_COLUMNS,
        rows=closing.results,
        code=ExitCode.FAILED if late else ExitCode.DONE,
    )


def check_report(check: CertificateCheck) -> Report:
    """A certificate against what is there now: it exits with 1 where it does not hold any more, 75 where nothing could
    be compared."""
    certificate = check.certificate
    broken = [*check.late, *check.short]
    if check.is_anchored is False:
        broken.append("the journal of the operation names another certificate")
    rows = tuple(
        (each.topic, seal.partition, seal.end, seal.effective_end)
        for each in certificate.segments
        for seal in each.partitions
    )
    columns = ("topic", "partition", "end", "effective end")
    code = ExitCode.FAILED if broken else ExitCode.TRY_LATER if check.unread else ExitCode.DONE
    result = "does not hold" if broken else "not wholly compared" if check.unread else "verified"
    lines = [
        f"{result}: certificate {certificate.sha256[:16]} of stream {certificate.stream}",
        f"operation {certificate.operation}, quiet by {certificate.basis} for {certificate.window_s:g} s, "
        f"made by kafkakit {certificate.version} at {time_text(certificate.at_ms)}",
    ]
    lines += optional_section("Does not hold:", broken)
    lines += optional_section("Not compared:", [*check.unread, *check.gone])
    lines += section("Sealed:", text_table(columns, rows).splitlines())
    return Report(
        command="streams verify-drain",
        data={
            "result": result,
            "reason": "late-writer" if check.late else "offsets-went-back" if check.short else "",
            "certificate": plain_value(certificate),
            "late": list(check.late),
            "short": list(check.short),
            "unread": list(check.unread),
            "gone": list(check.gone),
            "is_anchored": check.is_anchored,
        },
        text=text_of(lines),
        columns=columns,
        rows=rows,
        code=code,
    )


def certificate_report(data: bytes) -> Report:
    """A certificate as the file that it is."""
    return Report(command="streams failover certify", data={}, text=data.decode(), is_document=True)


def record_data(record: OperationRecord) -> dict[str, object]:
    """What the journal of an operation says, as data."""
    return {
        "routed_epoch": record.routed_epoch,
        "reached_ms": plain_value(record.reached_ms),
        "groups": list(record.operation.groups),
        "unready": list(record.unready),
        "fences": plain_value(record.fences),
        "basis": record.basis,
        "window_s": record.window_s,
        "late": record.late,
        "lost": plain_value(record.lost),
        "certificate": record.certificate,
    }


def _steps(record: OperationRecord) -> tuple[tuple[object, ...], ...]:
    """Each step with the time since the one before it, which is negative where clocks of hosts differ."""
    found = sorted(record.reached_ms.items(), key=lambda item: list(Step).index(item[0]))
    before = [record.operation.started_ms, *(at_ms for _, at_ms in found)]
    return tuple(
        (step, time_text(at_ms), round((at_ms - earlier) / 1000, 3))
        for (step, at_ms), earlier in zip(found, before, strict=False)
    )


def _facts(record: OperationRecord) -> list[str]:
    lines = []
    if record.basis:
        lines.append(f"quiet by {record.basis} for {record.window_s:g} s")
    if record.unready:
        lines.append(f"producers moved before these groups had: {', '.join(record.unready)}")
    if record.lost:
        lines.append(f"deleted before they were read: {sum(each.count for each in record.lost):,} records")
    if record.late:
        lines.append(f"seals that were void because of a late writer: {record.late}")
    if record.certificate:
        lines.append(f"certificate {record.certificate}")
    return optional_section("Facts:", lines)


def time_text(at_ms: int) -> str:
    """A time in UTC, with milliseconds."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
