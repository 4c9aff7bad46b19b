"""How an operation is watched: the live view, metrics in a file, and events to Datadog."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.option_groups import option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import ExitStack

    from kafkakit.cli.context import CliContext
    from kafkakit.core.event import Event
    from kafkakit.ports.clock import Clock
    from kafkakit.streams.failover.act.live import OperationWatcher
    from kafkakit.streams.failover.decide.live import LiveView

KEY_PREFIX = "KAFKAKIT"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """How often `status` looks at clusters, and where metrics go."""

    watch: bool = option(
        False, "--watch", "-w", help="Look at the clusters, and refresh until no operation of the stream is open."
    )
    interval: str = option("1s", "--interval", metavar="DURATION", help="Time between two refreshes of --watch.")
    count: int | None = option(
        None, "--count", min=1, metavar="N", help="End --watch after this many looks.", show_default=False
    )
    metrics: Annotated[
        Path | None,
        typer.Option(
            "--metrics",
            metavar="FILE",
            help="With --watch, write Prometheus metrics to this file after each look, as a whole, for "
            "node_exporter's textfile collector.",
        ),
    ] = None

    @property
    def interval_s(self) -> float:
        """Seconds between two looks; raises `UsageError`."""
        from kafkakit.core.durations import parse_duration

        return parse_duration(self.interval, "--interval")

    def refuse_unused(self) -> None:
        """Raise `UsageError` for metrics or a count without looks at the clusters."""
        from kafkakit.core.errors import UsageError

        if not self.watch and (self.metrics is not None or self.count is not None):
            raise UsageError("--metrics and --count are for --watch, which looks at the clusters")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOptions:
    """Events to Datadog for what an operation does."""

    dd_events: bool = option(
        False, "--dd-events", help="Send an event to Datadog for each step, fence, late writer and certificate."
    )
    dd_event_tags: str = option("", "--dd-event-tags", metavar="TAG,...", help="More tags of these events.")
    datadog_site: Annotated[
        str, typer.Option(envvar=["DD_SITE"], metavar="SITE", help="Datadog: the site of the key, or its address.")
    ] = "datadoghq.com"
    api_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Datadog: the API key; else the variable DD_API_KEY.")
    ] = None

    def open(self, stack: ExitStack, cli: CliContext, stream: str) -> Callable[[Sequence[Event]], object] | None:
        """What takes events until `stack` ends, None for no events; `UsageError` where there is no key."""
        from contextlib import closing

        from kafkakit.execution.act.event_queue import EventQueue
        from kafkakit.wiring import open_datadog_events

        if not self.dd_events:
            return None
        more = tuple(tag for part in self.dd_event_tags.split(",") if (tag := part.strip()))
        api = open_datadog_events(self.datadog_site, self.api_key_file, cli.output.warn, KEY_PREFIX)
        tags = ("name:kafkakit-failover", f"stream:{stream}", *more)
        return stack.enter_context(closing(EventQueue(api.send_event, tags, cli.output.warn))).put


NO_EVENTS = EventOptions()


def watch_operation(cli: CliContext, clock: Clock, watcher: OperationWatcher, options: LiveOptions) -> LiveView:
    """Show an operation until none is open; returns the last look."""
    from kafkakit.execution.act.retrier import Retrier
    from kafkakit.execution.act.watch_loop import PATIENCE_S, watch_until_idle
    from kafkakit.streams.failover.show.live import PhaseLines, live_metrics, live_text, phase_line
    from kafkakit.wiring import write_file

    phases = PhaseLines()

    def after_look(view: LiveView) -> None:
        if options.metrics is not None:
            write_file(options.metrics, live_metrics(view).encode())

    def show(view: LiveView) -> None:
        if phases.is_new(view) or cli.output.animate:
            screen.show(live_text(view), phase_line(view))

    with cli.output.screen() as screen:
        return watch_until_idle(
            watcher.look,
            watcher.look,
            clock,
            Retrier(clock, cli.output, PATIENCE_S),
            what="reading the stream",
            interval_s=options.interval_s,
            after_look=after_look,
            show=show,
            stopped="the operation is not touched",
            hint="look again: kafkakit streams failover status --watch",
            count=options.count,
        )
