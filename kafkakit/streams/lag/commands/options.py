"""The options that commands of `kafkakit streams lag` share, and how they get at clusters."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkakit.cli.kit import Kit
    from kafkakit.config.read.settings import Settings
    from kafkakit.streams.lag.act.clusters import MonitorContext, MonitoredCluster
    from kafkakit.streams.lag.act.looks import Look
    from kafkakit.streams.lag.act.monitor import MonitorPace
    from kafkakit.streams.lag.decide.measure.topics import TopicFacts


CLOSE_S = 3.0
"""How long a command waits for its watchers at the end: one whose broker hangs must not hold it up."""


class ViewBy(StrEnum):
    """What one line of the table is about."""

    GROUP = "group"
    GROUP_TOPIC = "group-topic"
    TOPIC = "topic"
    STREAM = "stream"
    CLUSTER = "cluster"
    PARTITION = "partition"


class SortBy(StrEnum):
    """What the lines are ordered by."""

    WORST = "worst"
    LAG = "lag"
    TIME = "time"
    NAME = "name"


Groups = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[GROUP]...", help="Only these groups; names or globs in quotes ('orders-*').", show_default=False
    ),
]
Clusters = Annotated[
    str | None,
    typer.Option(
        "--clusters",
        metavar="PROFILE,...",
        help="Look at the clusters of these profiles together; the profile in use when not given.",
        show_default=False,
    ),
]
GroupGlobs = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="GLOB", help="Only groups whose name matches. Repeatable.", show_default=False),
]
TopicGlobs = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="GLOB", help="Only topics whose name matches. Repeatable.", show_default=False),
]
ByLevel = Annotated[ViewBy, typer.Option("--by", help="What a line is about.")]
SortOrder = Annotated[SortBy, typer.Option("--sort", help="Order of the lines; worst is status, then time lag.")]
Top = Annotated[
    int, typer.Option("--top", min=1, max=100_000, metavar="N", help="Show so many lines, and the others as one sum.")
]
WaitFor = Annotated[
    str,
    typer.Option("--wait", metavar="DURATION", help="Give up what is not known after this long; a warning names it."),
]
Internal = Annotated[bool, typer.Option("--internal", help="Show topics whose names begin with __, too.")]
Skew = Annotated[
    str,
    typer.Option(
        "--skew",
        metavar="DURATION",
        help="How far the clocks of brokers, producers and this machine may differ; widens what is surely within.",
    ),
]


def settings_of(kit: Kit, clusters: str | None) -> tuple[tuple[str, Settings], ...]:
    """The clusters that are meant, each with the name that people call it and its settings."""
    from kafkakit.core.errors import UsageError

    if clusters is None:
        return ((kit.settings.profile or kit.settings.bootstrap_servers or "cluster", kit.settings),)
    names = [name.strip() for name in clusters.split(",") if name.strip()]
    if not names:
        raise UsageError("--clusters names no profile", hint="kafkakit profile list names them")
    if len(names) != len(set(names)):
        raise UsageError("--clusters names a profile twice")
    return tuple((name, kit.load_settings(name)) for name in names)


def sources_of(found: Sequence[tuple[str, Settings]]) -> tuple[MonitoredCluster, ...]:
    """What the watchers need to connect; nothing is connected yet. `UsageError` for a cluster without an address."""
    from functools import partial

    from kafkakit.streams.lag.act.clusters import MonitoredCluster
    from kafkakit.wiring import open_log

    sources = []
    for name, settings in found:
        open_log(settings).close()  # settings that cannot work are told before anything runs
        sources.append(
            MonitoredCluster(
                name=name,
                open_reader=partial(open_log, settings),
                facts_of=partial(_facts_of, settings),
                pinned_id=settings.cluster_id,
            )
        )
    return tuple(sources)


def means_of(kit: Kit, skew: str, pace: MonitorPace | None = None) -> MonitorContext:
    """What the watchers share."""
    from pathlib import Path

    from kafkakit.core.durations import parse_duration_or_zero
    from kafkakit.streams.lag.act.clusters import MonitorContext
    from kafkakit.streams.lag.act.state_files import StateFiles
    from kafkakit.streams.lag.decide.measure.table import MeasureRules
    from kafkakit.wiring import read_input, system_clock, write_file

    def read(path: Path, limit_bytes: int) -> bytes:
        return read_input(path, limit_bytes)

    return MonitorContext(
        clock=system_clock(),
        say=kit.output.warn,
        states=StateFiles(kit.settings.state_dir / "lag", read, write_file),
        pace=pace,
        rules=MeasureRules(skew_ms=round(parse_duration_or_zero(skew, "--skew") * 1000)),
    )


def look_of(kit: Kit, clusters: str | None, wait: str, skew: str) -> Look:
    """One look at the clusters asked for, when all is known or `--wait` is over."""
    from kafkakit.core.durations import parse_duration
    from kafkakit.streams.lag.act.clusters import Fleet
    from kafkakit.streams.lag.act.looks import ONCE_PACE, look_once

    wait_s = parse_duration(wait, "--wait")
    means = means_of(kit, skew, ONCE_PACE)
    fleet = Fleet(sources_of(settings_of(kit, clusters)), means)
    try:
        with kit.output.progress("reading commits") as bar:
            fleet.start(carrying=True)
            return look_once(fleet, means.clock, bar, wait_s=wait_s)
    finally:
        fleet.close(CLOSE_S)


def _facts_of(settings: Settings, topics: Sequence[str]) -> Mapping[str, TopicFacts]:
    from contextlib import closing

    from kafkakit.core.cluster_facts import ResourceKind
    from kafkakit.streams.lag.decide.measure.topic_facts import BROKER_KEYS, facts_of
    from kafkakit.wiring import open_admin

    with closing(open_admin(settings, read_only=True, check_pin=False)) as admin:
        brokers = sorted(b.id for b in admin.cluster().brokers if b.is_alive)
        told = admin.broker_settings(brokers[:1], BROKER_KEYS)
        defaults = next(iter(told.values()), {})
        return facts_of(admin.dynamic_configs(ResourceKind.TOPIC, topics), defaults)
