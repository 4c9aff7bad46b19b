"""`reassign status` and `reassign list` as an operator runs them, over a cluster in memory."""

from pathlib import Path

import pytest

from kafkakit.core.documents import encode_plan
from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster
from tests.invariants.exposition import parse
from tests.rigs.command_line import ClusterDesk

MB = 1_000_000


class StatusDesk(ClusterDesk):
    """A host, a plan for `t-0`, and a cluster behind profile `p` whose time passes while a command sleeps."""

    command = ("reassign",)

    def __init__(self, folder: Path, *, line_rate: float = MB) -> None:
        super().__init__(folder, FakeCluster({1: "a", 2: "b", 3: "c"}, line_rate=line_rate))
        self.cluster.add_topic("t", {0: (1, 2), 1: (2, 1)}, size_bytes=100 * MB)
        self.path = folder / "p.json"
        self.path.write_bytes(encode_plan(make_plan(self.cluster, {("t", 0): (3, 2)})))

    def cut(self, *words: str) -> None:
        """A run that is stopped once its move is on the way."""
        self.press(self.cluster.reassignments)
        assert self.run("apply", str(self.path), "--yes", "--ingest-sample", "0", *words).code == 130


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StatusDesk:
    return StatusDesk(tmp_path).sit(monkeypatch)


def test_nothing_moves(desk: StatusDesk) -> None:
    listed, looked = desk.run("list"), desk.run("status")
    assert (listed.code, listed.stdout, listed.stderr) == (0, "", "")
    assert looked.stdout == (
        "cluster fake-cluster (profile p): 0 moves running\n"
        "throttles: none set\n"
        "partitions: 2, 0 under-replicated, 0 under min ISR, 0 offline\n"
    )
    assert desk.clock.elapsed == 0, "there is nothing to wait for"
    assert desk.run("list", "-o", "json").json["moves"] == []
    assert desk.run("status", "--watch", "-o", "tsv").stdout == ""


def test_a_move_of_somebody_else_is_seen_with_its_rate(desk: StatusDesk) -> None:
    desk.cluster.reassign({TopicPartition("t", 0): (3, 2)})
    looked = desk.run("status", "--window", "20s")
    assert looked.stdout.splitlines()[:2] == [
        "cluster fake-cluster (profile p): 1 move running, 19.1 MiB of 95.4 MiB copied, 1 MB/s over 20s, "
        "1m 20s left for these",
        "  t-0: to [3,2], adding [3], 19.1 MiB of 95.4 MiB, 1 MB/s, 1m 20s left",
    ]
    assert "slowest: t-0 on broker 3, 76.3 MiB behind, 1m 20s left" in looked.stdout
    assert desk.run("list").stdout == (
        "cluster fake-cluster (profile p)\n"
        "TOPIC  PARTITION  TARGET  ADDING  REMOVING  COPIED    OF        RUN\n"
        "t              0  3,2          3         1  19.1 MiB  95.4 MiB  foreign\n"
    )
    assert desk.run("list", "-o", "tsv").stdout == "t\t0\t3,2\t3\t1\t20000000\t100000000\t-\n"
    assert desk.run("list", "--ours", "-o", "tsv").stdout == ""
    assert desk.run("list", "--foreign", "-o", "tsv").stdout.startswith("t\t0\t")
    assert desk.run("status", "--window", "10s", "-o", "tsv").stdout == (
        "t\t0\t3\tcopies\t30000000\t100000000\t1000000.0\t70.0\t-\t-\n"
    )
    assert desk.cluster.calls == [("reassign", {TopicPartition("t", 0): (3, 2)})], "a look changes nothing"


