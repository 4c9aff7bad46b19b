"""The first thing that `kafkakit.pyz` runs: unpacks the program once, then starts it from there.

Libraries in C cannot be loaded from inside an archive. It is written for old versions of Python too, so that these get
an error of one line and not one of syntax.
"""

import fcntl
import json
import os
import shutil
import stat
import sys
import sysconfig
import tempfile
import zipfile
from typing import NoReturn

INSIDE = "site/"
FACTS = "package.json"


def fail(message: str, hint: str) -> NoReturn:
    """End with an error as the program writes them."""
    sys.stderr.write(f"error: {message}\nhint: {hint}\n")
    sys.exit(2)


def require_python(facts: "dict[str, str]", archive: str) -> None:
    """Go on in this Python if the libraries are built for it, in the right one if there is one, or end."""
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if (here, sysconfig.get_platform()) == (facts["python"], facts["platform"]):
        return
    needed = f"python{facts['python']}"
    found = shutil.which(needed) if here != facts["python"] else None
    if found is None:
        what = f"{archive} is for Python {facts['python']} on {facts['platform']}"
        fail(f"{what}, and this is Python {here} on {sysconfig.get_platform()}", f"install {needed}")
    os.execv(found, [found, archive, *sys.argv[1:]])


def program_folder(facts: "dict[str, str]") -> str:
    """Where this content is unpacked, or will be."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "kafkakit", "program", f"{facts['version']}-{facts['hash'][:16]}")


def require_own(folder: str) -> None:
    """End where others could have put the program that would be run."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        hint = "remove it, or name another folder by XDG_CACHE_HOME"
        fail(f"{folder} belongs to another user, or others may write to it", hint)


def unpack(archive: str, folder: str) -> None:
    """Unpack the program so that `folder` is either all there or not there, however many start at once.

    Who comes second waits for the first. What a killed one left is removed by the next.
    """
    parent = os.path.dirname(folder)
    os.makedirs(parent, mode=0o700, exist_ok=True)
    require_own(parent)
    lock = os.open(os.path.join(parent, ".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.isdir(folder):
            return
        for name in os.listdir(parent):
            if name.endswith(".part"):
                shutil.rmtree(os.path.join(parent, name))
        part = tempfile.mkdtemp(suffix=".part", dir=parent)
        try:
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(part, [name for name in packed.namelist() if name.startswith(INSIDE)])
            os.rename(os.path.join(part, "site"), folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    finally:
        os.close(lock)


def main() -> int:
    """Unpack if need be, and run the command line."""
    archive = os.path.abspath(sys.path[0])
    with zipfile.ZipFile(archive) as packed:
        facts = json.loads(packed.read(FACTS).decode("utf-8"))
    require_python(facts, archive)
    folder = program_folder(facts)
    if not os.path.isdir(folder):
        earlier = os.umask(0o077)
        try:
            unpack(archive, folder)
        except OSError as error:
            fail(f"cannot unpack to {folder}: {error.strerror}", "name another folder by XDG_CACHE_HOME")
        finally:
            os.umask(earlier)
    require_own(folder)
    sys.path[0] = folder
    from kafkakit.__main__ import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
