"""The image built of a tiny wheel and a made root: an OCI layout, the same bytes each time; rules of the Dockerfile."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from deploy.image import build, health
from deploy.packages import build as packages
from deploy.packages.build import PYTHON
from tests.places import ROOT
from tests.rigs.image_layout import blob_of, read_layout
from tests.test_packages import tiny_release

DOCKERFILE = (ROOT / "deploy/image/Dockerfile").read_text("utf-8")
EPOCH = 1_700_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A system whose Python is a file, with what an image should not have: a set-user-id program and a socket."""
    folder = tmp_path / "root"
    for name in ("usr/bin", "usr/lib/x86_64-linux-gnu", "etc", "lib"):
        (folder / name).mkdir(parents=True)
    (folder / f"usr/bin/python{PYTHON}").write_text("a program")
    (folder / f"usr/bin/python{PYTHON}").chmod(0o4755)
    (folder / "usr/bin/python3").symlink_to(f"python{PYTHON}")
    (folder / "lib/libc.so").write_text("in a root that is not merged")
    (folder / "etc/module.py").write_text("x = frozenset({'a', 'b', 'c'})\n")
    with closing(socket.socket(socket.AF_UNIX)) as made:
        made.bind(str(folder / "etc/s"))
    return folder


@pytest.fixture(autouse=True)
def no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one wheel; tests/integration/test_packages.py has pip choose."""
    monkeypatch.setattr(packages, "pip_download", lambda folder, _, *options: shutil.copytree(options[-1], folder))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(EPOCH))


def ran(monkeypatch: pytest.MonkeyPatch, folder: Path, root: Path) -> int:
    monkeypatch.setattr(sys, "argv", ["build.py", str(folder), "--root", str(root)])
    return build.main()


def built(monkeypatch: pytest.MonkeyPatch, folder: Path, root: Path) -> Path:
    """A layout of the tiny wheel."""
    tiny_release(folder)
    assert ran(monkeypatch, folder, root) == 0
    return folder / "image"


def test_the_layout_is_what_it_says_and_the_same_each_time(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = built(monkeypatch, tmp_path / "one", root)
    config, layers = read_layout(layout)
    assert [name for name in layers[2] if name.startswith("usr/bin")] == ["usr/bin", "usr/bin/kafkakit"]
    assert layers[2]["usr/bin/kafkakit"].mode == 0o755
    assert any(name.endswith(".pyc") for name in layers[2])
    members = {**layers[0], **layers[1], **layers[2]}
    assert {(m.uid, m.gid, m.uname, m.mtime) for m in members.values()} == {(0, 0, "", EPOCH)}
    assert [m.name for m in members.values() if m.mode & 0o6022 and m.name != "tmp" and not m.issym()] == []
    assert (members["tmp"].mode, members["lib"].linkname) == (0o1777, "usr/lib")
    assert "usr/lib/libc.so" in members
    assert "etc/s" not in members
    assert config["config"]["User"] == "10001:10001"
    assert config["config"]["Entrypoint"] == ["/usr/bin/kafkakit"]
    assert config["config"]["Labels"]["org.opencontainers.image.created"] == "2023-11-14T22:13:20Z" == config["created"]
    root.rename(tmp_path / "moved")
    again = built(monkeypatch, tmp_path / "two", tmp_path / "moved")
    assert {f.name for f in (again / "blobs/sha256").iterdir()} == {f.name for f in (layout / "blobs/sha256").iterdir()}
    assert (again / "index.json").read_bytes() == (layout / "index.json").read_bytes()


def test_a_root_may_be_a_tar_file_and_has_to_have_this_python(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "root.tar"
    (root / "etc/s").unlink()
    with tarfile.open(archive, "w") as packed:
        packed.add(root, arcname="./")
    assert build.ready_root(build.read_root(archive)) == build.ready_root(build.read_root(root))
    (tmp_path / "wheels").mkdir()
    (root / f"usr/bin/python{PYTHON}").unlink()
    for folder, said in ((tmp_path, f"the root has no /usr/bin/python{PYTHON}"), (root, "make dist FORMS=wheels")):
        with pytest.raises(SystemExit) as ended:
            ran(monkeypatch, folder, root)
        assert (ended.value.code, said in capsys.readouterr().err) == (2, True)


def test_a_path_that_leads_out_of_the_root_is_refused() -> None:
    written = BytesIO()
    with tarfile.open(fileobj=written, mode="w") as packed:
        packed.addfile(tarfile.TarInfo("etc/../../x"))
    with pytest.raises(SystemExit, match="leads out of the root"):
        build.read_tar(BytesIO(written.getvalue()))


def test_damage_of_a_layout_is_found(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of the tests looks at every digest."""
    layout = built(monkeypatch, tmp_path / "one", root)
    manifest = json.loads(blob_of(layout, json.loads((layout / "index.json").read_text())["manifests"][0]))
    for descriptor in (manifest["config"], *manifest["layers"]):
        copy = tmp_path / descriptor["digest"][7:15]
        shutil.copytree(layout, copy)
        damaged = copy / "blobs/sha256" / descriptor["digest"][7:]
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
        with pytest.raises(AssertionError):
            read_layout(copy)


