"""`kafkakit autothrottle`: throttles for the moves of any tool, adapted while they run.

`run` is the service; `set` and `remove` change overrides of the rates that the law decides; `simulate` plays laws, with
options of its own for what is played; `unit` prints the files that run the service.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.autothrottle.commands.options import (
    CapacityChoice,
    EventChoice,
    LawChoice,
    LawName,
    MetricsChoice,
    OverridePlace,
    ServiceChoice,
    TakeOver,
    TrafficChoice,
)
from kafkakit.autothrottle.units import USUAL_PROGRAM, Runner
from kafkakit.cli.command_classes import KafkaKitCommand, cli_context, given_flags, kafka_kit_group
from kafkakit.cli.common_options import ONLY_THIS_HOST
from kafkakit.cli.completion import BROKER_ID
from kafkakit.cli.option_groups import option_words, with_option_groups
from kafkakit.cli.run_options import DryRun
from kafkakit.cli.version import add_kafka_kit_commands
from kafkakit.core.options import option
from kafkakit.report.kubernetes import CONFIG_MAP, SECRET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkakit.autothrottle.decide.law import Law
    from kafkakit.autothrottle.decide.pacer import Override
    from kafkakit.autothrottle.decide.scenario import Scenario
    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.execution.act.leases import Lease


def law_and_place(
    ctx: typer.Context, law: LawChoice, traffic: TrafficChoice, place: OverridePlace
) -> tuple[LawChoice, OverridePlace]:
    """The law by what was given, and where its overrides are; they and kafka-kit's flags are taken for this invocation.

    Says why the law is kafka-kit's, and warns of each option that has no effect.
    """
    given, cli = given_flags(ctx), cli_context(ctx)
    chosen, signs = law.chosen(given), law.signs(given)
    if signs:
        cli.output.say(f"law: headroom, kafka-kit's, by {', '.join(signs)}; --law slo keeps clients' objectives")
    for sentence in chosen.idle(given, traffic.metrics.kind):
        cli.output.warn(sentence)
    place.apply(cli)
    traffic.kafka_kit.apply(cli)
    return chosen, place.of_kafka_kit(cli) if signs else place


@with_option_groups
def serve(
    ctx: typer.Context,
    law: LawChoice,
    traffic: TrafficChoice,
    place: OverridePlace,
    events: EventChoice,
    service: ServiceChoice,
    take_over: TakeOver = False,
    dry_run: DryRun = False,
) -> int:
    """Adapt the throttles of moves until stopped.

    A tick comes each interval, and within about 5 s of other moves or overrides.

    Of several instances one leads and the others wait; one that ends or falls silent is replaced within 15 s, and
    writes nothing after it lost the leadership. The HTTP API has kafka-kit's routes (/throttle, /throttle/ID,
    /throttle/remove), and /healthz and /metrics. SIGTERM ends it with exit 143: throttles of moves that run stay, and
    the next instance, or `once`, takes them over and removes them when the moves have ended. Lines go to stderr, with
    -o json as one JSON object each; a tick's object has all its rates and reasons.

    With --dry-run it checks the options, shows what the first tick would set, and ends.

    kafka-kit's flags and its AUTOTHROTTLE_ variables are taken; docs/autothrottle.md tells what they mean here.

    Examples:

    \b
    kafkakit --profile prod autothrottle run --rate 40MB
    kafkakit --profile prod autothrottle run --rate 40MB --interval 3m --listen 127.0.0.1:8080 --no-token
    kafkakit --profile prod autothrottle run --source datadog --law headroom --cap-map '{"i3.large": 90}' --interval 180
    """
    from contextlib import ExitStack

    from kafkakit.adapters.host import notify_service
    from kafkakit.autothrottle.act.service import PacerService, run_service
    from kafkakit.autothrottle.commands.options import (
        ServiceLog,
        open_api,
        open_pacer,
        read_token,
    )
    from kafkakit.autothrottle.report import once_report
    from kafkakit.cli.session import finish, open_session
    from kafkakit.core.quantities import parse_seconds
    from kafkakit.core.rpc import ServiceProbes

    cli = cli_context(ctx)
    if not dry_run:
        cli.begin_service()
    interval_s = parse_seconds(service.interval, "--interval")
    if service.listen.startswith(":"):
        cli.output.warn(ONLY_THIS_HOST.format(service.listen, "--token-file"))
    token = read_token(service.token_file, service.listen, no_token=service.no_token)
    law, place = law_and_place(ctx, law, traffic, place)
    with ExitStack() as stack:
        session = stack.enter_context(open_session(cli, read_only=True))
        if dry_run:
            tick = open_pacer(cli, session, law, traffic, place, None, take_over=take_over).preview()
            return finish(cli, once_report(tick, session.cluster_id, "autothrottle run", is_dry=True))
        lead = open_lead(cli, session, "autothrottle run")
        pacer = open_pacer(cli, session, law, traffic, place, lead, take_over=take_over)
        overrides = place.open(session)
        log = ServiceLog(session, events.open(stack, session, traffic.metrics))
        paced = PacerService(
            pacer,
            lead,
            overrides,
            session.clock,
            interval_s=interval_s,
            report=log.say,
            told=log.tick,
        )
        probes = ServiceProbes(notify_service, session.clock.monotonic)
        names = service.http_name or ()
        require_listening = open_api(stack, log.say, paced, overrides, service.listen, token, names, probes)
        run_service(
            paced,
            pacer,
            lead,
            session.clock,
            probes.notify,
            require_listening=require_listening,
            remove_on_exit=service.remove_on_exit,
        )
    return 0


@contextmanager
def lead_cluster(cli: CliContext, session: ClusterSession, command: str) -> Iterator[Lease]:
    """The lead over the other pacers of the cluster while the context is open; `TryLaterError` names its holder."""
    from kafkakit.autothrottle.act.service import LEAD_TTL_S

    lead = open_lead(cli, session, command)
    lead.acquire(LEAD_TTL_S)
    try:
        yield lead
    finally:
        lead.release()


def open_lead(cli: CliContext, session: ClusterSession, command: str) -> Lease:
    """The lead over the other pacers of the cluster, not yet taken."""
    from kafkakit.core.lease import pacer_lease
    from kafkakit.wiring import open_lease

    path = pacer_lease(session.cluster_id)
    return open_lease(session.control, session.clock, session.cluster_id, command, cli.output.say, path, "the pacer")


def require_broker(session: ClusterSession, broker: int | None) -> None:
    """Raise `UsageError` for a broker that the cluster does not have; it also knows one that is down."""
    from kafkakit.core.errors import UsageError

    known = {one.id for one in session.admin.cluster().brokers}
    if broker is not None and broker not in known:
        ids = ", ".join(map(str, sorted(known)[:20]))
        raise UsageError(f"broker {broker} is not in the cluster", hint=f"its brokers: {ids}")


def read_override(rate: str | None, into: str | None, out: str | None, *, autoremove: bool) -> Override:
    """The texts as an override; raises `UsageError` for what cannot be read, and for none."""
    from kafkakit.autothrottle.decide.pacer import Override
    from kafkakit.core.errors import UsageError
    from kafkakit.core.quantities import parse_rate

    if not (rate or into or out):
        raise UsageError("no rate is given", hint="kafkakit autothrottle set 40MB")
    both, one, other = (None if text is None else parse_rate(text) for text in (rate, into, out))
    return Override(into=one or both, out=other or both, autoremove=autoremove)


Broker = Annotated[
    int | None,
    typer.Option("--broker", min=0, **BROKER_ID, help="Only for this broker; all when not given.", show_default=False),
]


@with_option_groups
def set_override(
    ctx: typer.Context,
    place: OverridePlace,
    rate: Annotated[
        str | None,
        typer.Argument(metavar="[RATE]", help="The rate in each direction, such as 40MB.", show_default=False),
    ] = None,
    broker: Broker = None,
    into: Annotated[
        str | None, typer.Option("--in", metavar="RATE", help="The rate of what it receives.", show_default=False)
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="RATE", help="The rate of what it sends.", show_default=False)
    ] = None,
    autoremove: Annotated[
        bool, typer.Option("--autoremove", help="Remove the override once the moves have ended.")
    ] = False,
    dry_run: DryRun = False,
) -> int:
    """Override the automatic rate, for all brokers or for one.

    A running pacer picks it up within about 5 s, `once` at its next run. A broker's own override takes precedence over
    the one for all. It replaces an earlier override as a whole. On a broker without moves it limits replicas that are
    catching up.

    Examples:

    \b
    kafkakit --profile prod autothrottle set 40MB --autoremove
    kafkakit --profile prod autothrottle set --broker 1003 --in 10MB
    """
    from kafkakit.autothrottle.report import overrides_report
    from kafkakit.cli.session import finish, open_session

    cli = cli_context(ctx)
    place.apply(cli)
    override = read_override(rate, into, out, autoremove=autoremove)
    with open_session(cli, read_only=True) as session:
        store = place.open(session)
        require_broker(session, broker)
        if not dry_run:
            store.put(broker, override)
        found = store.read().with_one(broker, override) if dry_run else store.read()
        cluster_id = session.cluster_id
    return finish(cli, overrides_report("autothrottle set", found, cluster_id, is_dry=dry_run))


@with_option_groups
def remove_override(
    ctx: typer.Context,
    place: OverridePlace,
    broker: Broker = None,
    all_brokers: Annotated[
        bool, typer.Option("--all-brokers", help="Remove the overrides of all single brokers.")
    ] = False,
    dry_run: DryRun = False,
) -> int:
    """Remove an override; the automatic rate applies again.

    Examples:

    \b
    kafkakit --profile prod autothrottle remove
    kafkakit --profile prod autothrottle remove --broker 1003
    """
    from kafkakit.autothrottle.act.service import remove_each
    from kafkakit.autothrottle.decide.pacer import Overrides
    from kafkakit.autothrottle.report import overrides_report
    from kafkakit.cli.session import finish, open_session

    cli = cli_context(ctx)
    place.apply(cli)
    with open_session(cli, read_only=True) as session:
        store = place.open(session)
        before = store.read()
        if not all_brokers and broker not in before.of:
            require_broker(session, broker)
        if dry_run:
            found = Overrides(every=before.every) if all_brokers else before.with_one(broker, None)
        else:
            remove_each(store, before.of if all_brokers else (broker,))
            found = store.read()
        cluster_id = session.cluster_id
    return finish(cli, overrides_report("autothrottle remove", found, cluster_id, before, is_dry=dry_run))


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
    max_time: str = option("3d", "--max-time", metavar="DURATION", help="Stop the simulation after this much time.")

    def read(
        self, cli: CliContext, session: ClusterSession, law: LawChoice, traffic: TrafficChoice
    ) -> tuple[Scenario, tuple[str, ...]]:
        """The scenario and notes on it; raises `UsageError` for what is neither measured nor stated."""
        from kafkakit.autothrottle.decide.scenario import LIMIT_BYTES, encode_scenario, read_scenario, with_factors
        from kafkakit.core.errors import UsageError
        from kafkakit.core.quantities import parse_duration
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
        from kafkakit.autothrottle.decide.measurements import TrafficObservation
        from kafkakit.autothrottle.decide.simulate import plan_flows, scenario_of
        from kafkakit.cli.run_options import read_plan
        from kafkakit.core.quantities import epoch_ms

        capacities = traffic.capacities.read(session, law.broker_capacity)
        stated = law.stated(capacities)
        if self.plan is None:
            observed = open_pacer(cli, session, law, traffic, OverridePlace(), None).observe()
            return scenario_of(capacities.informed(observed), stated, session.cluster_id, seconds), observed.problems
        plan = read_plan(self.plan)
        cli.cluster_id = plan.cluster_id
        measure = traffic.metrics.measure(session, with_type=bool(capacities.of_type))
        seen = capacities.informed(
            TrafficObservation(at_ms=epoch_ms(session.clock.now())) if measure is None else measure()
        )
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
        return tuple((word, _choose_law(law, word).build()) for word in words)

    def times_s(self, metrics: MetricsChoice) -> tuple[int, int]:
        """Seconds between two ticks, and those that metrics are averaged over; raises `UsageError`."""
        from kafkakit.core.errors import UsageError
        from kafkakit.core.quantities import parse_duration

        tick_s = parse_duration(self.interval, "--interval")
        window_s = metrics.window_s
        if not 1 <= tick_s <= 86_400 or not 1 <= window_s <= 3600:
            raise UsageError("--interval must be from 1s to 1d, and --metrics-window from 1s to 1h")
        return int(tick_s), window_s


@with_option_groups
def simulate(
    ctx: typer.Context, moves: SimulatedMoves, law: LawChoice, compared: ComparedLaws, traffic: TrafficChoice
) -> int:
    """Simulate a throttling policy against client traffic.

    Shows how long moves take, and when clients wait.

    Changes nothing. It takes the moves and client traffic of the cluster now, or the moves of a file or a plan. Brokers
    apply throttles like real ones, with their bursts and stalls. Clients wait while their bytes are held up for more
    than 250 ms. Overrides and other tools' throttles do not count.

    Examples:

    \b
    kafkakit --profile prod autothrottle simulate --prometheus-url http://prometheus:9090 --capacity 1.25GB
    kafkakit autothrottle simulate --from scenario.yaml --compare slo,headroom,fixed:40MB
    kafkakit autothrottle simulate --plan plan.json --capacity 1.25GB --client-rate 500MB --clients 100%,40%@6h
    """
    from kafkakit.autothrottle.act.service import play_laws
    from kafkakit.autothrottle.report import simulation_report
    from kafkakit.cli.session import finish, open_session
    from kafkakit.core.quantities import parse_percent

    cli = cli_context(ctx)
    law = law.chosen(given_flags(ctx)) if compared.compare is None else law
    laws = compared.build(law)
    tick_s, window_s = compared.times_s(traffic.metrics)
    reserve = float(parse_percent(law.reserve, "--reserve"))
    with open_session(cli, read_only=True) as session:
        scenario, notes = moves.read(cli, session, law, traffic)
    found = play_laws(scenario, laws, cli.output, reserve=reserve, tick_s=tick_s, window_s=window_s)
    return finish(cli, simulation_report(found, notes))


@with_option_groups
def print_unit(
    ctx: typer.Context,
    runner: Annotated[Runner, typer.Option("--format", help="Scheduler that runs the pacer.")],
    law: LawChoice,
    metrics: MetricsChoice,
    capacities: CapacityChoice,
    place: OverridePlace,
    service: ServiceChoice,
    take_over: TakeOver = False,
    every: Annotated[
        int, typer.Option("--every", min=1, max=59, metavar="MINUTES", help="timer, cron: how often `once` runs.")
    ] = 1,
    image: Annotated[
        str | None, typer.Option("--image", metavar="NAME", help="k8s: an image with kafkakit.", show_default=False)
    ] = None,
    config_map: Annotated[
        str, typer.Option("--config-map", metavar="NAME", help="k8s: the ConfigMap with config.yaml.")
    ] = CONFIG_MAP,
    secret: Annotated[
        str,
        typer.Option("--secret", metavar="NAME", help="k8s: the Secret with the files of /run/secrets/kafkakit."),
    ] = SECRET,
    program: Annotated[
        str,
        typer.Option("--program", metavar="PATH", help="The program as it is found there; k8s: if it is elsewhere."),
    ] = USUAL_PROGRAM,
) -> int:
    """Print a systemd service, a cron line or a Deployment.

    It runs with the options given; timers and cron lines run `once`.

    It holds no secrets: profiles and files name where these are, and a service reads variables with keys from
    /etc/kafkakit/autothrottle.env. A Deployment has two pods, of which one leads, and needs a control store in Kafka
    or ZooKeeper, and the ConfigMap and the Secret. Their API is at port 8080 of every address of the pod, with the
    token in the Secret's key autothrottle-token.

    Examples:

    \b
    kafkakit --profile prod autothrottle unit --format systemd --rate 40MB
    kafkakit --profile prod autothrottle unit --format cron --rate 40MB
    kafkakit --profile prod autothrottle unit --format k8s --rate 40MB --image registry.example.org/kafkakit:1
    """
    from shlex import split

    from kafkakit.autothrottle.commands.options import read_token
    from kafkakit.autothrottle.units import KubernetesPlace, unit_report
    from kafkakit.cli.session import finish

    cli = cli_context(ctx)
    groups = (law, metrics, capacities, place)
    words = split(" ".join(word for group in groups for word in option_words(group)))
    words += ["--take-over"] if take_over else []
    port = 0
    if runner is Runner.K8S:
        service, port = in_pod(service)
    of_run = split(" ".join(option_words(service)))
    law.chosen(given_flags(ctx)).build()
    read_token(None, "none" if service.token_file else service.listen, no_token=False)
    program_words = (program, *split(cli.program)[1:])
    place_there = KubernetesPlace(image=image, config_map=config_map, secret=secret, port=port)
    return finish(cli, unit_report(program_words, words, of_run, runner, every, place=place_there))


def in_pod(service: ServiceChoice) -> tuple[ServiceChoice, int]:
    """The service as others than its pod ask it, with a token, and its port; raises `UsageError` without an API."""
    from kafkakit.autothrottle.units import TOKEN_FILE
    from kafkakit.core.errors import UsageError
    from kafkakit.core.rpc import is_loopback, parse_listen

    if service.listen == "none" or service.no_token:
        flag = "--no-token" if service.no_token else "--listen none"
        raise UsageError(f"{flag}: Kubernetes asks the API of a pod whether it lives", hint=f"leave out {flag}")
    host, port = parse_listen(service.listen)
    listen = f"0.0.0.0:{port}" if is_loopback(host) else service.listen
    return replace(service, listen=listen, token_file=service.token_file or Path(TOKEN_FILE)), port


MAX_LAWS = 6
MAX_STEPS = 1000


def client_factors(text: str) -> tuple[tuple[int, float], ...]:
    """Seconds from which client traffic is multiplied, and the factors; raises `UsageError`."""
    from kafkakit.core.errors import UsageError
    from kafkakit.core.quantities import parse_duration, parse_percent

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


def _choose_law(law: LawChoice, word: str) -> LawChoice:
    from kafkakit.core.errors import UsageError

    name, colon, rate = word.partition(":")
    if name not in tuple(LawName) or (name == LawName.FIXED) != bool(rate) or bool(colon) != bool(rate):
        raise UsageError(f"--compare: {word!r:.60} is not a rate policy", hint="write slo, headroom or fixed:40MB")
    return replace(law, law=LawName(name), rate=rate or None)


app = kafka_kit_group("Throttle the moves of any tool, adapt the rates while they run, and remove the throttles.")
app.command("run", cls=KafkaKitCommand)(serve)
app.command("set", cls=KafkaKitCommand)(set_override)
app.command("remove", cls=KafkaKitCommand)(remove_override)
app.command("simulate", cls=KafkaKitCommand)(simulate)
app.command("unit", cls=KafkaKitCommand)(print_unit)
add_kafka_kit_commands(app)


@app.command("once", cls=KafkaKitCommand)
@with_option_groups
def once(
    ctx: typer.Context,
    law: LawChoice,
    traffic: TrafficChoice,
    place: OverridePlace,
    take_over: TakeOver = False,
    dry_run: DryRun = False,
) -> int:
    """Set, change or remove the throttles of moves once.

    For a timer: it prints nothing if nothing changed. Only moves that another tool began are throttled here, by exact
    replica lists and rates that stand in a journal in the control store, so that the next run of any host takes them
    over and removes them. A run of kafkakit that changes the cluster gets the rates as a control request instead.
    Without --take-over, throttles that others set are named and not changed. Exits with 75 while another pacer of the
    cluster works, and with 1 when throttles could not be removed.

    Examples:

    \b
    kafkakit --profile prod autothrottle once --rate 40MB
    """
    from kafkakit.autothrottle.commands.options import open_pacer
    from kafkakit.autothrottle.report import once_report
    from kafkakit.cli.session import finish, open_session

    cli = cli_context(ctx)
    law, place = law_and_place(ctx, law, traffic, place)
    with open_session(cli, read_only=True) as session:
        if dry_run:
            tick = open_pacer(cli, session, law, traffic, place, None, take_over=take_over).preview()
        else:
            with lead_cluster(cli, session, "autothrottle once") as lead:
                tick = open_pacer(cli, session, law, traffic, place, lead, "10s", take_over=take_over).tick()
        cluster_id = session.cluster_id
    return finish(cli, once_report(tick, cluster_id, is_dry=dry_run))


@app.command("explain", cls=KafkaKitCommand)
@with_option_groups
def explain(
    ctx: typer.Context,
    law: LawChoice,
    traffic: TrafficChoice,
    place: OverridePlace,
    take_over: TakeOver = False,
) -> int:
    """Show the rates that would be set now, and why.

    Examples:

    \b
    kafkakit --profile prod autothrottle explain --rate 40MB
    """
    from kafkakit.autothrottle.commands.options import open_pacer
    from kafkakit.autothrottle.report import once_report
    from kafkakit.cli.session import finish, open_session

    cli = cli_context(ctx)
    law, place = law_and_place(ctx, law, traffic, place)
    with open_session(cli, read_only=True) as session:
        tick = open_pacer(cli, session, law, traffic, place, None, take_over=take_over).preview()
        cluster_id = session.cluster_id
    return finish(cli, once_report(tick, cluster_id, "autothrottle explain", is_dry=True))


@app.command("show", cls=KafkaKitCommand)
@with_option_groups
def show(
    ctx: typer.Context,
    place: OverridePlace,
    every: Annotated[
        bool, typer.Option("--all", help="Name every throttle of others, not only the first ones.")
    ] = False,
) -> int:
    """Show throttles and overrides, and who has set them.

    Examples:

    \b
    kafkakit --profile prod autothrottle show
    """
    from kafkakit.autothrottle.act.service import read_status
    from kafkakit.autothrottle.report import status_report
    from kafkakit.cli.session import finish, open_session

    cli = cli_context(ctx)
    place.apply(cli)
    with open_session(cli, read_only=True) as session:
        found = read_status(session.admin, session.control, session.clock, session.cluster_id, place.open(session))
    return finish(cli, status_report(found, every=every))
