"""Rehearsals of a stream: one with its steps, and all with the readiness score of each."""

from collections.abc import Sequence

from kafkakit.core.errors import ExitCode
from kafkakit.core.tables import plain_value, text_table
from kafkakit.report.blocks import optional_section, section, text_of
from kafkakit.report.report import Report
from kafkakit.streams.failover.decide.outcome import EndKind
from kafkakit.streams.failover.decide.rehearsal import Rehearsal, readiness, readiness_at
from kafkakit.streams.failover.show.runs import CODES, time_text

STEP_COLUMNS = ("step", "seconds")
COLUMNS = ("rehearsal", "to", "by", "result", "seconds", "pause ms", "acknowledged", "open", "again", "score")


def rehearsal_report(rehearsal: Rehearsal) -> Report:
    """One rehearsal: it exits as a failover does, and with 1 where records were lost."""
    found = rehearsal.outcome
    if found is None:
        raise ValueError("the rehearsal has no outcome yet")
    load = found.load
    rows = tuple((step, at_ms / 1000) for step, at_ms in sorted(found.steps_ms.items(), key=lambda each: each[1]))
    budget = "not bounded" if found.budget is None else f"{found.budget:,}"
    lines = [
        f"stream {rehearsal.stream}: readiness {readiness(rehearsal)} of 100, {found.result} in {found.seconds:g} s",
        f"{load.acknowledged:,} records at {load.per_s:g} a second (asked: {rehearsal.per_s:g}), "
        f"longest time without an answer {load.longest_pause_ms:,} ms",
        f"not handled: {load.open:,}; failed: {load.failed:,}; handled again: {load.handled_again:,} (plan: {budget})",
        f"quiet by {found.basis}" if found.basis else "not sealed",
        f"certificate {'verified' if found.is_verified else 'not verified'}",
    ]
    lines += optional_section("Reason:", list(found.lines))
    lines += section("Steps, since the beginning:", text_table(STEP_COLUMNS, rows).splitlines())
    code = CODES[EndKind(found.result)]
    return Report(
        command="streams failover rehearse",
        data=_data(rehearsal),
        text=text_of(lines),
        columns=STEP_COLUMNS,
        rows=rows,
        code=ExitCode.FAILED if code is ExitCode.DONE and (load.open or not found.is_verified) else code,
    )


def rehearsals_report(stream: str, found: Sequence[Rehearsal], now_ms: int) -> Report:
    """All rehearsals of a stream, oldest first; the readiness of the stream is that of the newest, by its age."""
    rows = tuple(_row(each) for each in found)
    now = readiness_at(found[-1], now_ms) if found else None
    lines = [f"stream {stream}: {'it was never rehearsed' if now is None else f'readiness {now} of 100'}"]
    if rows:
        lines += section("Rehearsals:", text_table(COLUMNS, rows).splitlines())
    return Report(
        command="streams failover history",
        data={"stream": stream, "readiness": now, "rehearsals": [_data(each) for each in found]},
        text=text_of(lines),
        columns=COLUMNS,
        rows=rows,
    )


def leftovers_report(stream: str, removed: Sequence[str]) -> Report:
    """What was removed of earlier rehearsals."""
    return Report(
        command="streams failover rehearse",
        data={"stream": stream, "removed": list(removed)},
        text=text_of([f"stream {stream}: {', '.join(removed) or 'nothing'} removed"]),
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
