"""`kafkakit fleet collect` on clusters in memory: rows, exit codes, what is kept, and what is never stored."""

import hashlib
import json
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from kafkakit.adapters.lock import FileLock
from kafkakit.core.errors import OperationFailedError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.streams.model.record_identity import HEADER, RecordId, encode_record_id, format_record_id
from tests.clusters.streams_batches import Rec, batch, commit
from tests.fakes.control import FakeControlStore
from tests.rigs.command_line import Home, Ran
from tests.rigs.fleet import FakeFleet, FleetMember, rows_of, wired

DAY = "2026-11-20"
OFFSETS = "__consumer_offsets"
SECRET = "s3cr3t-of-nobody"


@pytest.fixture
def fleet() -> Iterator[FakeFleet]:
    made = FakeFleet()
    with wired(made):
        yield made


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path)
    profiles = "".join(f"  {name}: {{bootstrap_server: '{name}:9092'}}\n" for name in "abc")
    found.write_config(f"profile: a\nprofiles:\n{profiles}")
    return found


@pytest.fixture
def store(home: Home) -> Path:
    return home.work / "store"


def collect(home: Home, *words: str) -> Ran:
    return home.run("fleet", "collect", "--to", "store", "--date", DAY, *words)


def manifest(store: Path, cluster: str) -> Any:
    path = store / "manifests" / f"snapshot_date={DAY}" / f"cluster={cluster}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_snapshot_holds_what_the_cluster_answers(fleet: FakeFleet, home: Home, store: Path) -> None:
    member = fleet.add("a", topics=2)
    member.groups.seed("billing", TopicPartition("t0", 1), 3, "é")
    ran = collect(home, "--profiles", "a", "-o", "json")
    assert ran.code == 0, ran.stderr
    (shown,) = ran.json["clusters"]
    counts = {kind: len(rows_of(store, kind, "a")) for kind in shown["rows"]}
    assert shown["rows"] == manifest(store, "a")["rows"] == counts
    (cluster,) = rows_of(store, "clusters", "a")
    assert (cluster["cluster_id"], cluster["source"], cluster["env"]) == ("id-a", "live", None)
    assert [(b["broker"], b["rack"], b["is_alive"]) for b in rows_of(store, "brokers", "a")] == [
        (1, "a", True), (2, "b", True), (3, "c", True)
    ]  # fmt: skip
    found = [(r["topic"], r["partition"], r["leader"], r["replicas"], r["isr"], r["size_bytes"], r["end_offset"])
             for r in rows_of(store, "partitions", "a")]  # fmt: skip
    assert found == [(t, p, b, [b, b + 1], [b, b + 1], 1000, 0) for t in ("t0", "t1") for p, b in ((0, 1), (1, 2))]
    assert {(r["topic"], r["partition"], r["broker"]) for r in rows_of(store, "replicas", "a")} == {
        (topic, partition, broker) for topic, partition, _, brokers, *_ in found for broker in brokers
    }
    assert [(r["topic"], r["key"], r["value"]) for r in rows_of(store, "topic_configs", "a")] == [
        ("t0", "retention.ms", "1000"), ("t1", "retention.ms", "1000")
    ]  # fmt: skip
    (offset,) = rows_of(store, "group_offsets", "a")
    assert (offset["group"], offset["committed"], offset["end_offset"], offset["metadata_bytes"]) == (
        "billing",
        3,
        0,
        2,
    )
    assert [r["day"] for r in rows_of(store, "disk_daily", "a")] == [DAY] * 3


def test_a_cluster_that_is_away_does_not_stop_the_others(fleet: FakeFleet, home: Home, store: Path) -> None:
    fleet.add("a")
    fleet.add("c")
    ran = collect(home, "--profiles", "a,b,c", "-o", "tsv")
    assert ran.code == 1
    assert [line.split("\t")[:2] for line in ran.stdout.splitlines()] == [
        ["a", "collected"], ["b", "failed"], ["c", "collected"]
    ]  # fmt: skip
    assert "error: 1 of 3 clusters could not be collected: b" in ran.stderr
    assert manifest(store, "b")["error"] == "cannot connect to b:9092"
    assert manifest(store, "b")["rows"] == {}


