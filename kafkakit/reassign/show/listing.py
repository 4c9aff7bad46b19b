"""Running moves, one line each."""

from collections.abc import Iterable

from kafkakit.core.quantities import format_bytes
from kafkakit.core.tables import text_table
from kafkakit.execution.decide.status.state import MoveView
from kafkakit.reassign.show.status_data import move_data
from kafkakit.report.report import Report

COLUMNS = ("topic", "partition", "target", "adding", "removing", "copied_bytes", "total_bytes", "run")


def chosen(moves: Iterable[MoveView], *, ours: bool, foreign: bool) -> tuple[MoveView, ...]:
    """The moves of runs on this host (`ours`), or the others (`foreign`); all when neither or both are wanted."""
    return tuple(m for m in moves if ours == foreign or bool(m.run) == ours)


def list_report(cluster_id: str, moves: tuple[MoveView, ...], damaged: Iterable[str]) -> Report:
    """The moves; `damaged` says of journals why they cannot be read."""
    return Report(
        command="reassign list",
        data={"cluster_id": cluster_id, "moves": [move_data(m) for m in moves]},
        text=render_list(moves),
        columns=COLUMNS,
        rows=list_rows(moves),
        warnings=tuple(f"a journal cannot be read, its moves count as foreign: {problem}" for problem in damaged),
    )


def list_rows(moves: Iterable[MoveView]) -> tuple[tuple[object, ...], ...]:
    """One row a move, in `COLUMNS`."""
    found = ((m.move, m) for m in moves)
    return tuple(
        (r.topic, r.partition, r.target, r.adding, r.removing, m.copied_bytes, m.total_bytes, m.run) for r, m in found
    )


def render_list(moves: tuple[MoveView, ...]) -> str:
    """An aligned table for people; nothing where nothing moves."""
    if not moves:
        return ""
    rows = [
        (*row[:5], format_bytes(m.copied_bytes), format_bytes(m.total_bytes), m.run or "foreign")
        for m, row in zip(moves, list_rows(moves), strict=True)
    ]
    return text_table(("topic", "partition", "target", "adding", "removing", "copied", "of", "run"), rows) + "\n"
