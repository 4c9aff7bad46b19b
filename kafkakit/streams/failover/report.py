"""Reports on operations: plans, how runs ended, where one stands, checks of certificates, history, and rehearsals.

A plan shows the precondition verdicts, what groups still have to read, fences, windows and the budget. The live view
is a screen, one line a phase, data, and metrics. Rehearsals are shown one with its steps, or all with the readiness
score of each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from kafkakit.core.errors import ExitCode
from kafkakit.core.quantities import count_of, format_percent, format_rough_time
from kafkakit.core.text import plain_value, shell_command
from kafkakit.report.exports import exposition, gauge, single_gauge
from kafkakit.report.report import Part, RawDocument, Report, ResultTable, Section, attributes
from kafkakit.streams.failover.decide.drain_proof import NO_PROCESS, GroupDrain, Item, LiveView
from kafkakit.streams.failover.decide.evidence import DuplicateBudget
from kafkakit.streams.failover.decide.history import (
    AuditedCommand,
    CertificateCheck,
    ClosingResult,
    EndKind,
    Rehearsal,
    RunEnd,
    readiness,
    readiness_at,
)
from kafkakit.streams.failover.decide.operation import FenceKind, OperationRecord, Step
from kafkakit.streams.failover.decide.plan import FailoverPlan

CODES = {
    EndKind.DONE: ExitCode.DONE,
    EndKind.WAITING: ExitCode.TRY_LATER,
    EndKind.REFUSED: ExitCode.USAGE,
    EndKind.LATE: ExitCode.FAILED,
}


def run_report(command: str, end: RunEnd, program: str = "kafkakit") -> Report:
    """How a run ended: it exits with 0, 75 for waiting, 2 for refused, and 1 where a writer came late."""
    record, stream = end.record, end.record.operation.stream
    closing: tuple[str, ...] = ()
    if end.kind is EndKind.REFUSED:
        again = shell_command("streams failover run", stream, program=program, to=record.request.to)
        closing = ("", f"to continue with other options: {again}")
    elif end.kind is not EndKind.DONE:
        closing = ("", f"to continue: {shell_command('streams failover resume', stream, program=program)}")
    return Report(
        command=command,
        data={
            "stream": stream,
            "operation": record.operation.id,
            "result": end.kind,
            **attributes(end, "step reason lines"),
            "records_left": end.records,
            **record_data(record),
        },
        sections=(
            f"{end.kind}: stream {stream}, operation {record.operation.id} is {end.step}",
            Section("Reason:", end.lines),
            _steps(record),
            _facts(record),
            *closing,
        ),
        code=CODES[end.kind],
    )


def status_report(
    stream: str, record: OperationRecord | None, step: Step | None, lease: str, continued_by: str = ""
) -> Report:
    """Where the newest operation of a stream stands; nothing is read of clusters.

    `continued_by` is the command that would continue it, and has not.
    """
    command = continued_by or "streams failover status"
    if record is None:
        text = f"stream {stream}: no operation was ever begun"
        return Report(command=command, data={"stream": stream, "operation": None}, sections=(text,))
    state = step or record.end
    return Report(
        command=command,
        data={"stream": stream, "operation": record.operation.id, "step": state, **record_data(record)},
        sections=(
            f"stream {stream}, operation {record.operation.id}: {state or 'cut before it began'}",
            f"to {record.request.to} (cluster {record.operation.cluster_id}), begun by {record.operation.operator}",
            f"lease: {lease}",
            _steps(record),
            _facts(record),
            *(("", "nothing is done") if continued_by else ()),
        ),
    )


def closing_report(command: str, closing: ClosingResult, program: str = "kafkakit", grace: str = "") -> Report:
    """What became of an operation's topics; it exits with 1 where a late writer keeps them, 75 for dead letters.

    `grace` is what the printed command takes over, empty for the usual one.
    """
    record, check = closing.record, closing.check
    late = () if check is None else (*check.late, *check.short)
    topics = ResultTable(("topic", "result"), closing.results, "Topics:")
    lines: list[Part] = [
        f"stream {record.operation.stream}, operation {record.operation.id}: {record.end or 'open'}",
        Section("Late:", late),
        topics,
        Section("Kept until retention has deleted them, or they are copied:", closing.kept),
    ]
    if closing.copied:
        lines += ["", f"copied to the current topics: {count_of(closing.copied, 'record')}"]
    if closing.kept or (check is not None and check.late):
        stream = record.operation.stream
        verb, name = "streams failover reclaim", record.operation.id
        again = shell_command(verb, stream, program=program, operation=name, grace=grace, recover=True, yes=True)
        lines += ["", f"to copy them to the current topics, then delete the old ones: {again}"]
    return Report(
        command=command,
        data={
            "stream": record.operation.stream,
            "operation": record.operation.id,
            "step": record.end,
            "reason": "late-writer" if late else Item.LETTERS if closing.kept else "",
            "late": list(late),
            **attributes(closing, "kept copied"),
            "topics": topics.records(),
        },
        sections=lines,
        code=ExitCode.FAILED if late else ExitCode.TRY_LATER if closing.kept else ExitCode.DONE,
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
    code = ExitCode.FAILED if broken else ExitCode.TRY_LATER if check.unread else ExitCode.DONE
    result = "does not hold" if broken else "not wholly compared" if check.unread else "verified"
    return Report(
        command="streams verify-drain",
        data={
            "result": result,
            "reason": "late-writer" if check.late else "offsets-went-back" if check.short else "",
            "certificate": plain_value(certificate),
            **attributes(check, "late recovered short unread gone is_anchored"),
        },
        sections=(
            f"{result}: certificate {certificate.sha256[:16]} of stream {certificate.stream}",
            f"operation {certificate.operation}, quiet by {certificate.basis} for {certificate.window_s:g} s, "
            f"made by kafkakit {certificate.version} at {time_text(certificate.at_ms)}",
            Section("Does not hold:", broken),
            Section("Copied to the current topics:", check.recovered),
            Section("Not compared:", [*check.unread, *check.gone]),
            ResultTable(("topic", "partition", "end", "effective end"), rows, "Sealed:"),
        ),
        code=code,
    )


def certificate_report(data: bytes) -> Report:
    """A certificate as the file that it is."""
    return Report(command="streams failover certify", data={}, sections=(RawDocument(data.decode()),))


def record_data(record: OperationRecord) -> dict[str, object]:
    """What the journal of an operation says, as data."""
    return {
        **attributes(record, "routed_epoch reached_ms"),
        "groups": list(record.operation.groups),
        **attributes(record, "unready fences basis window_s late lost certificate"),
        "dead_letters": record.request.dead_letters,
        "copies": plain_value(tuple(record.copies.values())),
        "left": list(record.left),
    }


def _steps(record: OperationRecord) -> ResultTable:
    """Each step with the time since the one before it, which is negative where clocks of hosts differ."""
    found = sorted(record.reached_ms.items(), key=lambda item: list(Step).index(item[0]))
    before = [record.operation.started_ms, *(at_ms for _, at_ms in found)]
    rows = tuple(
        (step, time_text(at_ms), round((at_ms - earlier) / 1000, 3))
        for (step, at_ms), earlier in zip(found, before, strict=False)
    )
    return ResultTable(("step", "time", "seconds"), rows, "Steps:")


def _facts(record: OperationRecord) -> Section:
    lines = []
    if record.basis:
        lines.append(f"quiet by {record.basis} for {record.window_s:g} s")
    if record.unready:
        lines.append(f"producers moved before these groups had: {', '.join(record.unready)}")
    if record.lost:
        lines.append(f"deleted before they were read: {sum(each.count for each in record.lost):,} records")
    if record.late:
        lines.append(f"seals that were void because of a late writer: {record.late}")
    for each in record.copies.values():
        words = f"{count_of(each.records + each.references, 'record')} copied, {each.passed:,} replayed before"
        lines.append(f"segment {each.segment}: {words}" + (f", {each.gone:,} gone" if each.gone else ""))
    if record.left:
        lines.append(f"segments that stay readable for their dead letters: {', '.join(map(str, record.left))}")
    if record.certificate:
        lines.append(f"certificate {record.certificate}")
    return Section("Facts:", lines)


def time_text(at_ms: int) -> str:
    """A time in UTC, with milliseconds."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


