"""Ctrl-C once and twice, in a search too, and a terminal that goes away."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kafkakit
from kafkakit import wiring
from kafkakit.cli.context import CliContext
from tests.cli.test_rebalance import crowded
from tests.places import ROOT
from tests.rigs.command_line import Home
from tests.rigs.waiting import until
from tests.rigs.warm_start import COMMAND, LAUNCHER, starters, warm_starts

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


def test_a_run_whose_terminal_is_gone_stops_as_after_ctrl_c(tmp_path: Path) -> None:
    root = str(Path(kafkakit.__file__).parents[1])
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": root, "TERM": "xterm"}
    env |= {f"XDG_{n}_HOME": str(tmp_path / n.lower()) for n in ("CONFIG", "STATE", "CACHE")}
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.execve(sys.executable, [sys.executable, "-c", RUN, str(tmp_path)], env)
    until((tmp_path / "sent").exists)
    time.sleep(0.5)
    os.close(terminal)
    until((tmp_path / "code").exists)
    os.waitpid(pid, 0)
    assert (tmp_path / "code").read_text(encoding="utf-8") == "143"
    assert not (tmp_path / "state" / "kafkakit" / "crashes").exists()


# A call of OpenSSL for minutes: like a solver's, it lets other threads run and does not look at signals. The
# thread that prints gets its turn only then.
HELD = """
import hashlib, os, signal, sys, threading
from kafkakit.cli.context import CliContext
from kafkakit.cli.search_watch import answered_at_once, watch_search

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
from kafkakit.cli.search_watch import watch_search
from kafkakit.placement.by_size.exact import ExactModel
from kafkakit.placement.by_size.slots import make_table
from kafkakit.placement.by_size.lp_relaxation import LoadLimits
from kafkakit.placement.group_rule import SpreadRule

sizes = [random.Random(n).randrange(1 << 40) for n in range(60)]
table = make_table([[n % 3] for n in range(60)], sizes, {{}}, SpreadRule(), receivers=(0, 1, 2))
none, most = np.zeros(3, dtype=np.int64), np.full(3, sum(sizes))
cli = CliContext()
{prepare}
with watch_search(cli) as watch:
    limits = LoadLimits(floor=none, ceiling=most, even=np.ones(3, dtype=bool), offset=none)
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
    with held("watch_search(CliContext())") as process:
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


# A flow that its solver does not end, as large ones do not for minutes: it has a process of its own.
FLOWING = """
import hashlib, os, signal
import numpy as np
from kafkakit.cli.context import CliContext
from kafkakit.cli.search_watch import answered_at_once, watch_search
from kafkakit.core.errors import KafkakitError
from kafkakit.placement import network

def solve(self, costs):
    os.write(2, b"held\\n")
    hashlib.pbkdf2_hmac("sha256", b"p", b"s", 2_000_000_000)

cli = CliContext()
{prepare}
flow = network.FlowNetwork()
flow.nodes(2)
flow.supply(np.array([0, 1]), np.array([5, -5]))
flow.arcs(np.zeros(network.APART_ARCS, dtype=np.int64), 1, 1, np.arange(network.APART_ARCS))
with answered_at_once(None):
    assert (flow.solve(), flow.flow(0).sum(), flow.flow(0)[:5].all()) == (10, 5, True)
network.FlowNetwork._solve = solve
try:
    with {manager}:
        flow.solve()
except (KafkakitError, KeyboardInterrupt) as error:
    print(type(error).__name__, getattr(error, "message", ""))
"""
BEFORE_A_PLAN = "before a plan was found; nothing was written"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGINT, f"InterruptedRunError interrupted {BEFORE_A_PLAN}\n"),
        (signal.SIGTERM, f"TerminatedRunError terminated {BEFORE_A_PLAN}\n"),
    ],
)
def test_a_signal_ends_a_flow_and_the_process_that_solves_it(number: signal.Signals, said: str) -> None:
    with held("watch_search(cli)", FLOWING) as process:
        process.send_signal(number)
        # The end of the pipes is the end of both processes.
        assert process.communicate(timeout=280)[0] == said


def test_a_flow_without_a_plan_so_far_is_ended_at_once() -> None:
    prepare = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    with held("answered_at_once(None)", FLOWING, prepare) as process:
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=280)[0] == "KeyboardInterrupt \n"


def test_a_time_limit_ends_a_flow() -> None:
    with held("watch_search(cli)", FLOWING, 'cli.take("timeout", "3s", "option")') as process:
        assert process.communicate(timeout=280)[0] == f"TryLaterError stopped by --timeout {BEFORE_A_PLAN}\n"


STOPPED_LATE = """
import os, signal, sys, time
from kafkakit.cli import root, search_watch
from kafkakit.placement.by_size import tightening

search_watch.WITHIN_S = 0.2
def endless(*given, **words):
    os.kill(os.getpid(), signal.SIGTERM)
    while True:
        time.sleep(0.01)

tightening.in_window = endless
sys.exit(root.run(sys.argv[1:], started_s=time.monotonic()))
"""


def test_a_search_that_does_not_listen_is_ended_and_says_that_nothing_was_written(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.work.mkdir(parents=True)
    crowded(home)
    words = ["topicmappr", "rebalance", "--topics", "a", "--brokers", "-1", "--max-moved-bytes", "900GiB"]
    ran = subprocess.run(
        [sys.executable, "-c", STOPPED_LATE, *words, "--snapshot", "s.json", "--plan", "p.json"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        cwd=home.work,
        env={**home.environment(), "PYTHONPATH": str(ROOT)},
    )
    assert (ran.returncode, ran.stdout) == (143, "")
    assert ran.stderr.endswith("error: terminated; nothing was written\n")
    assert {p.name for p in home.work.iterdir()} == {"s.json"}


def test_a_stop_after_a_file_was_written_names_it(tmp_path: Path) -> None:
    cli = CliContext()
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("old")
    write = cli.noting(wiring.write_files)
    write([(new, b"new")])

    def stopped() -> Iterator[tuple[Path, bytes]]:
        yield old, b"changed"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(stopped())
    assert cli.written == [str(new)]
    assert old.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new.json", "old.json"]


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


@pytest.fixture(scope="module")
def warm() -> Iterator[None]:
    with warm_starts():
        yield


@pytest.mark.parametrize(
    "words",
    [["--version"], ["no-such-command"], ["topicmappr", "check"], ["lint", "x.yaml", "-o", "json"], ["lint", "-"]],
)
def test_a_warm_start_is_like_a_new_interpreter(warm: None, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "x.yaml").write_text("kafkakit: cluster\n", encoding="utf-8")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    ends = []
    for command in (COMMAND, [sys.executable, "-u", *COMMAND[1:]]):
        ran = subprocess.run(
            [*command, *words], input="process.roles=nobody\n", capture_output=True, text=True, cwd=tmp_path, env=env,
            check=False,
        )  # fmt: skip
        ends.append((ran.returncode, ran.stdout, ran.stderr))
    assert ends[0] == ends[1]


def test_a_warm_start_is_stopped_as_a_new_interpreter_is(warm: None) -> None:
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, starters[-1].address()]
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        waits = subprocess.Popen([*launcher, "lint", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        until(starters[-1].commands, "a command")
        while waits.poll() is None:
            waits.send_signal(number)
            time.sleep(0.05)
        waits.communicate()
        assert waits.returncode in (code, -number)
