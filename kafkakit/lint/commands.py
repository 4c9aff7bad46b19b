"""`kafkakit lint`: its options, the ports that it hands on, and the report that it ends with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.common_options import NO_TAGS, TagSource
from kafkakit.cli.completion import TOPIC_CHOICE
from kafkakit.cli.context import CliContext
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.output import OutputFormat, format_result
from kafkakit.core.columns import without_collector
from kafkakit.core.errors import UsageError
from kafkakit.core.options import option
from kafkakit.lint.decide.decision import LintChoice

if TYPE_CHECKING:
    from kafkakit.lint.decide.fixes import LintDone
    from kafkakit.lint.decide.pieces import Pieces
    from kafkakit.report.report import Report


app = new_group("Find mistakes in Kafka's configuration, in files and live.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LintInputs:
    """What is linted."""

    kind: str | None = option(
        None, "--kind", metavar="KIND", help="Read every file as this kind instead of detecting it."
    )
    stdin_filename: str = option(
        "stdin", "--stdin-filename", metavar="PATH", help="Name of the file on stdin, for findings."
    )
    live: bool = option(False, "--live", help="Also lint the profile's cluster; reads only.")
    cluster_name: str | None = option(
        None,
        "--cluster-name",
        metavar="NAME",
        help="With --live: which cluster of the files it is, if they name several.",
    )
    against: Path | None = option(
        None, "--against", metavar="DIR", help="With --live: compare the cluster with these files, both ways."
    )
    topics: str | None = option(
        None,
        "--topics",
        **TOPIC_CHOICE,
        help="With --live: only these topics of the cluster, such as 'where tier = hot'.",
    )
    tags: TagSource = NO_TAGS
    lint_config: Path | None = option(
        None, "--lint-config", metavar="FILE", help="Read this file instead of looking for kafkakit-lint.yaml."
    )

    def config_path(self) -> Path | None:
        """The lint configuration: the file that is given, or the next `kafkakit-lint.yaml` above the working folder."""
        from kafkakit.config.read.files import file_above
        from kafkakit.lint.decide.lint_config import NAME

        found = self.lint_config or file_above(Path.cwd(), NAME)
        return Path(NAME) if found == Path.cwd() / NAME else found

    def paths(self, given: list[str]) -> list[str]:
        """What to read; `UsageError` for --against without --live."""
        if self.topics is not None and (not self.live or self.against is not None):
            raise UsageError("--topics needs --live, and excludes --against", hint="it chooses topics of the cluster")
        if self.against is None:
            return given
        if not self.live:
            raise UsageError("--against needs --live", hint="it compares the cluster of the profile with files")
        return [*given, str(self.against)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Which findings are accepted."""

    baseline: Path | None = option(None, "--baseline", metavar="FILE", help="Accept the findings of this file.")
    write_baseline: Path | None = option(
        None, "--write-baseline", metavar="FILE", help="Accept today's findings: write them to this file."
    )
    prune_baseline: bool = option(False, "--prune-baseline", help="Remove from the baseline what is no longer found.")


@dataclass(frozen=True, slots=True, kw_only=True)
class FixOptions:
    """Whether files are changed."""

    fix: bool = option(False, "--fix", help="Apply fixes that leave the effective configuration unchanged.")
    unsafe_fixes: bool = option(
        False, "--unsafe-fixes", help="With --fix or --diff: also apply fixes that change the effective configuration."
    )
    diff: bool = option(False, "--diff", help="Print what --fix would change as a unified diff, and change nothing.")


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
class LintOutput:
    """How the result is written."""

    output: LintFormat | None = option(
        None,
        "-o",
        "--output",
        "--format",
        envvar="KAFKAKIT_OUTPUT",
        help="Format of the result; text, or github in GitHub Actions.",
    )
    also: list[str] | None = option(
        None, "--also", metavar="FORMAT=FILE", help="Also write the result in this format to a file. Repeatable."
    )
    statistics: bool = option(False, "--statistics", help="Print numbers of findings by rule.")
    upgrade_report: Path | None = option(
        None,
        "--upgrade-report",
        metavar="FILE",
        help="With --target-version: write one page on the upgrade (.md, .html); --html writes it as well.",
    )

    def take_over(self, cli: CliContext) -> None:
        """Let the kit write its own formats; the others are text to it."""
        cli.take_format("" if self.output is None else self.output.value)

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
        from kafkakit.lint.report import render_result, upgrade_page

        result = done.run.linted.result
        own = {form.value for form in OutputFormat if form is not OutputFormat.TEXT}
        texts = [
            (path, format_result(report, OutputFormat(name)) if name in own else render_result(result, name, version))
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

    explain: str | None = option(
        None, "--explain", metavar="RULE", help="Print a rule's page: what, why, examples, fix."
    )
    list_rules: bool = option(False, "--list-rules", help="Print all rules.")
    docs: Path | None = option(
        None, "--docs", metavar="DIR", help="Write one HTML page a rule and an index to this folder."
    )

    @property
    def is_given(self) -> bool:
        """True when documentation was asked for instead of linting."""
        return self.list_rules or self.explain is not None or self.docs is not None


@app.command("lint", cls=CliCommand)
@with_option_groups
@without_collector()
def lint(
    ctx: typer.Context,
    inputs: LintInputs,
    choice: LintChoice,
    acceptance: Acceptance,
    fixing: FixOptions,
    written: LintOutput,
    docs: RuleDocs,
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="[PATH]...", help="Files and folders; - for stdin.")
    ] = None,
) -> int:
    """Find mistakes in files that configure Kafka, and in live clusters.

    Reads kafkakit cluster files, server.properties, Strimzi resources, Kafka in docker compose, Kubernetes and Helm
    values, topicctl files, Terraform plans, reassignment maps, Datadog agent files, Debezium connectors and cluster
    snapshots; docs/lint.md describes each. Works offline
    unless --live is given. Exits 0 without findings of --fail-on or worse, 1 with some, 2 when there is nothing to
    lint or it cannot be read.

    Examples:

    \b
    kafkakit lint clusters/
    kafkakit lint --target-version 4.3 server.properties
    kafkakit lint --diff topics/
    kafkakit lint --also sarif=lint.sarif clusters/
    kafkakit --profile prod lint --live --against clusters/
    kafkakit lint --explain KKR201
    """
    from kafkakit.cli.session import finish

    cli = cli_context(ctx)
    if docs.is_given:
        written.take_over(cli)
        return finish(cli, rule_docs_report(ctx, docs, inputs))
    return finish(cli, linted_report(ctx, paths or [], inputs, choice, acceptance, fixing, written))


