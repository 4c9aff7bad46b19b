"""The program as a person uses it at a desk: a folder of its own for state, sandboxes and profiles."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Desk:
    """The program with a state folder of its own; only the cache of Kafka's jars is shared with the machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        names = ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")
        self.env = {
            **os.environ,
            **{name: str(folder / name.lower()) for name in names},
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
            "HOME": str(folder),
            "COLUMNS": "100",
        }
        self.env.pop("KAFKAKIT_PROFILE", None)

    def words(self, line: str) -> list[str]:
        """The command line of a command of the kit."""
        return [sys.executable, "-m", "kafkakit", *line.split()]

    def run(self, line: str, *codes: int) -> str:
        """What a command prints; it must end with one of the codes, 0 without any."""
        done = subprocess.run(
            self.words(line), env=self.env, cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode in (codes or (0,)), (line, done.returncode, done.stderr)
        return done.stdout

    @contextmanager
    def sandbox(self, name: str, brokers: int = 1) -> Iterator[str]:
        """The address of a cluster that is there while the block runs; its profile has the same name."""
        made = self.run(f"sandbox up --name {name} --brokers {brokers} --racks 1 -o json")
        try:
            yield json.loads(made)["bootstrap_servers"]
        finally:
            self.run(f"sandbox down --name {name}")

    @contextmanager
    def serving(self, line: str, log: Path) -> Iterator[None]:
        """A command that runs while the block does, with all that it prints in a file."""
        with open(log, "wb") as out:
            process = subprocess.Popen(self.words(line), env=self.env, cwd=self.folder, stdout=out, stderr=out)
        try:
            yield
        finally:
            process.terminate()
            process.wait(120)
