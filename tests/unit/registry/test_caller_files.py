"""Files that name callers, changed while the service runs: a token or key that is taken out is refused then."""

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from kafkakit.adapters.host import SystemClock
from kafkakit.core.errors import ServiceStoppedError, TerminationRequested
from kafkakit.registry.act.cluster import InventoryReader
from kafkakit.registry.act.service import CallerFile, RegistryServer, run_server
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.commands.serve import ListenChoice
from kafkakit.wiring import open_http_listener
from tests.fakes.admin import FakeClock
from tests.fakes.control import FakeControlStore
from tests.rigs.registry import DirectReader, curl, served_on, small_cluster
from tests.rigs.registry_v2 import SseClient
from tests.unit.registry.test_jwt import OTHER, RSA, RULES, public, signed
from tests.unit.registry.test_parts import CALLERS

CI_TOKEN = "Bearer ci-token"
WITHOUT_CI = "".join(line for line in CALLERS.splitlines(keepends=True) if "ci-*" not in line)
Step = Callable[[], object]


class Running:
    """A service with the callers of a choice, which does one step each time that it would sleep."""

    def __init__(self, folder: Path, choice: ListenChoice) -> None:
        cluster, store, tokens = small_cluster(), FakeControlStore(), choice.signed_tokens(print)
        served, inventory, self.lines = served_on(folder, cluster, store, access=choice.access(), tokens=tokens)
        listener = open_http_listener("127.0.0.1:0", served.http, 1 << 20, None)
        self._server = RegistryServer(served.first, inventory, [("HTTP", listener)], self.lines.append)
        self._reader = DirectReader(InventoryReader(cluster, TagStore(store, "registry"), SystemClock()))
        self._files: list[CallerFile] = choice.caller_files(served.first, tokens, self.lines.append)

    @property
    def addresses(self) -> dict[str, str]:
        return dict(line.split(" up: ") for line in self.lines if " up: " in line)

    def run(self, *steps: Step) -> None:
        left, clock = list(steps), FakeClock()

        def step(_: float) -> None:
            if not left:
                raise TerminationRequested
            left.pop(0)()

        clock.on_sleep.append(step)
        with pytest.raises(ServiceStoppedError):
            run_server(self._server, self._reader, clock, lambda _: True, self._files)

    def status(self, authorization: str) -> int:
        return curl(self.addresses["HTTP"], "GET", "/v1/topics/list", "-H", f"Authorization: {authorization}").status


def test_a_token_that_is_taken_out_is_refused_and_a_broken_file_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "callers.yaml"
    file.write_text(CALLERS)
    running, seen = Running(tmp_path, ListenChoice(token_file=file)), list[object]()
    watches = list[SseClient]()

    def look() -> None:
        seen.append(running.status(CI_TOKEN))

    running.run(
        lambda: watches.append(SseClient(running, {"Authorization": CI_TOKEN})),  # type: ignore[arg-type]
        lambda: file.write_text("callers: ["),
        look,
        look,
        file.unlink,
        look,
        lambda: file.write_text(WITHOUT_CI),
        look,
        lambda: seen.extend(event["type"] for event in islice(watches[0], 2)),
        lambda: file.write_text(CALLERS),
        look,
    )
    watches[0].close()
    assert seen == [200, 200, 200, 401, "start", "end", 200]
    told = [line for line in running.lines if str(file) in line]
    assert ["cannot be used" in line for line in told] == [True, True, False, False], told


def test_a_key_and_a_rule_that_are_taken_out_are_refused(tmp_path: Path) -> None:
    keys, rules = tmp_path / "keys.json", tmp_path / "jwt.yaml"
    text = RULES.replace("https://id.example/keys", str(keys)).replace("jwks_url", "jwks_file")
    rules.write_text(text)

    def put(key: object, kid: str) -> None:
        keys.write_text(json.dumps({"keys": [public(key, kid)]}))

    put(RSA, "r1")
    running, seen = Running(tmp_path, ListenChoice(jwt_file=rules)), list[int]()

    def look() -> None:
        seen.append(running.status(f"Bearer {signed()}"))

    running.run(
        look,
        lambda: put(OTHER, "r2"),
        look,
        lambda: put(RSA, "r1"),
        look,
        lambda: keys.write_text("{}"),
        look,
        lambda: put(RSA, "r1"),
        lambda: rules.write_text(text.replace("groups", "teams")),
        look,
    )
    assert seen == [200, 401, 200, 200, 403]
