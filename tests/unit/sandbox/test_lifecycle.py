"""Bringing up and down on a made-up machine, where every failure can be had at will."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, cast
from zipfile import ZipFile

import pytest

from kafkakit.config.security import Security
from kafkakit.core.cluster_facts import ClusterInfo
from kafkakit.core.errors import InputError, KafkakitError, RefusedError, TryLaterError, UsageError
from kafkakit.core.model import Broker, BrokerState
from kafkakit.core.programs import ProcessRecord
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.services import Java, Machine, NodeFailedError
from kafkakit.sandbox import lifecycle as run
from kafkakit.sandbox.decide import processes as jvm
from kafkakit.sandbox.decide.processes import filled_arguments, find_tool
from kafkakit.sandbox.decide.spec import (
    ClientSecurity,
    MetadataMode,
    Phase,
    SandboxSpec,
    SandboxState,
    build_spec,
    parse_racks_of,
)
from kafkakit.sandbox.demo import run_tool
from kafkakit.sandbox.folders import Store
from kafkakit.sandbox.lifecycle import grow, node_statuses


@dataclass
class FakeProcesses:
    """Processes by pid; `on_start` may do anything to the process that was just started."""

    alive: dict[int, ProcessRecord] = field(default_factory=dict)
    all: list[ProcessRecord] = field(default_factory=list)
    killed: list[int] = field(default_factory=list)
    on_start: Callable[[ProcessRecord, Path], None] = lambda record, log: None
    format_status: int = 0
    next_port: int = 20_000

    def start(self, command: Sequence[str], log_file: str, remember: Callable[[ProcessRecord], None]) -> ProcessRecord:
        record = ProcessRecord(pid=100 + len(self.all), started_ticks=1, marker=command[1])
        self.all.append(record)
        self.alive[record.pid] = record
        remember(record)
        Path(log_file).write_text(f"starting {command[1]}\n")
        self.on_start(record, Path(log_file))
        return record

    def become(self, command: Sequence[str]) -> NoReturn:
        raise BecameError(*command)

    def started(self) -> Collection[ProcessRecord]:
        return tuple(self.all)

    def wait(self, record: ProcessRecord, timeout_s: float) -> int:
        self.die(record)
        return self.format_status

    def is_alive(self, record: ProcessRecord) -> bool:
        return self.alive.get(record.pid) == record

    def kill(self, records: Collection[ProcessRecord], *, graceful_s: float = 0) -> Collection[ProcessRecord]:
        found = [record for record in records if self.is_alive(record)]
        for record in found:
            del self.alive[record.pid]
            self.killed.append(record.pid)
        return found

    def free_ports(self, count: int) -> tuple[int, ...]:
        self.next_port += count
        return tuple(range(self.next_port - count, self.next_port))

    def answers(self, port: int) -> bool:
        return True

    def die(self, record: ProcessRecord) -> None:
        self.alive.pop(record.pid, None)


class FakeJars:
    tools: tuple[str, ...] = ()

    def class_path(self, version: str, say: Callable[[str], None], *, tools: bool = False) -> tuple[str, ...]:
        return self.tools if tools else ("/kafka.jar",)


class BecameError(Exception):
    """Stands for the end of this process, which became another command."""


class FakeCertificates:
    def make(self, brokers: Collection[str], users: Collection[str]) -> Mapping[str, bytes]:
        return {"ca.pem": b"ca", **{f"{name}.keystore.pem": b"k" for name in brokers}}


class FakeAdmin:
    """Names every broker whose process lives as registered."""

    def __init__(self, processes: FakeProcesses) -> None:
        self._processes = processes

    def cluster(self) -> ClusterInfo:
        ids = [int(r.marker.rsplit("-", 1)[1]) for r in self._processes.alive.values() if "broker-" in r.marker]
        if not ids:
            raise TryLaterError("nobody answers")
        brokers = tuple(Broker(id=broker, state=BrokerState.ALIVE) for broker in sorted(ids))
        return ClusterInfo(cluster_id="the-real-id", brokers=brokers)

    def close(self) -> None:
        pass


class FakeTime:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Lines:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def warn(self, line: str) -> None:
        self.lines.append(line)

    @contextmanager
    def progress(self, label: str) -> Iterator["Lines"]:
        yield self

    def update(self, done: float, total: float, note: str = "") -> None:
        pass


@dataclass
class Harness:
    """A fake machine, a real folder, and shorthand for what tests do with them."""

    processes: FakeProcesses
    store: Store
    said: Lines
    machine: Machine

    def spec(
        self, secure: ClientSecurity = ClientSecurity.NONE, mode: MetadataMode = MetadataMode.KRAFT, brokers: int = 3
    ) -> SandboxSpec:
        return build_spec(
            name="box", brokers=brokers, racks=min(3, brokers), log_dirs=(1,), kafka=None, mode=mode, secure=secure
        )

    def up(
        self, secure: ClientSecurity = ClientSecurity.NONE, mode: MetadataMode = MetadataMode.KRAFT, brokers: int = 3
    ) -> bool:
        return run.start_sandbox(self.machine, self.store, self.spec(secure, mode, brokers), self.said)[1]

    def nothing_is_left(self) -> bool:
        return not self.processes.alive and not self.store.state_file.exists() and not self.profiles()

    def profiles(self) -> list[str]:
        return sorted(path.name for path in self.store.profiles.glob("*"))


@pytest.fixture
def stage(tmp_path: Path) -> Harness:
    processes = FakeProcesses()
    draws = iter(range(1, 10_000))

    def open_admin(servers: str, security: Security) -> ClusterAdmin:
        return cast(ClusterAdmin, FakeAdmin(processes))

    machine = Machine(
        processes=processes,
        jars=FakeJars(),
        certificates=FakeCertificates(),
        clock=FakeTime(),
        find_java=lambda: Java(path="/java", major=21, source="PATH"),
        open_admin=open_admin,
        random_bytes=lambda count: next(draws).to_bytes(count, "big"),
    )
    store = Store(root=tmp_path / "state" / "sandbox" / "box", profiles=tmp_path / "config" / "profiles.d")
    return Harness(processes=processes, store=store, said=Lines(), machine=machine)


def test_up_starts_everything_and_down_removes_everything(stage: Harness) -> None:
    assert stage.up()
    assert len(stage.processes.alive) == 4
    assert stage.profiles() == ["box.yaml"]
    assert "the-real-id" in (stage.store.profiles / "box.yaml").read_text()
    assert stage.store.root.stat().st_mode & 0o777 == 0o700
    assert stage.store.state_file.stat().st_mode & 0o777 == 0o600
    assert (stage.store.profiles / "box.yaml").stat().st_mode & 0o777 == 0o600
    assert run.stop_sandbox(stage.machine, stage.store) == 4
    assert stage.nothing_is_left()
    assert not stage.store.root.exists()
    assert run.stop_sandbox(stage.machine, stage.store) is None


def test_up_twice_changes_nothing(stage: Harness) -> None:
    stage.up()
    before = stage.store.state_file.read_bytes()
    assert not stage.up()
    assert stage.store.state_file.read_bytes() == before
    assert len(stage.processes.all) == 5, "three brokers, the formatter and the controller"


def test_up_with_another_shape_is_refused(stage: Harness) -> None:
    stage.up()
    with pytest.raises(RefusedError) as caught:
        stage.up(brokers=2)
    assert "3 brokers" in caught.value.message
    assert len(stage.processes.alive) == 4


def test_up_reports_a_dead_broker_and_how_to_restart_it(stage: Harness) -> None:
    stage.up()
    assert run.kill(stage.machine, stage.store, 1002)
    assert not run.kill(stage.machine, stage.store, 1002)
    with pytest.raises(NodeFailedError) as caught:
        stage.up()
    assert "broker 1002 is dead" in caught.value.message
    assert caught.value.hint == "kafkakit sandbox restart 1002 --name box"
    run.restart(stage.machine, stage.store, 1002, stage.said)
    assert not stage.up()


def test_up_starts_anew_when_everything_is_dead(stage: Harness) -> None:
    stage.up()
    stage.processes.alive.clear()
    assert stage.up()
    assert len(stage.processes.alive) == 4


def test_up_cleans_away_what_a_killed_up_left(stage: Harness) -> None:
    stage.up()
    text = stage.store.state_file.read_text().replace('"phase":"up"', '"phase":"starting"')
    stage.store.state_file.write_text(text)
    with pytest.raises(TryLaterError):
        run.load_state(stage.store)
    assert stage.up()
    assert sorted(stage.processes.killed) == [101, 102, 103, 104]
    assert len(stage.processes.alive) == 4


def test_a_broker_that_exits_takes_the_rest_with_it_and_shows_its_log(stage: Harness) -> None:
    def die_with_words(record: ProcessRecord, log: Path) -> None:
        if record.marker.endswith("broker-1003"):
            log.write_text("ERROR out of luck\n")
            stage.processes.die(record)

    stage.processes.on_start = die_with_words
    with pytest.raises(NodeFailedError) as caught:
        stage.up()
    assert caught.value.message == "broker 1003 exited"
    assert caught.value.tail == ("ERROR out of luck",)
    assert stage.nothing_is_left()


def test_a_taken_port_is_tried_again_with_others(stage: Harness) -> None:
    used: list[str] = []

    def taken_once(record: ProcessRecord, log: Path) -> None:
        if record.marker.endswith("broker-1001"):
            used.append((log.parent / "node.properties").read_text().splitlines()[0])
            if len(used) == 1:
                log.write_text("Socket server failed to bind to 127.0.0.1:1: Address already in use.\n")
                stage.processes.die(record)

    stage.processes.on_start = taken_once
    assert stage.up()
    assert len(set(used)) == 2
    assert any("port taken" in line for line in stage.said.lines)
    assert len(stage.processes.alive) == 4


def test_ports_that_are_always_taken_end_in_an_error(stage: Harness) -> None:
    def always_taken(record: ProcessRecord, log: Path) -> None:
        log.write_text("java.net.BindException\n")
        stage.processes.die(record)

    stage.processes.on_start = always_taken
    with pytest.raises(NodeFailedError, match="port taken"):
        stage.up()
    assert stage.nothing_is_left()


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, OSError])
@pytest.mark.parametrize("victim", ["broker-1001", "broker-1003", "controller"])
def test_an_interrupted_up_leaves_nothing_running(stage: Harness, stop: type[BaseException], victim: str) -> None:
    def interrupt(record: ProcessRecord, log: Path) -> None:
        if record.marker.endswith(victim):
            raise stop("now")

    stage.processes.on_start = interrupt
    with pytest.raises(stop):
        stage.up()
    assert stage.nothing_is_left()


def test_a_failed_format_shows_the_tools_words(stage: Harness) -> None:
    def format_badly(record: ProcessRecord, log: Path) -> None:
        if log.name == "format.log":
            log.write_text("formatting\nbad config\n")

    stage.processes.on_start = format_badly
    stage.processes.format_status = 1
    with pytest.raises(NodeFailedError) as caught:
        stage.up()
    assert caught.value.tail[-1] == "bad config"
    assert stage.nothing_is_left()


def test_a_cluster_that_never_registers_ends_with_the_time_limit(
    stage: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeProcesses, "answers", lambda self, port: port != 20_002)
    with pytest.raises(NodeFailedError, match=r"not ready after 300 s: broker 1002 is late"):
        stage.up()
    assert stage.nothing_is_left()


def test_down_leaves_a_process_with_a_recycled_pid_alone(stage: Harness) -> None:
    stage.up()
    stranger = ProcessRecord(pid=101, started_ticks=999, marker="vim")
    stage.processes.alive[101] = stranger
    assert run.stop_sandbox(stage.machine, stage.store) == 3
    assert stage.processes.alive == {101: stranger}


def test_secrets_are_private_files_and_stay_out_of_the_state(stage: Harness) -> None:
    stage.up(secure=ClientSecurity.SCRAM_TLS)
    folder = stage.store.root / "secrets"
    password = (folder / "admin.password").read_text().strip()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert password not in stage.store.state_file.read_text()
    holders = [path for path in stage.store.root.rglob("*") if path.is_file() and password in path.read_text()]
    assert holders == [folder / "admin.password"]
    assert all(password not in (stage.store.profiles / name).read_text() for name in stage.profiles())
    assert stage.profiles() == ["box-guest.yaml", "box.yaml"]
    state = run.load_state(stage.store)
    secret = run.admin_security(state, stage.store).password
    assert secret is not None
    assert secret.reveal() == password
    run.stop_sandbox(stage.machine, stage.store)
    assert stage.profiles() == []


def test_a_zookeeper_broker_that_is_still_remembered_is_started_again(stage: Harness) -> None:
    stage.up(mode=MetadataMode.ZOOKEEPER)
    run.kill(stage.machine, stage.store, 1001)
    attempts: list[int] = []
    ends = (
        "org.apache.zookeeper.KeeperException$NodeExistsException\n",
        "java.lang.NullPointerException: Cannot invoke getEphemeralOwner\n"
        "\tat kafka.zk.KafkaZkClient$CheckedEphemeral.getAfterNodeExists(KafkaZkClient.scala:2251)\n",
    )

    def refused_twice(record: ProcessRecord, log: Path) -> None:
        attempts.append(record.pid)
        if len(attempts) <= len(ends):
            log.write_text(ends[len(attempts) - 1])
            stage.processes.die(record)

    stage.processes.on_start = refused_twice
    run.restart(stage.machine, stage.store, 1001, stage.said)
    assert len(attempts) == 3


def test_commands_on_a_sandbox_that_is_not_there_say_so(stage: Harness) -> None:
    actions: list[Callable[[], object]] = [
        lambda: run.load_state(stage.store),
        lambda: run.kill(stage.machine, stage.store, 1001),
        lambda: run.restart(stage.machine, stage.store, 1001, stage.said),
    ]
    for action in actions:
        with pytest.raises(UsageError, match="no sandbox box"):
            action()
    stage.up()
    with pytest.raises(UsageError, match="no broker 7"):
        run.kill(stage.machine, stage.store, 7)


def test_a_second_command_at_the_same_time_is_told_to_wait(stage: Harness) -> None:
    with stage.store.locked(), pytest.raises(TryLaterError, match="another command"):
        run.stop_sandbox(stage.machine, stage.store)


def test_a_damaged_state_file_stops_up_and_down_with_one_line(stage: Harness) -> None:
    stage.up()
    stage.store.state_file.write_bytes(b"\xff{")
    with pytest.raises(InputError):
        stage.up()
    with pytest.raises(InputError, match="pgrep -f"):
        run.stop_sandbox(stage.machine, stage.store)


def test_look_tells_dead_from_alive(stage: Harness) -> None:
    stage.up()
    run.kill(stage.machine, stage.store, 1003)
    seen = {node.node.id: node.state for node in node_statuses(stage.machine, stage.store, run.load_state(stage.store))}
    assert seen == {1: "running", 1001: "alive", 1002: "alive", 1003: "dead"}


def test_the_command_line_of_every_process_carries_its_folder(stage: Harness) -> None:
    stage.up()
    assert {record.marker for record in stage.processes.all} == {
        jvm.marker(node) for node in run.load_state(stage.store).layout.nodes
    }
    assert issubclass(NodeFailedError, KafkakitError)


def test_a_profile_does_not_outlive_an_up_that_fails_at_its_very_end(
    stage: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = Store.save

    def full_disk_at_the_end(store: Store, state: SandboxState) -> None:
        if state.phase is Phase.UP:
            raise OSError("disk full")
        save(store, state)

    monkeypatch.setattr(Store, "save", full_disk_at_the_end)
    with pytest.raises(OSError, match="disk full"):
        stage.up()
    assert stage.nothing_is_left()


def test_a_running_sandbox_grows_by_brokers_that_share_its_secrets(stage: Harness) -> None:
    stage.up(ClientSecurity.SCRAM)
    before = set(stage.processes.alive)
    state = grow(stage.machine, stage.store, stage.spec(ClientSecurity.SCRAM, brokers=5), stage.said)
    assert state is not None
    assert [node.id for node in state.layout.brokers] == [1001, 1002, 1003, 1004, 1005]
    assert before < set(stage.processes.alive)
    assert stage.store.load() == state
    old, new = (stage.store.read_text(jvm.properties_file(node)) for node in state.layout.brokers[2:4])
    own = ("listeners=", "advertised.listeners=", "log.dirs=", "broker.rack=", "node.id=")
    differing = {a for a, b in zip(old.splitlines(), new.splitlines(), strict=True) if a != b}
    assert {line.partition("=")[0] + "=" for line in differing} <= set(own)
    assert not stage.up(ClientSecurity.SCRAM, brokers=5)


def test_growth_puts_the_new_brokers_into_the_profile(stage: Harness) -> None:
    stage.up(brokers=2)
    state = grow(stage.machine, stage.store, stage.spec(brokers=2 + 1), stage.said)
    assert state is None, "another number of racks"
    state = grow(stage.machine, stage.store, replace(stage.spec(brokers=2), brokers=4), stage.said)
    assert state is not None
    assert state.layout.bootstrap_servers in (stage.store.profiles / "box.yaml").read_text()
    assert state.layout.bootstrap_servers.count(",") == 3


@pytest.mark.parametrize("taken", ["box", "box-guest"])
def test_a_profile_that_somebody_else_wrote_is_neither_replaced_nor_removed(stage: Harness, taken: str) -> None:
    stage.store.profiles.mkdir(parents=True)
    theirs = stage.store.profile_file(taken)
    theirs.write_text("bootstrap_server: prod:9092\n")
    with pytest.raises(RefusedError, match="is a profile that sandbox box did not write"):
        stage.up(ClientSecurity.SCRAM)
    assert not stage.processes.all
    theirs.unlink()
    stage.up(ClientSecurity.SCRAM)
    theirs.write_text("bootstrap_server: prod:9092\n")
    run.stop_sandbox(stage.machine, stage.store)
    assert stage.profiles() == [theirs.name]
    assert theirs.read_text() == "bootstrap_server: prod:9092\n"


def test_growth_needs_the_same_sandbox_in_all_but_size(stage: Harness) -> None:
    assert grow(stage.machine, stage.store, stage.spec(brokers=5), stage.said) is None
    stage.up()
    assert grow(stage.machine, stage.store, stage.spec(brokers=3), stage.said) is None
    assert grow(stage.machine, stage.store, stage.spec(brokers=2), stage.said) is None
    assert grow(stage.machine, stage.store, stage.spec(ClientSecurity.TLS, brokers=5), stage.said) is None


def test_a_failed_growth_stops_the_new_and_leaves_the_old(stage: Harness) -> None:
    stage.up()
    before, state = set(stage.processes.alive), stage.store.load()

    def die(record: ProcessRecord, log: Path) -> None:
        log.write_text("no memory\n")
        stage.processes.die(record)

    stage.processes.on_start = die
    with pytest.raises(NodeFailedError, match="broker 1004 exited"):
        grow(stage.machine, stage.store, stage.spec(brokers=5), stage.said)
    assert set(stage.processes.alive) == before
    assert stage.store.load() == state


def test_ctrl_c_during_growth_leaves_nothing_unknown(stage: Harness) -> None:
    stage.up()
    before = set(stage.processes.alive)

    def stop(record: ProcessRecord, log: Path) -> None:
        raise KeyboardInterrupt

    stage.processes.on_start = stop
    with pytest.raises(KeyboardInterrupt):
        grow(stage.machine, stage.store, stage.spec(brokers=4), stage.said)
    assert set(stage.processes.alive) == before


def archive_options(store: Store, node: str = "broker-1001") -> list[str]:
    words = store.read_text(store.root / node / "java.args").splitlines()
    return [word.strip('"') for word in words if "hare" in word or "LoadedClassList" in word]


@pytest.fixture
def archiving(stage: Harness, tmp_path: Path) -> Harness:
    """A stage whose JVM writes the archive that it is asked for."""
    jar = tmp_path / "kafka.jar"
    jar.touch()

    def write(record: ProcessRecord, log: Path) -> None:
        if log.name in ("output.log", "format.log"):
            name = "node.classes" if log.name == "output.log" else "format.classes"
            own = f"{log.parent.name}/{log.name}"
            text = f"java/lang/Object id: {record.pid}\n{own}\nx/Y id: 3 super: 0 source: jrt:/z\nunfinis"
            (log.parent / name).write_text(text)
        elif log.name == "archive.log":
            (word,) = (w for w in (log.parent / "archive.args").read_text().splitlines() if "SharedArchiveFile" in w)
            Path(word.strip('"').partition("=")[2]).write_bytes((log.parent / "all.classes").read_bytes())

    stage.processes.on_start = write
    stage.machine = replace(
        stage.machine,
        class_archives=str(tmp_path / "cache" / "class-archives"),
        find_java=lambda: Java(path=str(jar), major=21, source="PATH"),
    )
    stage.processes.alive.clear()
    return stage


def archives(stage: Harness) -> list[Path]:
    return sorted(Path(stage.machine.class_archives).iterdir())


def jar_of(stage: Harness, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    jar = Path(stage.machine.find_java().path).with_name("lib.jar")
    jar.write_text(text)
    monkeypatch.setattr(FakeJars, "class_path", lambda self, version, say: (str(jar),))


def test_the_first_sandbox_records_its_classes_and_the_next_one_starts_from_their_archive(
    archiving: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar_of(archiving, monkeypatch, "one")
    archiving.up()
    folder = archiving.store.root / "broker-1001"
    assert archive_options(archiving.store) == [f"-XX:DumpLoadedClassList={folder}/node.classes"]
    (archive,) = archives(archiving)
    assert archive.name.startswith("kafka-4.")
    lines = archive.read_text().splitlines()
    assert lines == [
        "java/lang/Object", "controller/output.log", "broker-1001/output.log", "controller/format.log",
    ]  # fmt: skip
    assert archiving.said.lines[-1].startswith("preparing faster starts of Kafka 4.")
    run.stop_sandbox(archiving.machine, archiving.store)
    archiving.said.lines.clear()
    archiving.up()
    for node in ("broker-1001", "broker-1003", "controller"):
        assert archive_options(archiving.store, node) == ["-Xshare:auto", f"-XX:SharedArchiveFile={archive}"]
    assert archives(archiving) == [archive]
    assert archiving.said.lines == []
    state = grow(archiving.machine, archiving.store, archiving.spec(brokers=4), archiving.said)
    assert state is not None
    assert archive_options(archiving.store, "broker-1004")[1] == f"-XX:SharedArchiveFile={archive}"


def test_other_jars_get_another_archive(archiving: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, text in enumerate(("one", "another"), 1):
        jar_of(archiving, monkeypatch, text)
        archiving.up()
        run.stop_sandbox(archiving.machine, archiving.store)
        assert len(archives(archiving)) == number


def test_a_java_that_writes_no_archive_is_asked_once(archiving: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    jar_of(archiving, monkeypatch, "one")
    archiving.processes.on_start = lambda record, log: None
    archiving.up()
    assert [path.stat().st_size for path in archives(archiving)] == [0]
    run.stop_sandbox(archiving.machine, archiving.store)
    archiving.said.lines.clear()
    assert archiving.up()
    assert (archive_options(archiving.store), archiving.said.lines) == ([], [])


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(
    archiving: Harness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jar_of(archiving, monkeypatch, "one")
    (tmp_path / "cache").touch()
    assert archiving.up()
    assert archive_options(archiving.store) == []


def tools_jar(folder: Path, *classes: str) -> str:
    path = folder / "kafka-tools-4.4.0.jar"
    with ZipFile(path, "w") as jar:
        for name in classes:
            jar.writestr(f"{name.replace('.', '/')}.class", b"")
    return str(path)


@pytest.mark.parametrize("secure", ClientSecurity)
def test_a_tool_of_kafka_gets_address_and_login_and_no_password_in_its_arguments(
    stage: Harness, secure: ClientSecurity, tmp_path: Path
) -> None:
    stage.up(secure)
    if secure is ClientSecurity.TLS:
        for name in ("admin.pem", "admin.key"):
            stage.store.write(f"{stage.store.root}/secrets/{name}", f"{name}\n")
    jars = cast(FakeJars, stage.machine.jars)
    jars.tools = (tools_jar(tmp_path, "org.apache.kafka.tools.TopicCommand"),)
    with pytest.raises(BecameError) as became:
        run_tool(stage.machine, stage.store, ["kafka-topics.sh", "--list"], stage.said)
    java, arguments, *words = became.value.args
    state = run.load_state(stage.store)
    properties = f"{stage.store.root}/secrets/admin.properties"
    assert (java, words) == (
        "/java", ["--bootstrap-server", state.layout.bootstrap_servers, "--command-config", properties, "--list"]
    )  # fmt: skip
    assert Path(arguments[1:]).read_text().splitlines()[-1] == '"org.apache.kafka.tools.TopicCommand"'
    assert Path(properties).stat().st_mode & 0o777 == 0o600
    settings = dict(line.split("=", 1) for line in Path(properties).read_text().splitlines())
    assert settings["bootstrap.servers"] == state.layout.bootstrap_servers
    assert ("sasl.jaas.config" in settings, "ssl.truststore.location" in settings) == (
        secure.uses_scram, secure.uses_tls
    )  # fmt: skip
    assert ("ssl.keystore.location" in settings) is (secure is ClientSecurity.TLS)
    if secure.uses_scram:
        password = stage.store.read_text(f"{stage.store.root}/secrets/admin.password").strip()
        assert password in settings["sasl.jaas.config"]
        assert password not in Path(arguments[1:]).read_text() + "".join(words)


def test_a_tool_that_is_none_or_that_this_kafka_lacks_is_refused(stage: Harness, tmp_path: Path) -> None:
    stage.up()
    with pytest.raises(UsageError, match="did you mean kafka-topics"):
        run_tool(stage.machine, stage.store, ["kafka-topic"], stage.said)
    cast(FakeJars, stage.machine.jars).tools = (tools_jar(tmp_path, "x.Y"),)
    with pytest.raises(UsageError, match="this Kafka has no kafka-groups"):
        run_tool(stage.machine, stage.store, ["kafka-groups", "--list"], stage.said)


def test_what_a_tool_is_given_itself_is_not_filled_in() -> None:
    def filled(name: str, *given: str, version: str = "4.1.0") -> tuple[str, ...]:
        return filled_arguments(find_tool(name, version), given, "h:1", "/p")

    assert filled("kafka-topics", "--list") == ("--bootstrap-server", "h:1", "--command-config", "/p", "--list")
    assert filled("kafka-topics", "--bootstrap-server=o:1") == ("--command-config", "/p", "--bootstrap-server=o:1")
    assert filled("kafka-topics", "--help") == ("--help",)
    assert filled("kafka-dump-log", "--files", "f") == ("--files", "f")
    assert filled("kafka-console-producer")[2:] == ("--producer.config", "/p")
    assert filled("kafka-console-producer", version="4.2.0")[2:] == ("--command-config", "/p")


def test_a_new_broker_may_have_a_rack_of_its_own(stage: Harness) -> None:
    stage.up(brokers=3)
    grown = grow(stage.machine, stage.store, replace(stage.spec(brokers=5), rack_of={1005: "z"}), stage.said)
    assert grown is not None
    assert [node.rack for node in grown.layout.brokers] == ["a", "b", "c", "a", "z"]
    assert "broker.rack=z" in stage.store.read_text(jvm.properties_file(grown.layout.brokers[4]))
    assert not run.start_sandbox(stage.machine, stage.store, stage.spec(brokers=5), stage.said)[
        1
    ]  # the rack is remembered
    with pytest.raises(UsageError, match="broker 1005 runs in rack z already"):
        run.start_sandbox(stage.machine, stage.store, replace(stage.spec(brokers=5), rack_of={1005: "a"}), stage.said)


@pytest.mark.parametrize("given", ["1004=a", "1001", "1001=", "x=a", "1001=a b", "1001=\na"])
def test_a_rack_of_nothing_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="--rack-of"):
        build_spec(
            name="box", brokers=3, racks=1, log_dirs=(1,), kafka=None, mode=MetadataMode.KRAFT,
            secure=ClientSecurity.NONE, rack_of=parse_racks_of([given]),
        )  # fmt: skip
    with pytest.raises(UsageError, match="gives no broker a rack"):
        parse_racks_of(["1001=a", "1001=b"])
