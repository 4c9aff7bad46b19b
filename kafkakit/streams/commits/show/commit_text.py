"""One commit as text for people: what it says, a drawing of it, what comes again on a restart, and its hazards."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from textwrap import wrap

from kafkakit.core.printable import printable
from kafkakit.core.quantities import counted
from kafkakit.report.report import Report
from kafkakit.streams.commits.decide.duplicates import Duplicates, duplicates_of
from kafkakit.streams.commits.decide.hazards.every import hazards_of
from kafkakit.streams.commits.decide.offline_writing import EncodedCommit
from kafkakit.streams.commits.decide.tally import Tally, dialect_words, marked, reach_of, tally_of
from kafkakit.streams.commits.show.data import commit_data
from kafkakit.streams.commits.show.drawing import DrawingStyle, draw
from kafkakit.streams.commits.show.table import COMMIT_COLUMNS, commit_row
from kafkakit.streams.model.commit import (
    SHOWN_RANGES,
    Mark,
    MarkState,
    OffsetRanges,
    age_text,
    interval_text,
    ranges_text,
    utc_text,
)
from kafkakit.streams.model.dialects.dialect import CommitFacts
from kafkakit.streams.model.dialects.registry import dialect_named

LABEL_WIDTH = 14
MIN_WRAP = 60


def commit_report(facts: CommitFacts, *, columns: int, style: DrawingStyle) -> Report:
    """One commit as the result of `decode`; `columns` is the width to draw in."""
    return Report(
        command="streams commits decode",
        data=commit_data(facts),
        text=commit_text(facts, width=columns, style=style),
        columns=COMMIT_COLUMNS,
        rows=(commit_row(facts),),
    )


def encoded_report(encoded: EncodedCommit) -> Report:
    """Metadata to commit as the result of `encode`."""
    columns = ("offset", "metadata", "chars", "limit_chars", "forgotten")
    return Report(
        command="streams commits encode",
        data=asdict(encoded),
        text=encoded.metadata,
        columns=columns,
        rows=(tuple(getattr(encoded, name) for name in columns),),
    )


def commit_text(facts: CommitFacts, *, width: int, style: DrawingStyle) -> str:
    """Everything about one commit; `width` is that of the terminal."""
    lines = [_head(facts)]
    lines += [f"  {label:<{LABEL_WIDTH}}{value}" for label, value in _facts(facts)]
    drawing = draw(facts.state, width=width, style=style, lossy=facts.reading.is_lossy)
    if drawing is not None:
        lines += ["", *drawing.rows, f"  {drawing.legend}"]
    words = hazard_lines(facts, width)
    if words:
        lines += ["", *words]
    return "\n".join(lines) + "\n"


def restart_text(again: Duplicates) -> str:
    """What comes again on a restart, in one line."""
    if again.high is None:
        return f"how much comes again is unknown: {again.why[-1]}"
    if not again.high and not again.ignoring:
        return "nothing that this commit calls done comes again"
    number = "none" if again.high == 0 else f"{again.low:,}" if again.is_exact else f"{again.low:,} to {again.high:,}"
    verb = "comes" if again.high <= 1 else "come"
    if again.is_exact and again.high == again.ignoring:
        return f"{number} of the done records {verb} again"
    rest = "" if again.ignoring is None else f", {again.ignoring:,} to a client that ignores metadata"
    return f"{number} of the done records {verb} again to {again.reader}{rest}"


def _head(facts: CommitFacts) -> str:
    where = "commit" if facts.key is None else printable(str(facts.key))
    group = f" of group {printable(facts.group)}" if facts.group else ""
    return f"{where}{group}: committed {facts.offset}"


def _facts(facts: CommitFacts) -> Iterator[tuple[str, str]]:
    reading, state = facts.reading, facts.state
    tally = tally_of(state, None if facts.span is None else facts.span.end)
    words = "" if facts.is_limit_known else ", Kafka's default limit"
    size = f"{facts.chars:,} of {facts.limit_chars:,} characters ({facts.fill:.1%}{words})" if facts.chars else "empty"
    nul = ", with the NUL that confluent-kafka adds" if facts.has_nul else ""
    yield "metadata", f"{dialect_words(reading)}; {size}{nul}"
    if reading.problem is not None:
        yield "not used", printable(f"{reading.problem}{f': {reading.reason}' if reading.reason else ''}")
    elif reading.reason:
        yield "note", printable(reading.reason)
    yield from _binding(facts)
    if reading.claimed is not None and reading.claimed.done:
        claimed = reading.claimed
        yield "it claims", f"{claimed.done.count:,} done above {claimed.base}: {ranges_text(claimed.done)}"
    if facts.span is not None:
        yield "log", f"{facts.span.start} to {facts.span.end}, {tally.untouched or 0:,} not touched yet"
    if tally.span:
        yield "done above", f"{_done_words(tally)}; up to {state.end - 1}" if state.done else "nothing"
        yield "pending", _pending_words(facts, tally)
    yield from _oldest(facts)
    yield from _extras(facts)
    for label, kind in (("retrying", MarkState.RETRYING), ("deferred", MarkState.DEFERRED)):
        found = [mark for mark in state.marks if mark.state is kind]
        if found:
            yield label, _marks_text(found)
    for label, kind in (("rejected", MarkState.REJECTED), ("skipped", MarkState.SKIPPED)):
        found_ranges = marked(state, kind)
        if found_ranges:
            yield label, f"{found_ranges.count:,}: {ranges_text(found_ranges)}"
    again = duplicates_of(facts)
    yield "on a restart", restart_text(again)
    if again.high:
        yield from (("", sentence) for sentence in again.why)


def _done_words(tally: Tally) -> str:
    parts = [f"{tally.done:,}"]
    parts += [f"{n:,} {word}" for n, word in ((tally.rejected, "rejected"), (tally.skipped, "skipped")) if n]
    return " + ".join(parts)


def _pending_words(facts: CommitFacts, tally: Tally) -> str:
    waiting = tally.pending + tally.retrying + tally.deferred
    holes = facts.state.done.gaps(facts.state.base, reach_of(facts.state))
    return f"{waiting:,}: {ranges_text(holes)}"


def _oldest(facts: CommitFacts) -> Iterator[tuple[str, str]]:
    if not facts.has_pending:
        yield "oldest", "nothing is pending"
        return
    span = facts.oldest_time
    if span is None:
        if facts.span is not None or dialect_named(facts.reading.dialect).has_payload:
            yield "oldest", f"{facts.first_pending}, written at an unknown time"
        return
    age = "" if facts.at_ms is None else f", {age_text(span.low_ms, facts.at_ms)}"
    yield "oldest", f"{facts.first_pending}, written {interval_text(span.low_ms, span.high_ms)}{age} (by {span.source})"
    mark = facts.state.watermark
    if mark is not None:
        age = "" if facts.at_ms is None else f", {age_text(mark.newest_done_ms, facts.at_ms)}"
        yield "newest done", f"written {utc_text(mark.newest_done_ms)}{age}"


def _binding(facts: CommitFacts) -> Iterator[tuple[str, str]]:
    bound = facts.reading.is_bound
    if bound is True:
        yield "bound", "to this cluster, topic, partition and group"
    elif bound is False:
        yield "bound", printable(facts.owner) if facts.owner else "to another cluster, topic, partition or group"
    elif facts.reading.problem is None and dialect_named(facts.reading.dialect).is_bound:
        yield "bound", "not checked: give --cluster-id, --topic-id, --partition and --group"
    if facts.copied_from is not None:
        copy = facts.copied_from
        yield "copied from", f"{printable(copy.source)} offset {copy.upstream_offset}, by MirrorMaker 2"


def _extras(facts: CommitFacts) -> Iterator[tuple[str, str]]:
    reading, state = facts.reading, facts.state
    if reading.stream_time_ms is not None:
        age = "" if facts.at_ms is None else f", {age_text(reading.stream_time_ms, facts.at_ms)}"
        yield "stream time", f"{utc_text(reading.stream_time_ms)}{age}"
    if reading.processor:
        words = [f"{printable(key)}={value}" for key, value in sorted(reading.processor.items())]
        yield "processor", ", ".join(words)
    if state.route is not None:
        yield "route", f"epoch {state.route.epoch}, segment {state.route.segment}"
    if state.writer is not None:
        yield "writer", f"member {state.writer.member_hash:08x}, generation {state.writer.generation}"
    if state.replay is not None:
        yield "replay", f"{state.replay.start}-{state.replay.end - 1} opened by request {state.replay.request_id}"
    if state.spill is not None:
        yield "exact state", f"in the ledger, partition {state.spill.partition} offset {state.spill.offset}"
    if facts.holder is not None:
        yield "held by", printable(f"{facts.holder.client_id} on {facts.holder.host}")


def _marks_text(marks: Sequence[Mark]) -> str:
    words = []
    for mark in marks[:SHOWN_RANGES]:
        tries = "15 or more tries" if mark.count >= 15 else counted(mark.count, "try", "tries")
        wait = f", not before {mark.deferred_s} s after the oldest" if mark.deferred_s else ""
        words.append(f"{ranges_text(OffsetRanges(((mark.start, mark.end),)))} ({tries}{wait})")
    more = len(marks) - SHOWN_RANGES
    return ", ".join(words) + (f" and {counted(more, 'more range')}" if more > 0 else "")


def hazard_lines(facts: CommitFacts, width: int) -> list[str]:
    """Each hazard with what to do about it, wrapped to the width."""
    lines: list[str] = []
    for hazard in hazards_of(facts):
        words = f"{hazard.severity.value}: {hazard.rule}: {printable(hazard.message)}"
        lines += wrap(
            words, max(width, MIN_WRAP), initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
        )
        if hazard.hint:
            hint = f"do: {printable(hazard.hint)}"
            lines += wrap(hint, max(width, MIN_WRAP), initial_indent="    ", subsequent_indent="        ",
                          break_on_hyphens=False)  # fmt: skip
    return lines
