"""The streams demo with few records: everything goes wrong in turn, every record has its end, and nothing stays."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Home
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka
NAMES = ("shown-a", "shown-b")
DEMO = [sys.executable, "-m", "kafkakit", "streams", "demo", "--name", "shown", "--rate", "100"]


def assert_nothing_stays(home: Home) -> None:
    assert not [name for name in NAMES if home.store(name).root.exists()]
    marker = f"{home.state_dir}/sandbox/shown-".encode()
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if marker in _read(path)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended meanwhile
        return b""


def test_no_record_is_lost(home: Home) -> None:
    ended = subprocess.run(
        [*DEMO, "--phase", "1s", "-o", "json"],
        env=home.env,
        capture_output=True,
        text=True,
        timeout=850,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    counted = json.loads(ended.stdout)
    assert counted["lost"] == counted["lag"] == counted["unacknowledged"] == 0
    assert (counted["rejected"], counted["passed_batches"], counted["wrongly_rejected"]) == (1, 1, [])
    # Seven phases of a second, of which one has a burst of five seconds' worth.
    assert counted["written"] == counted["handled"] + 2 > 1_000
    assert counted["written_on_second_cluster"] >= 50
    assert counted["deferred"] > 0
    assert counted["route_epoch"] == 6
    by_phase = {phase["phase"].partition(".")[0]: phase for phase in counted["phases"]}
    assert [by_phase[number]["rejected"] for number in "23456"] == [0, 1, 1, 0, 0]
    assert by_phase["7"]["lanes"]["slow"]["written"] >= 500
    # The lane itself has both, each with its reason.
    assert "1  max-tries" in ended.stderr
    assert "1  batch too large" in ended.stderr
    assert_nothing_stays(home)


@pytest.mark.parametrize(
    ("number", "code", "title"),
    [(signal.SIGINT, 130, "== 1."), (signal.SIGTERM, 143, "== 1."), (signal.SIGINT, 130, "== 2.")],
)
def test_a_stopped_demo_removes_both_clusters(
    number: signal.Signals, code: int, title: str, home: Home, tmp_path: Path
) -> None:
    said = tmp_path / "stderr"
    with said.open("wb") as stream:
        # A terminal sends Ctrl-C to the commands that the demo runs as well.
        process = subprocess.Popen(
            [*DEMO, "--phase", "60s"],
            env=home.env,
            stdout=subprocess.DEVNULL,
            stderr=stream,
            start_new_session=True,
        )
        try:
            is_there = home.store(NAMES[0]).state_file.exists
            until(
                lambda: (title in said.read_text() and is_there()) or process.poll() is not None,
                wait_s=400,
                seen=said.read_text,
            )
            assert process.poll() is None, said.read_text()
        finally:
            if process.poll() is None and number == signal.SIGINT:
                os.killpg(process.pid, number)
            elif process.poll() is None:
                process.send_signal(number)
            ended = process.wait(400)
    assert ended == code, said.read_text()
    assert "Traceback" not in said.read_text()
    assert_nothing_stays(home)
