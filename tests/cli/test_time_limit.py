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
from kafkakit.core.documents import encode_plan
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster
from tests.rigs.command_line import Home

LIMIT_S = 1.5
SLACK_S = 1.0
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


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.work.mkdir(parents=True)
    return home


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


def timed(home: Home, *words: str) -> tuple[int, str, float]:
    started_s = time.monotonic()
    env = home.environment() | {"PYTHONPATH": str(Path(kafkakit.__file__).parents[1])}
    ran = subprocess.run(words, env=env, cwd=home.work, capture_output=True, text=True,
                         stdin=subprocess.DEVNULL, timeout=60, check=False)  # fmt: skip
    return ran.returncode, ran.stderr, time.monotonic() - started_s


@pytest.mark.parametrize(("kind", "command"), COMMANDS)
def test_no_address_holds_a_command_longer_than_its_time_limit(home: Home, kind: str, command: str) -> None:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"})
    cluster.add_topic("t", {0: (1, 2)})
    plan = home.work / "p.json"
    plan.write_bytes(encode_plan(make_plan(cluster, {("t", 0): (3, 2)})))
    words = command.replace("PLAN", str(plan)).split()
    program = (sys.executable, "-m", "kafkakit")
    _, _, bare_s = timed(home, *program, *words, "--help")  # a loaded machine starts slowly
    with address(kind) as servers:
        code, stderr, took_s = timed(home, *program, *words, "--bootstrap-server", servers, "--timeout", f"{LIMIT_S}s")
    assert (code, stderr.splitlines()[-1]) == (75, f"error: stopped after --timeout ({LIMIT_S} s)")
    assert took_s <= LIMIT_S + SLACK_S + 2 * bare_s


STUBBORN = """
import sys, threading, time, typer
started_s = time.monotonic()
from kafkakit.cli import command_classes as command, root as cli
from kafkakit.cli.groups import Entry
from kafkakit.core.errors import InterruptedRunError
app = command.new_group("t")
@app.command("wait", cls=command.CliCommand)
def wait(ctx: typer.Context) -> None:
    "Wait."
    threading.Thread(target=time.sleep, args=(40,)).start()
    how = {how!r}
    try:
        time.sleep(0 if how == "done" else 40)
    except KeyboardInterrupt:
        if how == "run":
            try:
                raise InterruptedRunError("one move continues", hint="resume it") from None
            finally:
                while True:
                    try:
                        time.sleep(40)
                    except KeyboardInterrupt:
                        pass
        time.sleep(40)
module = type(sys)("m"); module.app = app; sys.modules["m"] = module
cli.ENTRIES = (Entry("wait", "m", "t", is_group=False),)
sys.exit(cli.run(["wait", "--timeout", "2s"], started_s=started_s))
"""


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("waits again", 75, "error: stopped after --timeout (2 s)\n"),
        ("run", 75, "error: one move continues\nhint: resume it\n"),
    ],
)
def test_what_does_not_stop_is_ended_with_the_words_it_had(home: Home, how: str, code: int, said: str) -> None:
    found, stderr, took_s = timed(home, sys.executable, "-c", STUBBORN.replace("{how!r}", repr(how)))
    assert (found, stderr) == (code, said)
    assert took_s < 10


def test_a_command_that_was_done_in_time_is_not_ended(home: Home) -> None:
    code = STUBBORN.replace("{how!r}", repr("done")).replace("args=(40,)", "args=(5,)")
    code = code.replace('"2s"', '"4s"')
    found, stderr, took_s = timed(home, sys.executable, "-c", code)
    assert (found, stderr) == (0, "")
    assert took_s > 5
