"""Reports that document rules instead of linting: one page, the list, the site that was written."""

from collections.abc import Sequence

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import counted
from kafkakit.core.tables import text_table
from kafkakit.lint.decide.selection import fits, suggestion
from kafkakit.lint.show.rule_pages import RULE_COLUMNS, page_of, rule_rows
from kafkakit.report.report import Report
from kafkakit.rules.rule import LintRule


def explain_report(rules: Sequence[LintRule], selector: str) -> Report:
    """The page of a rule by code or name; of all that a prefix fits. `UsageError` when none does."""
    pages = [page_of(rule) for rule in rules if fits(rule, selector)]
    if not pages:
        raise UsageError(f"no rule fits {selector!r:.60}{suggestion(rules, selector)}", hint="--list-rules names all")
    fields = [
        {"code": page.rule.code, "name": page.rule.name, "facts": page.facts, "summary": page.summary, **page.parts}
        for page in pages
    ]
    rows = tuple((p.rule.code, p.rule.name, p.summary) for p in pages)
    return Report(command="lint", data={"rules": fields}, text="\n".join(page.text for page in pages), rows=rows)


def rules_report(rules: Sequence[LintRule]) -> Report:
    """All rules, one line each."""
    rows = rule_rows(rules)
    data = [dict(zip(RULE_COLUMNS, row, strict=True)) for row in rows]
    return Report(
        command="lint", data={"rules": data}, text=text_table(RULE_COLUMNS, rows), columns=RULE_COLUMNS, rows=rows
    )


def site_report(folder: str, files: int) -> Report:
    """What was written."""
    text = f"wrote {counted(files, 'file')} to {folder}; begin with index.html\n"
    return Report(command="lint", data={"folder": folder, "files": files}, text=text, rows=((folder, files),))