def test_what_is_complete_is_read_again_only_on_request(fleet: FakeFleet, home: Home, store: Path) -> None:
    fleet.add("a")
    collect(home, "--profiles", "a,b")
    fleet.add("b")
    fleet.opened.clear()
    ran = collect(home, "--profiles", "a,b", "-o", "tsv")
    assert ran.code == 0
    assert [line.split("\t")[1] for line in ran.stdout.splitlines()] == ["kept", "collected"]
    assert set(fleet.opened) == {"b:9092"}
    fleet.members["a:9092"].admin.add_topic("new", {0: (1,)})
    assert collect(home, "--profiles", "a", "--again").code == 0
    assert [r["topic"] for r in rows_of(store, "topics", "a")] == ["new", "t0"]


def test_no_secret_reaches_the_store(fleet: FakeFleet, home: Home, store: Path) -> None:
    member = fleet.add("a")
    member.admin.static_settings |= {
        "ssl.keystore.password": SECRET,
        "listener.name.x.plain.sasl.jaas.config": f'Plain required username="u" password="{SECRET}";',
        "my.plugin.options": f'x required password="{SECRET}";',
        "metrics.url": f"https://user:{SECRET}@host/path",
        "num.io.threads": "8",
    }
    member.admin.topics["t0"].configs |= {"plugin.tokn.password.x": SECRET, "plugin.api.token": SECRET}
    (home.work / "topics").mkdir(parents=True)
    declared = f"kafkakit: cluster\ntopics:\n  - name: t0\n    config: {{plugin.secret: {SECRET}, retention.ms: 5}}\n"
    (home.work / "topics" / "a.yaml").write_text(declared, encoding="utf-8")
    other = "kafkakit: cluster\ncluster: y\ntopics: [{name: of-another-cluster}]\n"
    (home.work / "topics" / "b.yaml").write_text(other, encoding="utf-8")
    (home.work / "fleet.yaml").write_text(
        "kafkakit: fleet\nschema: 1\nclusters: [{name: x, profile: a, files: [topics]}]\n", encoding="utf-8"
    )
    assert collect(home, "--fleet", "fleet.yaml").code == 0
    configs = {r["key"]: r for r in rows_of(store, "broker_configs", "x") if r["broker"] == 1}
    assert (configs["num.io.threads"]["value"], configs["num.io.threads"]["is_sensitive"]) == ("8", False)
    assert configs["num.io.threads"]["source"] == "static"
    assert configs["min.insync.replicas"]["source"] == "default"
    hidden = sorted(key for key, row in configs.items() if row["value"] is None and row["is_sensitive"])
    assert hidden == sorted(member.admin.static_settings.keys() - {"num.io.threads"})
    rows = [(r["key"], r["value"], r["line"]) for r in rows_of(store, "declared", "x")]
    assert rows == [("", None, 3), ("plugin.secret", None, 4), ("retention.ms", "5", 4)]
    from pyarrow.parquet import ParquetFile

    files = [path for path in store.rglob("*") if path.is_file()]
    text = "".join(str(ParquetFile(f).read().to_pylist()) for f in files if f.suffix == ".parquet")
    assert "retention.ms" in text
    assert SECRET not in text


def test_the_fleet_file_gives_labels_owners_limits_and_addresses(fleet: FakeFleet, home: Home, store: Path) -> None:
    fleet.add("c")
    (home.work / "f").mkdir(parents=True)
    (home.work / "f" / "client.properties").write_text("security.protocol=PLAINTEXT\n", encoding="utf-8")
    (home.work / "f" / "fleet.yaml").write_text(
        """
kafkakit: fleet
schema: 1
clusters:
  - {name: prod-c, bootstrap_servers: "c:9092", command_config: client.properties, labels: [x], mirror_of: other}
matching:
  - {clusters: "prod-*", env: prod, labels: [tier-1], host: {max_map_count: 65530, open_files: 7}}
  - {clusters: "*-c", host: {open_files: 9}}
  - {clusters: "dev-*", env: dev}
""",
        encoding="utf-8",
    )
    assert collect(home, "--fleet", "f/fleet.yaml").code == 0
    (cluster,) = rows_of(store, "clusters", "prod-c")
    assert (cluster["env"], cluster["labels"], cluster["mirror_of"]) == ("prod", ["tier-1", "x"], "other")
    assert {(b["open_files"], b["max_map_count"]) for b in rows_of(store, "brokers", "prod-c")} == {(9, 65530)}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kafkakit: cluster\nschema: 1\nclusters: []\n", "is not a fleet file of schema 1"),
        ("kafkakit: fleet\nschema: 1\nclusters: [{name: a}]\n", "needs either a profile or bootstrap_servers"),
        ("kafkakit: fleet\nschema: 1\nclusters: [{name: a, profile: a, pasword: x}]\n", "unknown field `pasword`"),
        ("kafkakit: fleet\nschema: 1\nclusters: &a []\nmatching: *a\n", "aliases"),
        (
            "kafkakit: fleet\nschema: 1\nclusters: [{name: a, profile: a}, {name: a, profile: b}]\n",
            "listed twice",
        ),
        ("kafkakit: [", "not valid YAML"),
    ],
)
def test_a_bad_fleet_file_is_refused(fleet: FakeFleet, home: Home, store: Path, text: str, problem: str) -> None:
    home.work.mkdir(parents=True)
    (home.work / "fleet.yaml").write_text(text, encoding="utf-8")
    ran = collect(home, "--fleet", "fleet.yaml")
    assert ran.code == 2
    assert problem in ran.stderr
    assert not store.exists()
    assert fleet.opened == []


