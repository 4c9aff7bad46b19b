"""`topicmappr rebuild --placement storage` at the command line: text, exit codes, formats, sources of sizes."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafkakit.cli.root import run
from kafkakit.core.documents import encode_snapshot
from kafkakit.core.model import Broker, ClusterSnapshot, Partition, Topic
from tests.clusters.shapes import make_snapshot
from tests.invariants.plan import verify_plan
from tests.invariants.storage_rebuild import verify_storage_rebuild

GIB = 1 << 30
REBUILD = ["topicmappr", "rebuild", "--snapshot", "s.json", "--topics", "a", "--placement=storage"]
FREE = {1001: 50, 1002: 100, 1003: 150, 1004: 200, 1005: 250}


@pytest.fixture(autouse=True)
def in_scratch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith(("KAFKAKIT_", "TOPICMAPPR_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write(cluster())


def cluster(**more: Any) -> ClusterSnapshot:
    """The worked example of the reference: three partitions of 10, 20 and 5 GiB."""
    rows = [((1001, 1002), 10), ((1002, 1003), 20), ((1003, 1001), 5)]
    partitions = tuple(Partition(partition=n, replicas=r, size_bytes=s * GIB) for n, (r, s) in enumerate(rows))
    brokers = (Broker(id=b, rack="abcab"[n], storage_free_bytes=f * GIB) for n, (b, f) in enumerate(FREE.items()))
    return replace(make_snapshot(brokers, {"a": partitions}), **more)


def write(snapshot: ClusterSnapshot) -> None:
    Path("s.json").write_bytes(encode_snapshot(snapshot))


def test_the_report_is_kafka_kits(capsys: pytest.CaptureFixture[str]) -> None:
    code = run([*REBUILD, "--brokers", "1002,1003", "--plan", "p.json", "--out-path", "."])
    out, _ = capsys.readouterr()
    assert code == 0
    assert """
Storage free change estimations:
  range: 100.00GB -> 45.00GB
  range spread: 200.00% -> 47.37%
  std. deviation: 40.82GB -> 22.50GB
  min-max: 50.00GB, 150.00GB -> 95.00GB, 140.00GB
  -
  Broker 1001: 50.00 -> 65.00 (+15.00GB, 30.00%) *marked for replacement
  Broker 1002: 100.00 -> 95.00 (-5.00GB, -5.00%)
  Broker 1003: 150.00 -> 140.00 (-10.00GB, -6.67%)

WARN:
  [none]