class Alive(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/livez" else 404)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def served() -> Iterator[type[Alive]]:
    kind = type("Kind", (Alive,), {})
    with HTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield kind
        server.shutdown()


def test_the_health_check_asks_what_the_process_serves(served: type[Alive]) -> None:
    own = f"/proc/{os.getpid()}"
    assert health.main(own) == 0
    served.status = 503
    assert health.main(own) == 1


def test_a_process_that_serves_nothing_is_healthy() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert health.main(f"/proc/{process.pid}") == 0
        process.kill()


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile with what follows them."""
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    return [(line.split(None, 1)[0], line.split(None, 1)[1].strip()) for line in lines if line.strip()]


def dockerfile_faults(text: str) -> list[str]:
    """What is not as it should be in a Dockerfile."""
    found, made = [], instructions(text)
    last = max(number for number, (word, _) in enumerate(made) if word == "FROM")
    of_last = dict(made[last:])
    if sum(word == "FROM" for word, _ in made) < 2:
        found.append("has one stage")
    found += [f"FROM {rest}" for word, rest in made if word == "FROM" and not re.match(r"\$\{(BASE|BUILD)\}", rest)]
    if any(rest.startswith("BASE=") for word, rest in made if word == "ARG"):
        found.append("the base has a default, which is no digest")
    if not re.fullmatch(r"[1-9]\d*:[1-9]\d*", of_last.get("USER", "")):
        found.append("the user is not a number")
    for word in ("ENTRYPOINT", "CMD", "HEALTHCHECK"):
        if "[" not in of_last.get(word, ""):
            found.append(f"{word} needs a shell")
    found += [f"{word} in the last stage" for word, _ in made[last:] if word in ("RUN", "ADD")]
    text_of_runs = " ".join(rest for word, rest in made if word == "RUN")
    for needed in ("--no-cache-dir", "--no-index", "--only-binary :all:"):
        if needed not in text_of_runs:
            found.append(f"pip without {needed}")
    found += [f"{each} is there" for each in ("apt-get", "gcc", "curl", ":latest") if each in text.lower()]
    found += [f"ARG {rest}" for word, rest in made if word in ("ARG", "ENV")
              and re.search("token|secret|password|key", rest, re.IGNORECASE)]  # fmt: skip
    labels = {"title", "description", "licenses", "version", "revision", "created"}
    if set(re.findall(r"org\.opencontainers\.image\.(\w+)=", of_last.get("LABEL", ""))) != labels:
        found.append("lacks a label")
    return found


def test_the_dockerfile_keeps_the_rules() -> None:
    assert dockerfile_faults(DOCKERFILE) == []
    ignored = (ROOT / "deploy/image/Dockerfile.dockerignore").read_text("utf-8").split()
    copied = [rest.split()[0] for word, rest in instructions(DOCKERFILE) if word == "COPY" and "--from" not in rest]
    assert ignored == ["*", *(f"!{each}" for each in copied)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("FROM ${BASE}", "FROM python:3.11", "FROM python:3.11"),
        ("ARG BASE\n", "ARG BASE=python:3\n", "the base has a default, which is no digest"),
        ("USER 10001:10001", "USER kafkakit", "the user is not a number"),
        ('ENTRYPOINT ["/opt/kafkakit/bin/kafkakit"]', "ENTRYPOINT kafkakit", "ENTRYPOINT needs a shell"),
        ("WORKDIR /tmp", "RUN true", "RUN in the last stage"),
        ("--no-cache-dir ", "", "pip without --no-cache-dir"),
        ("ARG VERSION=unknown", "ARG API_TOKEN", "ARG API_TOKEN"),
        ("org.opencontainers.image.revision", "revision", "lacks a label"),
        ("RUN [", "RUN apt-get install gcc [", "gcc is there"),
    ],
)
def test_a_dockerfile_that_breaks_a_rule_is_found(old: str, new: str, expected: str) -> None:
    assert old in DOCKERFILE
    assert expected in dockerfile_faults(DOCKERFILE.replace(old, new))
