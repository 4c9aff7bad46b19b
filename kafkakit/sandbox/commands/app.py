"""`kafkakit sandbox`: real Kafka clusters on this machine."""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import Kit, KitCommand, kit_of, new_group
from kafkakit.cli.output import Output
from kafkakit.config.read.folders import find_folders
from kafkakit.ports.reporter import ProgressBar
from kafkakit.report.report import Report
from kafkakit.sandbox.commands.demo import demo
from kafkakit.sandbox.decide.spec import (
    KRAFT_VERSION,
    ZOOKEEPER_VERSION,
    Mode,
    Secure,
    build_spec,
    check_name,
    parse_log_dirs,
)

if TYPE_CHECKING:
    from kafkakit.ports.machine import Machine
    from kafkakit.sandbox.decide.state import SandboxState
    from kafkakit.sandbox.folders import Store

app = new_group("Run a real local Kafka cluster to try things on.")

DEFAULT_NAME = "sandbox"
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="The sandbox, and the profile that it writes.")]
BrokerId = Annotated[int, typer.Argument(metavar="BROKER", help="Broker id, such as 1001.")]


def this_machine(cache_dir: Path) -> "Machine":
    """The real machine: its processes, Java, jars (cached under `cache_dir`) and Kafka client."""
    from kafkakit.adapters.certificates import CertificateMaker
    from kafkakit.adapters.jars import JarCache
    from kafkakit.adapters.java import find_java
    from kafkakit.adapters.kafka.admin import KafkaAdmin
    from kafkakit.adapters.processes import LocalProcesses
    from kafkakit.ports.machine import Machine
    from kafkakit.wiring import system_clock

    return Machine(
        processes=LocalProcesses(),
        jars=JarCache(cache_dir),
        certificates=CertificateMaker(),
        clock=system_clock(),
        find_java=find_java,
        open_admin=lambda servers, security: KafkaAdmin(servers, security, request_timeout_s=15, bootstrap_timeout_s=5),
        random_bytes=os.urandom,
        class_archives=str(cache_dir / "class-archives"),
    )


@app.command("up", cls=KitCommand)
def up(
    ctx: typer.Context,
    brokers: Annotated[int, typer.Option("--brokers", help="Number of brokers; their ids are 1001 and up.")] = 3,
    racks: Annotated[
        int | None, typer.Option("--racks", help="Number of racks (a, b, ...), used in turn; 3 when not given.")
    ] = None,
    log_dirs: Annotated[
        str,
        typer.Option(
            "--log-dirs",
            metavar="N,...",
            help="Log directories of each broker; 1,2,3 gives brokers 1, 2 and 3 in turn.",
        ),
    ] = "1",
    kafka: Annotated[
        str | None,
        typer.Option(
            "--kafka",
            metavar="VERSION",
            help=f"Kafka version; {KRAFT_VERSION}, or {ZOOKEEPER_VERSION} with ZooKeeper, when not given.",
        ),
    ] = None,
    mode: Annotated[Mode, typer.Option("--mode", help="Who keeps the metadata.")] = Mode.KRAFT,
    secure: Annotated[
        Secure, typer.Option("--secure", help="What clients need: certificates (tls), passwords (scram), or both.")
    ] = Secure.NONE,
    name: Name = DEFAULT_NAME,
) -> None:
    """Start a cluster, wait until every broker is registered and unfenced, and write a profile of its name.

    One that runs already is left as it is; with a larger --brokers it gets that many brokers more. On a
    failure or Ctrl-C nothing that was started stays running.
    """
    from kafkakit.sandbox import lifecycle as run
    from kafkakit.sandbox.grow import grow

    kit = kit_of(ctx)
    spec = build_spec(
        name=name,
        brokers=brokers,
        racks=min(3, max(brokers, 1)) if racks is None else racks,
        log_dirs=parse_log_dirs(log_dirs),
        kafka=kafka,
        mode=mode,
        secure=secure,
    )
    store = _store(name)
    _refuse_taken_name(kit, store, name)
    with _failures_told(kit.output), kit.output.progress(f"starting {run.describe(spec)}") as progress:
        told = _Told(kit.output, progress)
        grown = grow(_machine(), store, spec, told)
        state, started = (grown, True) if grown else run.up(_machine(), store, spec, told)
    if not started:
        kit.output.say(f"sandbox {name} runs already")
    first = f"kafkakit --profile {shlex.quote(name)} snapshot --output-file snapshot.json"
    _show(kit, store, state, "sandbox up", f"sandbox {name} is up: {run.describe(state.spec)}\ntry: {first}")


