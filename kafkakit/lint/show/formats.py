"""A result of lint in any of its formats, and as the report that the command ends with."""

from kafkakit.core.findings import exit_code_of
from kafkakit.lint.decide.fixing import LintDone
from kafkakit.lint.decide.result import LintResult
from kafkakit.lint.show.text import COLUMNS, lint_data, lint_rows, lint_text, statistics_text
from kafkakit.report import Report

COMMAND = "lint"


def lint_report(done: LintDone, form: str, version: str) -> Report:
    """The report of a run, with the text of a format, or `diff` for what fixing would change."""
    result = done.run.linted.result
    return Report(
        command=COMMAND,
        data=lint_data(result) | {"fixed": done.run.fixed, "diff": done.run.diff},
        text=done.run.diff if form == "diff" else rendered(result, form, version),
        columns=COLUMNS,
        rows=lint_rows(result),
        code=exit_code_of(result.findings, done.fail_on),
        is_document=form != "text",
    )


def rendered(result: LintResult, name: str, version: str) -> str:
    """The result in a format by its name; that of people for one of the kit's own formats. Imports only this format."""
    match name:
        case "sarif":
            from kafkakit.lint.show.sarif import sarif

            return sarif(result, version)
        case "junit":
            from kafkakit.lint.show.junit import junit

            return junit(result)
        case "github" | "gitlab" | "markdown":
            from kafkakit.lint.show import ci_formats

            return {"github": ci_formats.github, "gitlab": ci_formats.gitlab, "markdown": ci_formats.markdown}[name](
                result
            )
        case "statistics":
            return statistics_text(result)
    return lint_text(result)
