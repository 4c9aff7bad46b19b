"""What `kafkakit lint` does with its options: the ports it hands on, and the report it ends with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.lint.commands.options import Acceptance, Fixing, LintInputs, LintOutput, RuleChoice, RuleDocs, run_options

if TYPE_CHECKING:
    from kafkakit.lint.decide.pieces import Pieces
    from kafkakit.report import Report


def linted_report(
    ctx: typer.Context,
    paths: list[str],
    inputs: LintInputs,
    choice: RuleChoice,
    acceptance: Acceptance,
    fixing: Fixing,
    written: LintOutput,
) -> Report:
    """Lint, fix where asked, write the other outputs, and make the report."""
    from functools import partial

    from kafkakit import __version__
    from kafkakit.lint.act.read_files import read_files
    from kafkakit.lint.act.run import LintPorts, LintTask, run_lint, write_outputs
    from kafkakit.lint.show.formats import lint_report
    from kafkakit.wiring import read_input, system_clock, write_file

    cli = cli_context(ctx)
    form = written.text_format(cli.terminal.is_github_actions)
    written.take_over(cli)
    written.check(inputs.target_version)
    task = LintTask(
        options=run_options(inputs, choice, acceptance, system_clock().now().date()),
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
        read_files=partial(read_files, inputs.paths(paths), inputs.kind, inputs.stdin_filename, read_input),
        read_live=partial(live_pieces, ctx, inputs),
        say=cli.output.say,
    )
    done = run_lint(task, ports)
    report = lint_report(done, "diff" if fixing.diff else form, __version__)
    write_outputs(written.also_texts(done, report, __version__, inputs.target_version), write_file)
    return report


def live_pieces(ctx: typer.Context, inputs: LintInputs) -> tuple[Pieces, ...]:
    """What the cluster of the profile holds, with --live."""
    if not inputs.live:
        return ()
    from functools import partial

    from kafkakit.cli.session import open_session
    from kafkakit.lint.act.live import read_live

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        tags = partial(inputs.tags.read, session)
        live = read_live(session.admin, inputs.cluster_name, session.clock.now(), inputs.topics, tags)
        cli.cluster_id = session.cluster_id
        return (live,)


def rule_docs_report(ctx: typer.Context, docs: RuleDocs, inputs: LintInputs) -> Report:
    """The documentation of rules: one page, the list, or the site in a folder."""
    from kafkakit.lint.act.rules import read_config
    from kafkakit.lint.act.run import write_site
    from kafkakit.lint.show.rule_pages import explain_report, rules_report, site_report
    from kafkakit.wiring import read_input, write_file

    del ctx
    rules = read_config(inputs.config_path(), read_input).rules
    if docs.docs is not None:
        return site_report(str(docs.docs), write_site(rules, docs.docs, write_file))
    return rules_report(rules) if docs.explain is None else explain_report(rules, docs.explain)
