"""A failover scene behind profiles, for the command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkakit import wiring
from kafkakit.streams.client import api_act
from kafkakit.streams.failover.act import operations
from tests.rigs.command_line import Home, Ran
from tests.rigs.failover import STREAM, FailoverScene

OLD = "orders.live.1"


class FailoverDesk:
    """The scene behind profiles `p`, `q` and `r`."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, lanes: tuple[str, ...] = ("live",)) -> None:
        self.home, self.scene = Home(folder), FailoverScene(lanes)
        for name in "pqr":
            self.home.write_config(f"bootstrap_server: {name}:1\ncontrol_store: file\n", f"profiles.d/{name}.yaml")
        scene = self.scene

        def port(name: str) -> Callable[..., Any]:
            return lambda settings, **_: getattr(scene.open_cluster(settings.bootstrap_servers[0]), name)

        for name in ("admin", "log", "groups", "data"):
            patch.setattr(wiring, f"open_{name}", port(name))
        patch.setattr(wiring, "open_control", lambda *_: scene.store)
        patch.setattr(api_act, "read_clients", lambda *_: [client.registration() for client in scene.clients])
        patch.setattr(wiring, "system_clock", lambda: scene.clock)
        patch.setattr(operations, "read_references", lambda *words: scene.references(words[-1]))
        scene.write(OLD, 10)
        scene.write(OLD, 5, partition=1)
        scene.readers.append("billing")
        scene.read_all("billing")
        scene.producer()

    def run(self, *words: str, options: tuple[str, ...] = ("-o", "json"), profile: str = "q") -> Ran:
        return self.home.run("--profile", profile, *options, "streams", *words)

    def failover(self, verb: str, *words: str) -> Ran:
        return self.run("failover", verb, STREAM, *words)
