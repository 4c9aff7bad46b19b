"""`kafkakit sandbox demo`: a real cluster loses a broker and gets its replicas back, with the commands shown."""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import Kit, kit_of
from kafkakit.config.read.folders import find_folders
from kafkakit.core.errors import OperationFailedError, RefusedError
from kafkakit.report.report import Report
from kafkakit.sandbox.decide.spec import Mode, Secure, check_name

if TYPE_CHECKING:
    from kafkakit.config.read.settings import Settings
    from kafkakit.ports.clock import Clock
    from kafkakit.sandbox.decide.tally import Tally
    from kafkakit.sandbox.demo_traffic import Traffic

DEAD, NEW = 1004, 1007
SURVIVORS = (1001, 1002, 1003, 1005, 1006)
PARTITIONS = 12
TOPICS, TOPIC_PARTITIONS = 6, 6


def demo(
    ctx: typer.Context,
    mode: Annotated[Mode, typer.Option("--mode", help="Who keeps the metadata.")] = Mode.KRAFT,
    secure: Annotated[
        Secure, typer.Option("--secure", help="What clients need: certificates (tls), passwords (scram), or both.")
    ] = Secure.NONE,
    data: Annotated[
        str, typer.Option("--data", metavar="SIZE", help="Bytes to load before the broker dies.")
    ] = "300MB",
    throttle: Annotated[str, typer.Option("--throttle", metavar="RATE", help="Throttle of the moves.")] = "20MB",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The sandbox that the demo starts.")] = "demo",
) -> None:
    """Start six brokers, kill one under load, plan and apply its replacement, and count that nothing was lost.

    Each command is shown before it runs. The cluster is removed at the end, also after Ctrl-C.
    """
    kit = kit_of(ctx)
    _refuse_existing(name)
    shape = ["--racks", "3", "--log-dirs", "2", "--mode", mode, "--secure", secure, "--name", name]
    began = _clock().monotonic()
    with tempfile.TemporaryDirectory(prefix="kafkakit-demo-") as folder, _sandbox(kit, name):
        counted, loaded = _story(kit, name, shape, data, throttle, Path(folder))
    seconds = _clock().monotonic() - began
    lost = len(counted.lost)
    kit.output.result(
        Report(
            command="sandbox demo",
            data={
                "acknowledged": counted.acknowledged,
                "read": counted.read,
                "repeated": counted.repeated,
                "lost": counted.lost,
                "loaded_before": loaded[0],
                "loaded_after": loaded[1],
                "seconds": round(seconds, 1),
            },
            text=(
                f"\nbroker {DEAD} died under load; its replicas are back in place, on {NEW} and the survivors\n"
                f"records loaded: {loaded[0]} before, {loaded[1]} after\n"
                f"records acknowledged: {counted.acknowledged}, read back: {counted.read}, "
                f"read twice: {counted.repeated}, {lost} lost\n"
                f"the whole demo took {seconds:.0f} s"
            ),
            columns=("acknowledged", "read", "repeated", "lost", "loaded_before", "loaded_after"),
            rows=((counted.acknowledged, counted.read, counted.repeated, lost, *loaded),),
        )
    )
    if not counted.is_whole or loaded[0] != loaded[1]:
        raise OperationFailedError(
            f"{lost} of {counted.acknowledged} acknowledged records are lost, "
            f"and of {loaded[0]} loaded records {loaded[1]} are left"
        )


def _story(
    kit: Kit, name: str, shape: list[str], data: str, throttle: str, folder: Path
) -> tuple["Tally", tuple[int, int]]:
    """Everything between an empty machine and the counts: the traffic's tally, loaded records before and after."""
    profile = ["--profile", name]
    _act(kit, "1. A cluster of six brokers in three racks")
    _run(kit, ["sandbox", "up", "--brokers", "6", *shape])
    _act(kit, "2. Topics of very different sizes, with real data")
    size = ["--topics", str(TOPICS), "--partitions", str(TOPIC_PARTITIONS), "--data", data, "--seed", "7"]
    _run(kit, ["sandbox", "load", *size, "--name", name])
    before = _loaded(kit, name)
    _act(kit, "3. A producer keeps writing (acks=all) and a consumer keeps reading")
    with _traffic(kit, name) as traffic:
        kit.output.say(f"records acknowledged and read so far: {_so_far(traffic)}")
        _act(kit, f"4. Broker {DEAD} dies")
        _run(kit, ["sandbox", "kill", str(DEAD), "--name", name])
        _act(kit, f"5. An empty broker {NEW} takes its place in rack a")
        _run(kit, ["sandbox", "up", "--brokers", "7", *shape])
        kit.output.say(f"records acknowledged and read so far: {_so_far(traffic)}")
        plan = str(folder / "plan.json")
        brokers = ",".join(map(str, (*SURVIVORS, NEW)))
        _act(kit, "6. Plan: the fewest moves, with a proof")
        words = ["topicmappr", "rebuild", "--topics", ".*", "--brokers", brokers, "--skip-no-ops"]
        _run(kit, [*profile, *words, "--out-path", str(folder), "--plan", plan])
        _act(kit, "7. Apply, throttled")
        _run(kit, [*profile, "reassign", "apply", plan, "--yes", "--throttle", throttle])
        _act(kit, "8. Verify")
        _run(kit, [*profile, "reassign", "verify", plan])
        _act(kit, "9. Count: data in and data out")
        return traffic.stop(drain_s=60), (before, _loaded(kit, name))


