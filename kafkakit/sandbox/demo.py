"""What is done with a sandbox: the demo, a workload's topics, and Kafka's own tools run from the jars that it runs on.

In the demo a real cluster loses a broker and gets its replicas back, with each command shown before it runs; a producer
keeps writing and a consumer keeps reading meanwhile.
"""

import shlex
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from kafkakit.config.security import Security
from kafkakit.core.errors import OperationFailedError, RefusedError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.core.text import shell_command
from kafkakit.ports.acting import Clock, ProgressBar, Reporter, pause, repeat_every, wait_until
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import DataPlane, DurableProducer
from kafkakit.ports.services import Machine
from kafkakit.sandbox.decide import processes, workload
from kafkakit.sandbox.decide.processes import (
    ADMIN,
    KafkaTool,
    client_properties,
    filled_arguments,
    find_tool,
    secrets_folder,
)
from kafkakit.sandbox.decide.workload import RecordTally, TopicLoad, chunk, chunk_sizes, filler, tally
from kafkakit.sandbox.folders import Store
from kafkakit.sandbox.lifecycle import admin_security, load_state

TOPIC = "demo-traffic"
_VALUE_BYTES = 200
_COMMAND_ENDS_S = 120.0
_PAUSE_S = 0.025
_PER_PAUSE = 5


def make_topic(admin: ClusterAdmin, assignments: dict[int, tuple[int, ...]]) -> None:
    """Make the topic that the traffic uses: an acknowledged record is on at least two brokers."""
    error = admin.create_topic(TOPIC, assignments, {"min.insync.replicas": "2"})
    if error is not None:
        raise OperationFailedError(f"cannot make the topic {TOPIC}: {error}")


