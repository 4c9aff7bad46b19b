"""Sandboxes for figures: one broker whose address is enough, or a cluster in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkakit.sandbox.decide.spec import ClientSecurity
    from tests.rigs.sandbox_cluster import Home, SandboxCluster


@contextmanager
def one_broker(servers: str) -> Iterator[str]:
    """The address of a broker that is started and removed; `servers` where it is not empty."""
    if servers:
        yield servers
        return
    kit = [sys.executable, "-m", "kafkakit", "sandbox"]
    with tempfile.TemporaryDirectory() as folder:
        places = {"XDG_STATE_HOME": folder, "XDG_CONFIG_HOME": folder, "PYTHONPATH": str(Path(__file__).parent.parent)}
        env = os.environ | places
        up = subprocess.run(
            [*kit, "up", "--brokers", "1", "-o", "json"], env=env, check=True, capture_output=True, text=True
        )
        try:
            yield json.loads(up.stdout)["bootstrap_servers"]
        finally:
            subprocess.run([*kit, "down"], env=env, check=True, capture_output=True)


def new_home(prefix: str) -> Home:
    """Folders of a bench's own, which stay; jars are shared with the machine."""
    from tests.rigs.sandbox_cluster import Home

    return Home(folder=Path(tempfile.mkdtemp(prefix=prefix)), cache=Path.home() / ".cache" / "kafkakit")


def start_cluster(
    home: Home, name: str, *, brokers: int = 1, racks: int = 1, secure: ClientSecurity | None = None
) -> SandboxCluster:
    """A cluster of KRaft with one log dir a broker, which the caller takes down; without logins if not said."""
    from kafkakit.sandbox import lifecycle
    from kafkakit.sandbox.decide import spec
    from kafkakit.wiring import this_machine
    from tests.rigs.sandbox_cluster import SandboxCluster, SilentReporter

    machine, store = this_machine(home.cache), home.store(name)
    asked = spec.build_spec(
        name=name, brokers=brokers, racks=racks, log_dirs=(1,), kafka=None, mode=spec.MetadataMode.KRAFT,
        secure=secure or spec.ClientSecurity.NONE,
    )  # fmt: skip
    state, _ = lifecycle.start_sandbox(machine, store, asked, SilentReporter())
    return SandboxCluster(machine=machine, store=store, home=home, state=state)
