"""Builds the image of kafkakit without a daemon: an OCI layout, by files alone.

python deploy/image/build.py FOLDER [--root ROOT]

FOLDER has the wheels that `make dist FORMS=wheels` left; the layout comes to FOLDER/image. ROOT is a folder, or a tar
file, with a system that has this minor version of Python; without it Debian's packages are fetched, without a shell.
Three layers, so that a new version sends the last alone: system, packages, kafkakit. The same input gives the same
bytes.
"""

import argparse
import gzip
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path, PurePosixPath

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from deploy.packages.build import (  # noqa: E402
    PYTHON,
    SERVED,
    WRAPPER,
    Release,
    files_below,
    fixed_modes,
    output_of,
    run,
    size_of,
    source_epoch,
    unpack_wheels,
    version_of_sources,
)

USER = 10001
LIBRARY = "usr/lib/kafkakit"
BASE = (f"python{PYTHON}-minimal", f"libpython{PYTHON}-stdlib", "libstdc++6", "zlib1g", "base-files", "netbase",
        "media-types", "ca-certificates", "tzdata")  # fmt: skip
DEPENDS = ("depends", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces")
KEPT = re.compile(r"lib|gcc-\d+-base$|python3\.")
"""Of what the packages depend on: no shell, no perl, no package manager."""
UNUSED = re.compile(
    r"usr/share/(doc/.*/(?!copyright$)|man/|locale/|lintian/|info/|bug/|menu/|doc-base/|perl5/)|"
    r"usr/lib/python[\d.]+/(idlelib|lib2to3|ensurepip|turtledemo|tkinter|test)/|usr/s?bin/(?!python)|"
    r"etc/(cron|init|apt|dpkg|profile|skel|update-motd)|(media|mnt|srv|boot|home|opt|root|usr/(games|include|src|local))/?$"
)
MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
OF_SYSTEM = {
    "etc/passwd": f"root:x:0:0:root:/:/nonexistent\nkafkakit:x:{USER}:{USER}::/tmp:/nonexistent\n",
    "etc/group": f"root:x:0:\nkafkakit:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
TITLE = "Operations toolkit for Apache Kafka"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a path is: a folder, a file with its content, or a link with its target."""

    mode: int
    content: bytes | None = None
    target: str | None = None


Entries = dict[str, Entry]
FOLDER, PROGRAM = Entry(0o755), 0o755


def main() -> int:
    """Build the layout."""
    parser = argparse.ArgumentParser(description="Build the image of kafkakit without a daemon.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--root", type=Path, help="a folder or a tar file; Debian's packages if not given")
    asked = parser.parse_args()
    release = Release(asked.folder.resolve(), version_of_sources(), source_epoch())
    if not release.wheels.is_dir():
        parser.error(f"{release.wheels} is missing: run make dist FORMS=wheels first")
    with fixed_modes(), tempfile.TemporaryDirectory() as scratch:
        system = read_root(asked.root) if asked.root is not None else debian_root(Path(scratch))
        if f"usr/bin/python{PYTHON}" not in system:
            parser.error(f"the root has no /usr/bin/python{PYTHON}, for which the wheels are")
        layers = [with_bytecode(ready_root(system)), *program_layers(release, Path(scratch))]
        layout = write_layout(release, layers)
    for name, entries in zip(("system", "packages", "kafkakit"), layers, strict=True):
        print(f"{name}: {sum(len(e.content or b'') for e in entries.values()) / 1e6:.1f} MB")
    print(f"{layout.relative_to(release.folder.parent)}: {size_of(layout) / 1e6:.1f} MB")
    return 0


def debian_root(scratch: Path) -> Entries:
    """The packages that Python and its libraries need, fetched by apt and read by dpkg-deb, without their scripts."""
    names, left = set[str](), set(BASE)
    while left:
        names |= left
        listed = output_of(["apt-cache", *DEPENDS, *sorted(left)])
        wanted = re.findall(r"^ *\|?(?:Pre)?Depends: ([a-z0-9.+-]+)$", listed, re.MULTILINE)
        left = {name for name in wanted if KEPT.match(name)} - names
    folder = scratch / "debian"
    folder.mkdir()
    run(["apt-get", "download", "-q", *sorted(names)], cwd=folder)
    found: Entries = {}
    for package in sorted(folder.glob("*.deb")):
        content = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE, check=True).stdout
        found |= read_tar(io.BytesIO(content))
        about = output_of(["dpkg-deb", "-f", str(package)])
        # Where scanners look for the packages of images that have no dpkg.
        found[f"var/lib/dpkg/status.d/{package.name.partition('_')[0]}"] = Entry(0o644, about.encode())
    authorities = [
        e.content or b"" for name, e in sorted(found.items()) if name.startswith("usr/share/ca-certificates/")
    ]
    found["etc/ssl/certs/ca-certificates.crt"] = Entry(0o644, b"".join(authorities))
    # Where OpenSSL looks by default; the links are part of the package of its command.
    found["usr/lib/ssl/cert.pem"] = Entry(0o777, target="/etc/ssl/certs/ca-certificates.crt")
    found["usr/lib/ssl/certs"] = Entry(0o777, target="/etc/ssl/certs")
    return {name: entry for name, entry in found.items() if not UNUSED.match(name)}


def read_root(place: Path) -> Entries:
    """What is below a folder, or in a tar file; devices are left out."""
    if not place.is_dir():
        with place.open("rb") as file:
            return read_tar(file)
    found: Entries = {}
    for folder, folders, files in os.walk(place):
        for name in (*folders, *files):
            path = Path(folder, name)
            status = path.lstat()
            mode = stat.S_IMODE(status.st_mode)
            at = merged_path(path.relative_to(place).as_posix())
            if stat.S_ISLNK(status.st_mode):
                found[at] = Entry(0o777, target=str(path.readlink()))
            elif stat.S_ISDIR(status.st_mode):
                found[at] = Entry(mode)
            elif stat.S_ISREG(status.st_mode):
                found[at] = Entry(mode, path.read_bytes())
    return found


def read_tar(file: Iterable[bytes] | object) -> Entries:
    """The members of an archive; a hard link becomes a copy."""
    found: Entries = {}
    with tarfile.open(fileobj=file) as archive:  # type: ignore[call-overload]
        for member in archive:
            at = merged_path(member.name)
            if member.isdir():
                found.setdefault(at, Entry(member.mode))
            elif member.issym():
                found[at] = Entry(0o777, target=member.linkname)
            elif member.islnk():
                found[at] = found[merged_path(member.linkname)]
            elif member.isfile():
                content = archive.extractfile(member)
                found[at] = Entry(member.mode, content.read() if content is not None else b"")
    found.pop("", None)
    return found


def merged_path(name: str) -> str:
    """A path in a system that has /bin, /lib and others in /usr; raises `SystemExit` for one that leads out."""
    parts = PurePosixPath(name.lstrip("/")).parts
    if ".." in parts:
        sys.exit(f"error: {name} leads out of the root")
    return "/".join(("usr", *parts) if len(parts) > 1 and parts[0] in MERGED else parts)


def ready_root(system: Entries) -> Entries:
    """With users, and the places that a container needs; without rights to become another user."""
    found = {name: replace(entry, mode=entry.mode & 0o1777) for name, entry in system.items()}
    for name in MERGED:
        found.pop(name, None)
        if any(path.startswith(f"usr/{name}/") for path in found):
            found[name] = Entry(0o777, target=f"usr/{name}")
    for name in ("dev", "proc", "sys", "run", "etc/kafkakit", "var/lib/kafkakit"):
        found.setdefault(name, FOLDER)
    found["tmp"] = Entry(0o1777)
    return found | {name: Entry(0o644, text.encode()) for name, text in OF_SYSTEM.items()}


def program_layers(release: Release, scratch: Path) -> list[Entries]:
    """The packages that kafkakit needs, and kafkakit with what starts it and asks for its health."""
    site = unpack_wheels(release, SERVED, scratch)
    packages: Entries = {}
    own: Entries = {}
    for file in files_below(site):
        name = file.relative_to(site)
        layer = own if name.parts[0] == "kafkakit" or name.parts[0].startswith("kafkakit-") else packages
        layer[f"{LIBRARY}/{name.as_posix()}"] = Entry(0o644, file.read_bytes())
    own["usr/bin/kafkakit"] = Entry(PROGRAM, WRAPPER.format(python=PYTHON).encode())
    own[f"{LIBRARY}/health.py"] = Entry(0o644, (HERE / "health.py").read_bytes())
    return [with_bytecode(packages), with_bytecode(own)]


def with_bytecode(entries: Entries) -> Entries:
    """With what Python makes of its modules, since nothing can be kept on a root that is read-only.

    One process compiles them in their order, with a fixed seed of hashes: so the bytes are the same each time.
    """
    sources = {name: entry for name, entry in entries.items() if name.endswith(".py") and entry.content is not None}
    with tempfile.TemporaryDirectory() as scratch:
        for name, entry in sources.items():
            path = Path(scratch, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(entry.content or b"")
        how = ["-q", "-q", "--invalidation-mode", "unchecked-hash", "-s", scratch, "-p", "/"]
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        # Files that hold templates for other versions of Python are not compiled, which is no failure.
        python = [sys.executable, "-S", "-m", "compileall", *how, scratch]
        subprocess.run(python, env=environment, stdout=subprocess.DEVNULL, check=False)
        made = {p.relative_to(scratch).as_posix(): Entry(0o644, p.read_bytes()) for p in Path(scratch).rglob("*.pyc")}
    return entries | made


def with_folders(entries: Entries) -> Iterator[tuple[str, Entry]]:
    """All entries in the order of their paths, each after the folders that hold it."""
    parents = {str(folder) for name in entries for folder in PurePosixPath(name).parents[:-1]}
    found = dict.fromkeys(parents, FOLDER) | entries
    yield from sorted(found.items(), key=lambda item: item[0].split("/"))


def layer_bytes(entries: Entries, epoch: int) -> bytes:
    """A tar file whose bytes depend on nothing but these."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, entry in with_folders(entries):
            info = tarfile.TarInfo(name)
            info.mode, info.mtime = entry.mode, epoch
            info.type = tarfile.DIRTYPE
            if entry.target is not None:
                info.type, info.linkname = tarfile.SYMTYPE, entry.target
            elif entry.content is not None:
                info.type, info.size = tarfile.REGTYPE, len(entry.content)
            archive.addfile(info, io.BytesIO(entry.content or b""))
    return written.getvalue()


def image_config(release: Release, diff_ids: list[str], created: str) -> Mapping[str, object]:
    """What runs, as whom, and what it is called. Kubernetes asks the pod's probes instead of the health check."""
    health = [f"/usr/bin/python{PYTHON}", "-I", f"/{LIBRARY}/health.py"]
    return {
        "created": created,
        "architecture": ARCHITECTURES.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Entrypoint": ["/usr/bin/kafkakit"],
            "Cmd": ["--help"],
            "Env": ["PATH=/usr/bin", "HOME=/tmp", "LC_ALL=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1"],
            "WorkingDir": "/tmp",
            "StopSignal": "SIGTERM",
            "Healthcheck": {
                "Test": ["CMD", *health],
                "Interval": 30_000_000_000,
                "Timeout": 10_000_000_000,
                "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": "kafkakit",
                "org.opencontainers.image.description": TITLE,
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.created": created,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": [
            {"created": created, "created_by": f"kafkakit: {name}"} for name in ("system", "packages", "kafkakit")
        ],
    }


def write_layout(release: Release, layers: list[Entries]) -> Path:
    """Write the layout beside where it is to be, and put it there when it is whole."""
    from datetime import UTC, datetime

    place = release.folder / "image"
    part = Path(tempfile.mkdtemp(prefix="image.", dir=release.folder))
    (part / "blobs/sha256").mkdir(parents=True)

    def put(content: bytes, media: str) -> dict[str, object]:
        digest = sha256(content).hexdigest()
        (part / "blobs/sha256" / digest).write_bytes(content)
        return {"mediaType": f"application/vnd.oci.image.{media}", "digest": f"sha256:{digest}", "size": len(content)}

    descriptors, diff_ids = [], []
    for entries in layers:
        content = layer_bytes(entries, release.epoch)
        diff_ids.append(f"sha256:{sha256(content).hexdigest()}")
        descriptors.append(put(gzip.compress(content, compresslevel=6, mtime=0), "layer.v1.tar+gzip"))
    created = datetime.fromtimestamp(release.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = put(to_json(image_config(release, diff_ids, created)), "config.v1+json")
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json"}
    described = put(to_json({**manifest, "config": config, "layers": descriptors}), "manifest.v1+json")
    described["annotations"] = {"org.opencontainers.image.ref.name": release.version}
    (part / "index.json").write_bytes(to_json({"schemaVersion": 2, "manifests": [described]}))
    (part / "oci-layout").write_bytes(to_json({"imageLayoutVersion": "1.0.0"}))
    part.chmod(0o755)
    if place.exists():
        shutil.rmtree(place)
    part.rename(place)
    return place


def to_json(value: object) -> bytes:
    """The same bytes for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


if __name__ == "__main__":
    sys.exit(main())