@pytest.mark.parametrize("words", [[], ["--profiles", "typo"], ["--profiles", "a", "--date", "today"]])
def test_wrong_options_are_refused_before_anything_is_read(fleet: FakeFleet, home: Home, words: list[str]) -> None:
    assert collect(home, *words).code == 2
    assert fleet.opened == []


def test_a_missing_right_fails_its_cluster(fleet: FakeFleet, home: Home) -> None:
    member = fleet.add("a")
    member.admin.fail_next("log_dirs", OperationFailedError("no right to describe log dirs"))
    ran = collect(home, "--profiles", "a", "-o", "json")
    assert (ran.code, ran.json["clusters"][0]["error"]) == (1, "no right to describe log dirs")


def test_a_cluster_that_another_process_writes_is_left_alone(fleet: FakeFleet, home: Home, store: Path) -> None:
    fleet.add("a")
    taken: list[Path] = []

    class Taken(FileLock):
        def __init__(self, path: Path, purpose: str, who: str) -> None:
            super().__init__(path, purpose, who)
            taken.append(path)

    with mock.patch("kafkakit.adapters.lock.FileLock", Taken):
        assert collect(home, "--profiles", "a").code == 0
    with FileLock(taken[0], "", "pid 7 on elsewhere: fleet collect"):
        ran = collect(home, "--profiles", "a", "--again")
    assert ran.code == 75
    assert "pid 7 on elsewhere" in ran.stderr
    assert manifest(store, "a")["error"] == ""
    assert collect(home, "--profiles", "a", "--again").code == 0


def test_a_cluster_that_takes_too_long_is_given_up(fleet: FakeFleet, home: Home, store: Path) -> None:
    import threading

    fleet.add("a")
    slow, go_on = fleet.add("b"), threading.Event()
    read = slow.admin.log_dirs
    slow.admin.log_dirs = lambda *a: (go_on.wait(60), read(*a))[1]  # type: ignore[method-assign]
    ran = collect(home, "--profiles", "b,a", "--cluster-timeout", "300ms", "--concurrency", "2", "-o", "tsv")
    go_on.set()
    (late,) = (thread for thread in threading.enumerate() if thread.name == "collect b")
    late.join(30)
    assert [line.split("\t")[:2] for line in ran.stdout.splitlines()] == [["b", "failed"], ["a", "collected"]]
    assert manifest(store, "b")["error"] == "not read within 0.3 s"
    assert rows_of(store, "topics", "b") == []


def test_a_full_disk_ends_the_run_in_one_line_without_a_manifest(fleet: FakeFleet, home: Home, store: Path) -> None:
    def fill(table: Any, stream: Any, **_: Any) -> None:
        stream.write(b"PAR1 and half of a table")
        raise OSError(28, "No space left on device")

    fleet.add("a")
    with mock.patch("pyarrow.parquet.write_table", side_effect=fill):
        ran = collect(home, "--profiles", "a")
    assert ran.code == 1
    assert [line for line in ran.stderr.splitlines() if "error" in line] == [ran.stderr.splitlines()[-1]]
    assert "No space left on device" in ran.stderr
    assert list(store.glob("manifests/**/*.json")) == []
    assert [path for path in store.rglob("*") if path.is_file()] == [], "what was being written takes no room"


