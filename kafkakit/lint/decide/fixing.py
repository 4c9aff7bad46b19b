"""Linting and fixing until nothing is left to fix, in memory."""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkakit.core.findings import FailOn
from kafkakit.lint.decide.decision import Linted, LintRequest, lint
from kafkakit.lint.decide.documents.tree import Document
from kafkakit.lint.decide.fixes import fixed_document, shown_diff
from kafkakit.lint.decide.kinds.registry import FileReading, read_text
from kafkakit.lint.decide.pieces import Pieces
from kafkakit.rules.engine import Checked

MOST_PASSES = 10
GENERATED = frozenset({"cluster-snapshot", "terraform-plan"})
"""Kinds that programs write: a fix there would be lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file that changed, from its first document to its last, and the findings that were fixed."""

    before: Document
    after: Document
    applied: tuple[Checked, ...]

    @property
    def path(self) -> str:
        """The file."""
        return self.before.path


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedRun:
    """What is left after fixing, and each file that changed, from its first text to its last."""

    linted: Linted
    changed: tuple[FileChange, ...] = ()

    @property
    def fixed(self) -> int:
        """How many findings were fixed."""
        return sum(len(change.applied) for change in self.changed)

    @property
    def diff(self) -> str:
        """All changes as one unified diff."""
        return "".join(shown_diff(change.before, change.after) for change in self.changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class LintDone:
    """What a run found and changed, and from which severity on it fails."""

    run: FixedRun
    fail_on: FailOn


def fix_all(
    files: Sequence[FileReading], live: Sequence[Pieces], request: LintRequest, kind: str | None, *, unsafe: bool
) -> FixedRun:
    """Fix what can be fixed, look again, at most ten times; findings that are accepted are left alone."""
    now = list(files)
    applied: dict[str, list[Checked]] = {}
    linted = lint(now, live, request)
    for _ in range(MOST_PASSES):
        by_path: dict[str, list[Checked]] = {}
        for item in linted.result.checked:
            if item.anchor is not None:
                by_path.setdefault(item.anchor.place.path, []).append(item)
        changed = False
        for number, reading in enumerate(now):
            path = reading.document.path
            if path not in by_path or GENERATED.intersection(reading.kinds):
                continue
            fixed = fixed_document(reading.document, by_path[path], unsafe=unsafe)
            if fixed.after != reading.document.text:
                applied.setdefault(path, []).extend(fixed.applied)
                now[number] = read_text(path, fixed.after, kind, is_named=True)
                changed = True
        if not changed:
            break
        linted = lint(now, live, request)
    first = {reading.document.path: reading.document for reading in files}
    last = {reading.document.path: reading.document for reading in now}
    return FixedRun(
        linted=linted,
        changed=tuple(
            FileChange(before=first[path], after=last[path], applied=tuple(items))
            for path, items in sorted(applied.items())
            if first[path].text != last[path].text
        ),
    )
