"""How an operation is watched: the live view, and metrics in a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafkakit.cli.option_groups import option

if TYPE_CHECKING:
    from kafkakit.cli.context import CliContext
    from kafkakit.ports.clock import Clock
    from kafkakit.streams.failover.act.live import OperationWatcher
    from kafkakit.streams.failover.decide.live import LiveView


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """How often `status` looks at clusters, and where metrics go."""

    watch: bool = option(
        False, "--watch", "-w", help="Look at the clusters, and refresh until no operation of the stream is open."
    )
    interval: str = option("1s", "--interval", metavar="DURATION", help="Time between two refreshes of --watch.")
    count: int | None = option(None, "--count", min=1, metavar="N", help="End --watch after this many looks.")
    metrics: Path | None = option(
        None,
        "--metrics",
        metavar="FILE",
        help="With --watch, write Prometheus metrics to this file after each look, as a whole, for "
        "node_exporter's textfile collector.",
    )

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