class SandboxTraffic:
    """A writing and a reading thread; `stop` ends both and compares what went in with what came out."""

    def __init__(self, plane: DataPlane, clock: Clock, partitions: int) -> None:
        self._plane = plane
        self._clock = clock
        self._partitions = [TopicPartition(TOPIC, n) for n in range(partitions)]
        self._acknowledged: list[int] = []
        self._read: list[int] = []
        self._no_more_writes = threading.Event()
        self._no_more_reads = threading.Event()
        self._error: Exception | None = None
        self._threads = [
            threading.Thread(target=self._keep_error, args=(work,), name=name, daemon=True)
            for work, name in ((self._write, "demo-producer"), (self._consume, "demo-consumer"))
        ]

    def start(self) -> None:
        """Begin to write and read."""
        for thread in self._threads:
            thread.start()

    @property
    def so_far(self) -> tuple[int, int]:
        """Records acknowledged and read until now."""
        return len(self._acknowledged), len(self._read)

    def stop(self, drain_s: float) -> RecordTally:
        """Stop writing, wait up to `drain_s` seconds for the reader to see all of it, and count.

        Raises what ended a thread before: records that nobody wrote or read are not lost.
        """
        writer, reader = self._threads
        self._no_more_writes.set()
        writer.join(drain_s)

        def is_read() -> bool:
            return self._error is not None or len(set(self._read)) >= len(self._acknowledged)

        wait_until(self._clock, drain_s, is_read, 0.1)
        self._no_more_reads.set()
        reader.join(drain_s)
        if self._error is not None:
            raise self._error
        return tally(self._acknowledged, self._read)

    def _keep_error(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # else the tally would call what was not read lost
            self._error = self._error or error

    def _write(self) -> None:
        producer = self._plane.producer(self._note)
        number = 0
        for _ in repeat_every(self._clock, _PAUSE_S):
            if self._no_more_writes.is_set():
                break
            for _ in range(_PER_PAUSE):
                value = f"{number:012d}".encode().ljust(_VALUE_BYTES, b".")
                producer.send(self._partitions[number // _PER_PAUSE % len(self._partitions)], value)
                number += 1
        producer.flush(60)

    def _note(self, record: Record) -> None:
        self._acknowledged.append(int(record.value[:12]))

    def _consume(self) -> None:
        consumer = self._plane.consumer(self._partitions)
        try:
            while not self._no_more_reads.is_set():
                self._read.extend(int(record.value[:12]) for record in consumer.poll(0.5))
        finally:
            consumer.close()


_WARM_UP_S, _DRAIN_S, _OFFSETS_LIMIT_S = 2.0, 60.0, 30
Connect = Callable[[], tuple[ClusterAdmin, DataPlane]]
"""Opens clients of the demo's cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTools:
    """What a demo runs with: `environment` is that of its commands."""

    clock: Clock
    reporter: Reporter
    environment: Mapping[str, str]

    def title(self, text: str) -> None:
        """Print the title of a step."""
        self.reporter.say(f"\n== {text}")

    def run(self, words: Sequence[str]) -> None:
        """Print a command and run it; raises `OperationFailedError` when it fails."""
        self.reporter.say(f"$ kafkakit {shlex.join(words)}")
        command = [sys.executable, "-m", "kafkakit", *words]
        process = subprocess.Popen(command, stdout=sys.stderr, env=dict(self.environment))
        try:
            code = process.wait()
        except BaseException as stop:
            # The command is not killed: brokers of a killed `up` may be in no file yet. Ctrl-C reaches it as well.
            if not isinstance(stop, KeyboardInterrupt):
                process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_COMMAND_ENDS_S)
            raise
        if code:
            raise OperationFailedError(f"kafkakit {shlex.join(words[:4])} ... ended with exit code {code}")


def refuse_existing(store: Store) -> None:
    """Raise `RefusedError` when there is a sandbox of this name: the demo removes its cluster at the end."""
    if store.state_file.exists():
        name = store.root.name
        raise RefusedError(
            f"there is a sandbox {name} already, and the demo would remove it",
            hint=f"choose another --name, or: {shell_command('sandbox down', name=name)}",
        )


def run_demo(request: workload.DemoRequest, tools: DemoTools, connect: Connect) -> workload.DemoOutcome:
    """Start six brokers, kill one under load, replace it, count the records; the cluster is removed at the end."""
    began = tools.clock.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="kafkakit-demo-") as folder,
        removed_at_the_end((request.name,), tools, "10. Take the cluster down"),
    ):
        traffic, before, after = _lose_and_replace(request, tools, connect, folder)
    return workload.DemoOutcome(
        traffic=traffic, loaded_before=before, loaded_after=after, seconds=tools.clock.monotonic() - began
    )


def _lose_and_replace(
    request: workload.DemoRequest, tools: DemoTools, connect: Connect, folder: str
) -> tuple[workload.RecordTally, int, int]:
    """Every step but the last; returns the traffic's records, and the loaded records before and after."""
    tools.title("1. A cluster of six brokers in three racks")
    tools.run(request.up(brokers=6))
    tools.title("2. Topics of very different sizes, with real data")
    tools.run(request.load())
    before = _loaded_records(connect)
    tools.title("3. A producer keeps writing (acks=all) and a consumer keeps reading")
    with _traffic(tools, connect) as traffic:
        _print_progress(tools, traffic)
        tools.title(f"4. Broker {workload.DEAD} dies")
        tools.run(["sandbox", "kill", str(workload.DEAD), "--name", request.name])
        tools.title(f"5. An empty broker {workload.NEW} takes its place in rack a")
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
        return traffic.stop(_DRAIN_S), before, _loaded_records(connect)


@contextmanager
def removed_at_the_end(names: Sequence[str], tools: DemoTools, title: str) -> Iterator[None]:
    """Take down each of these sandboxes when the context ends, also after a failure and Ctrl-C."""
    with ExitStack() as stack:
        for name in names:
            stack.callback(tools.run, ["sandbox", "down", "--name", name])
        stack.callback(tools.title, title)
        yield


def _loaded_records(connect: Connect) -> int:
    """How many records the loaded topics hold."""
    admin, data = connect()
    with closing(admin):
        return sum(len(offsets) for offsets in data.offsets(workload.loaded_partitions(), _OFFSETS_LIMIT_S).values())


@contextmanager
def _traffic(tools: DemoTools, connect: Connect) -> Iterator[SandboxTraffic]:
    admin, data = connect()
    with closing(admin):
        make_topic(admin, workload.traffic_replicas())
    traffic = SandboxTraffic(data, tools.clock, workload.PARTITIONS)
    traffic.start()
    pause(tools.clock, _WARM_UP_S)
    try:
        yield traffic
    finally:
        traffic.stop(drain_s=5)


def _print_progress(tools: DemoTools, traffic: SandboxTraffic) -> None:
    acknowledged, read = traffic.so_far
    tools.reporter.say(f"records acknowledged and read so far: {acknowledged} and {read}")


_LEADERS_LIMIT_S = 60.0
_FLUSH_LIMIT_S = 300.0
_POLL_S = 0.1
_REPORT_EVERY = 32


def load(
    admin: ClusterAdmin, data: DataPlane, clock: Clock, loads: Sequence[TopicLoad], seed: int, progress: ProgressBar
) -> int:
    """Make the topics and write their bytes; returns how many records all in-sync replicas acknowledged.

    Raises `OperationFailedError` when a record was not acknowledged.
    """
    _create(admin, clock, loads)
    producer = data.producer()
    block = filler(seed)
    total = sum(topic.total_bytes for topic in loads)
    sent, number = 0, 0
    for topic in loads:
        for partition, size in enumerate(topic.partition_bytes):
            for length in chunk_sizes(size):
                producer.send(TopicPartition(topic.name, partition), chunk(block, number, length))
                sent, number = sent + length, number + 1
                if number % _REPORT_EVERY == 0:
                    progress.update(sent, total, topic.name)
                    _check(producer)
    unanswered = producer.flush(_FLUSH_LIMIT_S)
    _check(producer)
    if unanswered:
        raise OperationFailedError(f"{unanswered} of {number} records were not acknowledged in {_FLUSH_LIMIT_S:.0f} s")
    progress.update(total, total, "acknowledged")
    return producer.acknowledged


def _create(admin: ClusterAdmin, clock: Clock, loads: Sequence[TopicLoad]) -> None:
    present = {partition.topic for partition in admin.partition_states([topic.name for topic in loads])}
    if present:
        raise UsageError(f"topic {min(present)} exists already", hint="choose another --prefix")
    for topic in loads:
        error = admin.create_topic(topic.name, topic.assignments, {})
        if error is not None:
            raise OperationFailedError(f"cannot create topic {topic.name}: {error}")
    names = [topic.name for topic in loads]
    wanted = sum(len(topic.assignments) for topic in loads)
    for _ in repeat_every(clock, _POLL_S, _LEADERS_LIMIT_S):
        led = sum(state.leader is not None and state.leader >= 0 for state in admin.partition_states(names).values())
        if led >= wanted:
            return
    raise OperationFailedError(f"{wanted - led} partitions have no leader after {_LEADERS_LIMIT_S:.0f} s")


def _check(producer: DurableProducer) -> None:
    if producer.failed:
        raise OperationFailedError(f"{producer.failed} records were refused: {producer.last_error}")


def run_tool(machine: Machine, store: Store, words: Sequence[str], reporter: Reporter) -> NoReturn:
    """Become the tool that `words` begins with: its exit code, input and output are those of this process.

    The first tool of a Kafka version downloads its jar, which the brokers do not need.
    """
    name, *given = words
    state = load_state(store)
    tool = find_tool(name, state.spec.kafka)
    servers, security = state.layout.bootstrap_servers, admin_security(state, store)
    properties = f"{secrets_folder(str(store.root))}/{ADMIN}.properties"
    store.make_folder(secrets_folder(str(store.root)))
    store.write(properties, client_properties(servers, security, _key_pair(store, security)))
    class_path = machine.jars.class_path(state.spec.kafka, reporter.say, tools=True)
    arguments = f"{store.root}/{name.removesuffix('.sh')}.args"
    store.write(arguments, processes.tool_arguments(_main_class(name, tool, class_path), class_path))
    machine.processes.become((state.java, f"@{arguments}", *filled_arguments(tool, given, servers, properties)))


def _key_pair(store: Store, security: Security) -> str:
    """The file with key and certificate of the client, which Java wants in one; none where it has none."""
    if security.cert_file is None or security.key_file is None:
        return ""
    both = f"{secrets_folder(str(store.root))}/{ADMIN}.keystore.pem"
    store.write(both, store.read_text(security.key_file) + store.read_text(security.cert_file))
    return both


def _main_class(name: str, tool: KafkaTool, class_path: Sequence[str]) -> str:
    """The class of the tool that the jars have; `UsageError` where this Kafka has no such tool."""
    jars = [jar for jar in class_path if Path(jar).name.startswith(("kafka-tools-", "kafka_2.13-"))]
    entries = {entry for jar in jars for entry in zipfile.ZipFile(jar).namelist()}
    for candidate in tool.classes:
        if f"{candidate.replace('.', '/')}.class" in entries:
            return candidate
    raise UsageError(f"this Kafka has no {name}")
