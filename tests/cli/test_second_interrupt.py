"""A second Ctrl-C, at many moments after the first: one line that says what may run, and one command that resumes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

SCRIPT = """
import json, os, signal, sys, time
from pathlib import Path
from kafkakit import wiring
from kafkakit.cli import root
from kafkakit.core.documents import encode_plan
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeClock, FakeCluster

folder, moments = Path(sys.argv[1]), json.loads(sys.argv[2])
plan = None

def child(moment):
    home = folder / str(moment)
    (home / "config" / "kafkakit" / "profiles.d").mkdir(parents=True)
    (home / "config" / "kafkakit" / "profiles.d" / "p.yaml").write_text("bootstrap_server: fake:1\\n")
    os.environ.update(HOME=str(home), XDG_CONFIG_HOME=str(home / "config"), XDG_STATE_HOME=str(home / "state"))
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"}, line_rate=1_000_000)
    cluster.add_topic("t", {0: (1, 2)}, size_bytes=20_000_000)
    path = home / "p.json"
    path.write_bytes(encode_plan(make_plan(cluster, {("t", 0): (3, 2)})))
    clock = FakeClock()
    clock.on_sleep.append(cluster.advance)
    events = 0

    def count(frame, event, argument):
        nonlocal events
        events += 1
        if events == moment:
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGINT)

    def press(_):
        if cluster.reassignments() and clock.elapsed > 5:
            clock.on_sleep.remove(press)
            sys.setprofile(count)
            os.kill(os.getpid(), signal.SIGINT)

    if moment >= 0:
        clock.on_sleep.append(press)
    wiring.open_admin = lambda settings, read_only=False: cluster
    wiring.system_clock = lambda: clock
    words = ["--profile", "p", "reassign", "apply", str(path), "--yes", "--throttle", "1MB", "--ingest-sample", "0"]
    return root.run(words, started_s=time.monotonic())

assert child(-1) == 0  # imports what the others need
for moment in moments:
    place = folder / f"{moment}.err"
    pid = os.fork()
    if not pid:
        os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT, 0o600), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os._exit(child(moment))
    status = os.waitpid(pid, 0)[1]
    print(json.dumps([moment, os.waitstatus_to_exitcode(status), place.read_text()]))
"""
MOMENTS = [1, 2, 5, *(int(9 * 1.6**n) for n in range(17))]


def test_a_second_ctrl_c_prints_one_error_and_the_command_that_resumes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), json.dumps(MOMENTS)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, env=env, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[")]
    assert len(found) == len(MOMENTS)
    seen = set()
    for moment, code, err in found:
        resume = f"kafkakit --profile p reassign apply {tmp_path}/{moment}/p.json --yes --ingest-sample 0"
        errors = [line for line in err.splitlines() if line.startswith("error: ")]
        assert code == 128 + signal.SIGINT, (moment, err)
        assert "Traceback" not in err, (moment, err)
        assert len(errors) == 1, (moment, err)
        assert err.count(f"hint: to resume: {resume}\n") + err.count(f"\n{resume}\n") == 1, (moment, err)
        seen.add(errors[0])
    assert "error: stopped; moves may still run on the cluster and throttles may be set" in seen
    assert any("stopped; 1 of 1 moves still run on the cluster" in line for line in seen)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_after_another_stop_ends_at_once_with_the_code_of_the_first(number: int) -> None:
    script = (
        "import os, signal, sys, time\n"
        "from kafkakit.cli.root import StopSignals\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # which nohup has ignored, if the tests run under it
        "stops = StopSignals(time.monotonic())\n"
        "stops.last_words = lambda: 'last words\\n'\n"
        "stops.install()\n"
        "try:\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    time.sleep(60)\n"
        "finally:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(60)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=280, check=False, cwd=ROOT
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (143, "", "last words\n")
