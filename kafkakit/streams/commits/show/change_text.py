"""What changed between two looks at commits, as text, rows and JSON fields."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafkakit.core.printable import printable
from kafkakit.core.quantities import counted, format_rough_time
from kafkakit.report.report import Report
from kafkakit.streams.commits.decide.difference import Difference, difference
from kafkakit.streams.model.commit import CommitState, OffsetRanges, ranges_text

CHANGE_COLUMNS = ("where", "what", "start", "end", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """One commit before and after; one of the two is None for a commit that came or went. `where` names it."""

    where: str
    before: CommitState | None
    after: CommitState | None

    @property
    def difference(self) -> Difference | None:
        """What is different; None where one of the two is missing."""
        return None if self.before is None or self.after is None else difference(self.before, self.after)

    @property
    def is_empty(self) -> bool:
        """True when nothing changed."""
        found = self.difference
        return found is not None and found.is_empty


def changes_report(changes: Sequence[StateChange]) -> Report:
    """All that changed as the result of a command."""
    return Report(
        command="streams commits diff",
        data={"changes": [change_data(change) for change in changes]},
        text=changes_text(changes),
        columns=CHANGE_COLUMNS,
        rows=tuple(row for change in changes for row in change_rows(change)),
    )


def changes_text(changes: Sequence[StateChange]) -> str:
    """All that changed, a commit after another; one line for those that did not."""
    lines: list[str] = []
    for change in changes:
        if not change.is_empty:
            lines += [f"{printable(change.where)}:" if change.where else "", *(f"  {line}" for line in _lines(change))]
    same = sum(1 for change in changes if change.is_empty)
    if same or not changes:
        lines.append(f"{counted(same, 'commit')} unchanged")
    return "\n".join(line for line in lines if line) + "\n"


def change_line(change: StateChange) -> str:
    """One change in one line, for a log."""
    return f"{printable(change.where)}: {'; '.join(_lines(change))}"


def change_data(change: StateChange) -> dict[str, object]:
    """One change as JSON fields; ranges are [start, end] pairs with the end left out."""
    found = change.difference
    if found is None:
        return {"where": change.where, "came": change.before is None, "went": change.after is None}
    return {
        "where": change.where,
        "came": False,
        "went": False,
        "base_before": found.base_before,
        "base_after": found.base_after,
        **{name: [list(pair) for pair in ranges] for name, ranges in _sets(found)},
        "retried": [{"start": a, "end": b, "before": old, "after": new} for a, b, old, new in found.retried],
        "oldest_moved_ms": found.oldest_moved_ms,
        "newest_moved_ms": found.newest_moved_ms,
    }


def change_rows(change: StateChange) -> Iterator[tuple[object, ...]]:
    """One row a range, in the order of `CHANGE_COLUMNS`; the committed offset comes first."""
    found = change.difference
    if found is None:
        yield (change.where, "came" if change.before is None else "went", None, None, None)
        return
    if found.base_before != found.base_after:
        yield (change.where, "committed", found.base_before, found.base_after, None)
    for name, ranges in _sets(found):
        for start, end in ranges:
            yield (change.where, name, start, end, None)
    for start, end, old, new in found.retried:
        yield (change.where, "retried", start, end, f"{old} -> {new}")


def _sets(found: Difference) -> tuple[tuple[str, OffsetRanges], ...]:
    return (
        ("became_done", found.became_done),
        ("reopened", found.reopened),
        ("rejected", found.rejected),
        ("skipped", found.skipped),
        ("deferred", found.deferred),
    )


def _lines(change: StateChange) -> Iterator[str]:
    found = change.difference
    if found is None:
        state = change.after if change.before is None else change.before
        at = "" if state is None else f" at {state.base}"
        yield f"committed{at} for the first time" if change.before is None else f"no commit any more (it was{at})"
        return
    if found.base_before != found.base_after:
        moved = found.base_after - found.base_before
        back = "" if moved > 0 else ", BACK"
        yield f"committed {found.base_before} -> {found.base_after} ({moved:+,}{back})"
    words = {
        "became_done": "became done",
        "reopened": "done before, pending again",
        "rejected": "rejected",
        "skipped": "skipped by an operator",
        "deferred": "put off",
    }
    for name, ranges in _sets(found):
        if ranges:
            yield f"{words[name]}: {ranges.count:,}: {ranges_text(ranges)}"
    for start, end, old, new in found.retried[:6]:
        yield f"tried again: {ranges_text(OffsetRanges(((start, end),)))} ({old} -> {new})"
    if len(found.retried) > 6:
        yield f"tried again: {counted(len(found.retried) - 6, 'more range')}"
    if found.oldest_moved_ms:
        way = "later" if found.oldest_moved_ms > 0 else "EARLIER"
        yield f"the oldest pending record is {format_rough_time(abs(found.oldest_moved_ms) / 1000)} {way}"
    if found.is_empty:
        yield "unchanged"
