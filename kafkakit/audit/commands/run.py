"""`kafkakit audit NAME`: submit a run."""

from __future__ import annotations

import typer

from kafkakit.audit.commands.options import AuditInputs, ResultFormat, RunMode
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.spark_options import SparkOptions


@with_option_groups
def audit(ctx: typer.Context, inputs: AuditInputs, spark: SparkOptions, mode: RunMode, result: ResultFormat) -> int:
    """Results go to OUTPUT/RUN as Parquet, summary.json last. A run that has a result is not run again while its
    snapshots stay the same. Exits 0 without findings of --fail-on or worse, 1 with some or with a failed job, 75 while
    another process runs it.

    Examples:

    \b
    kafkakit audit all --input snapshots --output results
    kafkakit audit drift --input s3a://fleet/snapshots --output s3a://fleet/results --backend spark-submit --master yarn
    kafkakit audit all --input snapshots --output results --dry-run
    """
    from kafkakit.audit.commands.run_flow import submitted_report
    from kafkakit.cli.session import finish

    cli = cli_context(ctx)
    result.take_over(cli)
    return finish(cli, submitted_report(ctx, str(ctx.info_name), inputs, spark, mode))
