"""`kafkakit fleet collect|segments`: snapshots of many clusters, with their options.

Clusters and stores are opened from the options.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.audit.api import Backend, SparkChoice
from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.common_options import TagSource
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.core.options import option
from kafkakit.fleet.requests import CollectRequest, FleetLimits, ScanRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.fleet.act import CollectSource
    from kafkakit.fleet.decide import FleetCluster
    from kafkakit.lint.api import TopicPiece
    from kafkakit.ports.stores import TableStore


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTags(TagSource):
    """Whether tags are collected, and from where."""

    tags: bool = option(
        False, "--tags", help="Also read the tags of brokers and topics, so that audits can be limited by them."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChoice:
    """The clusters of the fleet."""

    profiles: str | None = option(
        None,
        "--profiles",
        metavar="NAME,...",
        help="Collect the clusters of these profiles; with --fleet, these clusters of the file.",
    )
    fleet: Path | None = option(
        None, "--fleet", metavar="FILE", help="Collect the clusters of this file (docs/fleet.md)."
    )

    def sources(self, cli: CliContext, tags: FleetTags) -> tuple[CollectSource, ...]:
        """The clusters, none connected yet. `UsageError` for names that are in no file, `InputError` for a bad file."""

        from kafkakit.fleet.act import CollectSource
        from kafkakit.fleet.decide import LIMIT_BYTES, chosen_clusters, read_fleet
        from kafkakit.wiring import load_clients, read_input

        load_clients()  # each cluster is read by a thread of its own
        entries = None if self.fleet is None else read_fleet(read_input(self.fleet, LIMIT_BYTES), str(self.fleet))
        folder = Path() if self.fleet is None else self.fleet.parent
        chosen = chosen_clusters(self.profiles, entries)
        if entries is None:
            # A name that no file has is refused before anything is read.
            _ = [cli.load_settings(entry.profile) for entry in chosen]
        return tuple(
            CollectSource(
                entry=entry,
                open_clients=partial(_open_clients, cli, entry, folder),
                read_declared=partial(_read_declared, [str(folder / file) for file in entry.files]),
                read_tags=tags.read if tags.tags else None,
            )
            for entry in chosen
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlace:
    """Where snapshots are kept, and of which day they are."""

    to: Annotated[
        str,
        typer.Option("--to", metavar="DIR|URI", help="Write into this store: a folder, or a URI (s3, gs, abfs, hdfs)."),
    ]
    date: str | None = option(
        None, "--date", metavar="YYYY-MM-DD", help="Date of the snapshot; today (UTC) when not given."
    )

    def open(self) -> TableStore:
        """The store; `UsageError` for what is no place for one."""
        from kafkakit.wiring import open_table_store

        return open_table_store(self.to)

    def snapshot_date(self) -> str:
        """The date, checked; to be asked once, since today may end."""
        from datetime import date

        from kafkakit.core.errors import UsageError
        from kafkakit.wiring import system_clock

        if self.date is None:
            return system_clock().now().date().isoformat()
        try:
            return date.fromisoformat(self.date).isoformat()
        except ValueError:
            raise UsageError(f"--date {self.date!r:.40} is not a date", hint="write it like 2026-11-22") from None

    def lock(self, cli: CliContext, day: str, cluster: str, source: str = "") -> AbstractContextManager[object]:
        """Keeps other processes of this host from the cluster's rows of this source and date."""
        from hashlib import sha256

        from kafkakit.adapters.host import this_holder
        from kafkakit.adapters.lock import FileLock

        store = self.to if "://" in self.to else str(Path(self.to).absolute())
        name = sha256("\n".join((store, day, cluster, source)).encode()).hexdigest()[:32]
        what = f"{source or 'the snapshot'} of cluster {cluster} of {day} in {self.to}"
        return FileLock(cli.folders.state / "fleet" / f"{name}.lock", what, str(this_holder(cli.command_path)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WhereToRun:
    """Whether this process reads the clusters, or tasks of a Spark job."""

    backend: Backend = option(
        Backend.LOCAL, "--backend", help="local: this process reads the clusters; spark-submit: one task for each does."
    )
    master: str | None = option(
        None, "--master", metavar="URL", help="Spark's master: spark://HOST:7077, yarn, local[N]."
    )
    conf: list[str] | None = option(
        None, "--conf", metavar="KEY=VALUE", help="A setting of Spark, never a secret. Repeatable."
    )

    def spark(self) -> SparkChoice | None:
        """Where the job is submitted to; None for this process."""
        from kafkakit.core.errors import UsageError

        if self.backend is Backend.LOCAL:
            if self.master or self.conf:
                raise UsageError("--master and --conf are for --backend spark-submit")
            return None
        if self.backend is not Backend.SPARK_SUBMIT:
            raise UsageError(f"fleet collect has no --backend {self.backend}", hint="local or spark-submit")
        choice = SparkChoice(backend=self.backend, master=self.master, conf=tuple(self.conf or ()))
        choice.check()
        return choice


@with_option_groups
def collect(
    ctx: typer.Context,
    which: FleetChoice,
    place: SnapshotPlace,
    request: CollectRequest,
    tags: FleetTags,
    limits: FleetLimits,
    where: WhereToRun,
) -> int:
    """Read clusters in parallel and write a snapshot of each to a store of Parquet files, for audits.

    Reads brokers, configurations, topics, partitions, replicas, log dirs and consumer groups, and changes nothing. No
    value of a sensitive setting is stored. A cluster that is complete for the date is not read again unless --again
    is given; one that fails does not stop the others. Exit codes: 0 all clusters are in the store, 1 some are not,
    2 wrong options or files, 75 another process is writing a cluster.

    Examples:

    \b
    kafkakit fleet collect --profiles prod-a,prod-b --to /srv/fleet
    kafkakit fleet collect --fleet fleet.yaml --to s3://bucket/fleet --concurrency 16
    kafkakit fleet collect --fleet fleet.yaml --to /srv/fleet --profiles prod-a --again
    kafkakit fleet collect --fleet fleet.yaml --to s3://bucket/fleet --backend spark-submit --master yarn
    """

    from kafkakit.cli.common_options import driver_ports
    from kafkakit.cli.session import finish
    from kafkakit.fleet.act import collect_fleet, collect_with_spark
    from kafkakit.fleet.report import collect_report
    from kafkakit.wiring import system_clock

    cli, day, spark = cli_context(ctx), place.snapshot_date(), where.spark()
    sources, store = which.sources(cli, tags), place.open()
    if spark is not None:
        names = [source.entry.name for source in sources]
        words = task_words(cli, which, place, day, request, tags, limits)
        outcomes = collect_with_spark(
            names, words, cli.folders.state / f"fleet/collect-{day}", spark, driver_ports(cli)
        )
    else:
        lock = partial(place.lock, cli, day)
        request = replace(request, snapshot_date=day)
        outcomes = collect_fleet(sources, request, limits, store, lock, system_clock(), cli.output)
    return finish(cli, collect_report(outcomes, place.to, day))


@with_option_groups
def segments(
    ctx: typer.Context,
    request: ScanRequest,
    place: SnapshotPlace,
    folders: Annotated[list[str], typer.Argument(metavar="DIR...", help="Log dirs of a broker, or copies of them.")],
) -> int:
    """Read the log dirs of a broker on this host, headers of batches only, into a store of snapshots.

    Works on running brokers, on stopped ones and on copied trees, and writes nothing to them. No key, value or header
    of a record is read. Files that are torn, damaged, foreign or that vanish while they are read are reported and
    stored as such. Run it on the host of each broker with the cluster's name in the store: rows of other brokers stay.
    Exit codes: 0 read, 1 the store takes no more, 2 wrong folders or options, 75 another process writes this broker.

    Examples:

    \b
    kafkakit fleet segments /var/lib/kafka/data --cluster prod-a --to s3://bucket/fleet
    kafkakit fleet segments /d1 /d2 --cluster prod-a --broker 5 --to /srv/fleet --crc --jobs 4
    """

    from kafkakit.adapters.files import local_files
    from kafkakit.cli.session import finish
    from kafkakit.fleet.act import scan_segments
    from kafkakit.fleet.report import segments_report
    from kafkakit.wiring import system_clock

    cli, day = cli_context(ctx), place.snapshot_date()
    scanned = scan_segments(
        replace(request, folders=tuple(str(Path(folder).absolute()) for folder in folders), snapshot_date=day),
        local_files(),
        place.open(),
        partial(place.lock, cli, day, request.cluster),
        system_clock(),
        cli.output,
    )
    return finish(cli, segments_report(scanned, request.cluster, place.to, day))


def task_words(
    cli: CliContext,
    which: FleetChoice,
    place: SnapshotPlace,
    day: str,
    request: CollectRequest,
    tags: FleetTags,
    limits: FleetLimits,
) -> tuple[str, ...]:
    """The words of the command for one cluster, where paths must mean the same as here; no secret is among them."""
    from shlex import split

    from kafkakit.cli.common_options import absolute_path
    from kafkakit.cli.option_groups import option_words, quoted_words

    fleet = None if which.fleet is None else which.fleet.absolute()
    before = (
        *option_words(replace(place, to=absolute_path(place.to), date=day)),
        *option_words(FleetChoice(fleet=fleet)),
    )
    collected = quoted_words(each for each in request.given if each[0] != "--groups")
    options = (*before, *collected, *option_words(tags), *quoted_words(limits.given))
    words = [word for option in options for word in split(option)]
    config = [] if cli.given.config is None else ["--config", str(cli.given.config.absolute())]
    return (*words, *([] if request.groups else ["--no-groups"]), *config, "--output", "json")


def _open_clients(cli: CliContext, entry: FleetCluster, folder: Path) -> AbstractContextManager[ClusterSession]:
    from kafkakit.cli.session import open_session
    from kafkakit.fleet.act import invocation_of

    return open_session(cli, read_only=True, settings=cli.settings_of(invocation_of(cli.given, entry, folder)))


def _read_declared(paths: Sequence[str]) -> tuple[TopicPiece, ...]:
    from kafkakit.lint.api_act import read_files
    from kafkakit.wiring import read_input

    if not paths:
        return ()
    readings = read_files(paths, None, "stdin", read_input)
    return tuple(topic for reading in readings for topic in reading.pieces.topics)


app = new_group("Collect snapshots of many clusters.")
app.command("collect", cls=CliCommand, short_help="Write snapshots of clusters into a store.")(collect)
app.command("segments", cls=CliCommand, short_help="Read log dirs of this host into a store.")(segments)
