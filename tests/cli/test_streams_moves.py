"""`streams move|repartition|evacuate|balance` and `failover back` by the command line, on clusters in memory."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkakit import wiring
from kafkakit.streams.client import api_act
from tests.rigs.command_line import Home, Ran
from tests.rigs.moves import MovesScene


class Harness:
    """The scene behind profiles `p`, `q` and `r`."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.home, self.scene = Home(folder), MovesScene(3)
        for name in "pqr":
            self.home.write_config(f"bootstrap_server: {name}:1\ncontrol_store: file\n", f"profiles.d/{name}.yaml")
        scene = self.scene

        def port(name: str) -> Callable[..., Any]:
            return lambda settings, **_: getattr(scene.open_cluster(settings.bootstrap_servers[0]), name)

        for name in ("admin", "log", "groups"):
            patch.setattr(wiring, f"open_{name}", port(name))
        patch.setattr(wiring, "open_control", lambda *_: scene.store)
        patch.setattr(api_act, "read_clients", lambda *_: [client.registration() for client in scene.clients])
        patch.setattr(wiring, "system_clock", lambda: scene.clock)

    def run(self, *words: str, options: tuple[str, ...] = ("-o", "json"), profile: str = "q") -> Ran:
        return self.home.run("--profile", profile, *options, "streams", *words)

    def approver(self, text: str) -> str:
        """A command that answers with a text, in which {0} is the hash of the plan on stdin."""
        script = self.home.folder / "approve.py"
        script.write_text(
            f"import json, pathlib, sys\nplan = json.load(sys.stdin)\nprint({text!r}.format(plan['plan_sha256']))\n"
        )
        return f"python3 {script}"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    return Harness(tmp_path, monkeypatch)


def test_a_stream_is_moved_and_returns(desk: Harness) -> None:
    looked = desk.run("move", "orders", "--to", "q", "--dry-run")
    assert (looked.code, looked.json["refused"]) == (0, False)
    assert desk.scene.where()["orders"] == "p"
    ran = desk.run("move", "orders", "--to", "q", "--yes")
    assert (ran.code, ran.json["result"]) == (0, "done"), ran.stderr
    assert desk.scene.where()["orders"] == "q"
    back = desk.run("failover", "back", "orders", "--yes")
    assert (back.code, desk.scene.where()["orders"]) == (0, "p")
    again = desk.run("failover", "back", "orders", "--yes")
    assert (again.code, again.json["operation"]) == (0, back.json["operation"])
    assert desk.run("failover", "back", "s0", "--yes").code == 2


def test_a_lane_gets_other_partitions(desk: Harness) -> None:
    words = ("repartition", "orders", "--lane", "live", "--partitions")
    ran = desk.run(*words, "4", "--yes")
    assert (ran.code, desk.scene.active("orders").partitions) == (0, 4), ran.stderr
    assert desk.scene.where()["orders"] == "p"
    assert desk.run(*words, "4", "--yes").code == 0
    assert desk.run("repartition", "orders", "--lane", "no", "--partitions", "4", "--yes").code == 2
    desk.scene.p.groups.join("billing")
    strict = desk.run(*words, "8", "--order", "strict", "--dry-run")
    assert strict.code == 0, strict.stdout


def test_a_plan_is_carried_out_when_it_is_approved(desk: Harness) -> None:
    words = ("move", "orders", "--to", "q", "--yes", "--approve-with")
    for answer in ("", "no", "approved", "approved " + "0" * 64):
        refused = desk.run(*words, desk.approver(answer))
        assert (refused.code, desk.scene.where()["orders"]) == (2, "p"), answer
    assert desk.run(*words, "false").code == 2
    assert desk.run(*words, "/nothing/there").code == 2
    assert desk.scene.routes.existing("orders").route.operation is None
    ran = desk.run(*words, desk.approver("approved {0} alice"))
    assert (ran.code, desk.scene.where()["orders"]) == (0, "q"), ran.stderr
    (found,) = desk.run("failover", "history", "orders").json["operations"]
    assert found["operation"]["approval"] == "alice"


def test_an_answer_that_was_given_before_is_taken_from_a_file(desk: Harness, tmp_path: Path) -> None:
    digest = desk.run("evacuate", "p", "--to", "q", "--dry-run").json["plan_sha256"]
    answer = tmp_path / "answer"
    answer.write_text(f"approved {digest} bob\n")
    words = ("evacuate", "p", "--to", "q", "--yes", "--approve-with", f"cat {answer}")
    assert desk.run(*words, "--accept-loss", "5").code == 2
    assert set(desk.scene.where().values()) == {"p"}
    assert desk.run(*words).code == 0
    assert set(desk.scene.where().values()) == {"q"}


