"""Pages of rules, read from their docstrings: for --explain, for the site that --docs writes, for SARIF."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from inspect import cleandoc

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import counted
from kafkakit.lint.decide.lint_config import fits, suggestion
from kafkakit.report.report import Report, ResultTable, lines_from, records, single_row, text_of
from kafkakit.rules.rule import Fix, LintRule, Needs

_HEADINGS = ("Why", "Source", "Options", "Bad", "Good", "Fix")
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
            lines += ["", f"## {heading}", "", *(["```yaml", body, "```"] if heading in ("Bad", "Good") else [body])]
        return text_of(lines)

    @property
    def html(self) -> str:
        """The page as HTML that needs nothing else."""
        body = [
            f"<h1>{escape(self.title)}</h1>",
            f"<p><em>{escape(self.facts)}</em></p>",
            f"<p>{escape(self.summary)}</p>",
        ]
        for heading, part in self.parts.items():
            tag = "pre" if heading in ("Bad", "Good") else "p"
            body += [f"<h2>{heading}</h2>", f"<{tag}>{escape(part)}</{tag}>"]
        return page_html(self.title, body)


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


def site_files(rules: Sequence[LintRule]) -> dict[str, str]:
    """The site: one HTML page a rule and an index, by file name."""
    rows = "".join(
        f'<tr><td><a href="{r.code}.html">{r.code}</a></td><td>{escape(r.name)}</td><td>{r.severity.value}</td>'
        f"<td>{'core' if r.is_core else 'strict'}</td><td>{r.fix.value}</td>"
        f"<td>{escape(page_of(r).summary)}</td></tr>\n"
        for r in rules
    )
    head = "<tr><th>code</th><th>name</th><th>severity</th><th>set</th><th>fix</th><th>what it reports</th></tr>\n"
    index = [f"<h1>Rules of kafkakit lint</h1><p>{len(rules)} rules.</p>", f"<table>\n{head}{rows}</table>"]
    return {"index.html": page_html("Rules of kafkakit lint", index)} | {
        f"{r.code}.html": page_of(r).html for r in rules
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


def page_html(title: str, body: Sequence[str]) -> str:
    """An HTML page that needs nothing else; `body` is HTML already."""
    style = (
        "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
        "pre{background:#f4f4f4;padding:1rem;overflow-x:auto}"
        "td,th{text-align:left;padding:.2rem .6rem;vertical-align:top}"
    )
    head = f'<html lang="en">\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n<style>{style}</style>'
    return "\n".join(["<!doctype html>", head, *body, "</html>", ""])


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
    text = f"wrote {counted(files, 'file')} to {folder}; begin with index.html"
    data = {"folder": folder, "files": files}
    return Report(command="lint", data=data, sections=(text,), table=single_row(data))
