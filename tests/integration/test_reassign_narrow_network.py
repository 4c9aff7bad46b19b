"""Hundreds of partitions over a network that carries less than the throttle allows.

The checks are in `narrow_network.py`, which pytest runs in a network namespace of its own, on its loopback.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rigs.required import missing

CHECKS = Path(__file__).with_name("narrow_network.py")
READY = "ip link set lo up && tc qdisc add dev lo root tbf rate 1gbit burst 1mb latency 50ms"


@pytest.mark.kafka
def test_hundreds_of_moves_over_a_narrow_network_end_well() -> None:
    try:
        tried = subprocess.run(["unshare", "--net", "sh", "-c", READY], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        missing("netns", str(error))
    if tried.returncode:
        missing("netns", f"no network namespace with tc (root, Debian's iproute2): {tried.stderr.strip()}")
    inside = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", str(CHECKS)]
    words = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *inside]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(words, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]
    assert "1 passed" in ran.stdout
