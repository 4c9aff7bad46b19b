"""The options of commands that watch a cluster and change it: how, with which metrics, restarts and rehearsals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafkakit.cli.completion import complete_profile_names
from kafkakit.cli.metrics_options import MetricsAccess, MetricsSource
from kafkakit.cli.option_groups import option
from kafkakit.cli.run_options import Consent, change_question
from kafkakit.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.ports.clock import Clock
    from kafkakit.ports.metrics import SampleQueries
    from kafkakit.rollout.act.rollouts import RolloutPorts
    from kafkakit.rollout.act.writing import RestartBroker
    from kafkakit.rollout.decide.journal import WatchSettings
    from kafkakit.rollout.decide.queries import HealthQueries

KEY_PREFIX = "KAFKAKIT"
BROKERS_BASELINE = "5m"
METRICS_BASELINE = "1h"
USUAL_EVERY, DATADOG_EVERY = "5s", "20s"
NO_ACCESS = MetricsAccess()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """How the cluster is watched, and what tells its health."""

    window: str = option("2m", "--window", metavar="DURATION", help="How long each step is watched.")
    every: str | None = option(
        None,
        "--every",
        metavar="DURATION",
        help=f"The time between two looks: {USUAL_EVERY}, and {DATADOG_EVERY} with Datadog, which limits queries.",
    )
    baseline: str | None = option(
        None,
        "--baseline",
        metavar="DURATION",
        help=f"What is usual is the time so long before; {METRICS_BASELINE} with a metrics service, which keeps it, "
        f"{BROKERS_BASELINE} with the brokers alone, which takes so long.",
    )
    metrics: MetricsSource = option(
        MetricsSource.BROKERS, "--metrics", help="What tells latency, client errors and ISR changes."
    )
    prometheus_url: str = option(
        "http://localhost:9090", "--prometheus-url", metavar="URL", help="Address of the Prometheus server."
    )
    datadog_tags: str = option(
        "", "--datadog-tags", metavar="TAGS", help="Datadog: tags that choose the cluster: 'kafka_cluster:prod'."
    )
    access: MetricsAccess = NO_ACCESS

    def settings(self, cli: CliContext, restart_with: str = "", settle: str = "5m") -> WatchSettings:
        """The texts as values; `UsageError` for a window of less than two looks, or a baseline that is shorter."""
        from kafkakit.core.durations import parse_duration
        from kafkakit.rollout.decide.journal import WatchSettings

        service = self.service(cli)
        usual = BROKERS_BASELINE if service is None else METRICS_BASELINE
        found = WatchSettings(
            window_s=parse_duration(self.window, "--window"),
            every_s=self._every_s(),
            baseline_s=parse_duration(self.baseline or usual, "--baseline"),
            source="" if service is None else service[0].source,
            settle_s=parse_duration(settle, "--settle"),
            restart_with=restart_with,
        )
        if found.window_s < 2 * found.every_s:
            raise UsageError("--window is shorter than two looks", hint="make it at least twice --every")
        if found.baseline_s < found.window_s:
            raise UsageError("--baseline is shorter than --window", hint="what is usual needs at least one window")
        return found

    def _every_s(self) -> float:
        from kafkakit.core.durations import parse_duration

        usual = DATADOG_EVERY if self.metrics is MetricsSource.DATADOG else USUAL_EVERY
        return parse_duration(self.every or usual, "--every")

    def service(self, cli: CliContext) -> tuple[SampleQueries, HealthQueries] | None:
        """The metrics service with what it is asked; None for the brokers alone."""
        from kafkakit.ports.metrics import Patience
        from kafkakit.rollout.decide.queries import datadog_queries, prometheus_queries

        every_s, warn = self._every_s(), cli.output.warn
        patience = Patience(timeout_s=5.0, attempts=1)
        match self.metrics:
            case MetricsSource.BROKERS:
                return None
            case MetricsSource.PROMETHEUS:
                server = self.access.open_prometheus(self.prometheus_url, warn, warn, patience)
                return server, prometheus_queries(self.access.prometheus_selector, every_s)
        queries = datadog_queries(self.datadog_tags, every_s)
        span_s = max(60, round(2 * queries.stale_s))
        return self.access.open_datadog(span_s, warn, KEY_PREFIX, patience), queries


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartOptions:
    """What is done about settings that brokers read at start only."""

    restart_with: Path | None = option(
        None,
        "--restart-with",
        metavar="COMMAND",
        help="Run COMMAND BROKER KEY=VALUE..., which puts values into the broker's file (a bare KEY is taken out) and "
        "restarts it; it must be repeatable.",
    )
    leave_restarts: bool = option(False, "--leave-restarts", help="Change only what needs no restart.")
    settle: str = option(
        "5m", "--settle", metavar="DURATION", help="How long a restarted broker may take to be in sync again."
    )

    def command(self) -> str:
        """The command's absolute path, empty for none; `UsageError` for one that is not there."""
        if self.restart_with is None:
            return ""
        path = self.restart_with.absolute()
        if not path.is_file():
            raise UsageError(f"--restart-with {self.restart_with} is no file")
        return str(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalOptions:
    """Where the change is tried first."""

    rehearse: str | None = option(
        None,
        "--rehearse",
        metavar="PROFILE",
        help="Roll out on this mirrored cluster first, watched by its brokers; what passes stays there.",
        autocompletion=complete_profile_names,
    )
    accept_unlike: bool = option(
        False, "--accept-unlike", help="Rehearse although the mirrored cluster differs in version, brokers or topics."
    )


def stopped(cli: CliContext) -> tuple[str, str]:
    """What is said where a rollout is stopped, and the commands that continue it."""
    lines = (f"{cli.program} config {word} --yes" for word in ("resume", "abort"))
    return "stopped; the rollout stays open", "\n".join(("continue it, or take it back:", *lines))


def confirmed(cli: CliContext, consent: Consent, cluster_id: str, lines: Callable[[], Iterable[str]]) -> bool:
    """True with `--yes`, else when the operator agrees; `lines` say what is to be done, and are printed before."""
    if not consent.yes:
        cli.output.say("\n".join(lines()))
    return consent.confirm(cli, change_question(cli, cluster_id))


def ports_of(
    session: ClusterSession, service: tuple[SampleQueries, HealthQueries] | None, restart_with: str = ""
) -> RolloutPorts:
    """What rollouts on the session's cluster work with; `restart_with` counts before what a journal kept."""
    from kafkakit.rollout.act.rollouts import RolloutPorts

    def make_restart(clock: Clock, settings: WatchSettings) -> RestartBroker | None:
        from kafkakit.rollout.act.restarts import RestartCommand
        from kafkakit.wiring import this_machine

        command = restart_with or settings.restart_with
        if not command:
            return None
        processes = this_machine(session.cli.folders.cache).processes
        log_file = session.settings.state_dir / "config-restarts.log"
        log_file.parent.mkdir(parents=True, exist_ok=True)
        return RestartCommand(processes, clock, command, str(log_file), settings.settle_s)

    return RolloutPorts(
        state_dir=session.settings.state_dir,
        reporter=session.cli.output,
        by=session.requester,
        make_restart=make_restart,
        service=service,
        program=session.cli.program,
    )
