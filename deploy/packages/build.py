"""Builds what `make dist` leaves in a folder: wheels, kafkakit.pyz and a Debian package.

python deploy/packages/build.py FOLDER [wheels] [pyz] [deb]

Names and versions come from `pyproject.toml` and the lock file. The same sources and wheels give the same bytes: times
are SOURCE_DATE_EPOCH or that of the last commit, names are sorted, modes and owners are set.
"""

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.parser import HeaderParser
from hashlib import sha256
from pathlib import Path
from time import gmtime

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LOCK = ROOT / "requirements.lock"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SERVED = "registry"
"""The extra whose packages are in the folder of wheels and in the Debian package: all that serves."""
PYZ_EXTRA = "serve"
LEFT_OUT = {"pandas": "types_of_pandas.py"}
"""Packages of which only what stands in a file is kept, as `PACKAGE/__init__.py`; nor is what only they need."""
UNUSED = ("zstandard/_cffi.*", "zstandard/backend_cffi.py", "*.pyi", "*.pxd", "*.h")
MAINTAINER = "kafkakit <kafkakit@localhost>"


@dataclass(frozen=True, slots=True)
class Release:
    """A built version: the folder of its files, and the time that they all have."""

    folder: Path
    version: str
    epoch: int

    @property
    def wheels(self) -> Path:
        """All that an installation needs, without a registry."""
        return self.folder / "wheels"


