"""`kafkakit audit NAME`: submit a run and follow it to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kafkakit.audit.commands.options import AuditInputs, ResultFormat, RunMode
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.common_options import SparkOptions
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.wiring import open_run_store

if TYPE_CHECKING:
    from kafkakit.audit.act.driver import DriverPorts
    from kafkakit.audit.act.submit import SubmitTask
    from kafkakit.audit.commands.options import AuditInputs, RunMode
    from kafkakit.cli.common_options import SparkOptions
    from kafkakit.report import Report


def submitted_report(ctx: typer.Context, name: str, inputs: AuditInputs, spark: SparkOptions, mode: RunMode) -> Report:
    """Submit the run, unless it has a result or only its command line is wanted, and report what it gave."""
    from dataclasses import replace

    from kafkakit import __version__
    from kafkakit.audit.act.runs import task_for
    from kafkakit.audit.act.submit import earlier_state, submit
    from kafkakit.audit.decide.launch import Backend
    from kafkakit.audit.show.run_texts import detached_report, run_report
    from kafkakit.cli.common_options import driver_ports

    cli, ports = cli_context(ctx), driver_ports(cli_context(ctx))
    task = task_for(inputs.request(name), spark.choice(), ports, open_run_store, cli.settings.state_dir, __version__)
    task = replace(task, again=mode.again, detach=mode.detach)
    if mode.dry_run or task.choice.backend is Backend.K8S:
        return manifest_or_line(ctx, name, task, ports, mode)
    store = open_run_store(task.location)
    earlier = earlier_state(task, store)
    if earlier is not None:
        return run_report(f"audit {name}", earlier, mode.fail_on, is_earlier=True)
    with cli.output.screen() as screen:
        state = submit(task, store, ports, lambda progress: screen.show(str(progress), str(progress)))
    if mode.detach:
        return detached_report(f"audit {name}", state)
    return run_report(f"audit {name}", state, mode.fail_on)


def manifest_or_line(ctx: typer.Context, name: str, task: SubmitTask, ports: DriverPorts, mode: RunMode) -> Report:
    """The command line of the driver, or the manifest for Kubernetes, whose files are uploaded unless in a dry run."""
    from kafkakit.audit.act.driver import CODE, launch_for
    from kafkakit.audit.act.submit import upload
    from kafkakit.audit.decide.launch import Backend
    from kafkakit.audit.show.run_texts import dry_run_report, text_report
    from kafkakit.audit.show.units import spark_application

    if task.choice.backend is not Backend.K8S:
        launch = launch_for(task.job, task.choice, ports.drivers.tools())
        return dry_run_report(f"audit {name}", task.spec, launch)
    if not mode.dry_run:
        upload(task, open_run_store(task.location), ports)
        cli_context(ctx).output.say(f"uploaded to {task.location}; kubectl apply -f the manifest starts the run")
    manifest = spark_application(task.spec, task.choice, task.location, CODE)
    return text_report(f"audit {name}", manifest, run=task.spec.run_id, folder=task.location)


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
    from kafkakit.cli.session import finish

    cli = cli_context(ctx)
    result.take_over(cli)
    return finish(cli, submitted_report(ctx, str(ctx.info_name), inputs, spark, mode))
