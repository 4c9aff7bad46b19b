"""Damaged and hostile snapshot, map and flag input through the whole command: one line, never a traceback."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkakit.cli.root import run
from kafkakit.core.documents import encode_snapshot
from kafkakit.core.model import Broker, ClusterSnapshot, Partition, Topic
from tests.clusters.strategies import TAKEN_AT, snapshots

RUNS = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
SMALL = ClusterSnapshot(
    cluster_id="c",
    taken_at=TAKEN_AT,
    source="s",
    brokers=(Broker(id=1), Broker(id=2)),
    topics=(Topic(name="t", partitions=(Partition(partition=0, replicas=(1,)),)),),
)
EXPECTED = {0, 1, 2, 4, 75}
JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.integers(2**63, 2**80),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(autouse=True)
def in_scratch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith(("KAFKAKIT_", "TOPICMAPPR_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def rebuild(data: bytes, capsys: pytest.CaptureFixture[str], *flags: str) -> int:
    Path("snapshot.json").write_bytes(data)
    Path("p.json").unlink(missing_ok=True)
    words = flags or ("--topics", ".*", "--brokers", "-2")
    code = run(["topicmappr", "rebuild", "--snapshot", "snapshot.json", "--plan", "p.json", *words])
    out, err = capsys.readouterr()
    assert code in EXPECTED, err
    assert "Traceback" not in out + err
    assert "unexpected" not in err, err
    if code:
        assert err.count("error:") == 1, err
        assert not Path("p.json").exists()
    return code


@RUNS
@given(st.data())
def test_damaged_bytes(capsys: pytest.CaptureFixture[str], data: st.DataObject) -> None:
    whole = encode_snapshot(data.draw(snapshots(max_brokers=3, max_partitions=4)))
    start = data.draw(st.integers(0, len(whole)))
    patch = data.draw(st.binary(max_size=6))
    rebuild(whole[:start] + patch + whole[data.draw(st.integers(start, len(whole))) :], capsys)


@RUNS
@given(st.data())
def test_values_of_other_kinds(capsys: pytest.CaptureFixture[str], data: st.DataObject) -> None:
    document = json.loads(encode_snapshot(data.draw(snapshots(max_brokers=3, max_partitions=4))))
    spot: Any = document
    while isinstance(spot, (dict, list)) and spot:
        key = data.draw(st.sampled_from(sorted(spot) if isinstance(spot, dict) else range(len(spot))))
        if not isinstance(spot[key], (dict, list)) or not spot[key] or data.draw(st.booleans()):
            spot[key] = data.draw(JUNK)
            break
        spot = spot[key]
    rebuild(json.dumps(document).encode(), capsys)


@RUNS
@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_hostile_flags(capsys: pytest.CaptureFixture[str], topics: str, brokers: str, given_map: str) -> None:
    world = encode_snapshot(SMALL)
    flags = [f"--topics={topics}", f"--brokers={brokers}", f"--map-string={given_map}"]
    rebuild(world, capsys, *(flag.replace("\0", "") for flag in flags))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "truncated"),
        (b"\xff\xfe{}", "snapshot.json"),
        (b"[" * 10_000, "snapshot.json"),
        (b'{"a":' * 10_000, "snapshot.json"),
        (b'{"kafkakit":{"kind":"plan","schema":1}}', "is a 'plan' file, expected 'cluster-snapshot'"),
        (b'{"kafkakit":{"kind":"cluster-snapshot","schema":2}}', "use a newer kafkakit"),
        (b'{"version":1,"partitions":[]}', 'no "kafkakit" header'),
        (b'{"kafkakit":{"kind":"cluster-snapshot","schema":' + b"9" * 100_000 + b"}}", "snapshot.json"),
    ],
)
def test_known_bad_files_say_what_is_wrong(data: bytes, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("snapshot.json").write_bytes(data)
    assert run(["topicmappr", "rebuild", "--snapshot", "snapshot.json", "--topics", "t", "--brokers", "1"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("error:") == 1
