"""A `kubectl` for tests: one StatefulSet in a JSON file, whose pods are replaced by a command of the test.

`place` writes the program; it answers the few calls that a restart script makes, and refuses every other one. What a
test wants of a pod is in the file: `broken` pods never become ready, and `foreign` ones have another owner. The
program `replace`, if it is given, gets the names of the pods that are to go down together and come back; `of_sandbox`
makes one whose pods are the brokers of a sandbox: all are asked to end (SIGTERM), then all are started again. What
they lead before that, as clients see it, is a line of the file `led` each.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

OWNER = "{.metadata.ownerReferences[0].kind}/{.metadata.ownerReferences[0].name} "
POD = OWNER + '{.metadata.labels.controller-revision-hash} {.status.conditions[?(@.type=="Ready")].status}'
OF_SET = {
    "{.spec.updateStrategy.type}": "strategy",
    "{.spec.updateStrategy.rollingUpdate.partition}": "partition",
    "{.spec.replicas}": "replicas",
    "{.spec.ordinals.start}": "start",
    "{.status.updateRevision}": "revision",
}


def place(folder: Path, name: str, pods: int, *, strategy: str = "OnDelete", replace: str = "") -> Path:
    """Write `kubectl` into a folder for PATH, and the StatefulSet, whose pods are all of an old revision, beside it."""
    state = folder / "statefulset.json"
    old = {f"{name}-{n}": {"revision": "r1", "ready": "True", "kind": "StatefulSet"} for n in range(pods)}
    save(state, {"name": name, "strategy": strategy, "partition": pods, "replicas": pods, "start": "", "revision": "r2",
                 "pods": old, "broken": [], "log": []})  # fmt: skip
    program = folder / "kubectl"
    program.write_text(
        f'#!/bin/sh\nREPLACE="{replace}" exec {sys.executable} {Path(__file__).resolve()} {state} "$@"\n', "utf-8"
    )
    program.chmod(0o755)
    return state


def save(path: Path, state: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(state), "utf-8")


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def main(path: Path, words: list[str]) -> int:
    state = load(path)
    if words[:1] == ["--namespace"]:
        state["log"].append(f"namespace {words[1]}")
        words = words[2:]
    match words:
        case ["get", "statefulset", name, "--output", form] if name == state["name"]:
            print(state[OF_SET[form.removeprefix("jsonpath=")]], end="")
        case ["get", "pod", name, "--output", form] if name in state["pods"]:
            assert form == f"jsonpath={POD}", form
            pod = state["pods"][name]
            print(f"{pod['kind']}/{state['name']} {pod['revision']} {pod['ready']}", end="")
        case ["delete", "pod", *names, "--timeout", _] if set(names) <= set(state["pods"]):
            state["log"].append(f"delete {' '.join(names)}")
            replace_pods(path, state, names)
        case ["patch", "statefulset", name, "--type", "merge", "--patch", patch] if name == state["name"]:
            state["partition"] = json.loads(patch)["spec"]["updateStrategy"]["rollingUpdate"]["partition"]
            state["log"].append(f"partition {state['partition']}")
            old = [f"{name}-{n}" for n in range(state["partition"], state["replicas"])]
            replace_pods(path, state, [n for n in old if state["pods"][n]["revision"] != state["revision"]])
        case ["rollout", "restart", "statefulset", name] if name == state["name"]:
            state["revision"] += "x"
            save(path, state)
        case _:
            print(f"kubectl: not expected here: {words}", file=sys.stderr)
            return 1
    return 0


def replace_pods(path: Path, state: dict[str, Any], names: list[str]) -> None:
    for name in names:
        ready = "False" if name in state["broken"] else "True"
        state["pods"][name] |= {"revision": state["revision"], "ready": ready}
    save(path, state)
    if os.environ["REPLACE"] and names:
        subprocess.run([*os.environ["REPLACE"].split(), *names], check=True, stdout=sys.stderr)


def of_sandbox(folder: Path, first: int, bootstrap: str) -> str:
    """The program for `replace` of a sandbox in a folder; the broker of pod 0 is `first`."""
    return f"{sys.executable} -m tests.rigs.kubectl --of-sandbox {folder} {first} {bootstrap}"


def led_by(brokers: list[int], bootstrap: str) -> list[str]:
    """What the brokers lead, as soon as that does not change for a moment: a broker may learn of it late."""
    from confluent_kafka.admin import AdminClient

    client, found, before = AdminClient({"bootstrap.servers": bootstrap}), ["?"], [""]
    while found != before:
        before = found
        time.sleep(0.5)
        topics = client.list_topics(timeout=30).topics.values()
        found = [f"{t.topic}-{p.id}" for t in topics for p in t.partitions.values() if p.leader in brokers]
    return found


def restart_brokers(folder: Path, brokers: list[int]) -> None:
    """Ask the brokers of a sandbox to end, wait until they have, and start them together."""
    from kafkakit.sandbox import lifecycle
    from kafkakit.sandbox.folders import Store
    from kafkakit.wiring import this_machine
    from tests.rigs.sandbox_cluster import SilentReporter

    store, machine = Store(root=folder, profiles=folder / "profiles"), this_machine(folder)
    state = lifecycle.load_state(store)
    nodes = [record for record in state.nodes[1:] if record.node.id in brokers]
    machine.processes.kill([record.process for record in nodes if record.process is not None], graceful_s=120)
    for record in nodes:
        store.set_aside(record.node.log_file)
        state = lifecycle.start_node(machine, store, state, record.node)
    with SilentReporter().progress("") as progress:
        lifecycle.wait_until_up(machine, store, state, brokers, progress)


if __name__ == "__main__":
    if sys.argv[1] == "--of-sandbox":
        ids = [int(sys.argv[3]) + int(pod.rpartition("-")[2]) for pod in sys.argv[5:]]
        with Path("led").open("a", encoding="utf-8") as led:
            led.writelines(f"{each}\n" for each in led_by(ids, sys.argv[4]))
        restart_brokers(Path(sys.argv[2]), ids)
        raise SystemExit(0)
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
