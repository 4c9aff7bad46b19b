"""Bad input and faults of `streams failover`, each with its exit code and its reason as data, on clusters in memory."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from kafkakit.cli.context import CliContext
from kafkakit.core.cluster_facts import AclBinding, AclOperation, AclPermission, AclResourceKind
from kafkakit.core.errors import LeaseLostError
from kafkakit.core.lease import LEASE_DOCUMENT, Holder, LeaseRecord, Life
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.leases import Lease
from kafkakit.streams.failover.decide.operation import Step, lease_of
from tests.rigs.failover import STREAM, FailoverScene
from tests.rigs.failover_desk import OLD, FailoverDesk

NEW = "orders.live.2"
TWO = {0: (1,), 1: (1,)}
RUN = ("--to", "q", "--yes", "--wait", "5s")
Change: TypeAlias = Callable[[FailoverScene], object]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FailoverDesk:
    return FailoverDesk(tmp_path, monkeypatch)


def other_cluster(name: str) -> Change:
    return lambda scene: setattr(scene.clusters[name].admin, "cluster_id", "other-id")


def made_again(name: str, topic: str) -> Change:
    return lambda scene: scene.clusters[name].admin.add_topic(topic, TWO)


def removed(name: str, topic: str) -> Change:
    return lambda scene: scene.clusters[name].admin.topics.pop(topic)


def filled(scene: FailoverScene) -> None:
    scene.q.admin.add_topic(NEW, TWO)
    scene.write(NEW, cluster="q")


def without_rights(scene: FailoverScene) -> None:
    scene.q.admin.acls = set()
    scene.p.admin.acls = {
        AclBinding(
            kind=AclResourceKind.TOPIC, name=OLD, principal="User:app", operation=AclOperation.WRITE,
            permission=AclPermission.ALLOW,
        )
    }  # fmt: skip


def written(records: int = 1) -> Change:
    return lambda scene: scene.write(OLD, records)


def trimmed(scene: FailoverScene) -> None:
    scene.p.log.trim(TopicPartition(OLD, 0), 12)
    scene.resume(wait_s=0)
    scene.read_all("billing")


def away(name: str) -> Change:
    return lambda scene: setattr(scene.clusters[name], "is_away", True)


def bring(desk: FailoverDesk, step: Step) -> None:
    """Let an operation stand at a step, as another process left it."""
    scene = desk.scene
    if step is Step.OPENED:
        scene.consumer("billing", follows=False)
        assert scene.run(wait_s=1).step is Step.OPENED
        scene.clients[-1].follows = True
    elif step is Step.ROUTED:
        assert scene.run(until=Step.ROUTED).step is Step.ROUTED
    elif step is Step.SEALED:
        scene.readers.clear()
        scene.write(OLD, 3)
        assert scene.run(wait_s=5).step is Step.SEALED
    elif step is not Step.PLANNED:
        assert scene.run(until=step).step is step


PLAN = {
    "another cluster behind the source's address": (other_cluster("p"), "source"),
    "the target's address reaches the source": (lambda s: setattr(s.q.admin, "cluster_id", "p-id"), "target"),
    "the old topic was created again": (made_again("p", OLD), "source"),
    "the target is not empty": (filled, "target-empty"),
    "the target's topic has another shape": (lambda s: s.q.admin.add_topic(NEW, {0: (1,)}), "target-empty"),
    "the target's disks are too small": (lambda s: s.p.admin.write(OLD, 0, 2 * 10**9), "disk"),
    "the target has too few brokers": (lambda s: s.q.admin.kill(1), "target-size"),
    "the target lacks ACLs": (without_rights, "acls"),
    "compacted": (lambda s: s.p.admin.topics[OLD].configs.update({"cleanup.policy": "compact"}), "compacted"),
    "a group commits in transactions": (
        lambda s: s.p.groups.open_transaction("billing", TopicPartition(OLD, 0), 3),
        "transactional-group",
    ),
}


@pytest.mark.parametrize("name", PLAN)
def test_a_precondition_that_does_not_hold_is_refused_and_nothing_is_begun(desk: FailoverDesk, name: str) -> None:
    change, check = PLAN[name]
    change(desk.scene)
    writes = desk.scene.store.writes
    ran = desk.failover("plan", "--to", "q")
    assert (ran.code, ran.json["reason"]) == (2, check), ran.stderr
    ran = desk.failover("run", *RUN)
    assert (ran.code, ran.json["reason"]) == (2, check), ran.stderr
    # The lease came and went, and the audit log has two lines; no journal, no route, no topic.
    assert desk.scene.store.writes - writes == 4
    assert desk.scene.route.operation is None
    assert desk.scene.q.admin.calls == []


def test_an_old_cluster_that_does_not_answer_is_left_in_an_emergency_alone(desk: FailoverDesk) -> None:
    desk.scene.p.is_away = True
    for words in (("plan", "--to", "q"), ("run", *RUN)):
        ran = desk.failover(*words)
        assert (ran.code, "--emergency" in ran.json["error"]["hint"]) == (75, True)
    ran = desk.failover("run", *RUN, "--emergency")
    assert (ran.code, ran.json["reason"], ran.json["step"]) == (75, "stranded", "stranded")


FAULTS: dict[str, tuple[Step, Change, int, str]] = {
    "another cluster behind the target's address": (Step.OPENED, other_cluster("q"), 2, "target-differs"),
    "the target was created again": (Step.OPENED, made_again("q", NEW), 2, "target-differs"),
    "the target was deleted": (Step.OPENED, removed("q", NEW), 2, "target-differs"),
    "the target got records": (Step.OPENED, lambda s: s.write(NEW, cluster="q"), 2, "target-differs"),
    "the old topic was created again, opened": (Step.OPENED, made_again("p", OLD), 2, "source-differs"),
    "another cluster behind the source, opened": (Step.OPENED, other_cluster("p"), 2, "source-differs"),
    "the target does not answer": (Step.OPENED, away("q"), 75, "target-unreachable"),
    "the old topic was created again, routed": (Step.ROUTED, made_again("p", OLD), 2, "source-differs"),
    "another cluster behind the source, routed": (Step.ROUTED, other_cluster("p"), 2, "source-differs"),
    "the source does not answer": (Step.ROUTED, away("p"), 75, "source-unreachable"),
    "a transaction is open": (
        Step.ROUTED, lambda s: s.write_transaction(OLD, 2, commits=None), 75, "open-transactions",
    ),
    "the old topic was created again, sealed": (Step.SEALED, made_again("p", OLD), 2, "source-differs"),
    "the old topic was deleted": (Step.SEALED, removed("p", OLD), 2, "source-differs"),
    "another cluster behind the source, sealed": (Step.SEALED, other_cluster("p"), 2, "source-differs"),
    "a group never drains": (Step.SEALED, lambda s: None, 75, "backlog"),
    "a late writer": (Step.SEALED, written(), 1, "late-writer"),
    "a late transaction": (Step.SEALED, lambda s: s.write_transaction(OLD, 1, commits=None), 1, "late-writer"),
    "offsets in an open transaction": (
        Step.SEALED, lambda s: s.p.groups.open_transaction("billing", TopicPartition(OLD, 0), 13), 75,
        "offsets-in-a-transaction",
    ),
    "records are gone before they were read": (Step.SEALED, trimmed, 2, "lost-records"),
    "an unknown group commits": (
        Step.DRAINED, lambda s: s.commit("audit", s.route.lanes[0].segments[0], 0, 3), 2, "unknown-groups",
    ),
    "a late writer after the certificate": (Step.DRAINED, written(2), 1, "late-writer"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_ends_with_its_code_and_its_reason(desk: FailoverDesk, name: str) -> None:
    step, change, code, reason = FAULTS[name]
    bring(desk, step)
    change(desk.scene)
    before = desk.scene.route
    ran = desk.failover("run", *RUN)
    assert (ran.code, ran.json["reason"]) == (code, reason), ran.stderr
    assert len(ran.json["lines"]) >= 1
    if code == 2:
        assert desk.scene.route == before
    assert len(desk.scene.route.lanes[0].segments) == 2, "the old topic is read on"


def test_rejected_records_without_a_lane_wait_where_they_are_to_be_copied(desk: FailoverDesk) -> None:
    bring(desk, Step.DRAINED)
    desk.scene.rejects = 2
    ran = desk.failover("run", *RUN, "--dead-letters", "copy")
    assert (ran.code, ran.json["reason"]) == (75, "rejected-references")
    assert "which the stream does not have; --dead-letters leave keeps their topic readable" in ran.json["lines"][0]
    ran = desk.failover("run", *RUN)
    assert (ran.code, ran.json["left"]) == (0, [1]), ran.stderr
    assert "for references to rejected records" in desk.run("show", STREAM, options=()).stdout


def test_a_late_writer_after_the_retirement_keeps_the_topic_until_its_record_is_copied(desk: FailoverDesk) -> None:
    assert desk.failover("run", *RUN).code == 0
    desk.scene.write(OLD)
    ran = desk.failover("reclaim", "--grace", "0", "--yes")
    assert (ran.code, ran.json["reason"], OLD in desk.scene.p.admin.topics) == (1, "late-writer", True)
    ran = desk.run("failover", "reclaim", STREAM, "--grace", "0", "--yes", options=())
    (printed,) = [line for line in ran.stdout.splitlines() if line.startswith("to copy them")]
    words = shlex.split(printed.partition(": ")[2])
    assert words[0] == "kafkakit"
    done = desk.home.run("--profile", "q", *words[1:], "-o", "json")
    assert (done.code, done.json["copied"], OLD in desk.scene.p.admin.topics) == (0, 1, False), done.stderr
    shown = desk.failover("history").json["commands"]
    assert [each["outcome"] for each in shown] == ["done", "late-writer", "late-writer", "done"]


def test_a_certificate_holds_again_once_late_records_are_copied(desk: FailoverDesk, tmp_path: Path) -> None:
    assert desk.failover("run", *RUN).code == 0
    file = tmp_path / "orders.cert"
    file.write_text(desk.run("failover", "certify", STREAM, "--print", options=()).stdout)
    desk.scene.write(OLD, 2)
    checked = desk.run("verify-drain", str(file))
    assert (checked.code, checked.json["late"]) == (1, [f"{OLD}-0: 2 offsets after the seal"])
    ran = desk.failover("reclaim", "--recover", "--yes")
    assert (ran.code, OLD in desk.scene.p.admin.topics) == (75, True), "the grace has not ended"
    checked = desk.run("verify-drain", str(file))
    assert (checked.code, checked.json["result"], checked.json["late"]) == (0, "verified", [])
    assert checked.json["recovered"] == [f"{OLD}-0: 2 offsets after the seal"]
    text = desk.run("verify-drain", str(file), options=()).stdout
    assert f"Copied to the current topics:\n  {OLD}-0: 2 offsets after the seal\n" in text
    desk.scene.write(OLD)
    checked = desk.run("verify-drain", str(file))
    assert (checked.code, checked.json["late"]) == (1, [f"{OLD}-0: 1 offset after the seal"])


def test_what_is_not_confirmed_is_not_done_in_the_audit_log(desk: FailoverDesk) -> None:
    assert desk.failover("run", *RUN).code == 0
    assert desk.failover("reclaim", "--keep", "--recover", "--yes").code == 2
    assert desk.failover("reclaim", "--grace", "0").code == 2, "not confirmed"
    shown = desk.failover("history").json["commands"]
    assert [each["outcome"] for each in shown] == ["done", "failed"]
    words = ("--profile", "q", "streams", "failover", "reclaim", STREAM, "--grace", "0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CliContext, "input_allowed", True)
        assert desk.home.run(*words, stdin="no\n").code == 0
    shown = desk.failover("history").json["commands"]
    assert [each["outcome"] for each in shown] == ["done", "failed", "not confirmed"]


def test_another_operator_holds_the_lease(desk: FailoverDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = Holder(host="other", user="eve", command="streams failover run", pid=7)
    now = desk.scene.clock.now()
    record = LeaseRecord(token=1, beats=0, ttl_s=15, taken_at=now, renewed_at=now, holder=holder)
    desk.scene.store.cas(lease_of(STREAM), LEASE_DOCUMENT.encode(record), None)
    from kafkakit.adapters import host as own_process

    monkeypatch.setattr(own_process, "life_of", lambda _: Life.ALIVE)
    for verb, words in (("run", RUN), ("resume", ("--yes",)), ("abort", ("--yes",)), ("reclaim", ("--yes",))):
        ran = desk.failover(verb, *words)
        assert (ran.code, ran.json["error"]["reason"]) == (75, "lease-held")
        assert "held by process 7 of eve on other" in ran.stderr
        assert ran.json["error"]["hint"].startswith("run the same command again once that one has ended")


@pytest.mark.parametrize("fenced", [False, True])
def test_a_lease_that_is_lost_at_any_step_stops_before_the_next_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fenced: bool
) -> None:
    """Every place where a run confirms its lease; the next process finishes what was begun."""
    real, lose_at, count, at = Lease.require_held, -1, 0, (-1, -1)
    desk: FailoverDesk

    def effects() -> tuple[int, int]:
        return desk.scene.store.writes, sum(len(each.admin.calls) for each in desk.scene.clusters.values())

    def require_held(self: Lease) -> None:
        nonlocal count, at
        count += 1
        if count - 1 == lose_at:
            self._tenure, at = None, effects()
            raise LeaseLostError("operations of stream orders: the lease was taken over")
        real(self)

    monkeypatch.setattr(Lease, "require_held", require_held)
    done = False
    while not done:
        lose_at, count = lose_at + 1, 0
        folder = tmp_path / str(lose_at)
        folder.mkdir()
        desk = FailoverDesk(folder, monkeypatch)
        if fenced:
            desk.scene.clients[0].follows = False
            desk.scene.p.admin.acls = set()
        more = ("--wait", "30s", *(["--open-by-default"] if fenced else []))
        ran = desk.failover("run", *RUN, *more)
        done = count <= lose_at
        if not done:
            assert (ran.code, ran.json["error"]["reason"]) == (75, "lease-lost"), ran.stderr
            assert effects() == (at[0] + 1, at[1])  # the end of the command in the audit log
            desk.scene.store.delete(lease_of(STREAM), desk.scene.store.get(lease_of(STREAM)).version)  # type: ignore[union-attr]
            ran = desk.failover("run", *RUN, *more)
        assert (ran.code, ran.json["step"]) == (0, "retired"), (lose_at, ran.stderr)
    assert lose_at > 15