@app.command("down", cls=KitCommand)
def down(ctx: typer.Context, name: Name = DEFAULT_NAME) -> None:
    """Stop the cluster's processes and delete its data, its secrets and its profile."""
    from kafkakit.sandbox import lifecycle as run

    store = _store(name)
    stopped = run.down(_machine(), store)
    text = f"there is no sandbox {name}" if stopped is None else f"sandbox {name} is gone, {stopped} processes stopped"
    data = {"name": name, "existed": stopped is not None, "processes_stopped": stopped or 0}
    kit_of(ctx).output.result(Report(command="sandbox down", data=data, text=text, rows=((name, stopped or 0),)))


@app.command("status", cls=KitCommand)
def status(ctx: typer.Context, name: Name = DEFAULT_NAME) -> None:
    """Show each process of the cluster: pid, address, rack, what the cluster says of it, and its log."""
    from kafkakit.sandbox import lifecycle as run

    store = _store(name)
    state = run.loaded(store)
    _show(kit_of(ctx), store, state, "sandbox status", f"sandbox {name}: {run.describe(state.spec)}")


@app.command("env", cls=KitCommand)
def env(ctx: typer.Context, name: Name = DEFAULT_NAME) -> None:
    """Print shell lines that point this shell at the cluster: eval "$(kafkakit sandbox env)"."""
    from kafkakit.sandbox import lifecycle as run
    from kafkakit.sandbox.decide.connection import environment

    variables = environment(run.loaded(_store(name)))
    text = "\n".join(f"export {key}={shlex.quote(value)}" for key, value in variables.items())
    rows = tuple(variables.items())
    kit_of(ctx).output.result(
        Report(command="sandbox env", data={"env": variables}, text=text, columns=("variable", "value"), rows=rows)
    )


@app.command("kill", cls=KitCommand)
def kill(ctx: typer.Context, broker: BrokerId, name: Name = DEFAULT_NAME) -> None:
    """Kill a broker with SIGKILL, as a crash would; its data stays."""
    from kafkakit.sandbox import lifecycle as run

    killed = run.kill(_machine(), _store(name), broker)
    text = f"broker {broker} was killed" if killed else f"broker {broker} was dead already"
    kit_of(ctx).output.result(
        Report(command="sandbox kill", data={"broker": broker, "killed": killed}, text=text, rows=((broker, killed),))
    )


@app.command("restart", cls=KitCommand)
def restart(ctx: typer.Context, broker: BrokerId, name: Name = DEFAULT_NAME) -> None:
    """Start a dead broker, or stop and start a live one, and wait until it is registered and unfenced."""
    from kafkakit.sandbox import lifecycle as run

    kit = kit_of(ctx)
    with _failures_told(kit.output), kit.output.progress(f"starting broker {broker}") as progress:
        state = run.restart(_machine(), _store(name), broker, _Told(kit.output, progress))
    record = state.broker(broker)
    pid = record.process.pid if record and record.process else None
    data = {"broker": broker, "pid": pid}
    text = f"broker {broker} is back (pid {pid})"
    kit.output.result(Report(command="sandbox restart", data=data, text=text, rows=((broker, pid),)))


