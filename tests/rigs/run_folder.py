"""The folder of a test run, which its processes share: who is in the run, what runs for it, how many JVMs it started.

The first process makes the folder and tells its workers of it. The last one to leave takes down what still runs. JVMs
are counted by a script that stands before `java` on the PATH, writes a line and becomes Java: what any process of the
run starts is counted, commands' and Spark's too (`java -version` is not, nor a Java that only a wheel brings).
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

LEAVE_S = 30.0
NEW_S = 60.0
POLL_S = 0.1
VARIABLE = "TEST_RUN_FOLDER"
KEY = pytest.StashKey["RunFolder"]()
KINDS = {"/broker-": "brokers", "/controller": "controllers", "/zookeeper": "ZooKeepers", "SparkSubmit": "Spark"}


class RunFolder:
    """The folder of a run, which its processes share; needs nothing of Kafka."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.homes: list[Path] = []
        self._member: int | None = None

    @staticmethod
    def parent() -> Path:
        return Path(tempfile.gettempdir()) / f"kafkakit-clusters-{os.getuid()}"

    @classmethod
    def made(cls) -> "RunFolder":
        """A folder for this run."""
        return cls(cls.parent() / f"run-{uuid.uuid4().hex[:12]}")

    def join(self) -> None:
        """Become one of those for whom clusters stay up."""
        for name in ("members", "leases", "sandbox"):
            (self.path / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        self._member = locked(self.path / "members" / str(os.getpid()))

    def leave(self, patience_s: float = 0.0) -> bool:
        """Stop being one; True for the last. The first process of a run waits for the others, which may be ending."""
        if self._member is not None:
            os.close(self._member)
            (self.path / "members" / str(os.getpid())).unlink(missing_ok=True)
            self._member = None
        deadline = time.monotonic() + patience_s
        while not self.is_left():
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)
        return True

    def new_home(self) -> Path:
        """A new folder for a file's sandboxes and settings."""
        self.homes.append(Path(tempfile.mkdtemp(prefix="home-", dir=self.path)))
        return self.homes[-1]

    def say(self, line: str) -> None:
        """Have a line printed at the end of the run: what workers print is kept from people where a test passes."""
        with (self.path / "said").open("a", encoding="utf-8") as file:
            file.write(line.replace("\n", " ") + "\n")

    def is_left(self) -> bool:
        """True when no process of the run is alive."""
        for file in (self.path / "members").glob("*"):
            lock = locked(file)
            if lock is None:
                return False
            os.close(lock)
        return True

    def take_down(self) -> None:
        """Stop all that runs here and delete it; does nothing where another does so."""
        if not self.path.exists() or (lock := locked(self.path / "end")) is None:
            return
        from kafkakit.adapters.host import process_stat
        from kafkakit.adapters.processes import LocalProcesses
        from kafkakit.sandbox.folders import Store

        processes = LocalProcesses(process_stat)
        for root in (*self.path.glob("sandbox/*"), *self.path.glob("home-*/state/kafkakit/sandbox/*")):
            if root.is_dir() and not root.is_symlink():
                with contextlib.suppress(Exception):
                    state = Store(root=root, profiles=root / "profiles").load()
                    if state is not None:
                        processes.kill([one.process for one in state.nodes if one.process is not None])
        os.close(lock)
        shutil.rmtree(self.path, ignore_errors=True)

    @classmethod
    def take_down_forgotten(cls) -> None:
        """End what runs left that were killed whole."""
        for path in cls.parent().glob("run-*"):
            with contextlib.suppress(FileNotFoundError):
                # One that is new may be about to be joined.
                if time.time() - path.stat().st_mtime > NEW_S and (found := cls(path)).is_left():
                    found.take_down()

    def count_jvms(self) -> None:
        """From now on count what this process and those that it starts start as `java`."""
        found = shutil.which("java")
        home = os.environ.get("JAVA_HOME")
        real = Path(home) / "bin" / "java" if home else Path(found) if found else None
        script = self.parent() / "java" / "bin" / "java"
        if real is None or real == script or not real.exists():
            return
        # The same file in every run, as class archives are made for one `java`.
        text = (
            f'#!/bin/sh\n[ "$1" = -version ] || echo "${VARIABLE} $*" >> {script.parents[1]}/starts\nexec {real} "$@"\n'
        )
        script.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not script.exists() or script.read_text() != text:
            made = script.with_name(f".java.{os.getpid()}")
            made.write_text(text)
            made.chmod(0o700)
            made.replace(script)
        for other in real.resolve().parents[1].iterdir():
            if other.name != "bin":
                with contextlib.suppress(FileExistsError):
                    (script.parents[1] / other.name).symlink_to(other)
        os.environ[VARIABLE] = str(self.path)
        os.environ["PATH"] = f"{script.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        if home:
            os.environ["JAVA_HOME"] = str(script.parents[1])

    def jvms(self) -> "Counter[str]":
        """How many JVMs of each kind this run started."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self.parent() / "java" / "starts").read_text(errors="replace").splitlines()
            ours = [line for line in lines if str(self.path) in line]
            return Counter(next((kind for word, kind in KINDS.items() if word in line), "others") for line in ours)
        return Counter()


def locked(file: Path) -> int | None:
    """The descriptor of the file, locked; None while another process holds it."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


class RunPlugin:
    """Makes the folder, tells workers of it, prints the number of JVMs and takes everything down."""

    def __init__(self, config: pytest.Config) -> None:
        given = getattr(config, "workerinput", {}).get("run_folder")
        self.is_first = given is None
        if self.is_first:
            RunFolder.take_down_forgotten()
        self.folder = RunFolder.made() if given is None else RunFolder(Path(given))
        self.folder.join()
        config.stash[KEY] = self.folder

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Called in the first process for each worker."""
        node.workerinput["run_folder"] = str(self.folder.path)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        with contextlib.suppress(FileNotFoundError):
            terminalreporter.write_line((self.folder.path / "said").read_text(encoding="utf-8").rstrip())
        kinds = self.folder.jvms()
        if kinds:
            words = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
            terminalreporter.write_line(f"JVMs started: {kinds.total()} ({words})")

    def pytest_unconfigure(self) -> None:
        if self.folder.leave(LEAVE_S if self.is_first else 0) or self.is_first:
            self.folder.take_down()
