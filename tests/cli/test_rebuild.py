"""`kafkakit topicmappr rebuild` from a snapshot file: golden cases, bad input, files, formats and exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafkakit.cli.root import run
from kafkakit.core.documents import encode_snapshot
from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, Partition, Reassignment
from tests.clusters.shapes import make_snapshot
from tests.invariants.plan import verify_plan
from tests.places import ROOT

CASES = sorted((ROOT / "tests" / "cases" / "rebuild").glob("*.json"))


@pytest.fixture(autouse=True)
def in_scratch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith(("KAFKAKIT_", "TOPICMAPPR_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def snapshot_of(world: dict[str, Any]) -> ClusterSnapshot:
    isr = world.get("isr", {})
    return make_snapshot(
        (Broker(id=b["id"], rack=b["rack"], state=BrokerState(b.get("state", "alive"))) for b in world["brokers"]),
        {
            name: [
                Partition(partition=n, replicas=tuple(r), isr=tuple(isr[name][n]) if name in isr else None)
                for n, r in enumerate(rows)
            ]
            for name, rows in sorted(world["topics"].items())
        },
        sizes_taken=False,
    )


def write_snapshot(world: dict[str, Any], name: str = "snapshot.json") -> None:
    Path(name).write_bytes(encode_snapshot(snapshot_of(world)))


SMALL = {"brokers": [{"id": 1, "rack": "a"}, {"id": 2, "rack": "b"}, {"id": 3, "rack": "b"}], "topics": {"t": [[1, 2]]}}
REBUILD = ["topicmappr", "rebuild", "--snapshot", "snapshot.json"]


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_golden_case(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = json.loads(path.read_text(encoding="utf-8"))
    write_snapshot(case["world"])
    code = run([*REBUILD, "--plan", "p.json", "--out-path", ".", *case["flags"]])
    out, err = capsys.readouterr()
    assert code == case["exit"], err
    for line in case["stdout"]:
        assert line in out
    for line in case.get("stderr", []):
        assert line in err
    for line in case.get("not_stdout", []):
        assert line not in out
    written = {p.name for p in Path().glob("*.json")} - {"snapshot.json", "p.json"}
    assert written == set(case["files"])
    assert Path("p.json").exists() == (code == 0)
    assert "Traceback" not in out + err
    for topic, rows in case.get("after", {}).items():
        entries = json.loads(Path(f"{topic}.json").read_bytes())["partitions"]
        for entry, expected in zip(entries, rows, strict=True):
            _fits(entry["replicas"], expected)
    if code == 0:
        verify_plan(
            json.loads(Path("p.json").read_bytes()),
            json.loads(Path("snapshot.json").read_bytes()),
            allow_unplaced="--ignore-warns" in case["flags"],
        )


def _fits(replicas: list[int], expected: list[Any]) -> None:
    """A nested list in `expected` means any of its brokers."""
    assert len(replicas) == len(expected), (replicas, expected)
    for broker, wanted in zip(replicas, expected, strict=True):
        assert broker in wanted if isinstance(wanted, list) else broker == wanted, (replicas, expected)


def test_map_file_is_byte_compatible_with_kafka_kit(capsys: pytest.CaptureFixture[str]) -> None:
    write_snapshot(SMALL)
    assert run([*REBUILD, "--topics", "t", "--brokers", "1,3"]) == 0
    assert Path("t.json").read_bytes() == (
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,3]}]}\n'
    )
    assert Path("t.json").stat().st_mode & 0o777 == 0o644


def test_same_input_same_bytes_across_processes_and_hash_seeds() -> None:
    write_snapshot(SMALL)
    seen = set()
    for seed in ("0", "1", "77"):
        command = [sys.executable, "-m", "kafkakit", *REBUILD, "--topics", ".*", "--brokers", "-2", "--force-rebuild"]
        subprocess.run(
            [*command, "--plan", "p.json"], capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        )
        seen.add(Path("p.json").read_bytes())
    assert len(seen) == 1


def test_leaders_phases_and_chunks_are_the_same_for_every_hash_seed(tmp_path: Path) -> None:
    topics = {f"t{n}": [[1 + n % 3, 1 + (n + 1) % 3], [1, 2], [3, 1]] for n in range(6)}
    brokers = [{"id": n, "rack": "abc"[n % 3]} for n in range(1, 7)]
    write_snapshot({"brokers": brokers, "topics": topics})
    for flags in (
        ["--brokers", "4,5,6", "--chunk-step-size", "1", "--optimize-leadership"],
        ["--brokers", "-2", "--force-rebuild", "--phased-reassignment", "--leader-evac-brokers", "1,2",
         "--leader-evac-topics", ".*", "--min-rack-ids", "1"],
    ):  # fmt: skip
        seen = set()
        for seed in ("0", "1", "77"):
            command = [sys.executable, "-m", "kafkakit", *REBUILD, "--topics", ".*", "--out-file", "all", *flags]
            ran = subprocess.run(
                [*command, "--plan", "p.json"],
                capture_output=True,
                check=True,
                env={**os.environ, "PYTHONHASHSEED": seed},
            )
            maps = {path.name: path.read_bytes() for path in Path().glob("*.json")}
            assert len(maps) > 10
            seen.add((ran.stdout, tuple(sorted(maps.items()))))
            for path in Path().glob("*-phase*.json"):
                path.unlink()
        assert len(seen) == 1


def test_json_names_the_maps_of_a_series_with_their_files(capsys: pytest.CaptureFixture[str]) -> None:
    write_snapshot(SMALL)
    flags = ["--topics", "t", "--brokers", "1,3", "--out-file", "all", "-o", "json"]
    assert run([*REBUILD, *flags, "--phased-reassignment"]) == 0
    phases = json.loads(capsys.readouterr().out)
    assert phases["map_files"] == ["all-phase0.json", "t-phase0.json", "all-phase1.json", "t-phase1.json"]
    assert [made["files"] for made in phases["maps"]] == [phases["map_files"][:2], phases["map_files"][2:]]
    assert run([*REBUILD, *flags, "--chunk-step-size", "1"]) == 0
    (chunk,) = json.loads(capsys.readouterr().out)["maps"]
    assert chunk == {"phase": 0, "brokers": [2], "partitions_changed": 1, "files": ["all.json", "t.json"]}


def test_gos_spelling_of_switches(capsys: pytest.CaptureFixture[str]) -> None:
    write_snapshot(SMALL)
    words = ["--topics", "t", "--brokers", "1,2", "--plan", "p.json"]
    for flag, recorded in (("--use-meta=true", {}), ("--use-meta=F", {"use-meta": "false"}),
                           ("--skip-no-ops=T", {"skip-no-ops": "true"}), ("--skip-no-ops=0", {})):  # fmt: skip
        assert run([*REBUILD, *words, flag]) == 0
        request = json.loads(Path("p.json").read_bytes())["request"]
        assert {name: request.get(name) for name in ("use-meta", "skip-no-ops") if name in request} == recorded


def test_root_flags_of_kafka_kit_may_stand_before_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    write_snapshot(SMALL)
    rest = [*REBUILD[1:], "--topics", "t", "--brokers", "1,9", "--plan", "p.json"]
    assert run(["topicmappr", *rest]) != 0
    before = ["--zk-addr", "zk:2181", "--ignore-warns", "--zk-prefix=kafka", "-o", "json"]
    capsys.readouterr()
    assert run(["topicmappr", *before, *rest]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"]
    assert run(["topicmappr", "--zk-addr"]) == 2
    assert run(["topicmappr", "--ignore-warns", "place", "new", "--snapshot", "s.json"]) == 2


def test_a_map_without_metadata_needs_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    text = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
    assert run(["topicmappr", "rebuild", "--map-string", text, "--brokers", "1,3", "--use-meta=false"]) == 0
    assert json.loads(Path("t.json").read_bytes())["partitions"][0]["replicas"] == [1, 3]
    assert "  New broker 3\n" in capsys.readouterr().out


def test_json_result_is_one_object_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    write_snapshot(SMALL)
    assert run([*REBUILD, "--topics", "t", "--brokers", "1,3", "-o", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["kafkakit"] == {"command": "topicmappr rebuild", "schema": 1}
    assert result["partitions"] == [
        {"topic": "t", "partition": 0, "before": [1, 2], "after": [1, 3], "change": "replaced broker"}
    ]
    assert result["certificate"]["gap"] == 0
    assert result["map_files"] == ["t.json"]


def test_tsv_has_one_record_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    write_snapshot(SMALL)
    assert run([*REBUILD, "--topics", "t", "--brokers", "1,3", "-o", "tsv"]) == 0
    assert capsys.readouterr().out == "t\t0\t1,2\t1,3\treplaced broker\n"


def test_json_of_an_infeasible_request_is_an_error_object(capsys: pytest.CaptureFixture[str]) -> None:
    write_snapshot(SMALL)
    assert run([*REBUILD, "--topics", "t", "--brokers", "2,3", "-o", "json"]) == 4
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["exit_code"] == 4
    assert "needs 2 racks, the listed brokers have 1 (b); add a broker in rack a (1)" in err


def test_exit_code_3_only_on_request_and_only_with_changes() -> None:
    write_snapshot(SMALL)
    assert run([*REBUILD, "--topics", "t", "--brokers", "1,3", "--exit-code"]) == 3
    assert run([*REBUILD, "--topics", "t", "--brokers", "1,2", "--exit-code"]) == 0


def test_the_next_command_stands_alone_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    write_snapshot(SMALL)
    assert run([*REBUILD, "--topics", "t", "--brokers", "1,3", "--plan", "my plan.json"]) == 0
    assert "kafkakit reassign apply 'my plan.json'" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "missing option '--brokers'"),
        (["--brokers", "1,x"], "'x' is not a broker id"),
        (["--brokers", ""], "'' is not a broker id"),
        (["--brokers", "-3"], "'-3' is not a broker id"),
        (["--brokers", "9" * 5000], "is not a broker id"),
        (["--brokers", "1", "--topics", "("], "invalid regex pattern: ("),
        (["--brokers", "1", "--topics", "nope"], "no topic matches 'nope'"),
        (["--brokers", "1", "--topics", "t", "--topics-exclude", "*"], "Invalid topic regex: *"),
        (["--brokers", "1", "--topics", "t", "--topics-exclude", "t"], "no partitions left to place"),
        (["--brokers", "1"], "must specify either --topics or --map-string"),
        (["--brokers", "1", "--map-string", "{"], "Error parsing partition map"),
        (["--brokers", "1", "--map-string", '{"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}'], "t"),
        (["--brokers", "1", "--topics", "t", "--replication", "-1"], "--replication"),
        (["--brokers", "1", "--topics", "t", "--min-rack-ids", "-1"], "--min-rack-ids"),
        (["--brokers", "1", "--topics", "t", "--minimize", "time"], "--minimize"),
        (["--brokers", "1", "--topics", "t", "--minimize", "bytes"], "--minimize bytes needs every size"),
        (["--brokers", "1", "--topics", "t", "--out-path", f"{__file__}/x"], "is not a folder"),
        (["--brokers", "1,3", "--topics", "t", "--out-file", "../x"], "not a plain file name"),
        (["--brokers", "1,3", "--topics", "t", "--out-file", "t"], "would overwrite"),
        (["--brokers", "1", "--topics", "t", "--chunk-step-size", "-1"], "--chunk-step-size"),
        (["--brokers", "1", "--topics", "t", "--leader-evac-topics", "t"], "must both be specified"),
        (["--brokers", "1", "--topics", "t", "--leader-evac-topics", "t", "--leader-evac-brokers", "x"], "'x' is not"),
        (
            ["--brokers", "1", "--topics", "t", "--leader-evac-topics", "t", "--leader-evac-brokers", "9"],
            "broker 9 is not",
        ),
        (["--brokers", "1", "--topics", "t", "--leader-evac-topics", "t", "--leader-evac-brokers", "-1"], "name the"),
        (["--brokers", "1", "--topics", "t", "--leader-evac-topics", "u", "--leader-evac-brokers", "1"], "no topic"),
        (["--brokers", "1", "--topics", "t", "--use-meta=maybe"], "--use-meta"),
    ],
)
def test_bad_requests_are_one_line_and_exit_2(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_snapshot(SMALL)
    assert run([*REBUILD, *flags]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert len([line for line in err.splitlines() if line.startswith("error:")]) == 1
    assert not Path("t.json").exists()


def test_a_partition_on_the_move_is_not_planned(capsys: pytest.CaptureFixture[str]) -> None:
    import dataclasses

    moving = dataclasses.replace(
        snapshot_of(SMALL),
        reassignments=(Reassignment(topic="t", partition=0, replicas=(3, 1, 2), adding=(3,), removing=(2,)),),
    )
    Path("snapshot.json").write_bytes(encode_snapshot(moving))
    assert run([*REBUILD, "--topics", "t", "--brokers", "1,3"]) == 75
    assert "t-0 are being reassigned" in capsys.readouterr().err
    dead = tuple(dataclasses.replace(b, state=BrokerState.FENCED) if b.id == 3 else b for b in moving.brokers)
    Path("snapshot.json").write_bytes(encode_snapshot(dataclasses.replace(moving, brokers=dead)))
    assert run([*REBUILD, "--topics", "t", "--brokers", "1,3"]) == 2, "no waiting ends it"
    assert "hint: start it, or cancel them:\nkafkakit reassign abort --partition t-0" in capsys.readouterr().err


def test_a_hostile_topic_name_never_becomes_a_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_snapshot({**SMALL, "topics": {"../../evil": [[1, 2]]}})
    assert run([*REBUILD, "--topics", ".*", "--brokers", "1,3"]) == 2
    assert not list(tmp_path.parent.glob("evil*"))


def test_kafka_kits_environment_names_are_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_snapshot(SMALL)
    monkeypatch.setenv("TOPICMAPPR_IGNORE_WARNS", "true")
    assert run([*REBUILD, "--topics", "t", "--brokers", "1,3,77"]) == 0
    monkeypatch.delenv("TOPICMAPPR_IGNORE_WARNS")
    monkeypatch.setenv("TOPICMAPPR_KAFKA_ADDR", "127.0.0.1:1")
    assert run(["topicmappr", "rebuild", "--topics", "t", "--brokers", "1", "--timeout", "20s"]) == 75
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_a_value_after_a_switch_is_taken_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write_snapshot(SMALL)
    words = [*REBUILD, "--topics", "t", "--brokers", "1,2"]
    assert run([*words, "--skip-no-ops", "true"]) == 0
    assert run([*words, "--skip-no-ops=true", "--optimize-leadership", "1", "--replication", "1"]) == 0
    capsys.readouterr()
    assert run([*words, "--skip-no-ops", "false"]) == 2
    assert "hint: write --skip-no-ops=false, or leave it out" in capsys.readouterr().err
