"""A root folder with Debian's Python and what it depends on, nothing else, and without a network."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.rigs.required import missing

BASE = (
    "python3", "libstdc++6", "zlib1g", "coreutils", "dash", "diffutils", "dpkg", "findutils", "libc-bin", "sed", "tar",
)  # fmt: skip
CLOSURE = ("depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces")
ISOLATED = ("unshare", "--user", "--map-root-user", "--net")
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True, slots=True)
class CleanRoot:
    """Programs see only what lies below the folder."""

    folder: Path

    def run(self, script: str, *, limit_s: float = 280) -> subprocess.CompletedProcess[str]:
        """Run lines of a shell as root of this folder, in its /root."""
        return subprocess.run(
            [*ISOLATED, "chroot", self.folder, "/bin/sh", "-euc", f"cd /root\n{script}"],
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )


def make_clean_root(folder: Path) -> CleanRoot:
    """Unpack Debian's packages, and tell dpkg that they are installed; skips, or fails, where that cannot be."""
    tried = subprocess.run([*ISOLATED, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        missing("netns", f"no user namespaces: {tried.stderr.strip()}")
    packages, root = folder / "packages", folder / "root"
    packages.mkdir(parents=True)
    _download(packages)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for place in ("root", "tmp", "etc", "dev", "proc", "var/lib/dpkg/info", "var/lib/dpkg/updates"):
        (root / place).mkdir(parents=True, exist_ok=True)
    (root / "dev/null").touch()
    status = []
    for package in sorted(packages.glob("*.deb")):
        unpack = f"dpkg-deb --fsys-tarfile '{package}' | tar -x -C '{root}' --keep-directory-symlink --no-same-owner"
        subprocess.run(["bash", "-o", "pipefail", "-ec", unpack], check=True, capture_output=True)
        control = subprocess.run(["dpkg-deb", "-f", package], check=True, capture_output=True, text=True).stdout
        status.append(f"{control.rstrip()}\nStatus: install ok installed\n")
        (root / "var/lib/dpkg/info" / f"{package.name.partition('_')[0]}.list").touch()
    (root / "var/lib/dpkg/status").write_text("\n".join(status), encoding="utf-8")
    return CleanRoot(root)


def _download(packages: Path) -> None:
    for update in (False, True):
        if update:
            subprocess.run(["apt-get", "update", "-q"], capture_output=True, check=False)
        listed = subprocess.run(["apt-cache", *CLOSURE, *BASE], capture_output=True, text=True, check=False)
        names = sorted({*BASE, *re.findall(r"^([a-z0-9][^\s<>]*)$", listed.stdout, re.MULTILINE)})
        asked = ["apt-get", "download", "-q", *names]
        ran = subprocess.run(asked, cwd=packages, capture_output=True, text=True, timeout=280, check=False)
        if ran.returncode == 0:
            return
    missing("network", f"no packages of Debian: {ran.stderr.strip()[-300:]}")