def test_a_broker_that_dies_costs_its_groups_and_is_named(fleet: FakeFleet, home: Home, store: Path) -> None:
    groups = fleet.add("a").groups
    groups.add_group("kept")
    groups.add_group("gone")
    groups.lost.add("gone")
    ran = collect(home, "--profiles", "a")
    assert ran.code == 0
    assert "warning: cluster a: brokers 1 gave no groups: those that they coordinate are absent" in ran.stderr
    assert [row["group"] for row in rows_of(store, "groups", "a")] == ["kept"]


def test_a_group_that_cannot_be_read_now_fails_its_cluster_alone(fleet: FakeFleet, home: Home) -> None:
    silent = mock.Mock(side_effect=TryLaterError("broker 3 does not answer"))
    fleet.add("a").groups.answered_groups = silent  # type: ignore[method-assign]
    ran = collect(home, "--profiles", "a", "-o", "json")
    assert (ran.code, ran.json["clusters"][0]["error"]) == (1, "broker 3 does not answer")
    assert collect(home, "--profiles", "a", "--no-groups").code == 0


def put_commits(member: FleetMember, *commits: tuple[str, int, int]) -> None:
    """Commits (group, offset, time) of t0-0, each a batch, in the partition of the log that the group's length says."""
    for group, offset, ms in commits:
        place = TopicPartition(OFFSETS, len(group) % 2)
        record = commit(group, "t0", 0, offset, committed_ms=ms)
        member.log.append(place, batch(0, [record], base_ms=ms))


def commit_rows(store: Path, date: str) -> list[tuple[Any, ...]]:
    names = ("group", "partition", "committed", "at_ms", "log_partition", "log_offset")
    return sorted(tuple(r[name] for name in names) for r in rows_of(store, "commits", "a", date))


def test_commits_are_read_once_from_day_to_day(fleet: FakeFleet, home: Home, store: Path) -> None:
    member = fleet.add("a")
    member.admin.add_topic(OFFSETS, {0: (1,), 1: (1,)})
    member.log.add_topic(OFFSETS, 2)
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    member.log.append(TopicPartition("t0", 0), batch(0, [Rec(b"k", b"v")] * 10, base_ms=now_ms - 3_600_000))
    put_commits(member, ("old", 1, now_ms - 9 * 86_400_000), ("g", 2, now_ms - 5000), ("g", 3, now_ms - 4000))
    words = ("--profiles", "a", "--commits", "--since", "2d")
    assert collect(home, *words).code == 0
    first = [("g", 0, 2, now_ms - 5000, 1, 1), ("g", 0, 3, now_ms - 4000, 1, 2)]
    assert commit_rows(store, DAY) == first
    ends = [(r["offset"], r["at_ms"]) for r in rows_of(store, "produced", "a", DAY)]
    assert [offset for offset, _ in ends] == [0, 0, 10, 10]
    assert ends[1][1] <= now_ms - 3_600_000 < ends[2][1]
    put_commits(member, ("hh", 5, now_ms - 3000))
    assert collect(home, *words, "--again").code == 0
    assert commit_rows(store, DAY) == [*first, ("hh", 0, 5, now_ms - 3000, 0, 0)]
    put_commits(member, ("g", 6, now_ms - 2000))
    assert home.run("fleet", "collect", "--to", "store", "--date", "2026-11-21", *words).code == 0
    assert commit_rows(store, "2026-11-21") == [("g", 0, 6, now_ms - 2000, 1, 3)]
    assert manifest(store, "a")["positions"][f"{OFFSETS}-1"] == 3