def linted_report(
    ctx: typer.Context,
    paths: list[str],
    inputs: LintInputs,
    choice: LintChoice,
    acceptance: Acceptance,
    fixing: FixOptions,
    written: LintOutput,
) -> Report:
    """Lint, fix where asked, write the other outputs, and make the report."""
    from functools import partial

    from kafkakit import __version__
    from kafkakit.lint.act import LintPorts, LintTask, read_files, run_lint, write_outputs
    from kafkakit.lint.report import lint_report, upgrade_page
    from kafkakit.wiring import read_input, system_clock, write_file

    cli = cli_context(ctx)
    form = written.text_format(cli.terminal.is_github_actions)
    written.take_over(cli)
    written.check(choice.target_version)
    task = LintTask(
        choice=choice,
        today=system_clock().now().date(),
        kind=inputs.kind,
        lint_config=inputs.config_path(),
        baseline=acceptance.baseline,
        write_baseline=acceptance.write_baseline,
        prune_baseline=acceptance.prune_baseline,
        fix=fixing.fix,
        unsafe=fixing.unsafe_fixes,
        diff=fixing.diff,
    )
    ports = LintPorts(
        read_input=read_input,
        write_file=write_file,
        replace_file=partial(write_file, keeps_access=True),
        read_files=partial(read_files, inputs.paths(paths), inputs.kind, inputs.stdin_filename, read_input),
        read_live=partial(live_pieces, ctx, inputs),
        say=cli.output.say,
    )
    done = run_lint(task, ports)
    if inputs.live:
        _keep(cli, done)
        done = done.with_hints(cli.called)
    report = lint_report(done, "diff" if fixing.diff else form, __version__)
    write_outputs(written.also_texts(done, report, __version__, choice.target_version), write_file)
    if choice.target_version is None:
        return report
    target_version = choice.target_version

    def page() -> bytes:
        return upgrade_page(done.run.linted.result, target_version, ".html").encode()

    return replace(report, page=page)


def _keep(cli: CliContext, done: LintDone) -> None:
    """Keep what was found in the cluster for `kafkakit status`; without a place to write to it is not kept."""
    from contextlib import suppress

    from kafkakit.core.errors import KafkakitError
    from kafkakit.lint.decide.decision import kept_findings
    from kafkakit.wiring import system_clock, write_file

    if cli.cluster_id:
        data = kept_findings(done.run.linted.result.findings, system_clock().now().timestamp())
        with suppress(OSError, KafkakitError):
            write_file(cli.folders.state / "lint" / f"{cli.cluster_id}.json", data)


def live_pieces(ctx: typer.Context, inputs: LintInputs) -> tuple[Pieces, ...]:
    """What the cluster of the profile holds, with --live."""
    if not inputs.live:
        return ()
    from functools import partial

    from kafkakit.cli.session import open_session
    from kafkakit.lint.act import read_live

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        tags = partial(inputs.tags.read, session)
        live = read_live(session.admin, inputs.cluster_name, session.clock.now(), inputs.topics, tags)
        cli.cluster_id = session.cluster_id
        return (live,)


def rule_docs_report(ctx: typer.Context, docs: RuleDocs, inputs: LintInputs) -> Report:
    """The documentation of rules: one page, the list, or the site in a folder."""
    from kafkakit.lint.act import read_config, write_site
    from kafkakit.lint.rule_pages import explain_report, rules_report, site_report
    from kafkakit.wiring import read_input, write_file

    del ctx
    rules = read_config(inputs.config_path(), read_input).rules
    if docs.docs is not None:
        return site_report(str(docs.docs), write_site(rules, docs.docs, write_file))
    return rules_report(rules) if docs.explain is None else explain_report(rules, docs.explain)
