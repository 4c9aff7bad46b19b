"""The demo that `make demo` shows: real brokers, one killed under load, nothing lost.

KRaft runs in its hardest form, SCRAM over TLS; the runbook's test takes the same way on an open KRaft cluster.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Home


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("mode", "secure"),
    [
        pytest.param("zookeeper", "none", marks=pytest.mark.zookeeper),
        ("kraft", "scram-tls"),
    ],
)
def test_a_broker_dies_and_nothing_is_lost(mode: str, secure: str, home: Home) -> None:
    name = f"demo-{mode}-{secure}"
    words = ["sandbox", "demo", "--mode", mode, "--secure", secure, "--name", name, "--data", "10MB", "-o", "json"]
    ended = subprocess.run(
        [sys.executable, "-m", "kafkakit", *words],
        env=home.env,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    counted = json.loads(ended.stdout)
    assert counted["acknowledged"] > 1000
    assert counted["lost"] == []
    assert counted["loaded_before"] == counted["loaded_after"] > 100
    assert counted["read"] == counted["acknowledged"] + counted["repeated"]
    assert "gap 0 (optimal)" in ended.stderr
    assert "complete:" in ended.stderr
    assert "throttles: all removed" in ended.stderr
    assert not home.store(name).root.exists()
    marker = f"{home.store(name).root}/".encode()
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if marker in _read(path)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended meanwhile
        return b""