@app.command("load", cls=KitCommand)
def load(
    ctx: typer.Context,
    topics: Annotated[int, typer.Option("--topics", help="Number of topics.")] = 10,
    partitions: Annotated[int, typer.Option("--partitions", help="Partitions of each topic.")] = 6,
    data: Annotated[
        str, typer.Option("--data", metavar="SIZE", help="Bytes to write in all, before replication: 500MB, 2GiB.")
    ] = "100MB",
    seed: Annotated[int, typer.Option("--seed", help="The same seed makes the same topics and sizes.")] = 0,
    replication: Annotated[
        int | None, typer.Option("--replication", help="Copies of each partition; 3, or less with fewer brokers.")
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", help="How topic names begin.")] = "load",
    name: Name = DEFAULT_NAME,
) -> None:
    """Make topics of very different sizes, unevenly spread over the brokers, and fill them with real data."""
    from kafkakit.core.quantities import format_bytes
    from kafkakit.sandbox import lifecycle as run
    from kafkakit.sandbox.decide.workload import build_request, plan_load
    from kafkakit.sandbox.load import load as write_load

    kit, store = kit_of(ctx), _store(name)
    state = run.loaded(store)
    request = build_request(
        topics=topics,
        partitions=partitions,
        data=data,
        seed=seed,
        replication=replication,
        brokers=state.spec.brokers,
        prefix=prefix,
    )
    loads = plan_load(request, {node.id: node.rack or "" for node in state.layout.brokers})
    machine = _machine()
    security = run.admin_security(state, store)
    admin = machine.open_admin(state.layout.bootstrap_servers, security)
    try:
        with kit.output.progress(f"writing {format_bytes(request.data_bytes)} to {topics} topics") as progress:
            from kafkakit.adapters.kafka.data import KafkaData

            plane = KafkaData(state.layout.bootstrap_servers, security)
            records = write_load(admin, plane, machine.clock, loads, seed, _Told(kit.output, progress))
    finally:
        admin.close()
    rows = tuple((item.name, len(item.assignments), request.replication, item.total_bytes) for item in loads)
    columns = ("topic", "partitions", "replication", "bytes")
    kit.output.result(
        Report(
            command="sandbox load",
            data={
                "records": records,
                "bytes": request.data_bytes,
                "topics": [dict(zip(columns, row, strict=True)) for row in rows],
            },
            text=f"{topics} topics hold {format_bytes(request.data_bytes)} in {records} acknowledged records",
            columns=columns,
            rows=rows,
        )
    )


app.command("demo", cls=KitCommand)(demo)


def _machine() -> "Machine":
    return this_machine(find_folders(os.environ).cache)


def _store(name: str) -> "Store":
    from kafkakit.sandbox.folders import store_of

    folders = find_folders(os.environ)
    return store_of(check_name(name), folders.state, folders.config)


def _refuse_taken_name(kit: Kit, store: "Store", name: str) -> None:
    """A profile of this name in another file would win over the sandbox's, and `--profile` lead elsewhere."""
    from kafkakit.config.read.settings import open_profiles
    from kafkakit.core.errors import RefusedError

    source = open_profiles(kit.given, lambda _: None).files.profile_names().get(name)
    if source is not None and source.path != store.profile_file(name):
        raise RefusedError(f"profile {name} is defined in {source.path} already", hint="choose another --name")


class _Told:
    """A run's reporter on top of the one writer."""

    def __init__(self, output: Output, progress: ProgressBar) -> None:
        self._output = output
        self._progress = progress

    def say(self, line: str) -> None:
        """One line to a person."""
        self._output.say(line)

    def update(self, done: float, total: float, note: str = "") -> None:
        """Move the bar."""
        self._progress.update(done, total, note)


@contextmanager
def _failures_told(output: Output) -> Iterator[None]:
    """Show the last lines of the log of a process that failed, before the error itself."""
    from kafkakit.ports.machine import NodeFailedError

    try:
        yield
    except NodeFailedError as error:
        for line in error.tail:
            output.say(f"  {line}")
        raise


def _show(kit: Kit, store: "Store", state: "SandboxState", command: str, heading: str) -> None:
    from kafkakit.core.tables import text_table
    from kafkakit.sandbox import lifecycle as run

    nodes = run.look(_machine(), store, state)
    columns = ("node", "role", "rack", "address", "pid", "state", "log")
    rows = tuple((n.node.id, n.node.role, n.node.rack, n.node.address, n.pid, n.state, n.node.log_file) for n in nodes)
    kit.output.result(
        Report(
            command=command,
            data={
                "name": state.spec.name,
                "cluster_id": state.cluster_id,
                "bootstrap_servers": state.layout.bootstrap_servers,
                "kafka": state.spec.kafka,
                "mode": state.spec.mode,
                "secure": state.spec.secure,
                "profile": str(store.profile_file(state.spec.name)),
                "nodes": [
                    {**dict(zip(columns, row, strict=True)), "log_dirs": list(seen.node.log_dirs)}
                    for row, seen in zip(rows, nodes, strict=True)
                ],
            },
            text=f"{heading}\n\n{text_table(columns, rows)}",
            columns=columns,
            rows=rows,
        )
    )
