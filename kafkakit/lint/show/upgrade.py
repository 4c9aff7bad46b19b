"""The upgrade report: what breaks, what changes its default, what to set first, on one page."""

from collections.abc import Iterable, Sequence
from html import escape

from kafkakit.core.quantities import counted
from kafkakit.lint.decide.result import LintResult
from kafkakit.lint.show.rule_pages import page_html
from kafkakit.lint.show.text import position
from kafkakit.rules.engine import Checked
from kafkakit.rules.rule import Edit

BREAKS = frozenset({"KKV004", "KKV006", "KKV012", "KKD109", "KKQ855", "KKG708"})
DEFAULTS = frozenset({"KKV007"})
DEPRECATED = frozenset({"KKV005"})
_SECTIONS = (
    ("What breaks", BREAKS, "Change these before the first broker is upgraded."),
    ("What changes its default", DEFAULTS, "Set the value of today first if the new default is not wanted."),
    ("What is deprecated", DEPRECATED, "These still work in the target version."),
)


def upgrade_page(result: LintResult, target: str, suffix: str) -> str:
    """The page as HTML for a file name that ends in `.html` or `.htm`, else as Markdown."""
    return (upgrade_html if suffix.lower() in (".html", ".htm") else upgrade_markdown)(result, target)


def upgrade_markdown(result: LintResult, target: str) -> str:
    """The page as Markdown."""
    lines = [f"# Upgrade to Kafka {target}", "", _summary(result), ""]
    for heading, codes, what_to_do in _SECTIONS:
        found = [f"- `{position(c.finding)}` {c.rule.code}: {c.finding.message}" for c in _of(result, codes)]
        lines += [f"## {heading} ({len(found)})", "", *([what_to_do, "", *found] if found else ["Nothing."]), ""]
    first = [f"- `{where}`: {edit}" for where, edit in _first(result)]
    return "\n".join([*lines, "## What to set first", "", *(first or ["Nothing."]), ""])


def upgrade_html(result: LintResult, target: str) -> str:
    """The page as HTML that needs nothing else."""
    title = f"Upgrade to Kafka {target}"
    body = [f"<h1>{escape(title)}</h1>", f"<p>{escape(_summary(result))}</p>"]
    for heading, codes, what_to_do in _SECTIONS:
        found = [(position(c.finding), c.rule.code, c.finding.message) for c in _of(result, codes)]
        body += [f"<h2>{heading} ({len(found)})</h2>", f"<p>{what_to_do if found else 'Nothing.'}</p>", _table(found)]
    body += ["<h2>What to set first</h2>", _table(list(_first(result)))]
    return page_html(title, body)


def _summary(result: LintResult) -> str:
    numbers = [len(_of(result, codes)) for _, codes, _ in _SECTIONS]
    return (
        f"{counted(numbers[0], 'setting')} would break, {counted(numbers[1], 'default')} would change, "
        f"{counted(numbers[2], 'setting')} are deprecated, in {counted(len(result.files), 'file')}."
    )


def _of(result: LintResult, codes: Iterable[str]) -> Sequence[Checked]:
    wanted = set(codes)
    return [checked for checked in result.checked if checked.rule.code in wanted]


def _first(result: LintResult) -> Iterable[tuple[str, str]]:
    seen = set()
    for checked in _of(result, BREAKS | DEFAULTS):
        for edit in checked.edits:
            line = (position(checked.finding) if checked.rule.code in BREAKS else checked.finding.where, _words(edit))
            if line not in seen:
                seen.add(line)
                yield line


def _words(edit: Edit) -> str:
    if edit.rename is not None:
        return f"rename {edit.key} to {edit.rename}"
    return f"delete {edit.key}" if edit.value is None else f"set {edit.key}={edit.value}"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    cells = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f"<table>\n{cells}</table>"
