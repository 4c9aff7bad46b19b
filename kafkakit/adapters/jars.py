"""The class path of a Kafka version: from `KAFKA_HOME`, from the cache, or resolved with `jgo`.

What is resolved is recorded in a file per version, so that later calls neither resolve nor touch the
network. Downloads land in a staging folder and are moved into the cache once they are complete.
"""

import contextlib
import fcntl
import json
import logging
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kafkakit.core.errors import KafkakitError, MissingExtraError, OperationFailedError, TryLaterError, UsageError
from kafkakit.core.programs import (
    LOGGING,
    binding_jars,
    is_wanted,
    kafka_coordinate,
    tools_coordinates,
    wanted_coordinates,
)

_ATTEMPTS = 3
_REQUEST_TIMEOUT_S = 60
_HOME_HINT = "set KAFKA_HOME to an unpacked Kafka to do without the registry"


class JarCache:
    """Implements `ports.Jars`; `folder` holds `jars/` (a Maven repository) and `classpaths/`."""

    def __init__(self, folder: Path) -> None:
        self._jars = folder / "jars"
        self._records = folder / "classpaths"

    def class_path(self, version: str, say: Callable[[str], None], *, tools: bool = False) -> tuple[str, ...]:
        """Absolute jar paths for a Kafka version, or for its tools.

        Raises `TryLaterError` (75) when the registry cannot be reached and nothing is cached, `UsageError`
        when the registry has no such version. Cold: about 90 MB and 20 s; warm: a few milliseconds.
        """
        home = os.environ.get("KAFKA_HOME")
        if home:
            return _jars_of_installation(Path(home), version)
        wanted = _WantedJars(version=version, tools=tools)
        known = self._recorded(wanted)
        if known:
            return known
        with self._locked():
            # Another process may have resolved it while we waited for the lock.
            known = self._recorded(wanted)
            if known:
                return known
            say(f"downloading {wanted.title} (up to 90 MB, once)")
            return self._resolve(wanted, say)

    def _recorded(self, wanted: "_WantedJars") -> tuple[str, ...] | None:
        """The recorded class path, or None when there is none or a file of it is gone or has another size."""
        try:
            entries = json.loads(self._record_file(wanted).read_bytes())["jars"]
            paths = [(str(self._jars / name), int(size)) for name, size in entries.items()]
            complete = all(os.stat(path).st_size == size for path, size in paths)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return tuple(path for path, _ in paths) if complete and paths else None

    def _record_file(self, wanted: "_WantedJars") -> Path:
        return self._records / f"{wanted.name}.json"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self._records.mkdir(parents=True, exist_ok=True)
            self._jars.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write the cache {self._jars}: {error.strerror}") from None
        with open(self._records / ".lock", "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _resolve(self, wanted: "_WantedJars", say: Callable[[str], None]) -> tuple[str, ...]:
        error: KafkakitError | None = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                say(f"trying again: {error.message if error else ''}")
            with tempfile.TemporaryDirectory(dir=self._jars, prefix=".staging-") as staging:
                try:
                    found = _download(wanted, self._jars, Path(staging))
                except TryLaterError as failure:
                    error = failure
                else:
                    return self._record(wanted, Path(staging), found)
                finally:
                    _keep_complete(Path(staging), self._jars)
        raise error if error else OperationFailedError("nothing was resolved")

    def _record(self, wanted: "_WantedJars", staging: Path, found: list[Path]) -> tuple[str, ...]:
        """Move what was downloaded into the cache, then write the record."""
        _keep_complete(staging, self._jars)
        names = [str(path.relative_to(staging if path.is_relative_to(staging) else self._jars)) for path in found]
        sizes = {name: (self._jars / name).stat().st_size for name in names}
        temporary = self._records / f".{wanted.name}.tmp"
        temporary.write_text(json.dumps({"kafka": wanted.version, "jars": sizes}, indent=1) + "\n")
        temporary.replace(self._record_file(wanted))
        return tuple(str(self._jars / name) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class _WantedJars:
    version: str
    tools: bool

    @property
    def name(self) -> str:
        return f"kafka-{self.version}-tools" if self.tools else f"kafka-{self.version}"

    @property
    def title(self) -> str:
        return f"the tools of Kafka {self.version}" if self.tools else f"Kafka {self.version}"


def _jars_of_installation(home: Path, version: str) -> tuple[str, ...]:
    """The jars of a Kafka installation; its own slf4j bindings stay out when ours could not be distinguished."""
    jars = sorted(str(path) for path in (home / "libs").glob("*.jar"))
    brokers = [Path(jar).stem for jar in jars if Path(jar).name.startswith("kafka_2.13-")]
    if not brokers:
        raise UsageError(
            f"KAFKA_HOME is {home}, but {home}/libs holds no kafka_2.13 jar", hint="unset it, or unpack Kafka there"
        )
    if f"kafka_2.13-{version}" not in brokers:
        have = brokers[0].removeprefix("kafka_2.13-")
        raise UsageError(f"KAFKA_HOME holds Kafka {have}, not {version}", hint=f"use --kafka {have}, or unset it")
    bindings = binding_jars(Path(jar).name for jar in jars)
    return tuple(jar for jar in jars if Path(jar).name not in bindings[1:])


def _download(target: "_WantedJars", cache: Path, staging: Path) -> list[Path]:
    """Resolve and fetch into `staging`, using what `cache` already has; verifies checksums and archives."""
    try:
        import requests
        from jgo.maven import MavenContext
    except ImportError:
        raise MissingExtraError("the sandbox without KAFKA_HOME", "sandbox", "jgo") from None
    coordinate = kafka_coordinate(target.version)
    alarm = _ChecksumAlarm()
    log = logging.getLogger("jgo")
    log.addHandler(alarm)
    log.propagate = False
    try:
        context = MavenContext(repo_cache=staging, local_repos=[cache], timeout=_REQUEST_TIMEOUT_S)
        wanted = [context.create_dependency(name) for name in wanted_coordinates(target.version)]
        inputs, transitive = context.resolver.resolve(wanted)
        found = [
            Path(dependency.artifact.resolve())
            for dependency in (*inputs, *transitive)
            if dependency.scope not in ("test", "provided") and is_wanted(dependency.groupId, dependency.artifactId)
        ]
        if target.tools:
            jars = (context.create_dependency(name) for name in tools_coordinates(target.version))
            found += [Path(jar.artifact.resolve()) for jar in jars]
    except requests.RequestException as error:
        raise TryLaterError(
            f"cannot fetch {coordinate} and {LOGGING} from the Maven registry ({type(error).__name__})",
            hint=_HOME_HINT,
        ) from None
    except (RuntimeError, ValueError, AssertionError, OSError) as error:
        raise _explain_failure(error, coordinate) from None
    finally:
        log.removeHandler(alarm)
    broken = [str(path.name) for path in found if not _is_whole(path)]
    if broken or alarm.mismatches:
        for path in found:
            if not _is_whole(path):
                path.unlink()
        if alarm.mismatches:
            shutil.rmtree(staging)
        raise TryLaterError(f"downloaded jars of {coordinate} are damaged: {', '.join(broken) or 'checksum'}")
    return found


def _explain_failure(error: Exception, coordinate: str) -> KafkakitError:
    text = " ".join(str(error).split())[:200]
    if "not found" in text and coordinate.rsplit(":", 1)[-1] in text:
        return UsageError(f"the Maven registry has no {coordinate}", hint="choose another --kafka version")
    return TryLaterError(f"cannot resolve {coordinate}: {text}", hint=_HOME_HINT)


class _ChecksumAlarm(logging.Handler):
    """jgo only warns about a wrong checksum; here it counts as a failed download."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.mismatches = 0

    def emit(self, record: logging.LogRecord) -> None:
        if "checksum" in record.getMessage().lower():
            self.mismatches += 1


def _is_whole(jar: Path) -> bool:
    """True when the archive's directory can be read: a download that was cut short has none."""
    try:
        with zipfile.ZipFile(jar) as archive:
            return bool(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def _keep_complete(staging: Path, cache: Path) -> None:
    """Move every complete file of the staging folder to its place in the cache."""
    for path in sorted(staging.rglob("*")):
        if not path.is_file() or (path.suffix == ".jar" and not _is_whole(path)):
            continue
        target = cache / path.relative_to(staging)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