def test_our_run_is_told_with_its_promise_and_what_it_does(desk: StatusDesk) -> None:
    desk.cut("--throttle", "500kB")
    desk.cluster.reassign({TopicPartition("t", 1): (3, 1)})
    looked = desk.run("status", "--window", "10s", "-o", "json").json
    (run,) = looked["runs"]
    assert {m["partition"]: m["ours"] for m in looked["moves"]} == {0: True, 1: False}
    assert (run["direction"], run["plan"], run["moves"], run["working"]) == ("apply", str(desk.path), 1, False)
    assert run["bytes_per_s"] == 500_000
    assert run["eta_seconds"] == pytest.approx(run["left_bytes"] / 500_000, abs=0.1)
    assert run["promised_seconds"] == pytest.approx(233, rel=0.01)  # brokers reach 86 % of a throttle
    assert run["promised_eta_seconds"] < run["promised_seconds"]
    assert run["doing"] == (
        f"not finished, and no process is running; resume with: kafkakit --profile p reassign resume --run {run['id']}"
    )
    text = desk.run("status", "--window", "10s").stdout
    assert f"run {run['id']}: apply of {desk.path}: 1 move in flight; not finished" in text
    assert "left (the first forecast said 3m" in text
    assert "t-1: to [3,1], adding [3]" in text
    assert "(not of a run on this host)" in text
    assert "lock: free" in text
    assert [row.split("\t")[-1] for row in desk.run("list", "-o", "tsv").stdout.splitlines()] == [
        f"apply of {desk.path}",
        "-",
    ]
    assert desk.run("list", "--ours", "-o", "tsv").stdout.count("\n") == 1
    desk.path.unlink()
    assert "MiB of 95.4 MiB still to copy; " in desk.run("status", "--window", "10s").stdout
    (kept,) = desk.home.state.rglob("plans/*/*.json")
    kept.unlink()
    gone = desk.run("status", "--window", "10s")
    assert "its plan file is missing, so what is left is unknown" in gone.stdout


def test_a_broken_journal_does_not_hide_the_cluster(desk: StatusDesk) -> None:
    desk.cut()
    (journal,) = desk.home.state.rglob("*.journal")
    journal.write_bytes(journal.read_bytes().replace(b'"direction":"apply"', b'"direction":"apple"'))
    looked, listed = desk.run("status"), desk.run("list", "-o", "tsv")
    assert (looked.code, listed.code) == (0, 0)
    assert f"journal that cannot be read: {journal}: journal line " in looked.stdout
    assert "its moves count as foreign" in listed.stderr
    assert listed.stdout.endswith("\t-\n")


def test_a_watch_tells_each_look_and_ends_with_the_last_move(desk: StatusDesk) -> None:
    desk.cluster.reassign({TopicPartition("t", 0): (3, 2)})
    desk.cluster.fail_next("reassignments", TryLaterError("no answer"), times=2)
    watched = desk.run("status", "--watch", "--interval", "10s")
    assert watched.code == 0
    assert watched.stdout.splitlines()[0] == "cluster fake-cluster (profile p): 0 moves running"
    lines = watched.stderr.splitlines()
    assert lines[0] == "warning: reading the cluster: no answer; trying again"
    assert len(lines) == 11
    assert lines[5].endswith("Z 1 move, 39.6 MiB of 95.4 MiB, 1 MB/s")


def test_a_stopped_watch_says_that_the_moves_go_on(desk: StatusDesk) -> None:
    desk.cluster.reassign({TopicPartition("t", 0): (3, 2)})
    desk.press()
    stopped = desk.run("status", "--watch", "-o", "tsv")
    assert (stopped.code, stopped.stdout) == (130, "")
    assert "error: interrupted; the moves continue by themselves on the brokers\n" in stopped.stderr
    assert len(desk.cluster.reassignments()) == 1


def test_stalled_copies_are_named_with_the_reason(desk: StatusDesk) -> None:
    desk.cluster.add_topic("one", {0: (1,)}, size_bytes=20 * MB)
    desk.cluster.reassign({TopicPartition("one", 0): (3,), TopicPartition("t", 1): (3, 1)})
    desk.cluster.kill(3)
    dead = desk.run("status", "--window", "10s", "-o", "json").json
    assert [m["waits_for"] for m in dead["moves"]] == [[3], [3]]
    assert [(s["topic"], s["broker"], s["reason"]) for s in dead["stalled"]] == [
        ("one", 3, "dead destination"),
        ("t", 3, "dead destination"),
    ]
    text = desk.run("status", "--window", "10s").stdout
    command = "kafkakit --profile p reassign abort --partition one-0"
    assert f"    broker 3 is stalled: broker 3 is fenced; start it again, or cancel the move: {command}\n" in text
    assert desk.run(*command.split()[4:], "--dry-run").code == 0
    desk.cluster.revive(3)
    desk.cluster.kill(1)
    assert [m["leader"] for m in desk.run("status", "--window", "0", "-o", "json").json["moves"]] == [None, 2]
    assert "no live broker leads the partition, nothing is copied; bring back broker 1" in desk.run("status").stdout
    counts = desk.run("status", "--window", "0", "-o", "json").json["partitions"]
    assert {k: v for k, v in counts.items() if k != "counted_at"} == {
        "total": 3,
        "under_replicated": 2,
        "under_min_isr": 0,
        "offline": 1,
    }


