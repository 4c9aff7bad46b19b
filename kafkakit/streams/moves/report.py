"""Reports on series of moves: a plan with what speaks against each move, and how a process left the series."""

from collections.abc import Iterator, Mapping

from kafkakit.core.errors import ExitCode
from kafkakit.core.quantities import count_of, format_percent
from kafkakit.core.text import plain_value
from kafkakit.report.report import Part, Report, ResultTable, Section, attributes
from kafkakit.streams.failover.api import EndKind, FailoverPlan, Level
from kafkakit.streams.moves.decide import PPM, MoveEnd, MovePace, Series, SeriesEnd, SpreadFigures, most_in_an_hour

CODES = {
    EndKind.DONE: ExitCode.DONE,
    EndKind.WAITING: ExitCode.TRY_LATER,
    EndKind.REFUSED: ExitCode.USAGE,
    EndKind.LATE: ExitCode.FAILED,
}


def series_report(
    command: str, series: Series, pace: MovePace, judged: Mapping[str, FailoverPlan | MoveEnd], done: str = ""
) -> Report:
    """A plan; it exits with 2 where a move would be refused. `judged` may lack moves that were not looked at."""
    rows = tuple(
        (
            move.stream,
            move.to,
            ",".join(move.lanes) or "all",
            move.load if series.figures else None,
            *_verdict(judged.get(move.stream)),
        )
        for move in series.moves
    )
    moves = ResultTable(("stream", "to", "lanes", "load", "verdict", "text"), rows, empty="nothing to move")
    is_refused = any(isinstance(each, MoveEnd) and each.kind is EndKind.REFUSED for each in judged.values())
    return Report(
        command=command,
        data={
            **attributes(series, "kind subject"),
            "emptied": series.cluster_id,
            "plan_sha256": series.sha256,
            "pace": plain_value(pace),
            "template": plain_value(series.template),
            "moves": moves.records(),
            "skipped": dict(series.skipped),
            "figures": plain_value(series.figures),
            "refused": is_refused,
        },
        sections=(
            f"{_title(series)}: {count_of(len(series.moves), 'stream')}",
            f"plan {series.sha256}",
            pace_words(pace),
            "",
            moves,
            Section("Clusters:", () if series.figures is None else _figures(series.figures)),
            Section("Not moved:", [f"{name}: {why}" for name, why in sorted(series.skipped.items())]),
            *(("", done) if done else ()),
        ),
        code=ExitCode.USAGE if is_refused else ExitCode.DONE,
    )


def end_report(command: str, end: SeriesEnd) -> Report:
    """A series as a process leaves it: it exits with 1 where a writer came late, 2 where a move was refused, 75 where
    something is left."""
    record, series = end.record, end.record.series
    rows = tuple(
        (
            move.stream,
            move.to,
            found.kind if found else "not begun",
            found.operation if found else "",
            _reason_text(found),
        )
        for move in series.moves
        for found in (record.ends.get(move.stream),)
    )
    columns = ("stream", "to", "result", "operation", "text")
    moves = ResultTable(columns, rows, "Moves:", empty="there is no stream to move")
    still = [(each.stream, ",".join(each.topics), each.why) for each in end.left]
    left = ResultTable(("stream", "topics", "why"), still, "Left:", empty="")
    done = sum(record.is_done(move.stream) for move in series.moves)
    hour = most_in_an_hour(record.counted_ms)
    closing: tuple[str, ...] = ()
    if still:
        closing = ("", "the same command continues")
    elif series.kind == "evacuate" and rows:
        closing = ("", "once their grace is over, delete old topics with: kafkakit streams failover reclaim STREAM")
    return Report(
        command=command,
        data={
            **attributes(series, "kind subject"),
            "emptied": series.cluster_id,
            "result": end.kind,
            "done": done,
            "most_at_once": record.most_open,
            "most_in_an_hour": hour,
            "moves": moves.records(),
            "left": left.records(),
        },
        sections=(
            f"{end.kind}: {_title(series)}, {done} of {count_of(len(series.moves), 'stream')} moved",
            *([f"at most {record.most_open} at once, at most {hour} begun within an hour"] if rows else ()),
            moves,
            left,
            *closing,
        ),
        code=CODES[end.kind],
    )


def pace_words(pace: MovePace) -> str:
    """The pace in one line."""
    hour = "" if pace.per_hour is None else f", at most {pace.per_hour} begun within an hour"
    return f"at most {count_of(pace.at_once, 'stream')} at once{hour}"


def _title(series: Series) -> str:
    return f"{series.kind} {series.subject} (cluster {series.cluster_id})" if series.cluster_id else str(series.kind)


def _verdict(found: FailoverPlan | MoveEnd | None) -> tuple[str, str]:
    if found is None:
        return "", ""
    if isinstance(found, MoveEnd):
        return found.kind, _reason_text(found)
    warnings = [each for each in found.verdicts if each.level is Level.WARNING]
    return ("warning", warnings[0].text) if warnings else ("ok", "")


def _reason_text(end: MoveEnd | None) -> str:
    return "" if end is None else "; ".join(each for each in (end.reason, *end.lines[:1]) if each)


def _figures(figures: SpreadFigures) -> Iterator[Part]:
    rows = [(c.profile, c.capacity, c.before, c.after, _percent(c.after * PPM // c.capacity)) for c in figures.clusters]
    yield ResultTable(("cluster", "capacity", "before", "after", "use"), rows)
    yield f"{figures.unit}; largest use {_percent(figures.largest_ppm)}, no plan is below {_percent(figures.bound_ppm)}"


def _percent(ppm: int) -> str:
    return format_percent(ppm / PPM)