LETTER_COLUMNS = ("topic", "cluster", "letters", "references", "gone", "groups", "then")


def plan_report(plan: FailoverPlan, command: str = "streams failover plan", done: str = "") -> Report:
    """A plan; it exits with 2 where a precondition is refused."""
    operation = plan.operation
    rows: Sequence[tuple[object, ...]] = [(v.check, v.level, v.where, v.text) for v in plan.verdicts]
    verdicts = ResultTable(("check", "level", "where", "text"), rows, "Preconditions:")
    rows = [(m.lane, m.topic, m.partitions, m.replication, m.sources) for m in operation.moves]
    moves = ResultTable(("lane", "topic", "partitions", "replication", "sources"), rows)
    rows = [(row.group, row.topic, row.offsets, row.size_bytes, row.time_lag_s, row.eta_s) for row in plan.backlog]
    backlog = ResultTable(("group", "topic", "offsets", "size_bytes", "time_lag_s", "eta_s"), rows)
    total = count_of(sum(row.offsets or 0 for row in plan.backlog), "offset")
    letters = [
        (row.topic, row.cluster, row.letters, row.references, row.gone, ", ".join(row.groups) or "no group", row.then)
        for row in plan.letters
    ]
    return Report(
        command=command,
        data={
            "stream": operation.stream,
            "plan_sha256": plan.sha256,
            "operation": plain_value(operation),
            "verdicts": verdicts.records(),
            "moves": moves.records(),
            "backlog": backlog.records(),
            "dead_letters": plain_value(plan.letters),
            **attributes(plan, "fences windows_s"),
            "duplicates": plain_value(plan.budget),
            "refused": bool(plan.refused),
            "reason": plan.refused[0].check if plan.refused else "",
        },
        sections=(
            f"{operation.request.kind.noun} of stream {operation.stream} to {operation.request.to} "
            f"(cluster {operation.cluster_id})",
            f"plan {plan.sha256}",
            "",
            moves,
            verdicts,
            Section("To be read from the old topics:", (backlog, total) if rows else ()),
            ResultTable(LETTER_COLUMNS, letters, "Dead letters:", empty=""),
            Section("Quiet:", _quiet_lines(plan)),
            Section("Records that may come a second time:", (budget_words(plan.budget),)),
            *(("", done) if done else ()),
        ),
        table=verdicts,
        code=ExitCode.USAGE if plan.refused else ExitCode.DONE,
    )


