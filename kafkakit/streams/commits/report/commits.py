"""One commit as text, as a row and as JSON fields: what it says, what comes again on a restart, and its hazards.

A commit has the same JSON fields in every command; `kafkakit/streams/commits/decide/documents.py` reads them back. The
drawing of a done set is one row of characters or a few, scaled to the width and readable without any colour. The
explanation of one offset names the commands that come next.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from textwrap import wrap

from kafkakit.core.findings import Severity
from kafkakit.core.quantities import count_of, format_rough_time
from kafkakit.core.text import quote, sanitize
from kafkakit.report.report import INDENT, FactList, Part, Report, ResultTable, attributes
from kafkakit.streams.commits.decide.documents import EncodedCommit
from kafkakit.streams.commits.decide.hazards import hazards_of
from kafkakit.streams.commits.decide.offset_states import (
    Duplicates,
    OffsetExplanation,
    OffsetStanding,
    OffsetTally,
    dialect_words,
    duplicates_of,
    marked_offsets,
    reach_of,
    tally_of,
)
from kafkakit.streams.model.commit import (
    SHOWN_RANGES,
    CommitIdentity,
    CommitState,
    Mark,
    MarkState,
    OffsetRanges,
    Range,
    age_text,
    interval_text,
    ranges_text,
    state_data,
    topic_id_text,
    utc_text,
)
from kafkakit.streams.model.dialects.dialect import CommitFacts, TimeSpan
from kafkakit.streams.model.dialects.registry import dialect_named

LABEL_WIDTH = 14
MIN_WRAP = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawingStyle:
    """The characters for done, mostly done, half done, little done, pending, and pending or forgotten."""

    done: str
    most: str
    half: str
    little: str
    pending: str
    unsure: str = "?"


def commit_report(facts: CommitFacts, *, columns: int, style: DrawingStyle) -> Report:
    """One commit as the result of `decode`; `columns` is the width to draw in."""
    return Report(
        command="streams commits decode",
        data=commit_data(facts),
        sections=commit_sections(facts, width=columns, style=style),
        table=ResultTable(COMMIT_COLUMNS, (commit_row(facts),)),
    )


def encoded_report(encoded: EncodedCommit) -> Report:
    """Metadata to commit as the result of `encode`."""
    columns = ("offset", "metadata", "chars", "limit_chars", "forgotten")
    return Report(
        command="streams commits encode",
        data=asdict(encoded),
        sections=(encoded.metadata,),
        table=ResultTable(columns, (tuple(getattr(encoded, name) for name in columns),)),
    )


def commit_sections(facts: CommitFacts, *, width: int, style: DrawingStyle) -> Iterator[Part]:
    """Everything about one commit; `width` is that of the terminal."""
    yield _head(facts)
    yield FactList(_facts(facts), LABEL_WIDTH, INDENT)
    drawing = draw(facts.state, width=width, style=style, lossy=facts.reading.is_lossy)
    if drawing is not None:
        yield from ("", *drawing.rows, f"  {drawing.legend}")
    words = hazard_lines(facts, width)
    if words:
        yield from ("", *words)


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
    where = "commit" if facts.key is None else sanitize(str(facts.key))
    group = f" of group {sanitize(facts.group)}" if facts.group else ""
    return f"{where}{group}: committed {facts.offset}"


def _facts(facts: CommitFacts) -> Iterator[tuple[str, str]]:
    reading, state = facts.reading, facts.state
    tally = tally_of(state, None if facts.span is None else facts.span.end)
    words = "" if facts.is_limit_known else ", Kafka's default limit"
    size = f"{facts.chars:,} of {facts.limit_chars:,} characters ({facts.fill:.1%}{words})" if facts.chars else "empty"
    nul = ", with the NUL that confluent-kafka adds" if facts.has_nul else ""
    yield "metadata", f"{dialect_words(reading)}; {size}{nul}"
    if reading.problem is not None:
        yield "not used", sanitize(f"{reading.problem}{f': {reading.reason}' if reading.reason else ''}")
    elif reading.reason:
        yield "note", sanitize(reading.reason)
    yield from _binding_rows(facts)
    if reading.claimed is not None and reading.claimed.done:
        claimed = reading.claimed
        yield "it claims", f"{claimed.done.count:,} done above {claimed.base}: {ranges_text(claimed.done)}"
    if facts.span is not None:
        yield "log", f"{facts.span.start} to {facts.span.end}, {tally.untouched or 0:,} not touched yet"
    if tally.span:
        yield "done above", f"{_done_words(tally)}; up to {state.end - 1}" if state.done else "nothing"
        yield "pending", _pending_words(facts, tally)
    yield from _oldest_lines(facts)
    yield from _extras(facts)
    for label, kind in (("retrying", MarkState.RETRYING), ("deferred", MarkState.DEFERRED)):
        found = [mark for mark in state.marks if mark.state is kind]
        if found:
            yield label, _marks_text(found)
    for label, kind in (("rejected", MarkState.REJECTED), ("skipped", MarkState.SKIPPED)):
        found_ranges = marked_offsets(state, kind)
        if found_ranges:
            yield label, f"{found_ranges.count:,}: {ranges_text(found_ranges)}"
    again = duplicates_of(facts)
    yield "on a restart", restart_text(again)
    if again.high:
        yield from (("", sentence) for sentence in again.why)


def _done_words(tally: OffsetTally) -> str:
    parts = [f"{tally.done:,}"]
    parts += [f"{n:,} {word}" for n, word in ((tally.rejected, "rejected"), (tally.skipped, "skipped")) if n]
    return " + ".join(parts)


def _pending_words(facts: CommitFacts, tally: OffsetTally) -> str:
    waiting = tally.pending + tally.retrying + tally.deferred
    holes = facts.state.done.gaps(facts.state.base, reach_of(facts.state))
    return f"{waiting:,}: {ranges_text(holes)}"


def _oldest_lines(facts: CommitFacts) -> Iterator[tuple[str, str]]:
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


def _binding_rows(facts: CommitFacts) -> Iterator[tuple[str, str]]:
    bound = facts.reading.is_bound
    if bound is True:
        yield "bound", "to this cluster, topic, partition and group"
    elif bound is False:
        yield "bound", sanitize(facts.owner) if facts.owner else "to another cluster, topic, partition or group"
    elif facts.reading.problem is None and dialect_named(facts.reading.dialect).is_bound:
        yield "bound", "not checked: give --cluster-id, --topic-id, --partition and --group"
    if facts.copied_from is not None:
        copy = facts.copied_from
        yield "copied from", f"{sanitize(copy.source)} offset {copy.upstream_offset}, by MirrorMaker 2"


def _extras(facts: CommitFacts) -> Iterator[tuple[str, str]]:
    reading, state = facts.reading, facts.state
    if reading.stream_time_ms is not None:
        age = "" if facts.at_ms is None else f", {age_text(reading.stream_time_ms, facts.at_ms)}"
        yield "stream time", f"{utc_text(reading.stream_time_ms)}{age}"
    if reading.processor:
        words = [f"{sanitize(key)}={value}" for key, value in sorted(reading.processor.items())]
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
        yield "held by", sanitize(f"{facts.holder.client_id} on {facts.holder.host}")


def _marks_text(marks: Sequence[Mark]) -> str:
    words = []
    for mark in marks[:SHOWN_RANGES]:
        tries = "15 or more tries" if mark.count >= 15 else count_of(mark.count, "try", "tries")
        wait = f", not before {mark.deferred_s} s after the oldest" if mark.deferred_s else ""
        words.append(f"{ranges_text(OffsetRanges(((mark.start, mark.end),)))} ({tries}{wait})")
    more = len(marks) - SHOWN_RANGES
    return ", ".join(words) + (f" and {count_of(more, 'more range')}" if more > 0 else "")


def hazard_lines(facts: CommitFacts, width: int) -> list[str]:
    """Each hazard with what to do about it, wrapped to the width."""
    lines: list[str] = []
    for hazard in hazards_of(facts):
        words = f"{hazard.severity.value}: {hazard.rule}: {sanitize(hazard.message)}"
        lines += wrap(
            words, max(width, MIN_WRAP), initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
        )
        if hazard.hint:
            lines += _advice_lines(sanitize(hazard.hint), width)
    return lines


def _advice_lines(hint: str, width: int) -> list[str]:
    """What to do, wrapped to the width; the command that it ends with stands whole on its line, to be pasted."""
    words, begin, rest = hint.partition("kafkakit ")
    lines = wrap(
        f"do: {words}", max(width, MIN_WRAP), initial_indent="    ", subsequent_indent="        ",
        break_on_hyphens=False,
    )  # fmt: skip
    return [*lines, f"        {begin}{rest}"] if begin else lines


MAX_ROWS = 4
MIN_CELLS = 8
_LETTERS = {MarkState.REJECTED: "x", MarkState.RETRYING: "r", MarkState.DEFERRED: "d", MarkState.SKIPPED: "s"}
_MARK_ORDER = (MarkState.REJECTED, MarkState.RETRYING, MarkState.DEFERRED, MarkState.SKIPPED)

BLOCKS = DrawingStyle(done="█", most="▓", half="▒", little="░", pending="·")
ASCII = DrawingStyle(done="#", most="+", half="+", little="+", pending=".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Rows to print, and what the characters in them mean."""

    rows: tuple[str, ...]
    legend: str


