"""`kafkakit autothrottle unit`."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.autothrottle.commands.law_options import LawChoice
from kafkakit.autothrottle.commands.metrics_options import CapacityChoice, MetricsChoice
from kafkakit.autothrottle.commands.options import OverridePlace
from kafkakit.autothrottle.commands.service_options import ServiceChoice
from kafkakit.autothrottle.show.units import Runner
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import option_words, with_option_groups


@with_option_groups
def print_unit(
    ctx: typer.Context,
    runner: Annotated[Runner, typer.Option("--format", help="What runs the pacer.")],
    law: LawChoice,
    metrics: MetricsChoice,
    capacities: CapacityChoice,
    place: OverridePlace,
    service: ServiceChoice,
    every: Annotated[
        int, typer.Option("--every", min=1, max=59, metavar="MINUTES", help="timer, cron: how often `once` runs.")
    ] = 1,
    image: Annotated[
        str | None, typer.Option("--image", metavar="NAME", help="k8s: an image with kafkakit.", show_default=False)
    ] = None,
    program: Annotated[
        str, typer.Option("--program", metavar="PATH", help="The program as it is found there.")
    ] = "/usr/local/bin/kafkakit",
) -> int:
    """Print a systemd service, a timer or a cron line for `once`, or a Kubernetes Deployment, with the options given.

    It holds no secrets: profiles and files name where these are, and a service reads variables with keys from
    /etc/kafkakit/autothrottle.env. A Deployment has two pods, of which one leads, and
    needs a control store in Kafka or ZooKeeper.

    Examples:

    \b
    kafkakit --profile prod autothrottle unit --format systemd --rate 40MB
    kafkakit --profile prod autothrottle unit --format cron --rate 40MB
    kafkakit --profile prod autothrottle unit --format k8s --rate 40MB --image registry.example.org/kafkakit:1
    """
    from shlex import split

    from kafkakit.autothrottle.commands.options import read_token
    from kafkakit.autothrottle.show.units import unit_report
    from kafkakit.cli.session import finish

    cli = cli_context(ctx)
    groups = (law, metrics, capacities, place)
    words = split(" ".join(word for group in groups for word in option_words(group)))
    of_run = split(" ".join(option_words(service)))
    law.build()
    read_token(None, "none" if service.token_file else service.listen, no_token=False)
    program_words = (program, *split(cli.program)[1:])
    return finish(cli, unit_report(program_words, words, of_run, runner, every, image=image))
