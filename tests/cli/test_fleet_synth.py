"""`kafkakit fleet synth`: snapshots and log segments, with what is wrong where beside them."""

import json
from pathlib import Path

import pytest

from kafkakit.fleet.decide.synth_defects import DEFECTS
from kafkakit.fleet.decide.synth_logs import FILE_DEFECTS
from tests.rigs.command_line import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    made.work.mkdir(parents=True)
    return made


def test_a_spec_is_split_between_snapshots_and_files(home: Home) -> None:
    spec = home.work / "spec.json"
    spec.write_text('{"retention-overshoot": 2, "stray-dir": 1}', encoding="utf-8")
    command = ["fleet", "synth", "--defects", "spec.json", "--days", "1", "--date", "2026-11-20", "--segment-rows", "0"]
    found = home.run(*command, "--to", "store", "--segments", "logs", "-o", "json")
    assert found.code == 0, found.stderr
    assert found.json["written"]["partitions"] == 600
    assert "segments" not in found.json["written"]
    truth = json.loads((home.work / "store" / "truth.json").read_text())
    assert truth["kafkakit"] == {"kind": "fleet-truth", "schema": 1}
    assert [(d["job"], d["rule"]) for d in truth["defects"]] == [("retention", "KKR201")] * 2
    assert len({d["where"] for d in truth["defects"]}) == 2
    of_files = json.loads((home.work / "logs" / "truth.json").read_text())["defects"]
    assert [(d["rule"], d["where"]) for d in of_files] == [
        ("KKF022", f"log dir 1:{home.work / 'logs'} of kafka-logs")
    ]  # fmt: skip
    assert list((home.work / "store").glob("manifests/*/*.json"))
    assert next((home.work / "logs").glob("stray*")).name.endswith("-stray")


def test_an_unknown_defect_is_refused_with_the_list_before_anything_is_written(home: Home) -> None:
    (home.work / "spec.json").write_text('{"nonsense": 1}', encoding="utf-8")
    found = home.run("fleet", "synth", "--defects", "spec.json", "--to", "store")
    assert found.code == 2
    assert "no defect is called nonsense" in found.stderr
    assert all(name in found.stderr for name in (*DEFECTS, *FILE_DEFECTS))
    assert not (home.work / "store").exists()


def test_a_place_is_needed(home: Home) -> None:
    found = home.run("fleet", "synth")
    assert found.code == 2
    assert "--to DIR" in found.stderr


def test_large_sparse_segments_take_little_space(home: Home) -> None:
    found = home.run("fleet", "synth", "--segments", "logs", "--large-mib", "1500", "--sparse")
    assert found.code == 0, found.stderr
    files = [path.stat() for path in (home.work / "logs").glob("large-*/*.log")]
    assert sum(status.st_size for status in files) == 1500 << 20
    assert sum(status.st_blocks * 512 for status in files) < 20 << 20
