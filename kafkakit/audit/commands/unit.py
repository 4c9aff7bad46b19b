"""`kafkakit audit unit`: print what a scheduler needs."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.audit.commands.options import ScheduleOptions
from kafkakit.audit.decide.schedule import Scheduler
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups


@with_option_groups
def print_unit(
    ctx: typer.Context,
    scheduler: Annotated[Scheduler, typer.Option("--format", help="What starts the audits.")],
    options: ScheduleOptions,
) -> int:
    """Print a systemd timer, a cron line or a Kubernetes CronJob that collects a fleet and audits it each day.

    It holds no secrets: profiles and files name where these are. A cluster that cannot be read makes the run end with
    1, after the others were audited. Runs are kept by date, so that a second one of a day repeats nothing.

    Examples:

    \b
    kafkakit audit unit --format systemd --fleet /etc/kafkakit/fleet.yaml --store /srv/fleet --results /srv/audits
    kafkakit audit unit --format cron --profiles prod-a,prod-b --store /srv/fleet --results /srv/audits --at 03:30
    kafkakit audit unit --format k8s --fleet /etc/kafkakit/fleet.yaml --store s3://fleet/snapshots \\
        --results s3://fleet/results --image registry.example.org/kafkakit:1 --secret fleet-access
    """
    from kafkakit.audit.show.units import unit_report
    from kafkakit.cli.session import finish

    return finish(cli_context(ctx), unit_report(options.schedule(), scheduler))
