"""The options of single commands of `kafkakit reassign`; those of every run are in `cli/run_options.py`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.option_groups import option
from kafkakit.cli.plan_file import RunChoice
from kafkakit.cli.run_options import ScheduleOptions

if TYPE_CHECKING:
    from kafkakit.reassign.decide.simulate.request import SimulateRequest

ONCE_WINDOW_S = 12.0
WATCH_WINDOW_S = 20.0

RunWait = Annotated[
    str,
    typer.Option("--wait", metavar="DURATION", help="How long to wait until the running executor answers and ends."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedPlan(RunChoice):
    """A plan file, a map, or a run by its id."""

    plan_file: Annotated[
        str | None,
        typer.Argument(
            metavar="PLAN", help="Plan file made with --plan, or a reassignment map as Kafka's JSON; - for stdin."
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """How long and how often `status` looks."""

    watch: bool = option(False, "--watch", "-w", help="Refresh until nothing moves.")
    window: str | None = option(
        None,
        "--window",
        metavar="DURATION",
        help="Take rates over this long, 10s or more: throttled copies arrive in bursts. 12s for one look, 20s "
        "with --watch. 0 reads once, without rates.",
    )
    interval: str = option("5s", "--interval", metavar="DURATION", help="Time between two refreshes of --watch.")
    metrics: str | None = option(
        None,
        "--metrics",
        metavar="FILE",
        help="Write Prometheus metrics to this file after each look, as a whole, for node_exporter's textfile "
        "collector; - prints them in place of the result.",
    )

    @property
    def window_s(self) -> float:
        """Seconds that rates are taken over, 0 for one look; raises `UsageError`."""
        from kafkakit.core.durations import parse_duration_or_zero

        if self.window is None:
            return WATCH_WINDOW_S if self.watch else ONCE_WINDOW_S
        return parse_duration_or_zero(self.window, "--window")

    @property
    def interval_s(self) -> float:
        """Seconds between two looks; raises `UsageError`."""
        from kafkakit.core.durations import parse_duration

        return parse_duration(self.interval, "--interval")

    @property
    def metrics_file(self) -> Path | None:
        """The file for metrics, None where none is written."""
        return None if self.metrics in (None, "-") else Path(str(self.metrics))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """What is played on the simulated cluster, as typed."""

    throttle: list[str] | None = option(
        None, "--throttle", metavar="RATE", help="Throttle on each broker, or `none`; repeat it to compare."
    )
    order: list[str] | None = option(
        None, "--order", metavar="ORDER", help="`schedule`, `plan` or `all-at-once`; repeat it to compare."
    )
    kill: list[str] | None = option(
        None, "--kill", metavar="BROKER@TIME", help="Kill a broker this long after the start."
    )
    revive: list[str] | None = option(None, "--revive", metavar="BROKER@TIME", help="Start a dead broker again.")
    ingest: str = option(
        "",
        metavar="RATE",
        help="What producers write to the whole cluster, divided by partition size; retention deletes nothing.",
    )
    line_rate: str = option("200MB", metavar="RATE", help="Network bandwidth of a broker in each direction.")
    efficiency: str = option("80%", metavar="PERCENT", help="Share of a throttle that brokers reach on average.")
    quota_window: int = option(
        11, "--quota-window", min=2, max=1000, help="replication.quota.window.num of the brokers."
    )

    def request(self, schedule: ScheduleOptions) -> SimulateRequest:
        """The texts as a request; raises `UsageError` for one that cannot be read, or for two that do not fit."""
        from kafkakit.core.quantities import parse_percent, parse_rate
        from kafkakit.reassign.decide.simulate.request import (
            SimulateRequest,
            check_request,
            parse_faults,
            parse_orders,
            parse_throttles,
        )

        request = SimulateRequest(
            throttles=parse_throttles(self.throttle or ()),
            orders=parse_orders(self.order or ()),
            faults=parse_faults(self.kill or (), self.revive or ()),
            ingest=parse_rate(self.ingest) if self.ingest else 0,
            line_rate=parse_rate(self.line_rate),
            efficiency=parse_percent(self.efficiency, "--efficiency"),
            quota_window=self.quota_window,
            limits=schedule.limits(),
        )
        check_request(request)
        return request