@pytest.mark.parametrize(
    "words", [("evacuate", "p", "--to", "q"), ("balance", *(f"--capacity={c}=1MB" for c in "pqr"))]
)
def test_events_of_a_series_go_to_datadog_by_stream(
    desk: Harness, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    sent: dict[str, list[str]] = {}

    class Api:
        def send_event(self, title: str, text: str, tags: tuple[str, ...]) -> None:
            name, stream, more = tags
            assert (name, more) == ("name:kafkakit-failover", "team:x")
            assert stream.removeprefix("stream:") in title
            sent.setdefault(stream.removeprefix("stream:"), []).append(title.rpartition(": ")[2])

    monkeypatch.setattr(wiring, "open_datadog_events", lambda *_: Api())
    for name in desk.scene.names:
        desk.scene.rate(name, 30)
    options = ("--dd-events", "--dd-event-tags", "team:x")
    looked = desk.run(*words, "--dry-run", *options)
    assert (looked.code, sent) == (0, {})
    ran = desk.run(*words, "--yes", *options)
    done = {move["stream"] for move in looked.json["moves"]}
    assert done, looked.stdout
    assert set(sent) == done, ran.stderr
    assert {(titles[0], titles[-1]) for titles in sent.values()} == {("move begun", "retired")}


def test_a_cluster_is_evacuated_and_what_is_left_is_listed(desk: Harness) -> None:
    desk.scene.p.admin.topics["s0.live.1"].configs["cleanup.policy"] = "compact"
    looked = desk.run("evacuate", "p", "--to", "q", "--dry-run")
    assert looked.code == 2
    assert {each["stream"]: each["verdict"] for each in looked.json["moves"]}["s0"] == "refused"
    assert desk.scene.newest("evacuate-p-id") is None
    ran = desk.run("evacuate", "p", "--to", "q", "--at-once", "2", "--yes")
    assert (ran.code, ran.json["result"], ran.json["done"]) == (2, "refused", 2), ran.stderr
    assert [each["stream"] for each in ran.json["left"]] == ["s0"]
    assert ran.json["most_at_once"] <= 2
    again = desk.run("evacuate", "p", "--to", "q", "--allow-compacted", "--yes")
    assert (again.code, again.json["left"]) == (0, [])
    empty = desk.run("evacuate", "p", "--to", "q", "--yes")
    assert (empty.code, empty.json["moves"]) == (0, [])
    text = desk.run("evacuate", "q", "--to", "p", "--dry-run", options=()).stdout
    assert "evacuate q (cluster q-id): 3 streams" in text
    assert "nothing is done" in text


def test_an_evacuation_waits_with_75(desk: Harness) -> None:
    desk.scene.readers.clear()
    desk.scene.write("s1.live.1", 3)
    ran = desk.run("evacuate", "p", "--to", "q", "--yes", "--wait", "5s")
    assert (ran.code, [each["stream"] for each in ran.json["left"]]) == (75, ["s1"])
    assert desk.run("evacuate", "p", "--to", "r", "--yes").code == 2
    desk.scene.readers.append("billing")
    desk.scene.tick()
    assert desk.run("evacuate", "p", "--to", "q", "--yes").code == 0


def test_streams_are_balanced_by_what_is_written(desk: Harness) -> None:
    for name, rate in (("orders", 60), ("s0", 30), ("s1", 30)):
        desk.scene.rate(name, rate)
    capacities = ("--capacity", "p=100", "--capacity", "q=100", "--by", "records")
    looked = desk.run("balance", *capacities, "--dry-run")
    assert looked.code == 0, looked.stderr
    figures = looked.json["figures"]
    assert figures["is_proven"]
    assert [each["before"] for each in figures["clusters"]] == [sum(each["after"] for each in figures["clusters"]), 0]
    ran = desk.run("balance", *capacities, "--yes")
    assert (ran.code, ran.json["left"]) == (0, []), ran.stderr
    assert sorted(desk.scene.where().values()) in (["p", "p", "q"], ["p", "q", "q"])
    assert json.dumps(desk.run("balance", *capacities, "--dry-run").json["moves"]) == "[]"


def test_bytes_need_sizes_and_capacities_rates(desk: Harness) -> None:
    for name in desk.scene.names:
        desk.scene.rate(name, 10, size=1000)
    found = desk.run("balance", "--capacity", "p=1MB/s", "--capacity", "q=2MB/s", "--dry-run")
    assert found.code == 0, found.stderr
    loads = [each["before"] for each in found.json["figures"]["clusters"]]
    assert loads[0] > 0
    for words, says in (
        (("p=1MB/s",), "two clusters or more"),
        (("p=1MB/s", "p=1MB/s"), "names profile p twice"),
        (("p", "q=1"), "'p' is not PROFILE=RATE"),
        (("p=0", "q=1MB/s"), "rate 0 "),
    ):
        options = [word for each in words for word in ("--capacity", each)]
        ran = desk.run("balance", *options, "--dry-run")
        assert (ran.code, says in ran.stderr, "measuring" in ran.stderr) == (2, True, False), ran.stderr
    ran = desk.run("balance", "--capacity", "p=x", "--capacity", "q=2", "--by", "records", "--dry-run")
    assert (ran.code, "'p=x' is not a number of records a second" in ran.stderr) == (2, True)


@pytest.mark.parametrize(("words", "choice"), [((), "copy"), (("--dead-letters", "leave"), "leave")])
def test_dead_letters_leave_a_cluster_that_is_emptied(desk: Harness, words: tuple[str, ...], choice: str) -> None:
    """The cluster may go: what stays there would go with it."""
    planned = desk.run("evacuate", "p", "--to", "q", "--dry-run", *words).json
    assert planned["template"]["dead_letters"] == choice
    moved = desk.run("move", "orders", "--to", "q", "--dry-run").json
    assert moved["operation"]["request"]["dead_letters"] == "leave"
