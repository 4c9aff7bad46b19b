"""Pages of rules, read from their docstrings: for --explain, for the site that --docs writes, for SARIF."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import cleandoc

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import count_of
from kafkakit.lint.decide.lint_config import fits, suggestion
from kafkakit.report.pages import html_page
from kafkakit.report.report import Report, ResultTable, lines_from, records, single_row, text_of
from kafkakit.rules.rule import Fix, LintRule, Needs

_HEADINGS = ("Why", "Source", "Options", "Bad", "Good", "Fix")
_EXAMPLES = ("Bad", "Good")
_FIXES = {
    Fix.NONE: "no automatic fix",
    Fix.SAFE: "fixed by --fix",
    Fix.UNSAFE: "fixed by --unsafe-fixes: the effective configuration changes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePage:
    """A rule's documentation in parts; `examples` are the texts of `Bad` and `Good`."""

    rule: LintRule
    summary: str
    parts: Mapping[str, str]

    @property
    def why(self) -> str:
        """Why it is bad."""
        return self.parts.get("Why", "")

    @property
    def title(self) -> str:
        """Code and name."""
        return f"{self.rule.code} {self.rule.name}"

    @property
    def sentence(self) -> str:
        """Code, name and the first sentence."""
        return f"{self.title}: {self.summary.partition('. ')[0].removesuffix('.')}"

    @property
    def facts(self) -> str:
        """Severity, set, inputs and fix in one line."""
        rule = self.rule
        needs = ", ".join(need.value for need in rule.needs if need is not Needs.FILE) or "only files"
        return f"{rule.severity.value}; {'core' if rule.is_core else 'strict'}; needs {needs}; {_FIXES[rule.fix]}"

    @property
    def text(self) -> str:
        """The page for a terminal."""
        lines = [self.title, self.facts, "", self.summary]
        for heading, body in self.parts.items():
            lines += ["", f"{heading}:", *(f"  {line}" if line else "" for line in body.splitlines())]
        return text_of(lines)

    @property
    def markdown(self) -> str:
        """The page as Markdown."""
        lines = [f"# {self.title}", "", f"*{self.facts}*", "", self.summary]
        for heading, body in self.parts.items():
            lines += ["", f"## {heading}", "", *(["```yaml", body, "```"] if heading in _EXAMPLES else [body])]
        return text_of(lines)


def page_of(rule: LintRule) -> RulePage:
    """A rule's page; parts in the order they stand in the docstring."""
    summary, parts, heading = [], {}, ""
    for line in cleandoc(rule.page).splitlines():
        start, colon, rest = line.partition(":")
        if colon and start in _HEADINGS:
            heading = start
            parts[heading] = [rest.strip()] if rest.strip() else []
        elif heading:
            parts[heading].append(line)
        else:
            summary.append(line)
    return RulePage(
        rule=rule,
        summary=" ".join(summary).strip(),
        parts={name: cleandoc("\n".join(["", *body])).strip("\n") for name, body in parts.items()},
    )


def rule_url(rule: LintRule, docs_url: str) -> str:
    """Where the rule's page is published; empty where the site's address is not configured."""
    return f"{docs_url.rstrip('/')}/{rule.code}.html" if docs_url else ""


def site_files(rules: Sequence[LintRule]) -> dict[str, bytes]:
    """The site: one HTML page a rule and an index, by file name."""
    pages = [page_of(rule) for rule in rules]
    index = html_page("rules.html", title=f"Rules of kafkakit lint: {count_of(len(pages), 'rule')}", pages=pages)
    return {"index.html": index} | {
        f"{page.rule.code}.html": html_page("rule.html", title=page.sentence, page=page, code=_EXAMPLES)
        for page in pages
    }


RULE_COLUMNS = ("code", "name", "severity", "set", "fix", "needs", "about")


def rule_rows(rules: Sequence[LintRule]) -> tuple[tuple[object, ...], ...]:
    """One row a rule."""
    return tuple(
        (
            rule.code,
            rule.name,
            rule.severity.value,
            "core" if rule.is_core else "strict",
            rule.fix.value,
            ", ".join(rule.needs),
            page_of(rule).summary,
        )
        for rule in rules
    )


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
    return Report(
        command="lint",
        data={"rules": fields},
        sections=lines_from("\n".join(page.text for page in pages)),
        table=ResultTable(("code", "name", "summary"), rows),
    )


def rules_report(rules: Sequence[LintRule]) -> Report:
    """All rules, one line each."""
    rows = rule_rows(rules)
    return Report(
        command="lint",
        data={"rules": records(RULE_COLUMNS, rows)},
        sections=(ResultTable(RULE_COLUMNS, rows),),
    )


def site_report(folder: str, files: int) -> Report:
    """What was written."""
    text = f"wrote {count_of(files, 'file')} to {folder}; begin with index.html"
    data = {"folder": folder, "files": files}
    return Report(command="lint", data=data, sections=(text,), table=single_row(data))
