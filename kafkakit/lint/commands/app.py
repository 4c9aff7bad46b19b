"""`kafkakit lint`."""

from typing import Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.core.columns import without_collector
from kafkakit.lint.commands.options import Acceptance, Fixing, LintInputs, LintOutput, RuleChoice, RuleDocs

app = new_group("Find mistakes in Kafka's configuration, in files and live.")


@app.command("lint", cls=CliCommand)
@with_option_groups
@without_collector()
def lint(
    ctx: typer.Context,
    inputs: LintInputs,
    choice: RuleChoice,
    acceptance: Acceptance,
    fixing: Fixing,
    written: LintOutput,
    docs: RuleDocs,
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="[PATH]...", help="Files and folders; - for stdin.")
    ] = None,
) -> int:
    """Find mistakes in files that configure Kafka, and in live clusters.

    Reads kafkakit cluster files, server.properties, Strimzi resources, topicctl files, Terraform plans, reassignment
    maps, Datadog agent files, Debezium connectors and cluster snapshots; docs/lint.md describes each. Works offline
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
    from kafkakit.lint.commands.flow import linted_report, rule_docs_report

    cli = cli_context(ctx)
    if docs.is_given:
        written.take_over(cli)
        return finish(cli, rule_docs_report(ctx, docs, inputs))
    return finish(cli, linted_report(ctx, paths or [], inputs, choice, acceptance, fixing, written))