def test_commits_that_cannot_be_read_fail_the_cluster(
    fleet: FakeFleet, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkakit.fleet.act.PAUSE_S", 0.001)
    member = fleet.add("a")
    member.admin.add_topic(OFFSETS, {0: (1,)})
    member.log.add_topic(OFFSETS, 1)
    put_commits(member, ("gg", 1, 5))
    member.log.log(TopicPartition(OFFSETS, 0)).leader = None
    ran = collect(home, "--profiles", "a", "--commits", "-o", "json")
    assert ran.code == 1
    assert ran.json["clusters"][0]["error"].startswith(f"{OFFSETS}-0 cannot be read: LeaderNotAvailable")


def test_records_are_named_by_id_hash_and_checksum_and_read_once(fleet: FakeFleet, home: Home, store: Path) -> None:
    member, place = fleet.add("a"), TopicPartition("t0", 0)
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    identity = RecordId(at_ms=now_ms, session=5, sequence=7)

    def put(offset: int, key: bytes | None, *headers: tuple[str, bytes | None]) -> None:
        member.log.append(place, batch(0, [Rec(key, b"v")], base_ms=now_ms - 1000))
        value = Record(partition=place, offset=offset, value=b"v", key=key, at_ms=now_ms - 1000, headers=headers)
        member.data.records.append(value)
        member.data.next_offset = offset + 1

    put(0, b"k", ("x", None), (HEADER, encode_record_id(identity)))
    put(1, None, (HEADER, b"not an id"))
    words = ("--profiles", "a", "--records", "t0,none")
    ran = collect(home, *words)
    assert ran.code == 0, ran.stderr
    assert "warning: cluster a: has no topic none" in ran.stderr
    first, second = rows_of(store, "records", "a", DAY)
    assert first == {
        "topic": "t0", "partition": 0, "offset": 0, "at_ms": now_ms - 1000, "record_id": format_record_id(identity),
        "key_hash": hashlib.sha256(b"k").hexdigest()[:16], "value_crc": zlib.crc32(b"v"), "size_bytes": 2,
        "schema_version": 1,
    }  # fmt: skip
    assert (second["record_id"], second["key_hash"], second["size_bytes"]) == (None, None, 1)
    put(2, b"k2")
    assert home.run("fleet", "collect", "--to", "store", "--date", "2026-11-21", *words).code == 0
    assert [r["offset"] for r in rows_of(store, "records", "a", "2026-11-21")] == [2]


@pytest.fixture
def tagged(fleet: FakeFleet, home: Home, monkeypatch: pytest.MonkeyPatch) -> FakeControlStore:
    """Cluster a with two topics, of which t1 is hot and broker 2 is on feed B."""
    fleet.add("a", topics=2)
    store = FakeControlStore()
    store.cas("clusters/id-a/registry/topic/t1", b'{"tier": "hot"}', None)
    store.cas("clusters/id-a/registry/broker/2", b'{"power": "B"}', None)
    monkeypatch.setattr("kafkakit.wiring.open_control", lambda settings, kind="": store)
    return store


def test_tags_are_collected_on_request(tagged: FakeControlStore, home: Home, store: Path) -> None:
    assert collect(home, "--profiles", "a").code == 0
    assert [(r["tag_keys"], r["tag_values"]) for r in rows_of(store, "topics", "a")] == [(None, None)] * 2
    ran = collect(home, "--profiles", "a", "--tags", "--again")
    assert ran.code == 0, ran.stderr
    assert [(r["tag_keys"], r["tag_values"]) for r in rows_of(store, "topics", "a")] == [([], []), (["tier"], ["hot"])]
    assert [(r["broker"], r["tag_keys"]) for r in rows_of(store, "brokers", "a")] == [(1, []), (2, ["power"]), (3, [])]


def test_tags_that_cannot_be_read_fail_the_cluster(tagged: FakeControlStore, home: Home, store: Path) -> None:
    tagged.away = True
    assert collect(home, "--profiles", "a", "--tags").code == 1
    assert manifest(store, "a")["error"]


def test_an_audit_is_limited_by_what_was_collected(tagged: FakeControlStore, home: Home, store: Path) -> None:
    def audit(*words: str) -> Ran:
        return home.run("audit", "drift", "--input", "store", "--output", "out", "--dry-run", "-o", "json", *words)

    assert collect(home, "--profiles", "a").code == 0
    refused = audit("--topics", "where tier = hot")
    assert refused.code == 2
    assert "error: tier can only be tags, and the snapshots of a have none on record" in refused.stderr
    assert "kafkakit fleet collect --tags" in refused.stderr
    assert audit("--topics", "where name = t1").json["spec"]["topics"] == {"a": ["t1"]}
    assert collect(home, "--profiles", "a", "--tags", "--again").code == 0
    spec = audit("--topics", "where tier = hot", "--brokers", "where power = B", "--clusters", "where name ~ a*").json[
        "spec"
    ]
    assert (spec["clusters"], spec["topics"], spec["brokers"]) == (["a"], {"a": ["t1"]}, {"a": ["2"]})
    assert spec["scope"]["topics"] == "where tier = hot"
    wrong = audit("--topics", "where tier hot")
    assert (wrong.code, "query, column 6" in wrong.stderr) == (2, True)
