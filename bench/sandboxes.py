"""A sandbox of one broker for the figures of clients."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
