"""`streams assigner`: what commands print, their exit codes, and what they refuse."""

import json
from pathlib import Path

import pytest

from kafkakit.streams.assigner.health import DRAINS_FOLDER
from tests.rigs.assigner import HOLDER, route, worker
from tests.rigs.assigner_loop import Papers, assigner
from tests.rigs.stream_desk import StreamDesk


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StreamDesk:
    return StreamDesk(tmp_path, monkeypatch)


def begun(desk: StreamDesk) -> Papers:
    """Two workers that share six partitions, and an Assigner that ended."""
    papers = Papers(desk.store)
    papers.put_route(route(6))
    workers = {slot: worker(slot, zone="z1") for slot in ("a1", "b2")}
    loop = assigner(desk.store, desk.clock)
    for _ in range(4):
        desk.clock.advance(0.2)
        workers = {slot: papers.beat(slot, document) for slot, document in workers.items()}
        loop.tick()
    for slot, document in workers.items():
        papers.beat(slot, document)
    loop.close()
    return papers


def test_show_before_anything_is_there(desk: StreamDesk) -> None:
    ran = desk.done("assigner", "show")
    assert "no Assigner was ever in charge" in ran.stdout


def test_show_lists_workers_and_clusters(desk: StreamDesk) -> None:
    begun(desk)
    ran = desk.done("assigner", "show")
    assert "6 partitions on 2 workers" in ran.stdout
    assert "a-id" in ran.stdout
    found = json.loads(desk.home.run("-o", "json", "--profile", "p", "streams", "assigner", "show").stdout)
    assert [(each["worker"], each["partitions"]) for each in found["workers"]] == [("a1", 3), ("b2", 3)]
    assert found["standing"]["token"] == 1
    rows = desk.home.run("-o", "tsv", "--profile", "p", "streams", "assigner", "show").stdout.splitlines()
    assert [row.split("\t")[0] for row in rows] == ["a1", "b2"] or rows[0].startswith("worker")


def test_explain_says_where_each_partition_is_and_why(desk: StreamDesk) -> None:
    papers = begun(desk)
    ran = desk.done("assigner", "explain", "orders", "g")
    assert "6 of 6 partitions" in ran.stdout
    words = (
        "one of 2 that may read it: it has 3 of 6 partitions, and 100 of their capacity of 200; it keeps what it has"
    )
    assert ran.stdout.count(words) == 6
    papers.remove_worker("b2")
    assert "its worker b2 is gone" in desk.done("assigner", "explain", "orders", "g").stdout


def test_explain_refuses_what_is_not_there(desk: StreamDesk) -> None:
    begun(desk)
    ran = desk.run("assigner", "explain", "orders", "other")
    assert ran.code == 2
    assert "no worker handles group other of stream orders" in ran.stderr
    assert desk.run("assigner", "explain", "none", "g").code == 2


def test_drain_waits_and_ends_with_75_while_the_worker_has_partitions(desk: StreamDesk) -> None:
    begun(desk)
    planned = desk.run("assigner", "drain", "a1", "--dry-run")
    assert (planned.code, "would lose 3 partitions; nothing is done" in planned.stdout) == (0, True)
    refused = desk.run("assigner", "drain", "a1")
    assert (refused.code, "Take 3 partitions from worker id-a1" in refused.stderr) == (2, True)
    assert desk.store.children(DRAINS_FOLDER) == ()
    ran = desk.run("assigner", "drain", "a1", "--wait", "2s", "--yes")
    assert ran.code == 75
    assert "3 partitions left" in ran.stdout
    assert desk.store.children(DRAINS_FOLDER) == ("id-a1",)
    assert "draining" in desk.done("assigner", "show").stdout
    assert desk.run("assigner", "drain", "id-a1", "--undo", "--yes").code == 0
    assert desk.store.children(DRAINS_FOLDER) == ()
    assert desk.run("assigner", "drain", "nobody").code == 2


def test_drain_is_done_when_nothing_is_left(desk: StreamDesk) -> None:
    papers = Papers(desk.store)
    papers.put_worker("a1", worker("a1"))
    ran = desk.done("assigner", "drain", "a1", "--yes")
    assert ran.stdout == f"worker id-a1 ({HOLDER}): drained\n"


def test_simulate_is_the_same_each_time_and_moves_what_the_dead_had(desk: StreamDesk) -> None:
    words = ("-o", "json", "streams", "assigner", "simulate", "--workers", "20", "--streams", "5", "--kill", "2")
    ran = desk.home.run(*words, "--kill-cluster", "0")
    assert ran.code == 0, ran.stderr
    assert ran.stdout == desk.home.run(*words, "--kill-cluster", "0").stdout
    begin, death, cluster = json.loads(ran.stdout)["events"]
    assert begin["unserved"] == death["unserved"] == cluster["unserved"] == 0
    assert 0 < death["share"] <= death["moved"] <= 1.1 * death["share"]
    assert death["fullest"] < 1.5
    assert "3 streams go to the next one" in cluster["what"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--workers", "2", "--pools", "3"), "a pool has a worker and a stream"),
        (("--workers", "3", "--kill", "3"), "--kill 3: there are 3 workers, and one must be left"),
        (("--kill-cluster", "2"), "clusters are 0 to 1"),
        (("--clusters", "1", "--kill-cluster", "0"), "need another one"),
        (("--streams", "1000000", "--partitions", "100"), "2,000,000 partitions"),
    ],
)
def test_simulate_refuses_what_makes_no_sense(desk: StreamDesk, words: tuple[str, ...], says: str) -> None:
    ran = desk.home.run("streams", "assigner", "simulate", *words)
    assert ran.code == 2
    assert says in ran.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--auto-failover", "dry-run"), "needs a target"),
        (("--auto-failover", "dry-run", "--failover-target", "p"), "FROM=TO"),
        (("--auto-failover", "dry-run", "--failover-target", "p=p"), "its own target"),
        (("--auto-failover", "on", "--failover-target", "p=nope"), "there is no profile 'nope'"),
        (("--auto-failover", "on", "--failover-target", "nope=p"), "there is no profile 'nope'"),
        (("--failover-target", "p=q", "--failover-target", "p=q"), "two targets for one cluster"),
        (("--tick", "soon"), "--tick"),
        (("--tick", "1100ms"), "--lease-ttl is 3 times --tick or more"),
        (("--lease-ttl", "1ms"), "a lease of 1ms cannot be kept with a tick of 200ms"),
        (("--lease-ttl", "2h"), "at most 1h"),
        (("--down-after", "500ms"), "--down-after is 800ms or more"),
    ],
)
def test_run_refuses_what_makes_no_sense(desk: StreamDesk, words: tuple[str, ...], says: str) -> None:
    ran = desk.run("assigner", "run", *words)
    assert ran.code == 2
    assert says in ran.stderr


def test_run_ends_with_2_for_a_document_of_a_newer_version(desk: StreamDesk) -> None:
    desk.store.cas("assigner/workers/x", b'{"kafkakit":{"kind":"stream-worker","schema":9}}', None)
    ran = desk.run("assigner", "run")
    assert ran.code == 2
    assert "use a newer kafkakit" in ran.stderr
