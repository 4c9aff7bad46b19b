"""The options of `autothrottle simulate`, and what they name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kafkakit.autothrottle.commands.law_options import LawChoice, LawName
from kafkakit.autothrottle.commands.metrics_options import MetricsChoice
from kafkakit.autothrottle.commands.options import OverridePlace, TrafficChoice
from kafkakit.cli.option_groups import option

if TYPE_CHECKING:
    from kafkakit.autothrottle.decide.law import Law
    from kafkakit.autothrottle.decide.simulate.scenario import Scenario
    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession

MAX_LAWS = 6
MAX_STEPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedMoves:
    """Which moves are simulated: those that run, those of a file, or those of a plan."""

    from_file: str | None = option(
        None, "--from", metavar="FILE", help="The scenario in this file, JSON or YAML; - for stdin."
    )
    plan: str | None = option(
        None,
        "--plan",
        metavar="PLAN",
        help="The copies of this plan file; - for stdin, no cluster.",
    )
    save: Path | None = option(None, "--save", metavar="FILE", help="Write what is observed as a scenario, for --from.")
    clients: str | None = option(
        None,
        "--clients",
        metavar="PERCENT[@TIME],...",
        help="Client traffic as a share of what it is, from these times on: 100%,150%@2h,60%@6h.",
    )
    max_time: str = option("3d", "--max-time", metavar="DURATION", help="Simulate no longer than this.")

    def read(
        self, cli: CliContext, session: ClusterSession, law: LawChoice, traffic: TrafficChoice
    ) -> tuple[Scenario, tuple[str, ...]]:
        """The scenario and notes on it; raises `UsageError` for what is neither measured nor stated."""
        from kafkakit.autothrottle.decide.simulate.document import LIMIT_BYTES, encode_scenario, read_scenario
        from kafkakit.autothrottle.decide.simulate.scenario import with_factors
        from kafkakit.core.durations import parse_duration
        from kafkakit.core.errors import UsageError
        from kafkakit.wiring import write_file

        if self.from_file is not None and (self.plan is not None or traffic.metrics.prometheus_url is not None):
            raise UsageError("--from excludes --plan and --prometheus-url", hint="the file has the client traffic")
        seconds = max(1, int(parse_duration(self.max_time, "--max-time")))
        factors = client_factors(self.clients) if self.clients else ((0, 1.0),)
        notes: tuple[str, ...] = ()
        if self.from_file is not None:
            source = "stdin" if self.from_file == "-" else self.from_file
            scenario = read_scenario(session.read_input(self.from_file, LIMIT_BYTES), source, seconds)
        else:
            scenario, notes = self._observe(cli, session, law, traffic, seconds)
        if self.save is not None:
            write_file(self.save, encode_scenario(scenario))
        if law.p99 or law.queue:
            notes = (*notes, "latencies are not simulated: --p99 and --queue do not count")
        return with_factors(scenario, factors), notes

    def _observe(
        self, cli: CliContext, session: ClusterSession, law: LawChoice, traffic: TrafficChoice, seconds: int
    ) -> tuple[Scenario, tuple[str, ...]]:
        from kafkakit.autothrottle.commands.options import open_pacer
        from kafkakit.autothrottle.decide.observed import Observed
        from kafkakit.autothrottle.decide.simulate.cases import plan_flows, scenario_of
        from kafkakit.cli.plan_file import read_plan
        from kafkakit.core.durations import epoch_ms

        capacities = traffic.capacities.read(session, law.broker_capacity)
        stated = law.stated(capacities)
        if self.plan is None:
            observed = open_pacer(cli, session, law, traffic, OverridePlace(), None).observe()
            return scenario_of(capacities.informed(observed), stated, session.cluster_id, seconds), observed.problems
        plan = read_plan(self.plan)
        cli.cluster_id = plan.cluster_id
        measure = traffic.metrics.measure(session, with_type=bool(capacities.of_type))
        seen = capacities.informed(Observed(at_ms=epoch_ms(session.clock.now())) if measure is None else measure())
        scenario = scenario_of(replace(seen, flows=plan_flows(plan)), stated, plan.cluster_id, seconds)
        return scenario, (*seen.problems, "what producers write meanwhile is not in a plan and counts as nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLaws:
    """Which laws are simulated, and how they look."""

    compare: str | None = option(
        None,
        "--compare",
        metavar="LAW,...",
        help="Several laws side by side: slo,headroom,fixed:40MB, with the options of each.",
    )
    interval: str = option("15s", "--interval", metavar="DURATION", help="Time between two ticks.")

    def build(self, law: LawChoice) -> tuple[tuple[str, Law], ...]:
        """The laws by name; raises `UsageError`."""
        from kafkakit.core.errors import UsageError

        if self.compare is None:
            return ((law.name.value if law.rate is None else f"fixed:{law.rate}", law.build()),)
        words = [word.strip() for word in self.compare.split(",")]
        if len(set(words)) < len(words) or len(words) > MAX_LAWS:
            raise UsageError(f"--compare takes up to {MAX_LAWS} different laws", hint="write slo,headroom,fixed:40MB")
        return tuple((word, _chosen(law, word).build()) for word in words)

    def times_s(self, metrics: MetricsChoice) -> tuple[int, int]:
        """Seconds between two ticks, and those that metrics are averaged over; raises `UsageError`."""
        from kafkakit.core.durations import parse_duration
        from kafkakit.core.errors import UsageError

        tick_s = parse_duration(self.interval, "--interval")
        window_s = metrics.window_s
        if not 1 <= tick_s <= 86_400 or not 1 <= window_s <= 3600:
            raise UsageError("--interval must be from 1s to 1d, and --metrics-window from 1s to 1h")
        return int(tick_s), window_s


def client_factors(text: str) -> tuple[tuple[int, float], ...]:
    """Seconds from which client traffic is multiplied, and the factors; raises `UsageError`."""
    from kafkakit.core.durations import parse_duration
    from kafkakit.core.errors import UsageError
    from kafkakit.core.quantities import parse_percent

    found = {0: 1.0}
    last = -1
    words = text.split(",")
    for word in words:
        share, sign, time = word.strip().partition("@")
        second = int(parse_duration(time, "--clients")) if sign else 0
        if second <= last or len(words) > MAX_STEPS:
            raise UsageError(f"--clients {text!r:.60}: times must rise", hint="write 100%,150%@2h,60%@6h")
        found[second] = float(parse_percent(share, "--clients", most=1000))
        last = second
    return tuple(found.items())


def _chosen(law: LawChoice, word: str) -> LawChoice:
    from kafkakit.core.errors import UsageError

    name, colon, rate = word.partition(":")
    if name not in tuple(LawName) or (name == LawName.FIXED) != bool(rate) or bool(colon) != bool(rate):
        raise UsageError(f"--compare: {word!r:.60} is no law", hint="write slo, headroom or fixed:40MB")
    return replace(law, law=LawName(name), rate=rate or None)