def main() -> int:
    """Build what is named, or all."""
    parser = argparse.ArgumentParser(description="Build the packages of kafkakit.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("forms", nargs="*", help=f"{', '.join(FORMS)}; all of them if none is given")
    asked = parser.parse_args()
    unknown = sorted(set(asked.forms) - set(FORMS))
    if unknown:
        parser.error(f"there is no form {unknown[0]}; the forms are {', '.join(FORMS)}")
    release = Release(asked.folder.resolve(), version_of_sources(), source_epoch())
    with fixed_modes():
        for name, build in FORMS.items():
            if not asked.forms or name in asked.forms:
                for path in build(release):
                    print(f"{path.relative_to(release.folder.parent)}: {size_of(path) / 1e6:.1f} MB")
    return 0


@contextmanager
def fixed_modes() -> Iterator[None]:
    """What is written meanwhile has the same modes whoever builds."""
    earlier = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(earlier)


def version_of_sources() -> str:
    """The one version that there is, in `kafkakit/__init__.py`."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "kafkakit" / "__init__.py").read_text("utf-8"), re.MULTILINE)
    if found is None:
        sys.exit("error: kafkakit/__init__.py has no __version__")
    return found[1]


def source_epoch() -> int:
    """SOURCE_DATE_EPOCH, the time of the last commit, or that which archives of hatchling have."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is None:
        asked = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
        ran = subprocess.run(asked, capture_output=True, text=True, check=False) if shutil.which("git") else None
        given = ran.stdout.strip() if ran is not None and ran.returncode == 0 else ""
    return int(given or 1580601600)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else path.stat().st_size


def build_wheels(release: Release) -> Iterator[Path]:
    """The wheel and the source archive, and a folder with the wheel and all that it needs."""
    release.folder.mkdir(parents=True, exist_ok=True)
    times = {**os.environ, "SOURCE_DATE_EPOCH": str(release.epoch)}
    run([sys.executable, "-m", "hatchling", "build", "-d", str(release.folder)], cwd=ROOT, env=times)
    shutil.rmtree(release.wheels, ignore_errors=True)
    wheel = release.folder / f"kafkakit-{release.version}-py3-none-any.whl"
    pip_download(release.wheels, f"{wheel}[{SERVED}]", "--constraint", str(LOCK), "--only-binary", ":all:")
    yield wheel
    yield release.folder / f"kafkakit-{release.version}.tar.gz"
    yield release.wheels


def build_pyz(release: Release) -> Iterator[Path]:
    """One file that any Python of this minor version runs; `launcher.py` says how."""
    path = release.folder / "kafkakit.pyz"
    with tempfile.TemporaryDirectory() as scratch:
        site = unpack_wheels(release, PYZ_EXTRA, Path(scratch))
        facts = {
            "version": release.version,
            "python": PYTHON,
            "platform": sysconfig.get_platform(),
            "hash": content_hash(site),
        }
        part = path.with_suffix(".part")
        with part.open("wb") as written:
            written.write(b"#!/usr/bin/env python3\n")
            with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as packed:
                add_file(packed, "__main__.py", (HERE / "launcher.py").read_bytes(), release.epoch)
                add_file(packed, "package.json", json.dumps(facts, sort_keys=True).encode(), release.epoch)
                for file in files_below(site):
                    add_file(packed, f"site/{file.relative_to(site)}", file.read_bytes(), release.epoch)
        part.chmod(0o755)
        part.rename(path)
    yield path


def add_file(packed: zipfile.ZipFile, name: str, content: bytes, epoch: int) -> None:
    """Add a file whose header depends on nothing but these."""
    info = zipfile.ZipInfo(name, date_time=gmtime(max(epoch, 315532800))[:6])
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3
    info.external_attr = 0o100644 << 16
    packed.writestr(info, content)


def content_hash(folder: Path) -> str:
    """A hash of names and bytes of all files."""
    found = sha256()
    for file in files_below(folder):
        content = file.read_bytes()
        found.update(f"{file.relative_to(folder)}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()


def files_below(folder: Path) -> list[Path]:
    """All files, in an order that is the same everywhere."""
    return sorted((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.relative_to(folder).as_posix())


def unpack_wheels(release: Release, extra: str, scratch: Path) -> Path:
    """A folder with all packages that the program needs with the extra, as they are imported."""
    chosen, site = scratch / "chosen", scratch / "site"
    wanted = f"kafkakit[{extra}]=={release.version}"
    pip_download(chosen, wanted, "--no-index", "--find-links", str(release.wheels))
    for wheel in needed_wheels(chosen, extra):
        with zipfile.ZipFile(wheel) as packed:
            outside = [name for name in packed.namelist() if ".data/" in name.partition("/")[0] + "/"]
            if outside:
                sys.exit(f"error: {wheel.name} has files for other folders, as {outside[0]}")
            packed.extractall(site)
    shutil.rmtree(chosen)
    for file in files_below(site):
        if is_unused(file.relative_to(site)):
            file.unlink()
        else:
            file.chmod(0o644)
    for name, kept in LEFT_OUT.items():
        write(site / name / "__init__.py", (HERE / kept).read_bytes())
    return site


def needed_wheels(folder: Path, extra: str) -> list[Path]:
    """All that the program needs with the extra, without those left out and what only they need."""
    needs: dict[str, tuple[Path, set[str]]] = {}
    for wheel in sorted(folder.iterdir()):
        with zipfile.ZipFile(wheel) as packed:
            (name,) = (n for n in packed.namelist() if n.endswith(".dist-info/METADATA") and n.count("/") == 1)
            facts = HeaderParser().parsestr(packed.read(name).decode("utf-8"))
        name = plain_name(facts["Name"])
        needs[name] = wheel, needed_packages(facts.get_all("Requires-Dist") or [], extra if name == "kafkakit" else "")
    reached, left = set[str](), ["kafkakit"]
    while left:
        name = left.pop()
        if name in needs and name not in reached and name not in LEFT_OUT:
            reached.add(name)
            left += needs[name][1]
    return [wheel for name, (wheel, _) in needs.items() if name in reached]


def needed_packages(lines: Iterable[str], extra: str) -> set[str]:
    """Those that lines of metadata name for every installation, or for the extra."""
    found = set[str]()
    for line in lines:
        name = re.match(r"[\w.-]+", line)
        of_extra = re.search(r"extra == ['\"]([^'\"]+)", line)
        if name and (of_extra is None or of_extra[1] == extra):
            found.add(plain_name(name[0]))
    return found


def plain_name(name: str) -> str:
    """As packages are compared: `Google_RE2` is `google-re2`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_unused(file: Path) -> bool:
    """Whether no program loads it: tests of packages, zstandard's second build for PyPy, and what compilers read."""
    return "tests" in file.parts[1:-1] or any(file.match(pattern) for pattern in UNUSED)


def pip_download(folder: Path, *arguments: str) -> None:
    """Get wheels into a folder."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    run([*pip, "download", "--dest", str(folder), *arguments])


def run(command: list[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
    """Run a program to its end; this one ends with it if it fails."""
    ran = subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.DEVNULL, check=False)
    if ran.returncode:
        sys.exit(f"error: {' '.join(command[:4])} ... ended with {ran.returncode}")


def build_deb(release: Release) -> Iterator[Path]:
    """The Debian package of this machine's architecture, by dpkg-deb alone."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        library = root / "usr/lib/kafkakit"
        library.parent.mkdir(parents=True)
        unpack_wheels(release, SERVED, Path(scratch)).rename(library)
        for name, text in system_files(library).items():
            write(root / name, text)
        write(root / "usr/bin/kafkakit", WRAPPER.format(python=PYTHON), mode=0o755)
        write(root / "usr/share/doc/kafkakit/copyright", copyright_text(library))
        architecture = output_of(["dpkg", "--print-architecture"]).strip()
        write_control(root, release, architecture)
        path = release.folder / f"kafkakit_{debian_version(release.version)}_{architecture}.deb"
        times = {**os.environ, "SOURCE_DATE_EPOCH": str(release.epoch)}
        for file in (root, *root.rglob("*")):
            os.utime(file, (release.epoch, release.epoch))
        run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z6", "--build", str(root), str(path)], env=times)
    yield path


WRAPPER = """\
#!/usr/bin/python{python} -sP
import sys

sys.path.insert(0, "/usr/lib/kafkakit")
if __name__ == "__main__":
    from kafkakit.__main__ import main

    sys.exit(main())
"""
CONTROL = """\
Package: kafkakit
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {kilobytes}
Depends: python3 (>= {python}), python3 (<< {next_python}), python{python},
 libc6 (>= {glibc}), libgcc-s1, libstdc++6, zlib1g
Recommends: ca-certificates
Suggests: bash-completion
Section: admin
Priority: optional
Description: operations toolkit for Apache Kafka
 Plans where replicas go, with a proof; carries plans out and verifies them;
 throttles, measures lag in time, edits commits, and finds mistakes in
 configuration. The Python packages that it needs are inside.
"""
POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    if [ -x /usr/bin/systemd-sysusers ]; then systemd-sysusers kafkakit.conf; fi
    python{python} -m compileall -q /usr/lib/kafkakit
fi
"""
PRERM = """\
#!/bin/sh
set -e
find /usr/lib/kafkakit -depth -name __pycache__ -exec rm -r {} +
"""
SYSUSERS = 'u kafkakit - "Services of kafkakit" /var/lib/kafkakit\n'


def write(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """Write a file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)


def output_of(command: list[str], env: Mapping[str, str] | None = None) -> str:
    """What a program prints."""
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout


def system_files(library: Path) -> dict[str, str | bytes]:
    """Units, manual page and completion by path, made by the packaged program itself."""
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "PYTHONPATH": f"{library}:{HERE}", "LC_ALL": "C.UTF-8"}
        python = [sys.executable, "-P", "-B"]
        page = output_of([*python, "-c", "from man_page import man_page; print(man_page(), end='')"], env)

        def printed(*words: str) -> str:
            return output_of([*python, "-m", "kafkakit", *words], env)

        units = printed("autothrottle", "unit", "--format", "systemd", "--law", "slo")
        services = {
            f"usr/lib/systemd/system/kafkakit-{name}.service": output_of([*python, "-c", PRINT_UNIT, name, *words], env)
            for name, words in SERVICES.items()
        }
        lag = (ROOT / "deploy/systemd/kafkakit-lag.service").read_text("utf-8")
        files: dict[str, str | bytes] = {
            **services,
            "usr/lib/systemd/system/kafkakit-autothrottle.service": installed(units),
            "usr/lib/systemd/system/kafkakit-lag.service": installed(lag),
            "usr/lib/sysusers.d/kafkakit.conf": SYSUSERS,
            "usr/share/man/man1/kafkakit.1.gz": packed(page),
            "usr/share/doc/kafkakit/changelog.gz": packed((ROOT / "CHANGELOG.md").read_text("utf-8")),
        }
        for shell, place in COMPLETIONS.items():
            files[place] = printed("completion", shell)
    return files


SERVICES = {
    "registry": ("notifies", "Topics, brokers and tags of a Kafka cluster over HTTP and gRPC", "registry", "serve"),
    "assigner": ("notifies", "Partitions of streams for their workers", "streams", "assigner", "run"),
    "ui": ("notifies", "A page of Kafka clusters", "ui"),
}
"""Services that no command prints: whether each notifies systemd, what it is, and the words of its command."""
PRINT_UNIT = """\
import sys
from kafkakit.report.exports import running_service_text
name, notifies, what, *words = sys.argv[1:]
environment = f"/etc/kafkakit/{name}.env"
command = ["/usr/bin/kafkakit", *words]
print(running_service_text(what, command, environment=environment, notifies=bool(notifies)), end="")
"""
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/kafkakit",
    "zsh": "usr/share/zsh/vendor-completions/_kafkakit",
    "fish": "usr/share/fish/vendor_completions.d/kafkakit.fish",
}