def budget_words(budget: DuplicateBudget) -> str:
    """The budget in one line."""
    if budget.most is None:
        return f"not bounded: the commits of {', '.join(budget.unbounded)} cannot be read"
    if budget.least == budget.most:
        return f"{budget.most:,}, and what members have handled since their last commit"
    return f"{budget.least:,} to {budget.most:,}, and what members have handled since their last commit"


def _quiet_lines(plan: FailoverPlan) -> Iterator[str]:
    for basis, seconds in plan.windows_s.items():
        yield f"basis {basis}: the ends of old logs must stay the same for {seconds:g} s"
    for number, verdicts in plan.fences.items():
        for verdict in verdicts:
            if verdict.kind is not FenceKind.NONE:
                words = "; ".join(verdict.reasons or verdict.notes)
                state = "can be used" if verdict.is_usable else "cannot be used"
                yield f"{plan.topics[number]}, fence {verdict.kind}: {state} ({words})"


PREFIX = "kafkakit_failover_"
TRAFFIC_COLUMNS = ("lane", "topic", "cluster", "state", "end", "records/s", "problem")
DRAIN_COLUMNS = ("group", "topic", "left", "read", "records/s", "ETA")
MOST_ROWS, REST = 40, "and {} more"


def live_report(view: LiveView) -> Report:
    """The last look of a watcher."""
    return Report(
        command="streams failover status",
        data=asdict(view),
        sections=live_sections(view),
    )


def live_sections(view: LiveView) -> Iterator[Part]:
    """The whole view, to be replaced in place."""
    yield _head(view)
    if view.holder:
        yield f"lease: {view.holder}"
    yield Section("Waits for:" if view.reason else "Now:", view.lines[:5])
    yield ResultTable(TRAFFIC_COLUMNS, _traffic_rows(view), "Traffic:", most=MOST_ROWS, rest=REST)
    drain = tuple(_drain_row(each) for each in view.drain)
    yield ResultTable(DRAIN_COLUMNS, drain, "Drain:", empty="", most=MOST_ROWS, rest=REST)
    if view.operation and view.holder == NO_PROCESS:
        resume = shell_command("streams failover resume", view.stream)
        yield from ("", f"no process works on it; to continue: {resume}")


