"""Whatever stands in a file that a command reads, nothing it prints moves a cursor or reorders a line."""

import copy
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.adapters.read_only import ReadOnlyAdmin
from kafkakit.cli.output import OutputFormat, format_result
from kafkakit.cli.root import build_root, reference_json
from kafkakit.core.errors import OperationFailedError
from kafkakit.report.report import RawDocument, Report, ResultTable
from tests.fakes.admin import FakeCluster
from tests.rigs.command_line import Home, Ran
from tests.rigs.kubernetes import cluster as objects_of_kubernetes

ATTACKS = (
    "\x1b]0;owned\x07",
    "\x1b[2J\x1b[1;1H",
    "\u202eexe.nalp",
    "\u2066",
    "\x9b31m",
    "\r",
    "\x7f",
    "\u200b",
    "\x85",
)
SNAPSHOT, PLAN, MAP = ("--snapshot", "s.json"), ("p.json",), ("m.json",)
ALL = ("--topics", ".*")
# Every command that reads a snapshot, a plan, a map or another file that is named; the test below holds it to that.
READERS: dict[str, tuple[str, ...]] = {
    "topicmappr add-brokers": ("--brokers", "5", *SNAPSHOT),
    "topicmappr audit": (*MAP, *SNAPSHOT),
    "topicmappr check": SNAPSHOT,
    "topicmappr drain": ("--brokers", "1", *SNAPSHOT),
    "topicmappr explain": (*PLAN, "orders/0"),
    "topicmappr fix-racks": SNAPSHOT,
    "topicmappr frontier": SNAPSHOT,
    "topicmappr leaders": SNAPSHOT,
    "topicmappr place": ("new", "--partitions", "2", "--replication", "2", *SNAPSHOT),
    "topicmappr rebalance": ("--brokers", "1,2,3,4", *ALL, *SNAPSHOT),
    "topicmappr rebalance-dirs": SNAPSHOT,
    "topicmappr rebuild": ("--brokers", "2,3,4", *ALL, *SNAPSHOT),
    "topicmappr repair": SNAPSHOT,
    "topicmappr replan": (*PLAN, *SNAPSHOT),
    "topicmappr scale": ("--brokers", "1,2,3,4,5", *ALL, *SNAPSHOT),
    "topicmappr set-replication": ("1", *ALL, *SNAPSHOT),
    "broker restart-check": ("1", *SNAPSHOT),
    "broker restart-plan": ("--all", *SNAPSHOT),
    "reassign abort": (*PLAN, "--dry-run"),
    "reassign apply": (*PLAN, "--dry-run", "--throttle", "none"),
    "reassign continue": PLAN,
    "reassign cleanup": (*PLAN, "--dry-run"),
    "reassign close": PLAN,
    "reassign pause": PLAN,
    "reassign resume": (*PLAN, "--dry-run"),
    "reassign rollback": (*PLAN, "--dry-run"),
    "reassign simulate": (*PLAN, *SNAPSHOT),
    "reassign throttle": (*PLAN, "1MB"),
    "reassign verify": PLAN,
    "registry apply": ("t.yaml", "--dry-run"),
    "registry import-labels": ("l.json", "--map", "zone=zone"),
    "streams commits encode": ("c.json",),
    "lint": ("s.json", "c.json", "p.json"),
    "status": ("--fleet", "f.yaml"),
    "broker list": ("--pods", "o.json"),
    "broker describe": ("1", "--pods", "o.json"),
    "fleet collect": ("--fleet", "f.yaml", "--to", "store"),
    "profile show": ("--config", "k.yaml"),
    "profile import": ("c.properties", "--config", "k.yaml", "--dry-run"),
    "profile list": ("--command-config", "c.properties", "--config", "k.yaml"),
}
# They name the file alike, but need what this test has not: a Spark run, a broker's disk, a browser.
ELSEWHERE = {"config apply", "audit submit", "fleet segments", "audit unit", "ui"}


def open_admin(settings: object, **_: object) -> ReadOnlyAdmin:
    cluster = FakeCluster({1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}, cluster_id="c1")
    for name in ("orders", "pay.ments"):
        cluster.add_topic(name, {0: (1, 3), 1: (3, 2), 2: (1, 4)}, size_bytes=1000)
    return ReadOnlyAdmin(cluster)


def is_safe(text: str, allowed: str = "\n") -> bool:
    return all(char.isprintable() or char in allowed for char in text)


