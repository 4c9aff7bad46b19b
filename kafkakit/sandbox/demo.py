"""The demo: a real cluster loses a broker and gets its replicas back, with each command shown before it runs."""

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from kafkakit.core.errors import OperationFailedError, RefusedError
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.data import DataPlane
from kafkakit.ports.reporter import Reporter
from kafkakit.sandbox.decide import demo as values
from kafkakit.sandbox.demo_traffic import Traffic, make_topic
from kafkakit.sandbox.folders import Store

_WARM_UP_S, _DRAIN_S, _OFFSETS_LIMIT_S = 2.0, 60.0, 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTools:
    """What the demo runs with: `environment` is that of its commands, `connect` opens clients of its cluster."""

    clock: Clock
    reporter: Reporter
    environment: Mapping[str, str]
    connect: Callable[[], tuple[ClusterAdmin, DataPlane]]

    def title(self, text: str) -> None:
        """Print the title of a step."""
        self.reporter.say(f"\n== {text}")

    def run(self, words: Sequence[str]) -> None:
        """Print a command and run it; raises `OperationFailedError` when it fails."""
        self.reporter.say(f"$ kafkakit {shlex.join(words)}")
        command = [sys.executable, "-m", "kafkakit", *words]
        code = subprocess.run(command, check=False, stdout=sys.stderr, env=dict(self.environment)).returncode
        if code:
            raise OperationFailedError(f"kafkakit {shlex.join(words[:4])} ... ended with exit code {code}")


def refuse_existing(store: Store) -> None:
    """Raise `RefusedError` when there is a sandbox of this name: the demo removes its cluster at the end."""
    if store.state_file.exists():
        name = store.root.name
        raise RefusedError(
            f"there is a sandbox {name} already, and the demo would remove it",
            hint=f"choose another --name, or: kafkakit sandbox down --name {name}",
        )


def run_demo(request: values.DemoRequest, tools: DemoTools) -> values.DemoOutcome:
    """Start six brokers, kill one under load, replace it, count the records; the cluster is removed at the end."""
    began = tools.clock.monotonic()
    with tempfile.TemporaryDirectory(prefix="kafkakit-demo-") as folder, _removed_at_the_end(request, tools):
        traffic, before, after = _lose_and_replace(request, tools, folder)
    return values.DemoOutcome(
        traffic=traffic, loaded_before=before, loaded_after=after, seconds=tools.clock.monotonic() - began
    )


def _lose_and_replace(request: values.DemoRequest, tools: DemoTools, folder: str) -> tuple[values.Tally, int, int]:
    """Every step but the last; returns the traffic's records, and the loaded records before and after."""
    tools.title("1. A cluster of six brokers in three racks")
    tools.run(request.up(brokers=6))
    tools.title("2. Topics of very different sizes, with real data")
    tools.run(request.load())
    before = _loaded_records(tools)
    tools.title("3. A producer keeps writing (acks=all) and a consumer keeps reading")
    with _traffic(tools) as traffic:
        _print_progress(tools, traffic)
        tools.title(f"4. Broker {values.DEAD} dies")
        tools.run(["sandbox", "kill", str(values.DEAD), "--name", request.name])
        tools.title(f"5. An empty broker {values.NEW} takes its place in rack a")
        tools.run(request.up(brokers=7))
        _print_progress(tools, traffic)
        plan_file = f"{folder}/plan.json"
        tools.title("6. Plan: the fewest moves, with a proof")
        tools.run(request.plan(folder, plan_file))
        tools.title("7. Apply, throttled")
        tools.run(request.apply(plan_file))
        tools.title("8. Verify")
        tools.run(request.verify(plan_file))
        tools.title("9. Count: data in and data out")
        return traffic.stop(_DRAIN_S), before, _loaded_records(tools)


@contextmanager
def _removed_at_the_end(request: values.DemoRequest, tools: DemoTools) -> Iterator[None]:
    try:
        yield
    finally:
        tools.title("10. Take the cluster down")
        tools.run(["sandbox", "down", "--name", request.name])


def _loaded_records(tools: DemoTools) -> int:
    """How many records the loaded topics hold."""
    admin, data = tools.connect()
    with closing(admin):
        return sum(len(offsets) for offsets in data.offsets(values.loaded_partitions(), _OFFSETS_LIMIT_S).values())


@contextmanager
def _traffic(tools: DemoTools) -> Iterator[Traffic]:
    admin, data = tools.connect()
    with closing(admin):
        make_topic(admin, values.traffic_replicas())
    traffic = Traffic(data, tools.clock, values.PARTITIONS)
    traffic.start()
    tools.clock.sleep(_WARM_UP_S)
    try:
        yield traffic
    finally:
        traffic.stop(drain_s=5)


def _print_progress(tools: DemoTools, traffic: Traffic) -> None:
    acknowledged, read = traffic.so_far
    tools.reporter.say(f"records acknowledged and read so far: {acknowledged} and {read}")