def phase_line(view: LiveView) -> str:
    """A phase in one line."""
    at = datetime.fromtimestamp(view.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return "; ".join((f"{at} {_head(view)}", *view.lines[:2]))


class PhaseLines:
    """Lets a line pass where the phase is another one than before: the operation, its step, or what it waits for."""

    def __init__(self) -> None:
        self._seen: tuple[str, str, str] | None = None

    def is_new(self, view: LiveView) -> bool:
        """Whether this view begins a phase."""
        seen, self._seen = self._seen, (view.operation, view.step, view.reason)
        return self._seen != seen


def live_metrics(view: LiveView) -> str:
    """The view as Prometheus text exposition; a series for each segment of the route and each required group."""
    families = [
        gauge("step", "1 for the step that the open operation is at, 0 for the others.",
              *(((("step", step),), float(view.step == step)) for step in Step if not step.is_over)),
        single_gauge("epoch", "The epoch of the route.", view.epoch),
        gauge("step_seconds", "How long the operation is at its step.", *_known_gauge(view.step_s)),
        gauge("eta_seconds", "Time until the old topics are drained.", *_known_gauge(view.eta_s)),
        gauge("waiting", "1 for what the operation waits for.",
              *(((("reason", view.reason),), 1.0) for _ in range(bool(view.reason)))),
        gauge("segment_end", "The sum of the ends of a segment's logs.",
              *((_segment(each.lane, each.topic, each.state), float(each.end))
                for each in view.traffic if each.end is not None)),
        gauge("segment_records_per_second", "What is written to a segment.",
              *((_segment(each.lane, each.topic, each.state), each.records_per_s)
                for each in view.traffic if each.records_per_s is not None)),
        gauge("group_records_left", "What a required group has to read of an old topic.",
              *(((("group", each.group), ("topic", each.topic)), float(each.left))
                for each in view.drain if each.left is not None)),
    ]  # fmt: skip
    return exposition(families, PREFIX, (("stream", view.stream),))


def _head(view: LiveView) -> str:
    if view.is_idle:
        return f"stream {view.stream}: no operation is open, epoch {view.epoch}"
    since = "" if view.step_s is None else f" for {format_rough_time(view.step_s)}"
    eta = "" if view.eta_s is None else f", drained in {format_rough_time(view.eta_s)}"
    return f"stream {view.stream}, operation {view.operation} to {view.to}: {view.step}{since}{eta}"


def _traffic_rows(view: LiveView) -> tuple[tuple[object, ...], ...]:
    return tuple(
        (
            each.lane,
            each.topic,
            each.cluster,
            each.state,
            "?" if each.end is None else each.end,
            "?" if each.records_per_s is None else round(each.records_per_s, 1),
            each.problem,
        )
        for each in view.traffic
    )


def _drain_row(each: GroupDrain) -> tuple[object, ...]:
    done = None if each.left is None or each.total is None else 1 - each.left / each.total if each.total else 1.0
    return (
        each.group,
        each.topic,
        "?" if each.left is None else each.left,
        "?" if done is None else format_percent(done),
        "?" if each.records_per_s is None else round(each.records_per_s, 1),
        "?" if each.eta_s is None else format_rough_time(each.eta_s),
    )


def _segment(lane: str, topic: str, state: str) -> tuple[tuple[str, str], ...]:
    return (("lane", lane), ("topic", topic), ("state", state))


def _known_gauge(value: float | None) -> tuple[tuple[tuple[tuple[str, str], ...], float], ...]:
    return () if value is None else (((), value),)


HISTORY_COLUMNS = ("operation", "to", "began", "step", "by", "late", "lost", "certificate")
COMMAND_COLUMNS = ("began", "by", "command", "operation", "plan", "outcome", "reason")


def history_report(
    stream: str, found: Sequence[OperationRecord], commands: Sequence[AuditedCommand], damaged: int
) -> Report:
    """All operations of a stream and the commands of its audit log, oldest first."""
    rows = tuple(
        (
            record.operation.id,
            record.request.to,
            time_text(record.operation.started_ms),
            record.end or next(iter(sorted(record.reached_ms, key=list(Step).index, reverse=True)), "cut"),
            record.operation.operator,
            record.late,
            sum(each.count for each in record.lost),
            record.certificate[:16],
        )
        for record in found
    )
    return Report(
        command="streams failover history",
        data={
            "stream": stream,
            "operations": [{"operation": plain_value(record.operation), **record_data(record)} for record in found],
            "commands": [
                {"began": each.began, "ended": each.ended, "outcome": each.outcome, "line": plain_value(each.line)}
                for each in commands
            ],
        },
        sections=(
            ResultTable(HISTORY_COLUMNS, rows, empty=f"stream {stream}: no operation was ever begun"),
            ResultTable(COMMAND_COLUMNS, [_command_row(each) for each in commands], "Commands:", empty=""),
        ),
        warnings=(f"{count_of(damaged, 'line')} of the audit log cannot be read",) if damaged else (),
    )


def _command_row(each: AuditedCommand) -> tuple[object, ...]:
    line = each.line
    why = line.error or line.reason
    return each.began[:19], line.by, line.command, line.operation, line.plan_sha256[:16], each.outcome, why


REHEARSAL_COLUMNS = ("rehearsal", "to", "by", "result", "seconds", "pause ms", "acknowledged", "open", "again", "score")


def rehearsal_report(rehearsal: Rehearsal) -> Report:
    """One rehearsal: it exits as a failover does, and with 1 where records were lost."""
    found = rehearsal.outcome
    if found is None:
        raise ValueError("the rehearsal has no outcome yet")
    load = found.load
    rows = tuple((step, at_ms / 1000) for step, at_ms in sorted(found.steps_ms.items(), key=lambda each: each[1]))
    budget = "not bounded" if found.budget is None else f"{found.budget:,}"
    sections = (
        f"stream {rehearsal.stream}: readiness {readiness(rehearsal)} of 100, {found.result} in {found.seconds:g} s",
        f"{load.acknowledged:,} records at {load.per_s:g} a second (asked: {rehearsal.per_s:g}), "
        f"longest time without an answer {load.longest_pause_ms:,} ms",
        f"not handled: {load.open:,}; failed: {load.failed:,}; handled again: {load.handled_again:,} (plan: {budget})",
        f"quiet by {found.basis}" if found.basis else "not sealed",
        f"certificate {'verified' if found.is_verified else 'not verified'}",
        Section("Reason:", found.lines),
        ResultTable(("step", "seconds"), rows, "Steps, since the beginning:"),
    )
    code = CODES[EndKind(found.result)]
    return Report(
        command="streams failover rehearse",
        data=_data(rehearsal),
        sections=sections,
        code=ExitCode.FAILED if code is ExitCode.DONE and (load.open or not found.is_verified) else code,
    )


def rehearsals_report(stream: str, found: Sequence[Rehearsal], now_ms: int) -> Report:
    """All rehearsals of a stream, oldest first; the readiness of the stream is that of the newest, by its age."""
    rows = tuple(_row(each) for each in found)
    now = readiness_at(found[-1], now_ms) if found else None
    head = f"stream {stream}: {'it was never rehearsed' if now is None else f'readiness {now} of 100'}"
    return Report(
        command="streams failover history",
        data={"stream": stream, "readiness": now, "rehearsals": [_data(each) for each in found]},
        sections=(head, ResultTable(REHEARSAL_COLUMNS, rows, "Rehearsals:", empty="")),
    )


def leftovers_report(stream: str, removed: Sequence[str]) -> Report:
    """What was removed of earlier rehearsals."""
    return Report(
        command="streams failover rehearse",
        data={"stream": stream, "removed": list(removed)},
        sections=(f"stream {stream}: {', '.join(removed) or 'nothing'} removed",),
    )


def _data(rehearsal: Rehearsal) -> dict[str, object]:
    return {"rehearsal": plain_value(rehearsal), "score": readiness(rehearsal)}


def _row(each: Rehearsal) -> tuple[object, ...]:
    found = each.outcome
    head = (time_text(each.started_ms), each.to, each.by)
    if found is None:
        return (*head, "running or cut", "", "", "", "", "", 0)
    result = f"{found.result} ({found.reason})" if found.reason else found.result
    load = found.load
    counts = (load.longest_pause_ms, load.acknowledged, load.open, load.handled_again)
    return (*head, result, found.seconds, *counts, readiness(each))
