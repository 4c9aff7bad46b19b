"""Drivers of Spark as processes of this host, each in a session of its own (Linux), and the code that executors get.

The code is a zip whose bytes depend only on the code.
"""

import contextlib
import hashlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import kafkakit
from kafkakit.core.errors import MissingExtraError, OperationFailedError, UsageError
from kafkakit.core.lease import Holder, Life
from kafkakit.core.programs import EngineHost, Launch, ProcessStat, SparkTools
from kafkakit.ports.acting import wait_until
from kafkakit.ports.services import Java, RunLock

VECTOR_MODULE = "jdk.incubator.vector"
STOP_S = 10.0
_POLL_S = 0.05
# Spark's launcher asks for a module that reduced runtimes lack, and Java then refuses to start.
_WRAPPER = """#!/bin/sh
for word do
  shift
  [ "$word" = --add-modules={module} ] || set -- "$@" "$word"
done
exec '{java}' "$@"
"""


class LocalDrivers:
    """Implements `ports.SparkDrivers`."""

    def __init__(
        self,
        *,
        cache_dir: Path,
        find_java: Callable[[], Java],
        holder_of: Callable[[int, str], Holder],
        life_of: Callable[[Holder], Life],
        stat_of: Callable[[int], ProcessStat | None],
        open_lock: Callable[[Path, str], AbstractContextManager[RunLock]],
        write_file: Callable[[Path, bytes, int], None],
    ) -> None:
        self._cache_dir, self._find_java, self._write_file = cache_dir, find_java, write_file
        self._holder_of, self._life_of, self._stat_of, self._open_lock = holder_of, life_of, stat_of, open_lock
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def tools(self, *, needs_java: bool = True) -> SparkTools:
        """Two starts of Java, 0.2 s."""
        found = importlib.util.find_spec("pyspark")
        if not needs_java and importlib.util.find_spec("pysail") is None:
            raise MissingExtraError("auditing without Java", "audit", "pysail")
        if found is None or not found.origin:
            raise MissingExtraError("auditing", "audit", "pyspark")  # the smaller of the two that bring it
        if needs_java and not Path(found.origin).with_name("bin").is_dir() and "SPARK_HOME" not in os.environ:
            raise MissingExtraError("running Spark", "spark", "pyspark")  # pyspark-client has no Spark in it
        return SparkTools(
            spark_home=os.environ.get("SPARK_HOME") or str(Path(found.origin).parent),
            python=sys.executable,
            java_home=self._java_home(self._find_java()) if needs_java else "",
            code_folder=self.code_folder(),
        )

    def engine_host(self) -> EngineHost:
        """Reads /proc/meminfo and the limit of the control group that this process sees as its root."""
        has_sail = all(importlib.util.find_spec(name) is not None for name in ("pysail", "pyspark"))
        return EngineHost(has_sail=has_sail, free_bytes=available_bytes())

    def code_folder(self) -> str:
        """In a checkout beside the package, in an installation inside."""
        return str(code_folder())

    def write_code(self, path: str, *, whole_package: bool) -> None:
        """About a megabyte of source, 0.1 s."""
        write_code_zip(Path(path), whole_package=whole_package)

    def lock(self, folder: str, what: str) -> AbstractContextManager[RunLock]:
        """One file, `.lock`."""
        return self._open_lock(Path(folder) / ".lock", what)

    def start(self, launch: Launch, log: str, lock: RunLock, name: str) -> Holder:
        """The environment of this process is inherited: credentials of object stores are often there."""
        paths = (launch.environment.get("PYTHONPATH"), os.environ.get("PYTHONPATH"))
        python_path = [path for path in paths if path]
        try:
            with open(log, "ab") as stream:
                child = subprocess.Popen(
                    launch.command,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(lock.fileno(),),
                    env={**os.environ, **launch.environment, "PYTHONPATH": os.pathsep.join(python_path)},
                )
        except OSError as error:
            raise UsageError(f"cannot start {launch.command[0]}: {error.strerror}") from None
        self._children[child.pid] = child
        return self._holder_of(child.pid, name)

    def exit_code(self, driver: Holder) -> int | None:
        """One look."""
        return self._children[driver.pid].poll()

    def life(self, driver: Holder) -> Life:
        """Reads /proc."""
        if driver.pid in self._children:
            self._children[driver.pid].poll()
        return self._life_of(driver)

    def stop(self, driver: Holder) -> bool:
        """SIGTERM to all processes of the driver's group, SIGKILL to what is left after 10 s."""
        if self.life(driver) is not Life.ALIVE:
            return False
        for number, wait_s in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, STOP_S)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(driver.pid, number)
            wait_until(time, wait_s, lambda: not self._runs(driver.pid), _POLL_S)
        return True

    def _runs(self, group: int) -> bool:
        if group in self._children:
            self._children[group].poll()
        found = (self._stat_of(int(path.name)) for path in Path("/proc").glob("[0-9]*"))
        return any(stat.group == group and not stat.is_zombie for stat in found if stat is not None)

    def _java_home(self, java: Java) -> str:
        path = Path(os.path.realpath(java.path))
        listed = subprocess.run(
            [path, "--list-modules"], capture_output=True, text=True, timeout=30, check=False
        ).stdout
        if VECTOR_MODULE in listed:
            return str(path.parent.parent)
        home = self._cache_dir / "spark-java" / hashlib.sha256(str(path).encode()).hexdigest()[:16]
        (home / "bin").mkdir(parents=True, exist_ok=True)
        text = _WRAPPER.format(module=VECTOR_MODULE, java=str(path).replace("'", "'\\''"))
        self._write_file(home / "bin" / "java", text.encode(), 0o755)
        return str(home)


