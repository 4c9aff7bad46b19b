"""Ctrl-C while a solver has the main thread, where Python's own handlers wait: in real processes."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.places import ROOT

# A call of OpenSSL for minutes: like a solver's, it lets other threads run and does not look at signals. The
# thread that prints gets its turn only then.
HELD = """
import hashlib, os, signal, sys, threading
from kafkakit.cli.context import CliContext
from kafkakit.cli.search_watch import answered_at_once, watching

sys.setswitchinterval(1000)
begun = threading.Event()
threading.Thread(target=lambda: begun.wait() and os.write(2, b"held\\n"), daemon=True).start()
with {manager}:
    begun.set()
    hashlib.pbkdf2_hmac("sha256", b"p", b"s", 2_000_000_000)
"""

# Numbers that no one can part evenly in a lifetime: only a solver that is told to end does.
SOLVING = """
import os, random
import numpy as np
from kafkakit.cli.context import CliContext
from kafkakit.cli.search_watch import watching
from kafkakit.placement.by_size.exact import ExactModel
from kafkakit.placement.by_size.slots import make_table
from kafkakit.placement.by_size.lp_relaxation import Limits
from kafkakit.placement.group_rule import GroupRule

sizes = [random.Random(n).randrange(1 << 40) for n in range(60)]
table = make_table([[n % 3] for n in range(60)], sizes, {{}}, GroupRule(), receivers=(0, 1, 2))
none, most = np.zeros(3, dtype=np.int64), np.full(3, sum(sizes))
cli = CliContext()
{prepare}
with watching(cli) as watch:
    limits = Limits(floor=none, ceiling=most, even=np.ones(3, dtype=bool), offset=none)
    model = ExactModel(table, limits, slides=True, watch=watch)
    solving = watch.solving
    watch.solving = lambda end: (solving(end), os.write(2, b"held\\n"))
    print(model.minimize(model.width, work=1e9)[0], watch.stopped(), model.minimize(model.width, work=1e9)[0])
"""


@contextmanager
def held(manager: str, code: str = HELD, prepare: str = "") -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", code.format(manager=manager, prepare=prepare)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if line == "held\n":
                    break
            yield process
        finally:
            process.kill()


def test_the_first_is_answered_and_the_second_ends_at_once() -> None:
    with held("watching(CliContext())") as process:
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline().startswith("stopping: the best plan found so far will be used; press Ctrl-C")
        process.send_signal(signal.SIGINT)
        assert (process.wait(280), process.stderr.read()) == (130, "error: interrupted\n")


@pytest.mark.parametrize(
    ("number", "ended"),
    [(signal.SIGINT, (130, "error: interrupted\n")), (signal.SIGTERM, (143, "error: terminated\n"))],
)
def test_without_a_plan_so_far_the_first_ends_at_once(number: signal.Signals, ended: tuple[int, str]) -> None:
    manager = "answered_at_once(None)"
    if number == signal.SIGTERM:  # as the program takes it
        manager = f"signal.signal(signal.SIGTERM, signal.default_int_handler) or {manager}"
    with held(manager) as process:
        assert process.stderr is not None
        process.send_signal(number)
        assert (process.wait(280), process.stderr.read()) == ended


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_ends_the_call_of_the_solver_that_runs_and_no_other_begins(number: signal.Signals) -> None:
    with held("", SOLVING) as process:
        assert process.stdout is not None
        process.send_signal(number)
        assert process.communicate(timeout=280)[0] == "False True False\n"
        assert process.returncode == 0


def test_a_time_limit_ends_the_call_of_the_solver_that_runs() -> None:
    with held("", SOLVING, 'cli.take("timeout", "3s", "option")') as process:
        assert process.communicate(timeout=280)[0] == "False True False\n"


PLANNING = """
import hashlib, os, sys, threading, time
from pathlib import Path
from kafkakit import wiring
from kafkakit.broker.act import move_off
from kafkakit.cli import root
from tests.fakes.admin import FakeClock, FakeCluster

sys.setswitchinterval(1000)
home = Path({prepare!r})
(home / "config" / "kafkakit" / "profiles.d").mkdir(parents=True)
(home / "config" / "kafkakit" / "profiles.d" / "p.yaml").write_text("bootstrap_server: fake:1")
os.environ.update(HOME=str(home), XDG_CONFIG_HOME=str(home / "config"), XDG_STATE_HOME=str(home / "state"))
cluster = FakeCluster({{1: "a", 2: "b", 3: "c"}}, line_rate=1_000_000)
cluster.add_topic("t", {{0: (1, 2)}}, size_bytes=20_000_000)
wiring.open_admin = lambda settings, read_only=False: cluster
wiring.system_clock = FakeClock
begun = threading.Event()
threading.Thread(target=lambda: begun.wait() and os.write(2, b"held\\n"), daemon=True).start()

def decide(*given):
    begun.set()
    hashlib.pbkdf2_hmac("sha256", b"p", b"s", 2_000_000_000)

move_off.decide_operation = decide
sys.exit(root.run(["--profile", "p", "broker", "drain", "1", "--yes"], started_s=time.monotonic()))
"""


@pytest.mark.parametrize(
    ("number", "ended"),
    [(signal.SIGINT, (130, "error: interrupted\n")), (signal.SIGTERM, (143, "error: terminated\n"))],
)
def test_the_first_ends_the_planning_of_a_drain_of_brokers(
    tmp_path: Path, number: signal.Signals, ended: tuple[int, str]
) -> None:
    with held("", PLANNING, str(tmp_path)) as process:
        assert process.stderr is not None
        process.send_signal(number)
        assert (process.wait(280), process.stderr.read()) == ended
