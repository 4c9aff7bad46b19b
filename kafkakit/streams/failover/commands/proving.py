"""`kafkakit streams failover certify|retire|reclaim`, and `streams verify-drain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.cli.session import finish
from kafkakit.streams.failover.commands.moving import carry_on
from kafkakit.streams.failover.commands.options import StreamName, Wait, open_failover

Id = Annotated[
    str,
    typer.Option("--operation", metavar="ID", help="The operation; the newest with a certificate if not given."),
]


@with_option_groups
def certify(
    ctx: typer.Context,
    stream: StreamName,
    wait: Wait = "10m",
    operation: Id = "",
    show: Annotated[bool, typer.Option("--print", help="Print the certificate, as a file for verify-drain.")] = False,
) -> int:
    """Continue an open operation until its old topics are drained, or print the certificate of one that is.

    Examples:

    \b
    kafkakit --profile prod streams failover certify orders
    kafkakit --profile prod streams failover certify orders --print > orders.cert
    """
    from kafkakit.streams.failover.act.closing import newest_certificate
    from kafkakit.streams.failover.show.runs import certificate_report

    cli = cli_context(ctx)
    if not show:
        return carry_on(ctx, stream, wait, "drained", "certify")
    with open_failover(cli, stream) as session:
        _, data = newest_certificate(session.parts().journals, operation)
    return finish(cli, certificate_report(data))


@with_option_groups
def retire(ctx: typer.Context, stream: StreamName, wait: Wait = "10m") -> int:
    """Continue an open operation until its old topics are out of the route; ends and offsets are read once more.

    Examples:

    \b
    kafkakit --profile prod streams failover retire orders
    """
    return carry_on(ctx, stream, wait, "retired", "retire")


@with_option_groups
def reclaim(
    ctx: typer.Context,
    stream: StreamName,
    consent: Consent,
    grace: Annotated[
        str, typer.Option("--grace", metavar="DURATION", help="How long after they were retired topics stay.")
    ] = "24h",
    keep: Annotated[bool, typer.Option("--keep", help="Delete nothing: close the operation.")] = False,
    operation: Id = "",
) -> int:
    """Delete the old topics of a retired operation by their ids, unless a record came after the seal.

    Exits with 1 where one did, and deletes nothing then; with 75 within the grace.

    Examples:

    \b
    kafkakit --profile prod streams failover reclaim orders --yes
    """
    from kafkakit.core.durations import parse_duration_or_zero
    from kafkakit.streams.failover.act.closing import reclaim as delete_old
    from kafkakit.streams.failover.act.closing import reclaimable
    from kafkakit.streams.failover.show.runs import closing_report

    cli, grace_s = cli_context(ctx), parse_duration_or_zero(grace, "--grace")
    consent.require_possible(cli)
    with open_failover(cli, stream, "" if consent.dry_run else "streams failover reclaim") as session:
        parts = session.parts()
        found = reclaimable(parts, session.cluster, operation)
        if not consent.dry_run and consent.confirm(cli, f"Delete the old topics of stream {stream}?"):
            found = delete_old(parts, session.cluster, found.record.operation.id, grace_s=grace_s, keep=keep)
    return finish(cli, closing_report("streams failover reclaim", found))


def verify_drain(
    ctx: typer.Context,
    certificate: Annotated[Path, typer.Argument(metavar="CERT", help="The certificate's file; - for stdin.")],
    offline: Annotated[bool, typer.Option("--offline", help="Check the file alone, and read no cluster.")] = False,
) -> int:
    """Check a drain certificate: its hash, then the ends and offsets of the topics that are still there.

    Exits with 2 for a certificate that was changed, with 1 where records or offsets have changed since, and with 75
    where a cluster could not be read.

    Examples:

    \b
    kafkakit --profile prod streams verify-drain orders.cert
    """
    from kafkakit.streams.failover.act.closing import hash_in_journal
    from kafkakit.streams.failover.act.verification import check_certificate
    from kafkakit.streams.failover.decide.certificate import LIMIT_BYTES, decode_certificate
    from kafkakit.streams.failover.decide.outcome import CertificateCheck
    from kafkakit.streams.failover.show.runs import check_report
    from kafkakit.wiring import read_input

    cli = cli_context(ctx)
    found = decode_certificate(read_input(certificate, LIMIT_BYTES), str(certificate))
    if offline:
        return finish(cli, check_report(CertificateCheck(certificate=found)))
    with open_failover(cli, found.stream) as session:
        known = hash_in_journal(session.parts().journals, found.operation)
        check = check_certificate(found, session.cluster, known)
    return finish(cli, check_report(check))
