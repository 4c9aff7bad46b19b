"""`kafkakit metricsfetcher fetch`."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.metricsfetcher.commands.options import SourceOptions, StoreOptions


@with_option_groups
def fetch(
    ctx: typer.Context,
    source: SourceOptions,
    store: StoreOptions,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", envvar="METRICSFETCHER_DRY_RUN", help="Print what would be written, write nothing."),
    ] = False,
) -> int:
    """Collect the size of each partition and the free storage of each broker, and write them for topicmappr.

    The brokers themselves are the usual source; Datadog is queried as kafka-kit does, Prometheus with the names of the
    JMX exporter or of Strimzi, or with your queries. In ZooKeeper the values are kafka-kit's two znodes, replaced in
    one transaction; in a topic they are the records of two keys; a file also has the source, the age of each value and
    the smallest copy of each partition. An incomplete answer (a broker that is silent, a series without a value, a
    partition missing between others) is named and not written, an empty one never is. --check-cluster leaves out series
    of topics that were deleted, and finds what has no series at all.

    Exit codes: 0 written, 1 incomplete, empty or refused, 75 a service cannot be reached.

    Examples:

    \b
    kafkakit --profile prod metricsfetcher fetch --zk-addr zk1:2181
    kafkakit --profile prod metricsfetcher fetch --to file:/var/lib/kafkakit/sizes.json
    kafkakit metricsfetcher fetch --source datadog --api-key-file api.key --app-key-file app.key --dry-run
    kafkakit metricsfetcher fetch --source prometheus --prometheus-url http://127.0.0.1:9090 --query-set strimzi
    """
    from contextlib import closing

    from kafkakit.cli.session import finish, open_session
    from kafkakit.metricsfetcher.decide import StoreKind
    from kafkakit.metricsfetcher.show import document_report, fetch_report

    cli = cli_context(ctx)
    place, packing = store.place, store.packing
    with open_session(cli, read_only=dry_run or place.kind is not StoreKind.TOPIC) as session:
        collected = source.collect(session)
        refusal = collected.refusal(allow_partial=store.allow_partial)
        if place.kind is StoreKind.STDOUT:
            return finish(cli, document_report(collected, refusal))
        written = {}
        if refusal is None and not dry_run:
            with closing(store.open_store(session, place, packing)) as opened:
                written = dict(opened.write(collected.reading))
    return finish(cli, fetch_report(collected, store.to, written, refusal, dry_run=dry_run))
