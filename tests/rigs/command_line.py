"""Runs the command line in this process, with a home of its own, and keeps stdout, stderr and exit code apart."""

import io
import json
import os
import sys
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from kafkakit.cli.root import run


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


def _stream(content: str = "") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content.encode()), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    return stream.buffer.getvalue().decode()  # type: ignore[attr-defined,no-any-return]
