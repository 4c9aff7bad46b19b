"""The streams demo, once, with few records: everything goes wrong in turn, and every record has its end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Home

pytestmark = pytest.mark.kafka


def test_no_record_is_lost(home: Home) -> None:
    words = ["streams", "demo", "--name", "shown", "--rate", "100", "--phase", "1s", "-o", "json"]
    ended = subprocess.run(
        [sys.executable, "-m", "kafkakit", *words],
        env=home.env,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    counted = json.loads(ended.stdout)
    assert counted["lost"] == counted["lag"] == counted["unacknowledged"] == 0
    assert (counted["rejected"], counted["passed_batches"], counted["wrongly_rejected"]) == (1, 1, [])
    assert counted["written"] == counted["handled"] + 2 > 700
    assert counted["written_on_second_cluster"] > 10
    assert counted["deferred"] > 0
    assert counted["route_epoch"] == 6
    by_phase = {phase["phase"].partition(".")[0]: phase for phase in counted["phases"]}
    assert by_phase["5"]["rejected"] == by_phase["5"]["lanes"]["live"]["handled"] == 0
    assert by_phase["7"]["lanes"]["slow"]["written"] >= 500
    assert not [name for name in ("shown-a", "shown-b") if home.store(name).root.exists()]
    marker = f"{home.state_dir}/sandbox/shown-".encode()
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if marker in _read(path)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended meanwhile
        return b""
