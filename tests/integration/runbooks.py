"""Runbooks as tests use them: their shell blocks, run as they stand, and topics to work on."""

import os
import re
import subprocess
import sys
from pathlib import Path

from kafkakit.adapters.kafka.data import KafkaData
from kafkakit.sandbox.decide.workload import build_request, plan_load
from kafkakit.sandbox.demo import load
from tests.integration.conftest import SandboxCluster, SilentReporter
from tests.places import ROOT
from tests.rigs.warm_start import folder_of_program

RUNBOOKS = ROOT / "docs" / "runbooks"
BLOCK = re.compile(r"^```sh( undo)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(name: str, *, undo: bool) -> list[str]:
    found = BLOCK.findall((RUNBOOKS / name).read_text(encoding="utf-8"))
    return [text for kind, text in found if bool(kind) == undo]


def sections(name: str) -> list[str]:
    """The shell lines of each numbered section, those of all its blocks together."""
    texts = re.split(r"^## ", (RUNBOOKS / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return ["".join(shell for _, shell in BLOCK.findall(text)) for text in texts if text[:1].isdecimal()]


def run_blocks(
    texts: list[str], folder: Path, env: dict[str, str], limit_s: float = 800
) -> subprocess.CompletedProcess[str]:
    # A service that a failed runbook leaves would keep the pipes open, and the test waiting.
    script = "set -eu\ntrap 'kill $(jobs -p) 2> /dev/null || :' EXIT\n" + "\n".join(texts)
    path = os.pathsep.join(map(str, (folder_of_program(), Path(sys.executable).parent, env["PATH"])))
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**env, "PATH": path},
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


def load_topics(cluster: SandboxCluster) -> None:
    request = build_request(topics=2, partitions=6, data="20MB", seed=3, replication=3, brokers=4, prefix="load")
    loads = plan_load(request, {node.id: node.rack or "" for node in cluster.state.layout.brokers})
    admin = cluster.open_admin()
    try:
        plane = KafkaData(cluster.bootstrap_servers, cluster.security)
        load(admin, plane, cluster.machine.clock, loads, 3, SilentReporter())
    finally:
        admin.close()
