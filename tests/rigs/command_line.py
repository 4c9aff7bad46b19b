"""Runs the command line in this process, with a home of its own, and keeps stdout, stderr and exit code apart.

A desk is an operator's host with profile `p`, and the fakes behind it.
"""

import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import chdir
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self
from unittest import mock

import pytest

from kafkakit import wiring
from kafkakit.adapters.read_only import ReadOnlyAdmin
from kafkakit.cli.root import run
from kafkakit.ports.admin import ClusterAdmin
from tests.fakes.admin import FakeClock, FakeCluster


@dataclass(frozen=True)
class Ran:
    """What one invocation left behind."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


@dataclass(frozen=True)
class Home:
    """A folder that stands for a user's home; the working folder is `work` in it."""

    folder: Path
    work_folder: Path | None = None

    @property
    def config(self) -> Path:
        return self.folder / "config" / "kafkakit"

    @property
    def state(self) -> Path:
        return self.folder / "state" / "kafkakit"

    @property
    def work(self) -> Path:
        return self.work_folder or self.folder / "work"

    def at(self, work: Path) -> "Home":
        """The same home with another working folder."""
        return replace(self, work_folder=work)

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "KAFKAKIT_LOCK_DIR": str(self.folder / "locks"),
            **(extra or {}),
        }

    def write_config(self, text: str, name: str = "config.yaml") -> Path:
        path = self.config / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def run(self, *arguments: str, env: Mapping[str, str] | None = None, stdin: str = "") -> Ran:
        self.work.mkdir(parents=True, exist_ok=True)
        stdout, stderr = _stream(), _stream()
        with (
            mock.patch.dict(os.environ, self.environment(env), clear=True),
            mock.patch.multiple(sys, stdin=_stream(stdin), stdout=stdout, stderr=stderr),
            chdir(self.work),
        ):
            code = run(arguments)
        return Ran(code, _text(stdout), _text(stderr))


class Desk:
    """An operator's host: `command` runs with profile `p`, time is a fake clock's."""

    command: ClassVar[tuple[str, ...]] = ()

    def __init__(self, folder: Path, clock: FakeClock | None = None) -> None:
        self.home, self.clock = Home(folder), clock or FakeClock()
        self.home.write_config("bootstrap_server: fake:1\n", "profiles.d/p.yaml")

    def run(self, *words: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Ran:
        return self.home.run("--profile", "p", *self.command, *words, stdin=stdin, env=env)

    def sit(self, monkeypatch: pytest.MonkeyPatch, **ports: object) -> Self:
        """Commands open what the methods `open_...` of the desk give, and `ports`, in place of real ones."""
        monkeypatch.setattr(wiring, "system_clock", lambda: self.clock)
        for name in dir(self):
            if name.startswith("open_"):
                monkeypatch.setattr(wiring, name, getattr(self, name))
        for name, port in ports.items():
            monkeypatch.setattr(wiring, name, lambda *_, port=port, **__: port)
        return self


class ClusterDesk(Desk):
    """A desk before a cluster in memory, whose time passes while a command sleeps."""

    def __init__(self, folder: Path, cluster: FakeCluster, clock: FakeClock | None = None) -> None:
        super().__init__(folder, clock)
        self.cluster = cluster
        self.clock.on_sleep.append(cluster.advance)

    def open_admin(self, settings: Any, *, read_only: bool = False, **_: Any) -> ClusterAdmin:
        return ReadOnlyAdmin(self.cluster) if read_only else self.cluster

    def press(self, when: Callable[[], object] = lambda: True) -> None:
        """Ctrl-C at the first pause at which this holds."""

        def look(_: float) -> None:
            if when():
                self.clock.on_sleep.remove(look)
                raise KeyboardInterrupt

        self.clock.on_sleep.append(look)


def _stream(content: str = "") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content.encode()), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    return stream.buffer.getvalue().decode()  # type: ignore[attr-defined,no-any-return]