def test_every_command_that_reads_a_file_is_tried() -> None:
    reading = set()
    for command in json.loads(reference_json(build_root()))["commands"]:
        for option in [*command.get("arguments", ()), *command.get("options", ())]:
            names = " ".join(option["names"])
            if names in ("--snapshot", "FILE", "PLAN", "[PLAN]", "[PLAN] RATE", "MAP", "--fleet"):
                reading.add(command["words"])
    assert {words for words in reading if not words.startswith("audit ")} - set(READERS) - ELSEWHERE == set()


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    """A file of each kind as data, before anything is planted in it."""
    with TemporaryDirectory() as folder:
        home = Home(Path(folder))
        home.work.mkdir()
        with mock.patch("kafkakit.wiring.open_admin", open_admin):
            assert home.run("-B", "fake:1", "snapshot", "--output-file", "s.json").code == 0
        assert home.run("topicmappr", "drain", "--brokers", "1", *SNAPSHOT, "--plan", "p.json").code == 0
        found: dict[str, Any] = {name: json.loads((home.work / name).read_bytes()) for name in ("s.json", "p.json")}
    found["m.json"] = found["p.json"]["reassignment"]
    found["c.json"] = {"dialect": "x", "topic": "t", "group": "g", "offset": 3, "done": [4]}
    found["f.yaml"] = {
        "kafkakit": "fleet",
        "schema": 1,
        "clusters": [{"name": "a", "profile": "p", "owner": "o", "labels": ["e"]}],
    }
    found["t.yaml"] = {
        "topics": [{"names": ["orders"], "tags": {"team": "a"}}],
        "brokers": [{"where": "rack = a", "tags": {"disk": "x"}}],
    }
    found["l.json"] = {"items": [{"kind": "Pod", "metadata": {"name": "kafka-1", "labels": {"zone": "a"}}}]}
    found["o.json"] = {"kind": "List", "items": objects_of_kubernetes("abbbc", first=1)}
    found["k.yaml"] = {"profile": "p", "profiles": {"p": {"bootstrap_server": "a:1", "cluster_id": "c"}}}
    found["c.properties"] = {"bootstrap.servers": "a:1", "some.key": "v"}
    return found


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every text in a document; the path of a key ends with None."""
    if isinstance(value, str):
        return [path]
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    keys = [(*path, key, None) for key, _ in items if isinstance(value, dict)]
    return keys + [found for key, item in items for found in places(item, (*path, key))]


def plant(document: Any, path: tuple[Any, ...], attack: str) -> Any:
    document = copy.deepcopy(document)
    *above, last = path[:-1] if path[-1] is None else path
    inner = document
    for step in above:
        inner = inner[step]
    if path[-1] is None:
        inner[f"{last}{attack}"] = inner.pop(last)
    else:
        inner[last] = f"{inner[last]}{attack}"
    return document


def encoded(name: str, document: Any) -> str:
    if name.endswith(".properties"):
        return "".join(f"{key}={value}\n" for key, value in document.items())
    if name.endswith(".yaml"):
        return yaml.safe_dump(document)
    return json.dumps(document) + "\n"


def run(home: Home, words: str, output: str) -> Ran:
    """One command on a cluster that stands for all, without waiting for one."""

    with mock.patch("kafkakit.wiring.open_admin", open_admin), mock.patch(
        "kafkakit.wiring.open_groups", side_effect=OperationFailedError("no groups here")
    ), mock.patch("kafkakit.wiring.open_log", side_effect=OperationFailedError("no log here")):  # fmt: skip
        address = () if "--config" in READERS[words] or words == "fleet collect" else ("-B", "fake:1")
        return home.run(*words.split(), *READERS[words], *address, "-o", output, "--no-input", "--timeout", "60s")


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data(), words=st.sampled_from(sorted(READERS)), output=st.sampled_from(["text", "json", "yaml", "tsv"]))
def test_no_file_reaches_the_terminal_raw(
    documents: dict[str, Any], data: st.DataObject, words: str, output: str
) -> None:
    named = [word for word in READERS[words] if word in documents]
    planted = {}
    for name in named:
        document = documents[name]
        for attack in data.draw(st.lists(st.sampled_from(ATTACKS), min_size=1, max_size=3)):
            document = plant(document, data.draw(st.sampled_from(places(document))), attack)
        planted[name] = document
    with TemporaryDirectory() as folder:
        home = Home(Path(folder))
        home.work.mkdir()
        home.write_config("bootstrap_server: fake:1\n", "profiles.d/p.yaml")
        for name, document in (documents | planted).items():
            (home.work / name).write_text(encoded(name, document), encoding="utf-8")
        ran = run(home, words, output)
    assert "this is a bug in kafkakit" not in ran.stderr, ran.stderr
    assert is_safe(ran.stderr), ran.stderr
    assert is_safe(ran.stdout, "\n\t" if output == "tsv" else "\n"), ran.stdout


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_any_text_is_shown_safely_and_data_reads_back(text: str) -> None:
    report = Report(command="x", data={"name": text}, sections=(f"a {text}", "b"), table=ResultTable((), ((text, 1),)))
    for form in OutputFormat:
        shown = format_result(report, form)
        assert is_safe(shown, "\n\t" if form is OutputFormat.TSV else "\n")
    assert json.loads(format_result(report, OutputFormat.JSON))["name"] == text
    assert yaml.safe_load(format_result(report, OutputFormat.YAML))["name"] == text


def test_what_is_said_asked_and_refused_is_escaped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkakit.cli.output import Output

    monkeypatch.setattr("sys.stdin", mock.Mock(readline=lambda: "no\n"))
    output = Output(input_allowed=True, color=True)
    for attack in ATTACKS:
        output.say(f"group {attack}")
        output.warn(f"broker error {attack}")
        output.error(f"client {attack}", f"hint {attack}")
        output.ask_typed(f"Write to {attack}?")
        with output.progress(f"label {attack}") as bar:
            bar.update(1, 2, attack)
        with output.screen() as screen:
            screen.show(attack, f"line {attack}")
    painted = capsys.readouterr().err
    for code in ("33", "31", "36", "0"):
        painted = painted.replace(f"\x1b[{code}m", "")
    assert is_safe(painted), painted


def test_a_document_is_left_alone_for_programs_and_escaped_on_a_terminal() -> None:
    report = Report(command="x", data={}, sections=(RawDocument('{"name": "\u202e"}\n'),))
    assert format_result(report, OutputFormat.TEXT) == report.text
    assert format_result(report, OutputFormat.TEXT, to_terminal=True) == '{"name": "\\u202e"}\n'