def draw(state: CommitState, *, width: int, style: DrawingStyle = BLOCKS, lossy: bool = False) -> Drawing | None:
    """Draw the offsets from `base` to the highest one that the state speaks of; None when there are none.

    `width` is that of the terminal; each row begins with its first offset. A cell of several offsets shows a mark
    when one of them has it, so that no rejected or retrying record is lost in the scale; the letter of a done one is
    a capital where something in its cell is pending, so that no hole is lost either. With `lossy` a pending
    offset is drawn as one that may be done and forgotten. Cost: the ranges plus the cells.
    """
    base, end = state.base, reach_of(state)
    if end <= base:
        return None
    label = len(str(end))
    columns = max(MIN_CELLS, width - label - 4)
    per_cell = _per_cell(end - base, columns)
    cells = -(-(end - base) // per_cell)
    marks = {kind: _count_by_cell((_runs(state, kind)), base, per_cell, cells) for kind in _MARK_ORDER}
    done = _count_by_cell(state.done.ranges, base, per_cell, cells)
    text = "".join(
        _cell(
            [kind for kind in _MARK_ORDER if marks[kind][i]],
            done[i] / min(per_cell, end - base - i * per_cell),
            style,
            lossy,
        )
        for i in range(cells)
    )
    rows = tuple(f"  {base + at * per_cell:>{label}} {text[at : at + columns]}" for at in range(0, cells, columns))
    return Drawing(rows=rows, legend=_legend(text, per_cell, style))


def _runs(state: CommitState, kind: MarkState) -> Iterable[Range]:
    return ((mark.start, mark.end) for mark in state.marks if mark.state is kind)


def _per_cell(span: int, columns: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50 ... with which the span fits: in a few rows unscaled, else in one."""
    if span <= columns * MAX_ROWS:
        return 1
    size = 1
    while True:
        for step in (1, 2, 5):
            if -(-span // (size * step)) <= columns:
                return size * step
        size *= 10


def _count_by_cell(ranges: Iterable[Range], base: int, per_cell: int, cells: int) -> list[int]:
    """How many offsets of each cell the ranges hold; ranges are disjoint, so whole cells are filled once."""
    counts = [0] * cells
    for low, high in ranges:
        start, end = max(low, base) - base, min(high - base, cells * per_cell)
        if start >= end:
            continue
        first, last = start // per_cell, (end - 1) // per_cell
        if first == last:
            counts[first] += end - start
            continue
        counts[first] += (first + 1) * per_cell - start
        counts[last] += end - last * per_cell
        for cell in range(first + 1, last):
            counts[cell] = per_cell
    return counts


def _cell(marks: list[MarkState], share: float, style: DrawingStyle, lossy: bool) -> str:
    if marks:
        letter = _LETTERS[marks[0]]
        return letter.upper() if marks[0].is_done and share < 1 else letter
    if share >= 1:
        return style.done
    if share <= 0:
        return style.unsure if lossy else style.pending
    return style.most if share >= 2 / 3 else style.half if share >= 1 / 3 else style.little


def _legend(text: str, per_cell: int, style: DrawingStyle) -> str:
    names = [
        (style.done, "done"),
        (style.pending, "pending"),
        (style.unsure, "pending, or done and forgotten"),
        *((_LETTERS[kind], kind.name.lower()) for kind in _MARK_ORDER),
        *((_LETTERS[kind].upper(), f"{kind.name.lower()} beside pending") for kind in _MARK_ORDER if kind.is_done),
    ]
    mixed = "".join(dict.fromkeys(c for c in (style.most, style.half, style.little) if c in text))
    words = [f"{char} {name}" for char, name in names if char in text]
    if mixed:
        words.append(f"{mixed} partly done")
    scale = "one offset each" if per_cell == 1 else f"{per_cell:,} offsets each"
    return f"{'  '.join(words)}  ({scale})"


COMMIT_COLUMNS = (
    "topic",
    "partition",
    "offset",
    "dialect",
    "done_above",
    "pending",
    "retrying",
    "rejected",
    "backlog",
    "oldest_pending",
    "oldest_age_s",
    "chars",
    "limit_chars",
    "problem",
    "hazards",
)
_SHOWN = ("topic", "partition", "committed", "dialect", "done above", "pending", "backlog", "oldest", "full", "hazards")


def commit_row(facts: CommitFacts) -> tuple[object, ...]:
    """The cells of `COMMIT_COLUMNS`; the age is the lower bound, which is sure."""
    tally = tally_of(facts.state, None if facts.span is None else facts.span.end)
    age = oldest_age_s(facts)
    return (
        None if facts.key is None else facts.key.topic,
        None if facts.key is None else facts.key.partition,
        facts.offset,
        facts.reading.dialect,
        tally.done + tally.rejected + tally.skipped,
        tally.pending + tally.retrying + tally.deferred,
        tally.retrying,
        tally.rejected,
        tally.untouched,
        facts.first_pending if facts.has_pending else None,
        None if age is None else round(age, 3),
        facts.chars,
        facts.limit_chars,
        facts.reading.problem,
        [hazard.rule for hazard in hazards_of(facts)],
    )


def commit_table(commits: Sequence[CommitFacts]) -> ResultTable:
    """A table for people, one line a commit."""
    return ResultTable(_SHOWN, [_table_row(facts) for facts in commits], empty="no commits")


def oldest_age_s(facts: CommitFacts) -> float | None:
    """How old the oldest pending record is at least; None where nothing is pending or no time is known."""
    if facts.at_ms is None or not facts.has_pending or facts.oldest_time is None:
        return None
    return max(0.0, (facts.at_ms - facts.oldest_time.high_ms) / 1000)


def _table_row(facts: CommitFacts) -> tuple[object, ...]:
    tally = tally_of(facts.state, None if facts.span is None else facts.span.end)
    age = oldest_age_s(facts)
    words = [hazard.rule for hazard in hazards_of(facts) if hazard.severity is not Severity.NOTE]
    return (
        None if facts.key is None else facts.key.topic,
        None if facts.key is None else facts.key.partition,
        facts.offset,
        facts.reading.dialect,
        tally.done + tally.rejected + tally.skipped,
        tally.pending + tally.retrying + tally.deferred,
        tally.untouched,
        None if age is None else format_rough_time(age),
        f"{facts.fill:.0%}" if facts.chars else None,
        words,
    )


def commit_data(facts: CommitFacts) -> dict[str, object]:
    """Everything about one commit; absent facts are null, times are both milliseconds and ISO 8601."""
    reading = facts.reading
    again = duplicates_of(facts)
    return {
        "group": facts.group,
        "topic": None if facts.key is None else facts.key.topic,
        "partition": None if facts.key is None else facts.key.partition,
        **attributes(facts, "offset leader_epoch metadata"),
        "dialect": reading.dialect,
        "encoding": reading.encoding or None,
        "alphabet": reading.alphabet or None,
        "chars": facts.chars,
        "bytes": facts.stored_bytes,
        "payload_bytes": reading.raw_bytes,
        "limit_chars": facts.limit_chars,
        "limit_known": facts.is_limit_known,
        "limit_share": round(facts.fill, 4),
        "lossy": reading.is_lossy,
        "compressed": reading.is_compressed,
        "problem": reading.problem,
        "reason": reading.reason or None,
        "bound": reading.is_bound,
        "owner": facts.owner,
        "identity": None if facts.identity is None else identity_data(facts.identity),
        "state": state_data(reading.state),
        "claimed": None if reading.claimed is None else state_data(reading.claimed),
        "counts": _counts(facts),
        "pending": [list(pair) for pair in reading.state.pending],
        "oldest_pending": _oldest_data(facts),
        "stream_time_ms": reading.stream_time_ms,
        "processor": dict(sorted(reading.processor.items())),
        "log": None
        if facts.span is None
        else {"start": facts.span.start, "stable": facts.span.stable, "end": facts.span.end},
        "topic_exists": facts.topic_exists,
        "holder": None if facts.holder is None else attributes(facts.holder, "member_id client_id host"),
        "copied_from": facts.copied_from,
        "duplicates": {
            **attributes(again, "reader low high"),
            "ignoring_metadata": again.ignoring,
            "why": again.why,
        },
        "hazards": [
            {"rule": h.rule, "severity": h.severity, "message": h.message, "hint": h.hint} for h in hazards_of(facts)
        ],
        "at": None if facts.at_ms is None else utc_text(facts.at_ms),
    }


def identity_data(identity: CommitIdentity) -> dict[str, object]:
    """An identity as `documents.IdentityDocument` reads it."""
    return {
        "cluster_id": identity.cluster_id,
        "topic_id": topic_id_text(identity.topic_id),
        **attributes(identity, "partition group"),
    }


def time_data(span: TimeSpan | None, at_ms: int | None) -> dict[str, object] | None:
    """A time with its bounds, its source, and its age where now is known; the age is that of the later bound first."""
    if span is None:
        return None
    return {
        **attributes(span, "low_ms high_ms"),
        "low": utc_text(span.low_ms),
        "high": utc_text(span.high_ms),
        "source": span.source,
        "age_s": None if at_ms is None else [(at_ms - span.high_ms) / 1000, (at_ms - span.low_ms) / 1000],
    }


def _counts(facts: CommitFacts) -> dict[str, object]:
    tally = tally_of(facts.state, None if facts.span is None else facts.span.end)
    return attributes(tally, "done rejected skipped pending retrying deferred untouched")


def _oldest_data(facts: CommitFacts) -> dict[str, object] | None:
    if not facts.has_pending:
        return None
    return {"offset": facts.first_pending, "written": time_data(facts.oldest_time, facts.at_ms)}


EXPLAINED_COLUMNS = ("offset", "standing", "sentence")
_STUCK = (OffsetStanding.PENDING, OffsetStanding.RETRYING, OffsetStanding.DEFERRED)


def explained_report(facts: CommitFacts, found: OffsetExplanation, written: TimeSpan | None, addresses: str) -> Report:
    """The explanation as the result of a command; `addresses` are those of the brokers."""
    return Report(
        command="streams commits explain",
        data=explained_data(facts, found, written),
        sections=explained_lines(facts, found, addresses),
        table=ResultTable(
            EXPLAINED_COLUMNS, tuple((found.offset, found.standing.value, sentence) for sentence in found.sentences)
        ),
    )


def explained_lines(facts: CommitFacts, found: OffsetExplanation, addresses: str) -> Iterator[str]:
    """The sentences, one a line, and what can be done about an offset that holds others up.

    `addresses` are those of the brokers, for Kafka's own tools.
    """
    where = f"group {sanitize(facts.group or '')}, {sanitize(str(facts.key))}, offset {found.offset}"
    yield from (f"{where}: {found.standing.value}", "", *(f"  {sanitize(sentence)}" for sentence in found.sentences))
    steps = next_steps(facts, found, addresses)
    if steps:
        stop = " (stop its members first)" if facts.holder is not None else ""
        yield from ("", f"to look at the record, and to let the group pass it{stop}:")
        yield from (f"  {sanitize(step)}" for step in steps)


def next_steps(facts: CommitFacts, found: OffsetExplanation, addresses: str) -> tuple[str, ...]:
    """Commands for an offset that others wait for; none for any other."""
    if found.standing not in _STUCK or facts.key is None or facts.group is None or not facts.state.done:
        return ()
    key = facts.key
    read = (
        f"kafka-console-consumer.sh --bootstrap-server {quote(addresses)} --topic {quote(key.topic)} "
        f"--partition {key.partition} --offset {found.offset} --max-messages 1"
    )
    return read, facts.command("skip", f"--offsets {found.offset}")


def explained_data(facts: CommitFacts, found: OffsetExplanation, written: TimeSpan | None) -> dict[str, object]:
    """The explanation as JSON fields."""
    return {
        "group": facts.group,
        "topic": None if facts.key is None else facts.key.topic,
        "partition": None if facts.key is None else facts.key.partition,
        "committed": facts.offset,
        **attributes(found, "offset standing"),
        "written": time_data(written, facts.at_ms),
        "sentences": list(found.sentences),
    }