def test_a_throttle_of_zero_is_named_at_once(desk: StatusDesk) -> None:
    desk.cluster.brokers[3].configs[FOLLOWER_RATE] = "0"
    desk.cluster.topics["t"].configs[FOLLOWER_LIST] = "0:3"
    desk.cluster.reassign({TopicPartition("t", 0): (3, 2)})
    (found,) = desk.run("status", "--window", "0", "-o", "json").json["stalled"]
    assert (found["reason"], found["words"]) == (
        "throttle of zero",
        "follower.replication.throttled.rate of broker 3 is 0",
    )


def test_metrics_go_to_a_file_as_a_whole_or_to_stdout(desk: StatusDesk, tmp_path: Path) -> None:
    desk.cluster.reassign({TopicPartition("t", 0): (3, 2)})
    file = tmp_path / "kafkakit.prom"
    ran = desk.run("status", "--window", "10s", "--metrics", str(file))
    assert (ran.code, ran.stdout[:8]) == (0, "cluster ")
    samples = parse(file.read_text())
    assert samples["kafkakit_reassign_moves", (("cluster", "fake-cluster"), ("owner", "foreign"))] == 1
    assert samples["kafkakit_reassign_bytes_per_second", (("cluster", "fake-cluster"), ("owner", "foreign"))] == MB
    assert [p.name for p in tmp_path.iterdir() if "kafkakit.prom" in p.name] == ["kafkakit.prom"]
    printed = desk.run("status", "--window", "10s", "--metrics", "-")
    assert parse(printed.stdout).keys() == samples.keys()
    both = desk.run("status", "--metrics", "-", "-o", "json")
    assert (both.code, "format of its own" in both.stderr) == (2, True)
    nowhere = desk.run("status", "--metrics", f"{__file__}/folder.prom")
    assert nowhere.code in (1, 2)
    assert "Traceback" not in nowhere.stderr


def test_bad_durations_exit_with_2(desk: StatusDesk) -> None:
    assert [desk.run("status", o, "soon").code for o in ("--window", "--interval")] == [2, 2]


def test_the_keys_of_the_json_are_these(desk: StatusDesk) -> None:
    desk.cut("--throttle", "500kB")
    status = desk.run("status", "--window", "10s", "-o", "json").json
    assert {name: type(value).__name__ for name, value in status.items()} == {
        "kafkakit": "dict",
        "cluster_id": "str",
        "at": "str",
        "window_seconds": "float",
        "copied_bytes": "int",
        "total_bytes": "int",
        "ended_bytes": "int",
        "bytes_per_s": "float",
        "moves": "list",
        "inside_brokers": "list",
        "runs": "list",
        "slowest": "dict",
        "stalled": "list",
        "partitions": "dict",
        "broker_rates": "dict",
        "topic_lists": "dict",
        "lease": "dict",
        "unfinished": "list",
        "damaged_journals": "list",
    }
    (move,), (run,) = status["moves"], status["runs"]
    assert " ".join(move) == (
        "topic partition run ours target replicas adding removing leader copied_bytes total_bytes bytes_per_s "
        "eta_seconds stalled waits_for copies"
    )
    assert " ".join(move["copies"][0]) == "broker state copied_bytes total_bytes bytes_per_s reason"
    assert " ".join(run) == (
        "id plan direction journal doing working paused moves left_bytes total_bytes bytes_per_s eta_seconds "
        "promised_eta_seconds promised_seconds promised_at"
    )
    assert " ".join(status["slowest"]) == "topic partition broker missing_bytes eta_seconds"
    assert " ".join(status["lease"]) == "held holder token taken_at renewed_at host_lock"
    listed = desk.run("list", "-o", "json").json
    assert [list(m) for m in listed["moves"]] == [list(move)]
