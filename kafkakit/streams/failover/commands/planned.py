"""`kafkakit streams failover back`, `streams move` and `streams repartition`."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Approval, Consent
from kafkakit.cli.stream_operations import EventOptions, MoveLimits
from kafkakit.streams.failover.commands.moving import carry_out
from kafkakit.streams.failover.commands.options import LaneNames, StreamName, Target, Wait


@with_option_groups
def back(
    ctx: typer.Context,
    stream: StreamName,
    limits: MoveLimits,
    consent: Consent,
    approval: Approval,
    events: EventOptions,
    lane: LaneNames = None,
    wait: Wait = "10m",
) -> int:
    """Return a stream to the cluster that it left, as a new operation: `failover run` with that cluster as `--to`.

    The history of the route names the cluster. Repeated after it is done, the command changes nothing.

    Examples:

    \b
    kafkakit --profile prod streams failover back orders --yes
    """
    from kafkakit.streams.failover.decide.operation import OperationKind

    request = limits.request(stream, "", lane, OperationKind.BACK)
    return carry_out(ctx, "streams failover back", request, consent, approval, wait, events)


@with_option_groups
def move(
    ctx: typer.Context,
    stream: StreamName,
    to: Target,
    limits: MoveLimits,
    consent: Consent,
    approval: Approval,
    events: EventOptions,
    lane: LaneNames = None,
    wait: Wait = "10m",
) -> int:
    """Move a stream to another cluster while both work: `failover run` without its emergency.

    Examples:

    \b
    kafkakit --profile prod streams move orders --to east --dry-run
    kafkakit --profile prod streams move orders --to east --yes
    """
    from kafkakit.streams.failover.decide.operation import OperationKind

    request = limits.request(stream, to, lane, OperationKind.MOVE)
    return carry_out(ctx, "streams move", request, consent, approval, wait, events)


@with_option_groups
def repartition(
    ctx: typer.Context,
    stream: StreamName,
    lane: Annotated[str, typer.Option("--lane", metavar="LANE", help="The lane that gets other partitions.")],
    partitions: Annotated[int, typer.Option("--partitions", min=1, max=10_000, metavar="N", help="How many.")],
    limits: MoveLimits,
    consent: Consent,
    approval: Approval,
    events: EventOptions,
    wait: Wait = "10m",
) -> int:
    """Give a lane another number of partitions: a new topic on the same cluster takes its writes, the old one drains.

    A key may belong to another partition then. With `--order strict` consumers read the new topic only once the old
    one is retired, so records of a key stay in order; refused where members of a group are plain clients.

    Examples:

    \b
    kafkakit --profile prod streams repartition orders --lane live --partitions 24 --order strict --yes
    """
    from kafkakit.streams.failover.decide.operation import OperationKind

    request = limits.request(stream, "", [lane], OperationKind.REPARTITION, partitions)
    return carry_out(ctx, "streams repartition", request, consent, approval, wait, events)
