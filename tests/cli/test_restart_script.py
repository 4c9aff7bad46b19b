"""Scripts of rolling restarts: what is printed, what it does with pods and brokers, stopped anywhere and run again."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkakit.core.errors import TryLaterError
from tests.fakes.admin import FakeCluster
from tests.places import ROOT
from tests.rigs import kubectl
from tests.rigs.command_line import ClusterDesk, Ran
from tests.rigs.printed_commands import refusal_of_line

kubernetes_validate: Any = pytest.importorskip("kubernetes_validate")

ON_DELETE = ("--script", "on-delete", "--statefulset", "kafka", "--namespace", "data")
PARTITION = ("--script", "partition", "--statefulset", "kafka")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterDesk:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c", 4: "a"})
    cluster.add_topic("t", {0: (1, 2, 3), 1: (4, 2, 3)}, configs={"min.insync.replicas": "2"})
    return ClusterDesk(tmp_path, cluster).sit(monkeypatch)


def plan(desk: ClusterDesk, *words: str) -> Ran:
    return desk.home.run("--profile", "p", "broker", "restart-plan", "--at-once", "2", *words)


class Bench:
    """A script with a `kubectl` of one StatefulSet, and a `kafkakit` that notes its calls and fails at one of them."""

    def __init__(self, folder: Path, script: str, pods: int = 4, **options: str) -> None:
        self.folder = folder
        folder.mkdir()
        self.state = kubectl.place(folder, "kafka", pods, **options)
        self.log, self.failing = folder / "kafkakit.log", folder / "failing"
        self.log.touch()
        program = folder / "kafkakit"
        program.write_text(
            f'#!/bin/sh\nshift 3\necho "$*" >> {self.log}\n'
            f'[ ! -e {self.failing} ] || ! echo "$*" | grep -q "$(cat {self.failing})" || exit 75\n',
            "utf-8",
        )
        program.chmod(0o755)
        folder.joinpath("restart.sh").write_text(script, "utf-8")

    def change(self, **values: Any) -> None:
        kubectl.save(self.state, {**kubectl.load(self.state), **values})

    def run(self, shell: str = "sh") -> tuple[int, list[str], list[str]]:
        """The exit code, what was done with brokers and pods since the last run, and the lines on stderr."""
        self.log.write_text("", "utf-8")
        self.change(log=[])
        ran = subprocess.run(
            [*shell.split(), "restart.sh"],
            cwd=self.folder,
            env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        done = [line for line in kubectl.load(self.state)["log"] if not line.startswith("namespace")]
        return ran.returncode, [*self.log.read_text("utf-8").splitlines(), *done], ran.stderr.splitlines()


def round_of(ids: str) -> list[str]:
    gate = f"restart-gate {ids} --timeout 1800s"
    return [gate, f"drain {ids} --leaders-only --ignore-warns --yes", gate, back(ids)]


def back(ids: str) -> str:
    return f"rejoin {ids} --restore leaders --wait 1800s --yes"


def test_the_script_of_on_delete_restarts_round_by_round(desk: ClusterDesk, tmp_path: Path) -> None:
    ran = plan(desk, "--all", *ON_DELETE, "--first-id", "1")
    assert (ran.code, ran.stdout.splitlines()[0]) == (0, "#!/bin/sh"), ran.stderr
    lines = [line.strip() for line in ran.stdout.splitlines()]
    commands = [line for line in lines if line.startswith("kafkakit ")]
    assert len(commands) == 5
    for line in commands:
        assert line.startswith("kafkakit --profile p broker ")
        assert not refusal_of_line(line.replace('"$brokers"', "1,2"))
    for shell in ("sh -n", "bash --posix -n"):
        assert subprocess.run([*shell.split()], input=ran.stdout, text=True, check=False).returncode == 0
    bench = Bench(tmp_path / "bench", ran.stdout)
    code, done, errors = bench.run()
    assert (code, errors) == (0, [])
    assert done == [
        *round_of("2"),
        *round_of("3"),
        *round_of("1,4"),
        "restart-gate 1,4 --timeout 1800s",
        "delete kafka-1",
        "delete kafka-2",
        "delete kafka-0 kafka-3",
    ]
    assert bench.run() == (0, [*map(back, ("2", "3", "1,4")), "restart-gate 1,4 --timeout 1800s"], [])
    assert json.loads(plan(desk, "--all", *ON_DELETE, "--first-id", "1", "-o", "json").stdout)["format"] == "sh"
    assert desk.cluster.calls == []


@pytest.mark.parametrize("step", ["restart-gate 3", "drain 3", "rejoin 3", "restart-gate 1,4", "rejoin 2"])
def test_a_script_that_stops_goes_on_when_it_is_run_again(desk: ClusterDesk, tmp_path: Path, step: str) -> None:
    bench = Bench(tmp_path / "bench", plan(desk, "--all", *ON_DELETE, "--first-id", "1").stdout)
    bench.failing.write_text(f"^{step} ", "utf-8")
    code, done, errors = bench.run()
    assert code == 75
    number = {"2": 1, "3": 2, "1,4": 3}[step.split()[1]]
    assert errors == [
        f"stopped in round {number} of 3 (broker {step.split()[1]}) (exit code 75); to go on, run this script again"
    ]
    deleted = [line for line in done if line.startswith("delete")]
    assert len(deleted) == number - (not step.startswith("rejoin")), "no pod goes down before its gate and its drain"
    bench.failing.unlink()
    code, done, _ = bench.run()
    assert code == 0
    assert [*deleted, *(line for line in done if line.startswith("delete"))] == [
        "delete kafka-1",
        "delete kafka-2",
        "delete kafka-0 kafka-3",
    ]
    assert [line for line in done if line.startswith("rejoin")] == [*map(back, ("2", "3", "1,4"))]


def test_a_broker_that_does_not_come_back_stops_the_script(desk: ClusterDesk, tmp_path: Path) -> None:
    script = plan(desk, "--all", *ON_DELETE, "--first-id", "1", "--wait", "1s").stdout
    bench = Bench(tmp_path / "bench", script)
    bench.change(broken=["kafka-2"])
    code, done, errors = bench.run()
    assert (code, errors) == (
        75,
        [
            "error: pod kafka-2 is not ready after 1 seconds",
            "stopped in round 2 of 3 (broker 3) (exit code 75); to go on, run this script again",
        ],
    )
    assert "delete kafka-0 kafka-3" not in done
    assert not any(line.startswith("rejoin 3 ") for line in done)


def test_pods_of_others_and_other_strategies_are_refused(desk: ClusterDesk, tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench", plan(desk, "--all", *ON_DELETE, "--first-id", "1").stdout)
    pods = kubectl.load(bench.state)["pods"]
    bench.change(pods={**pods, "kafka-1": {**pods["kafka-1"], "kind": "ReplicaSet"}})
    code, done, errors = bench.run()
    assert (code, done, errors[0]) == (1, [], "error: pod kafka-1 does not belong to StatefulSet kafka")
    bench.change(pods={"kafka-0": pods["kafka-0"]})
    assert bench.run()[:2] == (75, [])
    bench.change(pods=pods, strategy="RollingUpdate")
    code, done, errors = bench.run()
    assert (code, done) == (1, [])
    assert errors[0] == "error: the update strategy of StatefulSet kafka is RollingUpdate, not OnDelete"
    bench.change(strategy="OnDelete", revision="")
    assert bench.run()[:2] == (75, [])


def test_the_script_of_a_partition_lowers_it_pod_by_pod(desk: ClusterDesk, tmp_path: Path) -> None:
    script = plan(desk, "--all", *PARTITION, "--first-id", "1").stdout
    bench = Bench(tmp_path / "bench", script, strategy="RollingUpdate")
    bench.failing.write_text("^drain 2 ", "utf-8")
    assert bench.run()[0] == 75
    assert kubectl.load(bench.state)["partition"] == 2
    bench.failing.unlink()
    code, done, errors = bench.run()
    assert (code, errors) == (0, [])
    assert done == [
        back("4"),
        back("3"),
        *round_of("2"),
        *round_of("1"),
        "restart-gate 1 --timeout 1800s",
        "partition 1",
        "partition 0",
    ]
    fresh = Bench(tmp_path / "low", script, strategy="RollingUpdate")
    fresh.change(partition=1)
    code, done, errors = fresh.run()
    assert (code, [line for line in done if line.startswith("partition")]) == (1, [])
    assert errors[0] == "error: partition is 1, not above 3: Kubernetes replaces pods without waiting"
    for change, told in (({"replicas": 5}, "has 5 pods, and the plan has 4"), ({"start": 1}, "begin with 1, not 0")):
        other = Bench(tmp_path / told.replace(" ", "-"), script, strategy="RollingUpdate")
        other.change(**change)
        code, done, errors = other.run()
        assert (code, done, told in errors[0]) == (1, [], True)


def test_ids_hosts_and_names_that_do_not_fit_are_refused(desk: ClusterDesk) -> None:
    for words, told in {
        (*ON_DELETE,): "give --first-id ID, the broker in pod kafka-0",
        (*ON_DELETE, "--first-id", "2"): "no pod has broker 1: pod kafka-0 has broker 2",
        ("--script", "on-delete"): "--script needs --statefulset NAME",
        ("--statefulset", "kafka"): "--statefulset goes with --script on-delete or partition",
        ("--first-id", "1"): "--first-id goes with --script on-delete or partition",
        ("--script", "on-delete", "--statefulset", "a b"): "--statefulset: 'a b' is not a name in Kubernetes",
        (*ON_DELETE, "--first-id", "1", "--snapshot", "s.json"): "--script needs the cluster, not a snapshot",
    }.items():
        ran = plan(desk, "--all", *words)
        assert (ran.code, ran.stdout, told in ran.stderr) == (2, "", True), ran.stderr
    some = plan(desk, "--rack", "a", *PARTITION, "--first-id", "1")
    assert (some.code, "the plan is without broker 2, 3" in some.stderr) == (2, True)
    desk.cluster.kill(2)
    blocked = plan(desk, "--all", *ON_DELETE, "--first-id", "1")
    assert (blocked.code, blocked.stdout) == (1, "")
    assert blocked.stderr.startswith("error: no script: broker 1 cannot be restarted now: t/0 would have fewer")


def test_the_address_of_the_call_and_its_options_are_in_the_script(desk: ClusterDesk) -> None:
    words = ("broker", "restart-plan", "--all", *ON_DELETE, "--first-id", "1", "--allow-offline-dirs")
    script = desk.home.run("-B", "a:9092,b:9092", *words).stdout
    commands = [line.strip() for line in script.splitlines() if line.strip().startswith("kafkakit")]
    assert len(commands) == 5
    assert all(shlex.split(line)[1:3] == ["--bootstrap-server", "a:9092,b:9092"] for line in commands)
    assert ["--allow-offline-dirs" in line for line in commands] == ["gate" in line for line in commands]


def test_a_gate_for_a_starting_broker_waits_for_the_others_only(desk: ClusterDesk) -> None:
    def gate(*words: str) -> Ran:
        return desk.home.run("--profile", "p", "broker", "restart-gate", *words, "--timeout", "20s")

    yes = gate("1", "--starting")
    assert (yes.code, yes.stdout.splitlines()[1:]) == (0, ["yes: broker 1 may start, all others are up"])
    assert gate("77", "--starting", "-o", "json").json["brokers"] == [77], "a broker may be new"
    desk.cluster.kill(1)
    assert gate("1").code == 75
    assert gate("1", "--starting").code == 0, "neither the broker itself nor what waits for it is asked for"
    desk.cluster.kill(4)
    no = gate("1", "--starting")
    assert (no.code, no.stderr.splitlines()) == (
        75,
        [
            "waiting: broker 4 is not up",
            "error: the gate is closed: broker 4 is not up",
        ],
    )
    assert gate("1,4", "--starting").code == 0
    desk.cluster.revive(4)
    desk.cluster.fail_next("snapshot", TryLaterError("no broker answers"), times=1000)
    assert gate("1", "--starting").code == 75


def test_a_gate_ends_with_75_at_an_address_that_swallows_packets(tmp_path: Path) -> None:
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):  # the queue is full: what comes now gets no answer at all
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        for words in (("1",), ("1", "--starting")):
            ran = subprocess.run(
                [sys.executable, "-m", "kafkakit", "-B", address, "broker", "restart-gate", *words, "--timeout", "4s"],
                env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            assert (ran.returncode, ran.stdout) == (75, ""), ran.stderr


def fragment() -> Any:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "docs/restarts.md").read_text("utf-8"), re.M | re.S)
    return yaml.safe_load(text)


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_the_manifest_of_hooks_is_valid(version: str) -> None:
    kubernetes_validate.validate(fragment(), version, strict=True)
    wrong = fragment()
    wrong["spec"]["template"]["spec"]["containers"][0]["lifecycle"]["preStopp"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, version, strict=True)


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (75, 0), (2, 1), (1, 1)])
def test_the_commands_of_hooks_run_as_they_stand(tmp_path: Path, code: int, expected: int) -> None:
    program = tmp_path / "kafkakit"
    program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/log\nexit {code}\n', "utf-8")
    program.chmod(0o755)
    pod = fragment()["spec"]["template"]["spec"]
    init = pod["initContainers"][0]["command"]
    hook = pod["containers"][1]["lifecycle"]["preStop"]["exec"]["command"]
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOSTNAME": "kafka-3"}
    assert subprocess.run(init, env=env, check=False).returncode == expected
    there = [word.replace("/gate", str(tmp_path)) for word in hook]
    assert subprocess.run(there, env=env, check=False).returncode == 0
    assert (tmp_path / "done").exists(), "the broker ends whatever the gate says"
    for line in (tmp_path / "log").read_text("utf-8").splitlines():
        assert line.startswith("--profile prod broker restart-gate 1004 ")
        assert not refusal_of_line(f"kafkakit {line}")
