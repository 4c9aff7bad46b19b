"""The options of `kafkakit fleet`, and what opens clusters and stores from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.audit.api import Backend, SparkChoice
from kafkakit.cli.common_options import TagSource
from kafkakit.cli.option_groups import option

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.fleet.act.collect import CollectRequest, CollectSource
    from kafkakit.fleet.act.collect_fleet import FleetLimits
    from kafkakit.fleet.act.scan_segments import ScanRequest
    from kafkakit.fleet.decide.fleet_file import FleetCluster
    from kafkakit.lint.api import TopicPiece
    from kafkakit.ports.stores import TableStore


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTags(TagSource):
    """Whether tags are collected, and from where."""

    tags: bool = option(
        False, "--tags", help="Read the tags of brokers and topics, too, so that audits can be limited by them."
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
        from functools import partial

        from kafkakit.fleet.act.collect import CollectSource
        from kafkakit.fleet.decide.fleet_file import LIMIT_BYTES, chosen_clusters, read_fleet
        from kafkakit.wiring import read_input

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
class StorePlace:
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
            raise UsageError(f"--date {self.date!r:.40} is no date", hint="write it like 2026-11-22") from None

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
class WhatToCollect:
    """The tables to collect beside those of brokers and topics."""

    groups: bool = option(True, "--groups/--no-groups", help="Read consumer groups and what they committed.")
    commits: bool = option(
        False, "--commits", help="Read the history of commits from __consumer_offsets, and how far logs had grown."
    )
    records: str = option(
        "",
        "--records",
        metavar="TOPIC,...",
        help="Read the records of these topics, to compare copies: ids, hashes of keys, checksums of values.",
        show_default=False,
    )
    since: str = option(
        "7d",
        "--since",
        metavar="DURATION",
        help="How far back logs are read where no earlier snapshot tells where to continue.",
    )

    def request(self, snapshot_date: str) -> CollectRequest:
        """What to collect for a date."""
        from kafkakit.core.quantities import parse_duration
        from kafkakit.fleet.act.collect import CollectRequest

        return CollectRequest(
            snapshot_date=snapshot_date,
            groups=self.groups,
            commits=self.commits,
            records=tuple(name.strip() for name in self.records.split(",") if name.strip()),
            since_s=parse_duration(self.since, "--since"),
        )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How many clusters are read at once, and for how long."""

    concurrency: int = option(8, "--concurrency", min=1, max=256, metavar="N", help="Read so many clusters at once.")
    cluster_timeout: str = option(
        "10m", "--cluster-timeout", metavar="DURATION", help="Give up a cluster that takes longer."
    )
    again: bool = option(False, "--again", help="Read clusters again whose snapshot of this date is complete.")

    @property
    def limits(self) -> FleetLimits:
        """The limits as values."""
        from kafkakit.core.quantities import parse_duration
        from kafkakit.fleet.act.collect_fleet import FleetLimits

        return FleetLimits(
            concurrency=self.concurrency,
            cluster_timeout_s=parse_duration(self.cluster_timeout, "--cluster-timeout"),
            again=self.again,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanChoice:
    """Whose log dirs are read, and how."""

    cluster: Annotated[str, typer.Option("--cluster", metavar="NAME", help="The cluster's name in the store.")]
    broker: int | None = option(
        None,
        "--broker",
        min=0,
        metavar="N",
        help="The broker's id, where no meta.properties tells it.",
    )
    crc: bool = option(False, "--crc", help="Verify checksums, which reads every byte.")
    jobs: int = option(1, "--jobs", min=1, max=256, metavar="N", help="Read with so many processes.")

    def request(self, folders: Sequence[str], snapshot_date: str) -> ScanRequest:
        """What to read."""
        from kafkakit.fleet.act.scan_segments import ScanRequest

        return ScanRequest(
            folders=tuple(str(Path(folder).absolute()) for folder in folders),
            cluster=self.cluster,
            snapshot_date=snapshot_date,
            broker=self.broker,
            with_crc=self.crc,
            jobs=self.jobs,
        )


def task_words(
    cli: CliContext,
    which: FleetChoice,
    place: StorePlace,
    day: str,
    what: WhatToCollect,
    tags: FleetTags,
    pace: Pace,
) -> tuple[str, ...]:
    """The words of the command for one cluster, where paths must mean the same as here; no secret is among them."""
    from shlex import split

    from kafkakit.cli.common_options import absolute
    from kafkakit.cli.option_groups import option_words

    fleet = None if which.fleet is None else which.fleet.absolute()
    groups = (
        replace(place, to=absolute(place.to), date=day),
        FleetChoice(fleet=fleet),
        replace(what, groups=True),
        tags,
        pace,
    )
    words = [word for group in groups for option in option_words(group) for word in split(option)]
    config = [] if cli.given.config is None else ["--config", str(cli.given.config.absolute())]
    return (*words, *([] if what.groups else ["--no-groups"]), *config, "--output", "json")


def _open_clients(cli: CliContext, entry: FleetCluster, folder: Path) -> AbstractContextManager[ClusterSession]:
    from kafkakit.cli.session import open_session

    if entry.bootstrap_servers is None:
        given = cli.given.for_profile(entry.profile or entry.name)
    else:
        config = None if entry.command_config is None else folder / entry.command_config
        given = cli.given.for_address(entry.bootstrap_servers, config, f"cluster {entry.name} of the fleet file")
    return open_session(cli, read_only=True, settings=cli.settings_of(given))


def _read_declared(paths: Sequence[str]) -> tuple[TopicPiece, ...]:
    from kafkakit.lint.api_act import read_files
    from kafkakit.wiring import read_input

    if not paths:
        return ()
    readings = read_files(paths, None, "stdin", read_input)
    return tuple(topic for reading in readings for topic in reading.pieces.topics)
