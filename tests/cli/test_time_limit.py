"""`--timeout` holds on addresses that are silent, close, or take no connection, and against code that does not stop."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

import kafkakit
from kafkakit.cli import root as stop_signals
from kafkakit.cli.root import StopSignals
from kafkakit.core.documents import encode_plan
from kafkakit.core.errors import DeadlineReached
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster
from tests.rigs.command_line import Home

LIMIT_S = 1.5
# Connections are tried for as long as a request may take, not for 10 s.
PATIENT = """
import sys, time
from kafkakit import wiring
from kafkakit.cli.root import run
wiring.min = max
sys.exit(run([*sys.argv[1:], "-X", "request_timeout=20m"], started_s=time.monotonic()))
"""
COMMANDS = [
    ("silent", "topicmappr check"),
    ("closing", "snapshot"),
    ("full", "reassign status --watch"),
    ("silent", "streams lag check"),
    ("full", "streams commits show g"),
    ("closing", "streams lag watch"),
    ("silent", "streams records show t/0@1"),
    ("silent", "reassign apply PLAN --yes"),
    ("full", "doctor"),
]


@contextmanager
def address(kind: str) -> Iterator[str]:
    """Where every connection is kept without a word, is closed at once, or waits for a full backlog."""
    with ExitStack() as stack:
        server = stack.enter_context(
            closing(socket.create_server(("127.0.0.1", 0), backlog=0 if kind == "full" else 9))
        )

        def serve() -> None:
            try:
                while True:
                    connection, _ = server.accept()
                    if kind == "closing":
                        connection.close()
                    else:
                        stack.enter_context(closing(connection))
            except OSError:
                return

        if kind == "full":
            for _ in range(3):
                waiting = stack.enter_context(closing(socket.socket()))
                waiting.setblocking(False)
                waiting.connect_ex(server.getsockname())
        else:
            stack.callback(server.shutdown, socket.SHUT_RDWR)
            threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def ran(home: Home, *words: str) -> tuple[int, str]:
    env = home.environment() | {"PYTHONPATH": str(Path(kafkakit.__file__).parents[1])}
    done = subprocess.run(words, env=env, cwd=home.work, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=280, check=False)  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(("kind", "command"), COMMANDS)
def test_no_address_holds_a_command_longer_than_its_time_limit(home: Home, kind: str, command: str) -> None:
    """Without the limit each of them would be held for longer, and end with other words."""
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"})
    cluster.add_topic("t", {0: (1, 2)})
    plan = home.work / "p.json"
    plan.write_bytes(encode_plan(make_plan(cluster, {("t", 0): (3, 2)})))
    words = command.replace("PLAN", str(plan)).split()
    program = (sys.executable, "-c", PATIENT)
    with address(kind) as servers:
        code, stderr = ran(home, *program, *words, "--bootstrap-server", servers, "--timeout", f"{LIMIT_S}s")
    assert (code, stderr.splitlines()[-1]) == (75, f"error: stopped after --timeout ({LIMIT_S} s)")


# The time limit begins with the command, and the process is ended once the command has failed: a machine may be slow.
STUBBORN = """
import sys, threading, time, typer
from kafkakit.cli import command_classes as command, root as cli
from kafkakit.cli.root import CommandSource
from kafkakit.cli.root import StopSignals
from kafkakit.core.errors import InterruptedRunError
start, end, given, failed = StopSignals.start_timer, StopSignals._end_process, [], threading.Event()
StopSignals.start_timer = lambda stops, seconds, report: given.extend((stops, report))
StopSignals._end_process = lambda stops, report: failed.wait() and end(stops, report)
app = command.new_group("t")
@app.command("wait", cls=command.CliCommand)
def wait(ctx: typer.Context) -> None:
    "Wait."
    how = {how!r}
    last_s = 0.5 if how == "done" else 600
    threading.Thread(target=lambda: (time.sleep(last_s), print("lived", file=sys.stderr))).start()
    try:
        if how == "done":
            return
        given[0]._started_s = time.monotonic()
        start(given[0], 0.2, given[1])
        time.sleep(600)
    except KeyboardInterrupt:
        if how == "run":
            try:
                raise InterruptedRunError("one move continues", hint="resume it") from None
            finally:
                failed.set()
                while True:
                    try:
                        time.sleep(600)
                    except KeyboardInterrupt:
                        pass
        failed.set()
        time.sleep(600)
module = type(sys)("m"); module.app = app; sys.modules["m"] = module
cli.ENTRIES = (CommandSource("wait", "m", "t", is_group=False),)
code = cli.run(["wait", "--timeout", "2s"], started_s=time.monotonic())
failed.set()
given[0]._end_process(given[1])
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("waits again", 75, "error: stopped after --timeout (2 s)\n"),
        ("run", 75, "error: one move continues\nhint: resume it\n"),
    ],
)
def test_what_does_not_stop_is_ended_with_the_words_it_had(home: Home, how: str, code: int, said: str) -> None:
    assert ran(home, sys.executable, "-c", STUBBORN.replace("{how!r}", repr(how))) == (code, said)


def test_a_command_that_was_done_in_time_is_not_ended(home: Home) -> None:
    assert ran(home, sys.executable, "-c", STUBBORN.replace("{how!r}", repr("done"))) == (0, "lived\n")


def test_a_signal_that_was_not_taken_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the main thread is in a call that lets no handler run, or the whole process got no turn."""
    monkeypatch.setattr(stop_signals, "END_AFTER_S", 0.0)
    ended, said = list[int](), list[BaseException]()
    monkeypatch.setattr("os._exit", ended.append)
    stops = StopSignals(time.monotonic())

    def report(error: BaseException) -> int:
        said.append(error)
        return 75

    ending = threading.Thread(target=stops._end_process, args=(report,))
    ending.start()
    ending.join(0.3)
    assert (ending.is_alive(), ended) == (True, [])
    stops.received = DeadlineReached()
    ending.join(60)
    assert (ended, said) == ([75], [stops.received])
