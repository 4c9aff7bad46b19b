"""`kafkakit streams pathway`: latencies out of the headers of records."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli import session
from kafkakit.cli.cluster_words import TOPIC_NAME
from kafkakit.cli.command_classes import cli_context

MOST_RECORDS = 1_000_000


def pathway(
    ctx: typer.Context,
    topics: Annotated[list[str], typer.Argument(**TOPIC_NAME, help="The topics to read.", show_default=False)],
    records: Annotated[
        int,
        typer.Option(
            "--records",
            metavar="N",
            min=1,
            max=MOST_RECORDS,
            help="Read the newest N of each topic, spread evenly over its partitions.",
        ),
    ] = 10_000,
    since: Annotated[
        str, typer.Option("--since", metavar="DURATION", help="Of these, only the records of this time up to now.")
    ] = "",
    max_latency: Annotated[
        str,
        typer.Option("--max-latency", metavar="DURATION", help="Exit 1 when the p99 of a pathway is above this."),
    ] = "",
) -> None:
    """Show how long records were under way, out of the pathway headers of Data Streams Monitoring.

    The header dd-pathway-ctx-base64 holds the pathway's hash, when it began, and when its last checkpoint was, before
    the record was produced. `pathway` is the time from the first to the last of these, `edge` that from the last to the
    record's own time: the broker's clock with LogAppendTime, else the producer's. Quantiles are within 0.8 %, the
    highest is exact. The hash names all services and topics passed so far and cannot be taken apart.

    Records not consumed downstream have no latency there, so a stopped consumer makes these figures better: watch its
    time lag as well (streams lag). Reads only, and joins no group. Records of aborted transactions do not count. Exits
    1 when no record has such a header, 75 when a partition cannot be read now.

    Examples:

    \b
    kafkakit --profile prod streams pathway payments invoices
    kafkakit --profile prod streams pathway payments --records 100000 --since 15m -o json
    kafkakit --profile prod streams pathway payments --since 5m --max-latency 30s
    """
    from kafkakit.core.durations import parse_duration
    from kafkakit.streams.pathways.act import read_pathways
    from kafkakit.streams.pathways.decide import SampleRequest
    from kafkakit.streams.pathways.show import pathways_report
    from kafkakit.streams.records.api_act import RecordReader

    cli = cli_context(ctx)
    request = SampleRequest(
        topics=tuple(dict.fromkeys(topics)),
        records=records,
        since_s=parse_duration(since, "--since") if since else None,
    )
    limit_s = parse_duration(max_latency, "--max-latency") if max_latency else None
    with session.open_session(cli, read_only=True) as opened:
        reader = RecordReader(opened.log, opened.data, opened.clock, wait_s=opened.settings.request_timeout_s)
        sample = read_pathways(opened.log, reader, opened.clock, request)
        cluster_id = opened.log.cluster_id()
    session.finish(cli, pathways_report(sample, cluster_id, limit_s))
