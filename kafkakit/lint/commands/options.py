"""The options of `kafkakit lint`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.context import CliContext
from kafkakit.cli.output import OutputFormat, format_result
from kafkakit.core.errors import UsageError
from kafkakit.core.findings import FailOn
from kafkakit.lint.decide.run_options import RunOptions
from kafkakit.lint.decide.selection import RuleSet

if TYPE_CHECKING:
    from kafkakit.lint.decide.fixing import LintDone
    from kafkakit.report.report import Report


class LintFormat(StrEnum):
    """Formats of the findings."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    TSV = "tsv"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"
    GITLAB = "gitlab"
    MARKDOWN = "markdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LintInputs:
    """What is linted, and what the files do not tell."""

    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help="Read every file as this kind instead of detecting it.")
    ] = None
    stdin_filename: Annotated[
        str, typer.Option("--stdin-filename", metavar="PATH", help="The name that findings give to what stdin holds.")
    ] = "stdin"
    live: Annotated[bool, typer.Option("--live", help="Lint the cluster of the profile, too; reads only.")] = False
    cluster_name: Annotated[
        str | None,
        typer.Option(
            "--cluster-name",
            metavar="NAME",
            help="With --live: which cluster of the files it is, where they name several.",
        ),
    ] = None
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="DIR", help="With --live: compare the cluster with these files, both ways."),
    ] = None
    kafka_version: Annotated[
        str | None,
        typer.Option(
            "--kafka-version", metavar="VERSION", help="Kafka's version where files do not tell; else the newest."
        ),
    ] = None
    target_version: Annotated[
        str | None,
        typer.Option(
            "--target-version", metavar="VERSION", help="Report what an upgrade to this version breaks or changes."
        ),
    ] = None
    env: Annotated[
        str | None,
        typer.Option("--env", metavar="NAME", help="Environment where files do not tell: prod, staging, dev."),
    ] = None
    lint_config: Annotated[
        Path | None,
        typer.Option("--lint-config", metavar="FILE", help="Read this file instead of looking for kafkakit-lint.yaml."),
    ] = None

    def config_path(self) -> Path | None:
        """The lint configuration: the file that is given, or the next `kafkakit-lint.yaml` above the working folder."""
        from kafkakit.config.read.files import file_above
        from kafkakit.lint.decide.lint_config import NAME

        found = self.lint_config or file_above(Path.cwd(), NAME)
        return Path(NAME) if found == Path.cwd() / NAME else found

    def paths(self, given: list[str]) -> list[str]:
        """What to read; `UsageError` for --against without --live."""
        if self.against is None:
            return given
        if not self.live:
            raise UsageError("--against needs --live", hint="it compares the cluster of the profile with files")
        return [*given, str(self.against)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChoice:
    """Which rules run."""

    rules: Annotated[
        RuleSet | None, typer.Option("--rules", help="Set of rules; core when neither this nor the configuration says.")
    ] = None
    select: Annotated[
        list[str] | None,
        typer.Option("--select", metavar="RULE,...", help="Only these: codes, prefixes (KKR), names, ALL. Repeatable."),
    ] = None
    extend_select: Annotated[
        list[str] | None, typer.Option("--extend-select", metavar="RULE,...", help="These, too. Repeatable.")
    ] = None
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="RULE,...", help="None of these. Repeatable.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Which findings are accepted, and which fail the command."""

    fail_on: Annotated[
        FailOn | None,
        typer.Option("--fail-on", help="Exit 1 with findings of this severity or worse; warning by default."),
    ] = None
    baseline: Annotated[
        Path | None, typer.Option("--baseline", metavar="FILE", help="Accept the findings of this file.")
    ] = None
    write_baseline: Annotated[
        Path | None, typer.Option("--write-baseline", metavar="FILE", help="Accept today's findings: write them there.")
    ] = None
    prune_baseline: Annotated[
        bool, typer.Option("--prune-baseline", help="Take out of the baseline what is not found any more.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixing:
    """Whether files are changed."""

    fix: Annotated[
        bool, typer.Option("--fix", help="Change files where the effective configuration stays the same.")
    ] = False
    unsafe_fixes: Annotated[
        bool,
        typer.Option("--unsafe-fixes", help="With --fix or --diff: also what changes the effective configuration."),
    ] = False
    diff: Annotated[
        bool, typer.Option("--diff", help="Print what --fix would change as a unified diff, and change nothing.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LintOutput:
    """How the result is written."""

    output: Annotated[
        LintFormat | None,
        typer.Option(
            "-o",
            "--output",
            "--format",
            envvar="KAFKAKIT_OUTPUT",
            help="Format of the result; text, or github in GitHub Actions.",
        ),
    ] = None
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--also", metavar="FORMAT=FILE", help="Write the result in this format to a file, too. Repeatable."
        ),
    ] = None
    statistics: Annotated[bool, typer.Option("--statistics", help="Print numbers of findings by rule.")] = False
    upgrade_report: Annotated[
        Path | None,
        typer.Option(
            "--upgrade-report",
            metavar="FILE",
            help="With --target-version: write one page on the upgrade (.md, .html).",
        ),
    ] = None

    def take_over(self, cli: CliContext) -> None:
        """Let the kit write its own formats; the others are text to it."""
        own = self.output is not None and self.output.value in tuple(OutputFormat)
        cli.take("output", self.output.value if own and self.output is not None else OutputFormat.TEXT.value, "flag -o")

    def text_format(self, in_github_actions: bool) -> str:
        """The format of the text that is written; machine formats of the kit leave it to the report."""
        if self.output is not None:
            return self.output.value
        if self.statistics:
            return "statistics"
        return LintFormat.GITHUB.value if in_github_actions else LintFormat.TEXT.value

    def check(self, target_version: str | None) -> None:
        """Raise `UsageError` for what cannot be written, before anything is read."""
        self.also_files()
        if self.upgrade_report is not None and target_version is None:
            raise UsageError("--upgrade-report needs --target-version", hint="name the version to upgrade to")

    def also_texts(
        self, done: LintDone, report: Report, version: str, target_version: str | None
    ) -> list[tuple[Path, str]]:
        """The files to write besides, with their texts."""
        from kafkakit.lint.show.formats import rendered
        from kafkakit.lint.show.upgrade import upgrade_page

        result = done.run.linted.result
        own = {form.value for form in OutputFormat if form is not OutputFormat.TEXT}
        texts = [
            (path, format_result(report, OutputFormat(name)) if name in own else rendered(result, name, version))
            for name, path in self.also_files()
        ]
        if self.upgrade_report is not None and target_version is not None:
            texts.append((self.upgrade_report, upgrade_page(result, target_version, self.upgrade_report.suffix)))
        return texts

    def also_files(self) -> tuple[tuple[str, Path], ...]:
        """The further formats and their files; `UsageError` for what is not FORMAT=FILE."""
        found = []
        for text in self.also or ():
            name, equals, path = text.partition("=")
            if not equals or not path or name not in tuple(LintFormat):
                raise UsageError(f"--also {text!r:.80} is not FORMAT=FILE", hint=f"formats: {', '.join(LintFormat)}")
            found.append((name, Path(path)))
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDocs:
    """Instead of linting: the documentation of rules."""

    explain: Annotated[
        str | None, typer.Option("--explain", metavar="RULE", help="Print a rule's page: what, why, examples, fix.")
    ] = None
    list_rules: Annotated[bool, typer.Option("--list-rules", help="Print all rules.")] = False
    docs: Annotated[
        Path | None,
        typer.Option("--docs", metavar="DIR", help="Write one HTML page a rule and an index to this folder."),
    ] = None

    @property
    def is_given(self) -> bool:
        """True when documentation was asked for instead of linting."""
        return self.list_rules or self.explain is not None or self.docs is not None


def run_options(inputs: LintInputs, choice: RuleChoice, acceptance: Acceptance, today: date) -> RunOptions:
    """The options of the command line as one value."""
    return RunOptions(
        today=today,
        rule_set=choice.rules,
        select=_names(choice.select),
        extend=_names(choice.extend_select),
        ignore=_names(choice.ignore),
        fail_on=acceptance.fail_on,
        kafka_version=inputs.kafka_version,
        target_version=inputs.target_version,
        env=inputs.env,
    )


def _names(given: list[str] | None) -> tuple[str, ...]:
    return tuple(name.strip() for text in given or () for name in text.split(",") if name.strip())
