"""A run whose terminal goes away: SIGHUP arrives, nothing can be written any more, and the run still ends in order."""

import os
import pty
import signal
import sys
import time
from pathlib import Path

import kafkakit

RUN = """
import sys, time
from pathlib import Path
from kafkakit import wiring
from kafkakit.cli.root import run
from kafkakit.core.documents import encode_plan
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeClock, FakeCluster

folder = Path(sys.argv[1])
cluster = FakeCluster({1: "a", 2: "b", 3: "c"}, line_rate=10_000)
cluster.add_topic("t", {0: (1, 2)}, size_bytes=20_000_000)
(folder / "p.json").write_bytes(encode_plan(make_plan(cluster, {("t", 0): (3, 2)})))
clock, sleep = FakeClock(), time.sleep
clock.on_sleep += [cluster.advance, lambda seconds: sleep(0.1)]
wiring.open_admin = lambda *a, **k: cluster
wiring.system_clock = lambda: clock
reassign = cluster.reassign
def noted(targets):
    answer = reassign(targets)
    (folder / "sent").touch()
    return answer
cluster.reassign = noted
words = ["--bootstrap-server", "x:1", "reassign", "apply", str(folder / "p.json"), "--yes", "--throttle", "5MB"]
code = run([*words, "--ingest-sample", "0"])
(folder / "code").write_text(str(code))
"""


def until_exists(path: Path) -> None:
    end = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < end, f"no {path.name}"
        time.sleep(0.05)


def test_a_run_whose_terminal_is_gone_stops_as_after_ctrl_c(tmp_path: Path) -> None:
    root = str(Path(kafkakit.__file__).parents[1])
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": root, "TERM": "xterm"}
    env |= {f"XDG_{n}_HOME": str(tmp_path / n.lower()) for n in ("CONFIG", "STATE", "CACHE")}
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.execve(sys.executable, [sys.executable, "-c", RUN, str(tmp_path)], env)
    until_exists(tmp_path / "sent")
    time.sleep(0.5)
    os.close(terminal)
    until_exists(tmp_path / "code")
    os.waitpid(pid, 0)
    assert (tmp_path / "code").read_text(encoding="utf-8") == "143"
    assert not (tmp_path / "state" / "kafkakit" / "crashes").exists()
