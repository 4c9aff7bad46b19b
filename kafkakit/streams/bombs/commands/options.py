"""The options that the commands of `streams bombs` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.cluster_words import TOPIC_NAME
from kafkakit.cli.option_groups import option

if TYPE_CHECKING:
    from datetime import datetime

    from kafkakit.cli.session import ClusterSession
    from kafkakit.streams.bombs.act.scanning import BombScanner
    from kafkakit.streams.bombs.decide import ScanStart
    from kafkakit.streams.model.commit import OffsetRanges

MOST_PARTITIONS = 1_000_000
LEAST_LIMIT = 1_000

Topics = Annotated[
    list[str], typer.Argument(**{**TOPIC_NAME, "metavar": "TOPIC..."}, help="The topics.", show_default=False)
]
Topic = Annotated[str, typer.Argument(**TOPIC_NAME, help="The topic.", show_default=False)]
From = Annotated[
    int | None,
    typer.Option("--from", metavar="OFFSET", min=0, help="Begin at this offset instead of the log's start."),
]
Since = Annotated[
    str,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Begin at the first record of this time or later: 14:00 (today, local), -2h or ISO 8601.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimit:
    """Which partitions are looked at, and what a batch may become."""

    partition: str = option("", "--partition", metavar="N[,N-N...]", help="Only these partitions.")
    limit: str = option(
        "100MB",
        "--limit",
        metavar="SIZE",
        help="Report batches that can become larger than this. Consumers on librdkafka stop at a third of their "
        "receive.message.max.bytes already: 33MB for its default.",
    )

    @property
    def numbers(self) -> tuple[int, ...]:
        """The partitions named, none for all; raises `UsageError`."""
        from kafkakit.core.errors import UsageError
        from kafkakit.streams.commits.api import parse_offsets

        if not self.partition:
            return ()
        ranges = parse_offsets(self.partition, "--partition")
        if (ranges.end or 0) > MOST_PARTITIONS:
            raise UsageError(f"--partition: {self.partition!r:.40} is above the highest partition there can be")
        return tuple(number for start, end in ranges for number in range(start, end))

    @property
    def limit_bytes(self) -> int:
        """The limit as bytes; raises `UsageError`."""
        from kafkakit.core.errors import UsageError
        from kafkakit.core.quantities import parse_size

        found = parse_size(self.limit, "--limit")
        if found < LEAST_LIMIT:
            raise UsageError(f"--limit: {self.limit} is below {LEAST_LIMIT} bytes")
        return found

    def scanner(self, opened: ClusterSession) -> BombScanner:
        """What looks at the cluster."""
        from kafkakit.streams.bombs.act.scanning import BombScanner

        wait_s = opened.settings.request_timeout_s
        return BombScanner(opened.log, opened.clock, limit_bytes=self.limit_bytes, wait_s=wait_s)


def scan_start(offset: int | None, since: str, now: datetime) -> ScanStart:
    """Where a scan begins; `UsageError` for a time that cannot be read, or for both."""
    from kafkakit.core.errors import UsageError
    from kafkakit.streams.bombs.decide import ScanStart
    from kafkakit.streams.commits.api import parse_moment

    if offset is not None and since:
        raise UsageError("name one start: --from OFFSET or --since TIME")
    moment = parse_moment(since, "--since", now, lambda at: at.astimezone()) if since else None
    return ScanStart(offset=offset, since_ms=None if moment is None else moment.ms)


def quarantined_offsets(offsets: str) -> tuple[OffsetRanges, ScanStart]:
    """The offsets whose batches are meant, all for "", and the part of a log that holds them."""
    from kafkakit.streams.bombs.decide import ScanStart
    from kafkakit.streams.commits.api import parse_offsets
    from kafkakit.streams.model.commit import MAX_OFFSET, OffsetRanges

    if not offsets:
        return OffsetRanges.of([(0, MAX_OFFSET)]), ScanStart()
    ranges = parse_offsets(offsets)
    return ranges, ScanStart(offset=ranges.first, end=ranges.end)