def _refuse_existing(name: str) -> None:
    """The demo takes its cluster down at the end, so it must be its own."""
    from kafkakit.sandbox.folders import store_of

    folders = find_folders(os.environ)
    if store_of(check_name(name), folders.state, folders.config).state_file.exists():
        raise RefusedError(
            f"there is a sandbox {name} already, and the demo would remove it",
            hint=f"choose another --name, or: kafkakit sandbox down --name {name}",
        )


def _environment() -> dict[str, str]:
    """The environment without addresses and options meant for other clusters, which would win over the profile."""
    kept = "KAFKAKIT_STATE_DIR"
    return {k: v for k, v in os.environ.items() if k == kept or not k.startswith(("KAFKAKIT_", "TOPICMAPPR_"))}


def _clock() -> "Clock":
    from kafkakit.wiring import system_clock

    return system_clock()


def _act(kit: Kit, title: str) -> None:
    kit.output.say(f"\n== {title}")


def _run(kit: Kit, words: list[str]) -> None:
    """Show a command and run it as the reader would."""
    kit.output.say(f"$ kafkakit {shlex.join(words)}")
    command = [sys.executable, "-m", "kafkakit", *words]
    code = subprocess.run(command, check=False, stdout=sys.stderr, env=_environment()).returncode
    if code:
        raise OperationFailedError(f"kafkakit {shlex.join(words[:4])} ... ended with exit code {code}")


@contextmanager
def _sandbox(kit: Kit, name: str) -> Iterator[None]:
    """Take the cluster down at the end, whatever happened."""
    try:
        yield
    finally:
        _act(kit, "10. Take the cluster down")
        _run(kit, ["sandbox", "down", "--name", name])


def _settings(kit: Kit, name: str) -> "Settings":
    from kafkakit.config.read.settings import Given, load_settings

    return load_settings(Given(profile=name), _environment(), warn=kit.output.warn, input_allowed=False)


def _loaded(kit: Kit, name: str) -> int:
    """How many records the loaded topics hold."""
    from kafkakit.core.model import TopicPartition
    from kafkakit.wiring import open_data

    topics = [TopicPartition(f"load-{t:03d}", p) for t in range(TOPICS) for p in range(TOPIC_PARTITIONS)]
    held = open_data(_settings(kit, name)).offsets(topics, 30)
    return sum(len(offsets) for offsets in held.values())


@contextmanager
def _traffic(kit: Kit, name: str) -> Iterator["Traffic"]:
    from kafkakit.sandbox.demo_traffic import Traffic, make_topic
    from kafkakit.wiring import open_admin, open_data

    settings = _settings(kit, name)
    admin = open_admin(settings)
    try:
        make_topic(admin, _spread())
    finally:
        admin.close()
    traffic = Traffic(open_data(settings), _clock(), PARTITIONS)
    traffic.start()
    _clock().sleep(2)
    try:
        yield traffic
    finally:
        traffic.stop(drain_s=5)


def _spread() -> dict[int, tuple[int, ...]]:
    """One replica in each rack; every broker leads two partitions."""
    racks = ((1001, 1004), (1002, 1005), (1003, 1006))
    rows = {}
    for n in range(PARTITIONS):
        row = [racks[(n + k) % 3][(n // 3) % 2] for k in range(3)]
        rows[n] = tuple(row)
    return rows


def _so_far(traffic: "Traffic") -> str:
    acknowledged, read = traffic.so_far
    return f"{acknowledged} and {read}"