def installed(unit: str) -> str:
    """A unit that calls the program where the package has it."""
    here = unit.replace("/usr/local/bin/kafkakit", "/usr/bin/kafkakit")
    return here.replace("Copy to /etc/systemd/system, set the profiles with", "Set the profiles with")


def packed(text: str) -> bytes:
    """Compressed without a name or a time."""
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def write_control(root: Path, release: Release, architecture: str) -> None:
    """What dpkg reads: the control file, the sums of all files, and what it runs."""
    files = files_below(root)
    sums = "".join(f"{md5_of(file)}  {file.relative_to(root)}\n" for file in files)
    control = CONTROL.format(
        version=debian_version(release.version),
        architecture=architecture,
        maintainer=MAINTAINER,
        kilobytes=sum(-(-file.stat().st_size // 1024) for file in files),
        python=PYTHON,
        next_python=f"{sys.version_info.major}.{sys.version_info.minor + 1}",
        glibc=".".join(map(str, oldest_glibc(root / "usr/lib/kafkakit"))),
    )
    write(root / "DEBIAN/control", control)
    write(root / "DEBIAN/md5sums", sums)
    write(root / "DEBIAN/postinst", POSTINST.format(python=PYTHON), mode=0o755)
    write(root / "DEBIAN/prerm", PRERM, mode=0o755)


def md5_of(file: Path) -> str:
    """As dpkg has it, against damage, not against attacks."""
    from hashlib import md5

    return md5(file.read_bytes(), usedforsecurity=False).hexdigest()


def oldest_glibc(library: Path) -> tuple[int, int]:
    """The version that every wheel's tag is content with."""
    least: dict[str, tuple[int, int]] = {}
    for path in library.glob("*.dist-info/WHEEL"):
        found = re.findall(r"^Tag: .*-manylinux_(\d+)_(\d+)_", path.read_text("utf-8"), re.MULTILINE)
        if found:
            least[path.parent.name] = min((int(major), int(minor)) for major, minor in found)
    return max(least.values(), default=(2, 17))


def debian_version(version: str) -> str:
    """With what comes before a release sorted before it: 1.0rc1 is 1.0~rc1."""
    return re.sub(r"(a|b|rc|\.dev)(\d+)", lambda found: f"~{found[1].strip('.')}{found[2]}", version)


def copyright_text(library: Path) -> str:
    """The licence of the program and of each package inside, whose texts are in its dist-info folder."""
    parts = [COPYRIGHT]
    for path in sorted(library.glob("*.dist-info/METADATA")):
        facts = HeaderParser().parsestr(path.read_text("utf-8"))
        name = facts["Name"]
        if name == "kafkakit":
            continue
        licence = facts["License-Expression"] or licence_of(facts.get_all("Classifier") or [], facts["License"])
        parts.append(
            f"Files: usr/lib/kafkakit/{path.parent.name.partition('-')[0]}*\n"
            f"Copyright: {facts['Author'] or facts['Author-email'] or f'the authors of {name}'}\n"
            f"License: {licence}\nComment: {name} {facts['Version']}; texts in usr/lib/kafkakit/{path.parent.name}\n"
        )
    return "\n".join(parts)


COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: kafkakit

Files: *
Copyright: the authors of kafkakit
License: Apache-2.0
Comment: the text is in /usr/share/common-licenses/Apache-2.0
"""


def licence_of(classifiers: list[str], text: str | None) -> str:
    """In one line what the metadata says of it."""
    names = [c.rpartition(" :: ")[2] for c in classifiers if c.startswith("License :: OSI Approved :: ")]
    first = (text or "").strip().splitlines()
    return "; ".join(names) or (first[0] if first else "see its dist-info folder")


FORMS: Mapping[str, Callable[[Release], Iterator[Path]]] = {
    "wheels": build_wheels,
    "pyz": build_pyz,
    "deb": build_deb,
}


if __name__ == "__main__":
    sys.exit(main())