""" in out.replace(" \n", "\n")
    assert "2 replicas to copy (15 GiB); lower bound 15 GiB, gap 0 (optimal)" in out
    assert "the least that any placement reaches" in out
    plan, seen = json.loads(Path("p.json").read_bytes()), json.loads(Path("s.json").read_bytes())
    verify_plan(plan, seen)
    verify_storage_rebuild(plan, seen)
    assert plan["request"]["placement"] == "storage"
    assert plan["storage"]["source"] == "snapshot file"
    assert json.loads(Path("a.json").read_bytes())["partitions"][1]["replicas"] == [1002, 1003]


def test_a_wider_range_stops_the_map_unless_told(capsys: pytest.CaptureFixture[str]) -> None:
    flags = [*REBUILD, "--brokers", "-1,1004,1005", "--force-rebuild", "--partition-size-factor", "1.5"]
    assert run(flags) == 1
    out, err = capsys.readouterr()
    assert "  Partition size factor of 1.50 applied\n  range: 100.00GB -> 132.50GB\n" in out
    assert "WARN:\n  broker free storage range increased\n" in out
    assert "no map written" in err
    assert not Path("a.json").exists()
    assert run([*flags, "--ignore-warns", "--plan", "p.json"]) == 0
    verify_storage_rebuild(json.loads(Path("p.json").read_bytes()), json.loads(Path("s.json").read_bytes()))


def test_no_room_exits_4_and_says_where_how_much_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    flags = [*REBUILD, "--brokers", "1002,1003,1004", "--partition-size-factor", "50"]
    assert run(flags) == 4
    out, err = capsys.readouterr()
    assert "a p0: No additional brokers that meet Constraints" in out
    assert "broker 1004 has the most free space, 200 GiB, 300 GiB short" in err
    assert "Traceback" not in out + err
    assert run([*flags, "--ignore-warns"]) == 0


def test_json_has_free_bytes_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*REBUILD, "--brokers", "1002,1003", "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    found = data.get("data", data)["storage"]
    assert found["range_bytes"] == {"before": 100 * GIB, "after": 45 * GIB}
    assert found["brokers"][0] == {
        "broker": 1001, "free_bytes_before": 50 * GIB, "free_bytes_after": 65 * GIB, "replaced": True,
    }  # fmt: skip


def test_placement_by_count_prints_no_storage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*REBUILD[:-1], "--brokers", "1002,1003"]) == 0
    assert "Storage free" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (["--use-meta=false"], 2, "--placement=storage requires --use-meta=true"),
        (["--partition-size-factor", "0"], 2, "--partition-size-factor"),
        (["--partition-size-factor", "nan"], 2, "--partition-size-factor"),
        (["--partition-size-factor", "-2"], 2, "--partition-size-factor"),
        (["--optimize", "leaders"], 2, "leaders"),
        (["--placement", "bytes"], 2, "bytes"),
        (["--metrics-age", "5"], 75, "Metrics metadata is older than allowed"),
    ],
)
def test_bad_requests_are_one_line(flags: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*REBUILD, "--brokers", "-1", *flags]) == code
    out, err = capsys.readouterr()
    assert words in err
    assert "Traceback" not in out + err


def test_a_snapshot_without_sizes_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    plain = cluster()
    bare = tuple(replace(p, size_bytes=None) for p in plain.topics[0].partitions)
    write(replace(plain, topics=(Topic(name="a", partitions=bare),), sizes_taken=False))
    assert run([*REBUILD, "--brokers", "-1"]) == 2
    assert "taken without sizes" in capsys.readouterr().err


def test_a_broker_without_known_disks_stops_only_requests_that_touch_it(capsys: pytest.CaptureFixture[str]) -> None:
    plain = cluster()
    brokers = tuple(replace(b, storage_free_bytes=None) if b.id == 1005 else b for b in plain.brokers)
    write(replace(plain, brokers=brokers))
    assert run([*REBUILD, "--brokers", "1002,1003,1005"]) == 75
    assert "Metrics not found for broker 1005" in capsys.readouterr().err
    assert run([*REBUILD, "--brokers", "1002,1003"]) == 0


def test_phases_and_chunks_lead_to_the_same_lists() -> None:
    flags = [*REBUILD, "--brokers", "1002,1003", "--optimize", "storage"]
    assert run(flags) == 0
    final = Path("a.json").read_bytes()
    assert run([*flags, "--phased-reassignment"]) == 0
    assert Path("a-phase1.json").read_bytes() == final
    assert run([*flags, "--chunk-step-size", "2"]) == 0


def test_a_drain_is_placed_by_bytes_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    drain = ["topicmappr", "drain", "--snapshot", "s.json", "--brokers", "1001", "--placement", "storage"]
    assert run([*drain, "--plan", "p.json"]) == 0
    assert "Traceback" not in capsys.readouterr().err
    plan = json.loads(Path("p.json").read_bytes())
    verify_plan(plan, json.loads(Path("s.json").read_bytes()))
    # Beside 1002 (rack b) only 1003 and 1004 may stand, beside 1003 (rack c) the roomiest is 1005.
    assert {m["partition"]: m["after"] for m in plan["moves"]} == {0: [1002, 1004], 2: [1003, 1005]}
    assert plan["storage"]["source"] == "snapshot file"
