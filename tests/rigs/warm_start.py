"""Commands of kafkakit that tests run to their end start from a process that has imported it already: 0.1 s for 1 s.

`subprocess.run([sys.executable, "-m", "kafkakit", ...])` is what tests write and what they get: a process of its own,
with its own arguments, environment, folder and open files, its output and exit code. Only the imports are not made
again. `warm_starts` puts a small program in the place of the interpreter; it hands its open files to the process that
waits here, which forks. What has to be killed, stopped or watched is started by `Popen`, as a new interpreter.

- The process that waits has one thread and no connection, so that a fork of it is whole. It ends with its parent.
- A command whose caller is gone is killed.
- A command ends with the status of a new interpreter: its exit code, or 1 with a traceback.
"""

import array
import contextlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-m", "kafkakit"]
# What commands import when they run, beside the modules of kafkakit; grpc is left out, since it may begin threads.
IMPORTED = ("typer", "pydantic", "rich.console", "zoneinfo", "stringprep", "confluent_kafka")
LEFT_OUT = ("kafkakit.__main__", "kafkakit.adapters.rpc")
# The options of `subprocess.run` that mean the same for a command that is forked.
PLAIN = frozenset({"capture_output", "check", "cwd", "encoding", "env", "errors", "input", "stderr", "stdin", "stdout",
                   "text", "timeout"})  # fmt: skip
# Needs neither site-packages nor this project: it starts in 0.02 s. Exit codes of signals are negative, as in `Popen`.
LAUNCHER = """
import array, json, os, signal, socket, sys
way = socket.socket(socket.AF_UNIX)
way.connect(sys.argv[1])
body = json.dumps([sys.argv[2:], dict(os.environ), os.getcwd()]).encode()
files = array.array("i", [0, 1, 2])
way.sendmsg([len(body).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
way.sendall(body)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: way.send(bytes([number])))
end = way.recv(4)
code = int.from_bytes(end, "big", signed=True) if len(end) == 4 else 1
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@contextlib.contextmanager
def warm_starts() -> Iterator[None]:
    """While this lasts, `subprocess.run` starts commands of kafkakit from a process that has imported it."""
    with tempfile.TemporaryDirectory(prefix="kafkakit-warm-") as name:
        starter, run = Starter(Path(name) / "s"), subprocess.run

        def replaced(arguments: Any, **options: Any) -> Any:
            if isinstance(arguments, list) and arguments[:3] == COMMAND and options.keys() <= PLAIN:
                rest = [os.fspath(word) for word in arguments[3:]]
                arguments = [sys.executable, "-I", "-S", "-c", LAUNCHER, starter.address(), *rest]
            return run(arguments, **options)

        subprocess.run = replaced  # type: ignore[assignment]
        starters.append(starter)
        try:
            yield
        finally:
            starters.remove(starter)
            subprocess.run = run
            starter.end()


starters: "list[Starter]" = []


def folder_of_program() -> Path:
    """Where shells find `kafkakit`: the console script, or the program that stands for it."""
    if not starters:
        return Path(sys.executable).parent
    address = starters[-1].address()
    program = Path(address).parent / "bin" / "kafkakit"
    program.parent.mkdir(exist_ok=True)
    program.write_text(
        f"#!{sys.executable} -IS\nimport sys\nsys.argv.insert(1, {address!r}){LAUNCHER}", encoding="utf-8"
    )
    program.chmod(0o755)
    return program.parent


class Starter:
    """The process that waits, started when it is needed first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None

    def address(self) -> str:
        """Where it listens; it does so when this returns."""
        if self._process is None or self._process.poll() is not None:
            self._path.unlink(missing_ok=True)
            work = f"from {__name__} import wait_for_work; wait_for_work()"
            command = [sys.executable, "-c", work, str(self._path)]
            path = os.pathsep.join(filter(None, sys.path))
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": path}
            )
            assert self._process.stdout is not None
            assert self._process.stdout.readline() == b"ready\n", "the process that starts commands does not start"
        return str(self._path)

    def commands(self) -> list[str]:
        """The ids of the processes that run commands now."""
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text(encoding="utf-8").split()

    def end(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()


def wait_for_work() -> None:
    """Fork a command for each caller until the parent is gone."""
    import gc

    import kafkakit

    modules = (found.name for found in pkgutil.walk_packages(kafkakit.__path__, "kafkakit."))
    for name in (*IMPORTED, *(each for each in modules if not each.startswith(LEFT_OUT))):
        with contextlib.suppress(ImportError):
            import_module(name)
    gc.collect()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen(64)
    wakes, woken = socket.socketpair()
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno())
    callers: dict[int, socket.socket] = {}
    own = [listener, wakes, woken]
    with selectors.DefaultSelector() as waiting:
        waiting.register(0, selectors.EVENT_READ)
        waiting.register(listener, selectors.EVENT_READ)
        waiting.register(woken, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            for key, _ in waiting.select():
                if key.fileobj == 0:
                    for pid in callers:
                        os.kill(pid, signal.SIGKILL)
                    return
                if key.fileobj is listener:
                    caller, _ = listener.accept()
                    pid = forked(caller, [*own, *callers.values()])
                    callers[pid] = caller
                    waiting.register(caller, selectors.EVENT_READ, pid)
                elif key.fileobj is woken:
                    woken.recv(1000)
                    tell_ends(callers, waiting)
                elif key.data in callers:
                    pass_on(key.data, callers[key.data], waiting)


def tell_ends(callers: dict[int, socket.socket], waiting: selectors.BaseSelector) -> None:
    for pid in list(callers):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            caller = callers.pop(pid)
            with contextlib.suppress(KeyError):
                waiting.unregister(caller)
            with caller, contextlib.suppress(OSError):
                caller.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))


def pass_on(pid: int, caller: socket.socket, waiting: selectors.BaseSelector) -> None:
    """A signal that the caller got, or the end of a caller that is gone."""
    try:
        number = caller.recv(1)
    except OSError:
        number = b""
    if number:
        os.kill(pid, number[0])
    else:
        waiting.unregister(caller)
        os.kill(pid, signal.SIGKILL)


def forked(caller: socket.socket, others: list[socket.socket]) -> int:
    head, passed, _, _ = caller.recvmsg(4, socket.CMSG_SPACE(3 * array.array("i").itemsize))
    files = array.array("i", passed[0][2])
    size, body = int.from_bytes(head, "big"), b""
    while len(body) < size:
        body += caller.recv(size - len(body))
    pid = os.fork()
    if pid:
        for number in files:
            os.close(number)
        return pid
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for other in (*others, caller):
            other.close()
        for number, target in zip(files, (0, 1, 2), strict=True):
            os.dup2(number, target)
            os.close(number)
        code = command(*json.loads(body))
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def command(words: list[str], environment: dict[str, str], folder: str) -> int:
    """As `python -m kafkakit`: the interpreter's state as a new one has it, then its `main`."""
    import random
    import time

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    random.seed()
    sys.argv = [COMMAND[2], *words]
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False, errors="backslashreplace")  # noqa: SIM115
    from kafkakit import __main__ as program

    program.STARTED_S = time.monotonic()
    try:
        return program.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
