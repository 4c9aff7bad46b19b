"""The groups of options that commands of `kafkakit streams lag` share, each with the values that it stands for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.cluster_words import TOPIC_CHOICE
from kafkakit.cli.completion import complete_group_names, complete_topic_names
from kafkakit.cli.option_groups import option
from kafkakit.cli.tag_options import NO_TAGS, TagSource
from kafkakit.core.topic_selection import parse_patterns, query_of
from kafkakit.streams.lag.decide.views.selecting import LineOrder, RowFilter, ViewRequest
from kafkakit.streams.lag.decide.views.views import ViewLevel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kafkakit.cli.context import CliContext
    from kafkakit.config.read.settings import Settings
    from kafkakit.streams.lag.act.monitor import MonitorPace
    from kafkakit.streams.lag.act.watcher import MonitorContext, MonitoredCluster


class ViewBy(StrEnum):
    """What one line of the table is about, as `--by` spells the levels."""

    GROUP = "group"
    GROUP_TOPIC = "group-topic"
    TOPIC = "topic"
    STREAM = "stream"
    CLUSTER = "cluster"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoice:
    """The clusters to measure, and how far clocks may differ."""

    clusters: str | None = option(
        None,
        "--clusters",
        metavar="PROFILE,...",
        help="Read the clusters of these profiles; the current profile when not given.",
    )
    skew: str = option(
        "1s",
        "--skew",
        metavar="DURATION",
        help="How far the clocks of brokers, producers and this machine may differ; widens time lag intervals.",
    )

    def monitored(self, cli: CliContext) -> tuple[MonitoredCluster, ...]:
        """The clusters with their names; nothing is connected yet. `UsageError` for one that cannot be connected to."""
        return tuple(_monitored(name, settings) for name, settings in self._settings(cli))

    def topic_tags(self, cli: CliContext, source: TagSource) -> dict[str, Mapping[str, Mapping[str, str]]]:
        """The tags of topics, from the control store of each profile or the znodes of kafka-kit's registry."""
        from kafkakit.cli.session import open_session

        found = {}
        for name, settings in self._settings(cli):
            with open_session(cli, read_only=True, settings=settings) as session:
                found[name] = source.read(session).topics
        return found

    def context(self, cli: CliContext, pace: MonitorPace | None = None) -> MonitorContext:
        """What the watchers of the clusters share."""
        from kafkakit.core.durations import parse_duration_or_zero
        from kafkakit.streams.lag.act.state_files import StateFiles
        from kafkakit.streams.lag.act.watcher import MonitorContext
        from kafkakit.streams.lag.decide.measure.table import MeasureRules
        from kafkakit.wiring import read_input, system_clock, write_file

        def read(path: Path, limit_bytes: int) -> bytes:
            return read_input(path, limit_bytes)

        return MonitorContext(
            clock=system_clock(),
            warn=cli.output.warn,
            states=StateFiles(cli.settings.state_dir / "lag", read, write_file),
            pace=pace,
            rules=MeasureRules(skew_ms=round(parse_duration_or_zero(self.skew, "--skew") * 1000)),
        )

    def _settings(self, cli: CliContext) -> tuple[tuple[str, Settings], ...]:
        from kafkakit.core.errors import UsageError

        if self.clusters is None:
            return ((cli.settings.profile or cli.settings.bootstrap_servers or "cluster", cli.settings),)
        names = [name.strip() for name in self.clusters.split(",") if name.strip()]
        if not names:
            raise UsageError("--clusters names no profile", hint="kafkakit profile list names them")
        if len(names) != len(set(names)):
            raise UsageError("--clusters names a profile twice")
        return tuple((name, cli.load_settings(name)) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChoice:
    """The groups and topics to measure."""

    groups: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP]...",
            help="Only these groups; names or globs in quotes ('orders-*').",
            autocompletion=complete_group_names,
            show_default=False,
        ),
    ] = None
    group: list[str] | None = option(
        None,
        "--group",
        metavar="GLOB",
        help="Only groups whose name matches, or 'where QUERY'. Repeatable.",
        autocompletion=complete_group_names,
    )
    topics: str | None = option(None, "--topics", **TOPIC_CHOICE, help="Only these topics.")
    topic: list[str] | None = option(
        None,
        "--topic",
        metavar="GLOB",
        help="Only topics whose name matches, or 'where QUERY'. Repeatable.",
        autocompletion=complete_topic_names,
    )
    internal: bool = option(False, "--internal", help="Show topics whose names begin with __, too.")
    tags: TagSource = NO_TAGS

    def filter(self, cli: CliContext, which: ClusterChoice) -> RowFilter:
        """The rows that match; a topic glob may name internal topics. Reads tags where a query looks at some."""
        patterns = parse_patterns(self.topics or "")
        queries = tuple(pattern for pattern in patterns if query_of(pattern) is not None)
        chosen = RowFilter(
            groups=(*(self.groups or []), *(self.group or [])),
            topics=(*(self.topic or []), *queries),
            patterns=tuple(pattern for pattern in patterns if pattern not in queries),
            internal=self.internal or bool(self.topic or patterns),
        )
        return replace(chosen, topic_tags=which.topic_tags(cli, self.tags)) if chosen.tags_needed else chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """The lines of the table."""

    by: ViewBy = option(ViewBy.GROUP_TOPIC, "--by", help="What each line shows.")
    sort: LineOrder = option(LineOrder.WORST, "--sort", help="Order of the lines; worst is status, then time lag.")
    top: int = option(
        50, "--top", min=1, max=100_000, metavar="N", help="Show this many lines, and the sum of the others."
    )

    def request(self, cli: CliContext, which: ClusterChoice, rows: RowChoice) -> ViewRequest:
        """The view of these rows."""
        level = ViewLevel(self.by.value.replace("-", "_"))
        return ViewRequest(level=level, order=self.sort, top=self.top, rows=rows.filter(cli, which))


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitLimit:
    """How long a command waits for what it measures."""

    wait: str = option(
        "60s",
        "--wait",
        metavar="DURATION",
        help="Stop waiting for unknown lag after this long; a warning names what is missing.",
    )

    @property
    def seconds(self) -> float:
        """The limit in seconds."""
        from kafkakit.core.durations import parse_duration

        return parse_duration(self.wait, "--wait")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckWaitLimit(WaitLimit):
    """The limit of `lag check`, which is shorter than the time limits of monitoring systems."""

    wait: str = option(
        "30s",
        "--wait",
        metavar="DURATION",
        help="Stop waiting for unknown lag after this long; a warning names what is missing.",
    )


def _monitored(name: str, settings: Settings) -> MonitoredCluster:
    from functools import partial

    from kafkakit.streams.lag.act.topic_settings import read_topic_facts
    from kafkakit.streams.lag.act.watcher import MonitoredCluster
    from kafkakit.wiring import open_admin, open_groups, open_log

    open_log(settings).close()  # settings that cannot work are reported before anything runs
    return MonitoredCluster(
        name=name,
        open_reader=partial(open_log, settings),
        facts_of=partial(read_topic_facts, partial(open_admin, settings, read_only=True, check_pin=False)),
        open_groups=partial(open_groups, settings, read_only=True),
        pinned_id=settings.cluster_id,
    )