def available_bytes(root: Path = Path("/")) -> int | None:
    """The memory that Linux would give without swapping, at most what the control group has left; None if unknown."""
    found = [_meminfo(root / "proc/meminfo"), _left_in_group(root / "sys/fs/cgroup")]
    return min((number for number in found if number is not None), default=None)


def _meminfo(path: Path) -> int | None:
    try:
        lines = path.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def _left_in_group(folder: Path) -> int | None:
    """What a limit of version 2 of control groups, as containers have one, leaves; None without one."""
    try:
        limit, used = (int((folder / name).read_text()) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # `max` is no limit
        return None
    return max(limit - used, 0)


PACKAGE = Path(kafkakit.__file__).parent
# In a checkout the job code lies beside the package; the wheel carries it inside.
CODE_FOLDERS = (PACKAGE / "spark_code", PACKAGE.parent / "spark")
SHARED = ("core", "rules", "streams/model")
_KEPT = frozenset({".py", ".json"})
_TIME = (1980, 1, 1, 0, 0, 0)


def code_folder() -> Path:
    """The folder of `spark/main.py` and `kafkakit_spark`."""
    for folder in CODE_FOLDERS:
        if (folder / "main.py").is_file():
            return folder
    raise OperationFailedError(f"{PACKAGE} comes without its Spark code", hint="install kafkakit again")


def write_code_zip(path: Path, *, whole_package: bool) -> None:
    """Write the zip; see `ports.SparkDrivers.write_code`."""
    files = dict(_job_files(), **_package_files(whole_package))
    part = path.with_name(f".{path.name}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as target:
            for name in sorted(files):
                entry = zipfile.ZipInfo(name, _TIME)
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                target.writestr(entry, files[name].read_bytes())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OperationFailedError(f"cannot write {path}: {error.strerror}") from None


def _job_files() -> dict[str, Path]:
    base = code_folder()
    return {str(path.relative_to(base)): path for path in _code_in(base / "kafkakit_spark")}


def _package_files(whole_package: bool) -> dict[str, Path]:
    folders = [PACKAGE] if whole_package else [PACKAGE / name for name in SHARED]
    paths = [path for folder in folders for path in _code_in(folder) if CODE_FOLDERS[0] not in path.parents]
    paths += [PACKAGE / "__init__.py", PACKAGE / "streams" / "__init__.py"]
    return {str(path.relative_to(PACKAGE.parent)): path for path in paths}


def _code_in(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.suffix in _KEPT and path.is_file())
