"""`kafkakit reassign status`, and how commands that only look get at a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import Kit, kit_of

if TYPE_CHECKING:
    from kafkakit.execution.act.status_loop import Observer
    from kafkakit.execution.decide.status.looks import HeldLease
    from kafkakit.execution.decide.status.state import StatusView
    from kafkakit.ports.reporter import Screen
    from kafkakit.report.report import Report

ONCE_WINDOW_S = 12.0
WATCH_WINDOW_S = 20.0


def status(
    ctx: typer.Context,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep looking until nothing moves.")] = False,
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="DURATION",
            help="Take rates over this long, 10s or more: throttled copies come in lumps. 12s for one look, 20s with "
            "--watch. 0 looks once and gives no rates.",
            show_default=False,
        ),
    ] = None,
    interval: Annotated[
        str, typer.Option("--interval", metavar="DURATION", help="The time between two looks of --watch.")
    ] = "5s",
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="FILE",
            help="Write Prometheus metrics to this file after each look, as a whole, for node_exporter's textfile "
            "collector; - prints them in place of the result.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show what moves on the cluster, by whomever, how fast, until when, and what stands still and why.

    Of our runs: the time left now and the time promised, and what the run is doing. Also copies that change their
    log dir inside a broker, throttles, counts of partitions that lack copies, and who may change the cluster now.
    Where something moves, the command looks twice and takes the time between; with --watch it goes on until nothing
    moves, and Ctrl-C ends the watching only. A tick reads the moving topics and their brokers, not the whole cluster;
    the counts, and copies inside brokers, are read once a minute at most.

    Examples:

    \b
    kafkakit --profile prod reassign status
    kafkakit --profile prod reassign status --watch --metrics /var/lib/node_exporter/kafkakit.prom
    kafkakit --profile prod reassign status -o json --window 30s
    """
    from pathlib import Path

    from kafkakit.cli.output import OutputFormat
    from kafkakit.core.durations import parse_duration
    from kafkakit.core.errors import UsageError
    from kafkakit.execution.act.retrier import Patient
    from kafkakit.execution.act.status_loop import PATIENCE_S, look_once
    from kafkakit.execution.act.status_loop import watch as watch_moves
    from kafkakit.execution.decide.status.stall import QUIET_S
    from kafkakit.reassign.show.status_metrics import render_metrics
    from kafkakit.reassign.show.status_text import render_status
    from kafkakit.wiring import system_clock, write_file

    kit = kit_of(ctx)
    if metrics == "-" and kit.output.output_format is not OutputFormat.TEXT:
        raise UsageError("--metrics - is a format of its own, without -o", hint="name a file for the metrics")
    window_s = _window_s(window, WATCH_WINDOW_S if watch else ONCE_WINDOW_S)
    interval_s = parse_duration(interval, "--interval")
    if 0 < window_s < QUIET_S:
        kit.output.warn(f"copies come in lumps under a throttle: rates over less than {QUIET_S:g} s mean little")

    def note(view: StatusView) -> None:
        if metrics not in (None, "-"):
            write_file(Path(str(metrics)), render_metrics(view).encode())

    clock = system_clock()
    with open_observer(kit, window_s=window_s) as observer:
        if watch:
            patient = Patient(clock, kit.output, PATIENCE_S)
            view = watch_moves(observer, clock, patient, _shown(kit), interval_s=interval_s, after_look=note)
        else:
            view = look_once(observer, clock, window_s)
            note(view)
    kit.output.result(_result(view, render_metrics(view) if metrics == "-" else render_status(view)))


def _result(view: StatusView, text: str) -> Report:
    from kafkakit.reassign.show.status_data import COPY_COLUMNS, status_data, status_rows
    from kafkakit.report.report import Report

    return Report(
        command="reassign status", data=status_data(view), text=text, columns=COPY_COLUMNS, rows=status_rows(view)
    )


def _window_s(text: str | None, default_s: float) -> float:
    from kafkakit.core.durations import parse_duration_or_zero

    return default_s if text is None else parse_duration_or_zero(text, "--window")


@contextmanager
def open_observer(kit: Kit, *, window_s: float, whole: bool = True) -> Iterator[Observer]:
    """Connect with a client that cannot write; `whole` False reads nothing of the whole cluster, and no lease."""
    from contextlib import closing

    from kafkakit.execution.act.known_runs import Runs
    from kafkakit.execution.act.status_loop import Observer
    from kafkakit.wiring import open_admin, system_clock

    with closing(open_admin(kit.settings, read_only=True)) as admin:
        cluster_id = admin.cluster().cluster_id
        lease = _LeaseReader(kit, cluster_id)
        yield Observer(
            admin,
            system_clock(),
            Runs(kit.settings.state_dir, cluster_id),
            lease.read if whole else lambda: None,
            window_s=window_s,
            program=kit.program,
            whole=whole,
        )


class _LeaseReader:
    """Reads who may change the cluster; a control store that does not answer is told once."""

    def __init__(self, kit: Kit, cluster_id: str) -> None:
        self._kit, self._cluster_id = kit, cluster_id
        self._told = False

    def read(self) -> HeldLease | None:
        from contextlib import closing

        from kafkakit.adapters.own_process import life_of
        from kafkakit.core.errors import KafkakitError
        from kafkakit.core.lease import Life
        from kafkakit.execution.act.leases import lease_path, read_lease
        from kafkakit.execution.decide.status.looks import HeldLease
        from kafkakit.wiring import open_control

        try:
            with closing(open_control(self._kit.settings)) as store:
                record = read_lease(store, lease_path(self._cluster_id))
        except KafkakitError as error:
            if not self._told:
                self._kit.output.warn(f"who may change the cluster cannot be read: {error.message}")
            self._told = True
            return None
        if record is None:
            return None
        return HeldLease(record=record, life=Life.UNKNOWN if record.holder is None else life_of(record.holder))


@contextmanager
def _shown(kit: Kit) -> Iterator[_Shown]:
    with kit.output.screen() as screen:
        yield _Shown(screen)


class _Shown:
    """Looks on the terminal, or one line each."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def show(self, view: StatusView) -> None:
        from kafkakit.reassign.show.status_text import render_screen, status_line

        self._screen.show(render_screen(view), status_line(view))
