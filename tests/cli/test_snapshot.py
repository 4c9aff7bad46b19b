"""`kafkakit snapshot`: the document alone on stdout or in the file, everything else on stderr."""

import json
from pathlib import Path

import pytest
import yaml

from kafkakit.cli.root import run
from kafkakit.core.documents import decode_snapshot
from kafkakit.core.errors import OperationFailedError, TryLaterError
from kafkakit.core.model import TopicPartition
from tests.fakes.admin import FakeCluster

COMMAND = ["snapshot", "-B", "127.0.0.1:1"]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCluster:
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    made = FakeCluster({1: "a", 2: "b", 3: "c"}, dirs_per_broker=2)
    made.add_topic("t", {0: (1, 2), 1: (2, 3)}, size_bytes=1_000)
    monkeypatch.setattr("kafkakit.wiring.open_admin", lambda settings, read_only=False: made)
    return made


def test_the_document_is_all_there_is_on_stdout(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(COMMAND) == 0
    out, err = capsys.readouterr()
    snapshot = decode_snapshot(out.encode(), "stdout")
    assert [t.name for t in snapshot.topics] == ["t"]
    assert err == (
        "cluster fake-cluster: 3 brokers (3 alive), 1 topic, 2 partitions, 4 replicas, "
        "3.91 KiB in 4 copies of known size\n"
    )
    assert cluster.closed


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_json_and_yaml_on_stdout_are_the_whole_document(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    assert run([*COMMAND, "-o", output]) == 0
    out = capsys.readouterr().out
    document = json.dumps(yaml.safe_load(out))
    assert [t.name for t in decode_snapshot(document.encode(), "stdout").topics] == ["t"]


def test_the_file_always_holds_the_document(
    cluster: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.json"
    for output in ("text", "json", "yaml", "tsv"):
        assert run([*COMMAND, "-o", output, "--output-file", str(path)]) == 0
        assert decode_snapshot(path.read_bytes(), "f").cluster_id == cluster.cluster_id
        path.unlink()
    assert capsys.readouterr().out == ""


def test_a_silent_broker_is_a_warning_and_its_sizes_are_absent(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.hang(2)
    assert run(COMMAND) == 0
    out, err = capsys.readouterr()
    assert "warning: broker 2 gave no sizes, they are absent from the snapshot: no answer\n" in err
    document = json.loads(out)
    assert document["unanswered_brokers"] == {"2": "no answer"}
    assert document["topics"][0]["partitions"][0]["replica_bytes"] == {"1": 1000}


def test_an_offline_dir_and_a_running_move_are_told(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.fail_dir(1, "/data/1/0")
    cluster.reassign({TopicPartition("t", 0): (3, 2)})
    assert run(COMMAND) == 0
    err = capsys.readouterr().err
    assert "broker 1: log dir /data/1/0 is offline" in err
    assert "1 move running" in err


def test_other_formats_show_the_document_or_the_brokers(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.kill(3)
    assert run([*COMMAND, "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["kafkakit"] == {"kind": "cluster-snapshot", "schema": 1}
    assert run([*COMMAND, "-o", "tsv"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[:6] for row in rows] == [
        ["1", "a", "alive", "1", "1", "1000"],
        ["2", "b", "alive", "2", "1", "2000"],
        ["3", "c", "fenced", "1", "0", "-"],
    ]


def test_without_sizes_nobody_is_asked(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.hang(2)
    assert run([*COMMAND, "--no-sizes"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["sizes_taken"] is False
    assert "warning" not in err
    assert "known size" not in err


@pytest.mark.parametrize(
    ("error", "code"), [(TryLaterError("cannot connect", hint="check"), 75), (OperationFailedError("not permitted"), 1)]
)
def test_a_failed_read_writes_nothing(
    cluster: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    cluster.fail_next("snapshot", error)
    path = tmp_path / "s.json"
    assert run([*COMMAND, "--output-file", str(path)]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "Traceback" not in err
    assert not path.exists()
    assert cluster.closed
