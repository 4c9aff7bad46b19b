"""`streams failover rehearse` by the command line, on clusters in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafkakit.core.cluster_facts import AclBinding, AclOperation, AclPermission, AclResourceKind
from kafkakit.core.errors import TryLaterError
from kafkakit.streams.client.api import ClientKind
from kafkakit.streams.failover.act.rehearsal import RehearsalHistory, ShadowStream
from kafkakit.streams.failover.commands import options as rehearsal_options
from kafkakit.streams.failover.decide.history import LoadFigures, Rehearsal
from kafkakit.streams.model.route import SegmentState
from kafkakit.streams.routes.api_act import RouteStore
from tests.rigs.failover import STREAM, FakeClient
from tests.rigs.failover_desk import FailoverDesk as Desk
from tests.rigs.routes import Killed

SHADOW = f"kafkakit-rehearsal.{STREAM}"


class FakeLoad:
    """Writes a record to each lane of the shadow, and reads everything, as the clock moves."""

    def __init__(self, desk: Desk, rehearsal: Rehearsal) -> None:
        self.desk, self.rehearsal, self.is_writing = desk, rehearsal, True
        self.written = self.lost = 0
        self.clients = [
            FakeClient(id="load-p", kind=ClientKind.PRODUCER),
            FakeClient(id="load-c", kind=ClientKind.CONSUMER, group=SHADOW),
        ]

    def tick(self, _: object) -> None:
        scene = self.desk.scene
        found = RouteStore(scene.store).read(SHADOW)
        if found is None:
            return
        for client in self.clients:
            client.epoch, client.beat = found.route.epoch, client.beat + 1
        for _, segment in found.route.segments():
            if segment.state is SegmentState.ACTIVE and self.is_writing:
                scene.write(segment.topic, 1, cluster=segment.cluster)
                self.written += 1
            for number in range(segment.partitions):
                end = scene.end_of(segment.topic, number, segment.cluster)
                scene.commit(SHADOW, segment, number, end)

    def figures(self) -> LoadFigures:
        return LoadFigures(
            acknowledged=self.written, handled=self.written - self.lost, open=self.lost, per_s=self.rehearsal.per_s
        )

    def end_writing(self) -> None:
        self.is_writing = False


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


@pytest.fixture
def loads(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> list[FakeLoad]:
    made: list[FakeLoad] = []

    @contextmanager
    def open_load(_: object, rehearsal: Rehearsal, lanes: tuple[str, ...]) -> Iterator[FakeLoad]:
        assert lanes == ("live",)
        load = FakeLoad(desk, rehearsal)
        made.append(load)
        before, desk.scene.clients = desk.scene.clients, load.clients
        desk.scene.clock.on_sleep.append(load.tick)
        try:
            yield load
        finally:
            desk.scene.clock.on_sleep.remove(load.tick)
            desk.scene.clients = before

    monkeypatch.setattr(rehearsal_options, "open_load", open_load)
    return made


def left(desk: Desk) -> list[str]:
    """Everything of the shadow that is there."""
    scene = desk.scene
    topics = [name for each in scene.clusters.values() for name in each.admin.topics if name.startswith(SHADOW)]
    groups = [g.group for each in scene.clusters.values() for g in each.groups.groups() if g.group == SHADOW]
    return topics + groups + list(scene.store.children(f"streams/{SHADOW}"))


def rehearse(desk: Desk, *words: str) -> Any:
    return desk.failover("rehearse", "--to", "q", "--yes", "--rate", "100", *words)


def test_a_rehearsal_leaves_nothing_but_its_score(desk: Desk, loads: list[FakeLoad]) -> None:
    route, topics = desk.scene.route, {n: set(c.admin.topics) for n, c in desk.scene.clusters.items()}
    ran = rehearse(desk)
    assert ran.code == 0, ran.stderr
    kept = ran.json["rehearsal"]
    assert (kept["outcome"]["result"], kept["outcome"]["is_verified"], kept["to"]) == ("done", True, "q")
    assert list(kept["outcome"]["steps_ms"])[-1] == "retired"
    assert (ran.json["score"], kept["outcome"]["load"]["acknowledged"]) == (100, loads[0].written)
    assert left(desk) == []
    assert desk.scene.route == route
    assert {n: set(c.admin.topics) for n, c in desk.scene.clusters.items()} == topics
    found = desk.failover("history", "--rehearsals").json
    assert (found["readiness"], [each["rehearsal"]["id"] for each in found["rehearsals"]]) == (100, [kept["id"]])
    commands = desk.failover("history").json["commands"]
    assert [(each["line"]["command"], each["outcome"]) for each in commands] == [("streams failover rehearse", "done")]
    assert "readiness 100 of 100" in desk.run("failover", "history", STREAM, "--rehearsals", options=()).stdout


def test_the_shadow_is_like_the_stream(desk: Desk, loads: list[FakeLoad], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int, dict[str, str]]] = []
    create = desk.scene.p.admin.create_topic

    def noting(name: str, lists: Any, configs: Any) -> Any:
        seen.append((name, len(lists), dict(configs)))
        return create(name, lists, configs)

    desk.scene.p.admin.topics["orders.live.1"].configs["retention.ms"] = "1000"
    monkeypatch.setattr(desk.scene.p.admin, "create_topic", noting)
    assert rehearse(desk).code == 0
    assert seen == [(f"{SHADOW}.live.1", 2, {"retention.ms": "1000"})]


def test_acls_on_the_shadow_are_removed_and_others_stay(desk: Desk, loads: list[FakeLoad]) -> None:
    admin = desk.scene.p.admin

    def binding(topic: str) -> AclBinding:
        return AclBinding(
            kind=AclResourceKind.TOPIC, name=topic, principal="User:x", operation=AclOperation.WRITE,
            permission=AclPermission.DENY,
        )  # fmt: skip

    admin.acls = set()
    bound: list[AclBinding] = []

    def bind(_: object) -> None:
        if not bound and f"{SHADOW}.live.1" in admin.topics:
            bound.extend([binding(f"{SHADOW}.live.1"), binding("orders.live.1")])
            admin.create_acls(bound)

    desk.scene.clock.on_sleep.append(bind)
    assert rehearse(desk).code == 0
    assert bound
    assert set(admin.acls) == {binding("orders.live.1")}


def test_a_certificate_that_does_not_hold_is_no_success(
    desk: Desk, loads: list[FakeLoad], monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(load: FakeLoad) -> None:
        desk.scene.write(f"{SHADOW}.live.1", 1)
        load.is_writing = False

    monkeypatch.setattr(FakeLoad, "end_writing", late)
    ran = rehearse(desk)
    assert (ran.code, ran.json["rehearsal"]["outcome"]["is_verified"], ran.json["score"]) == (1, False, 0)
    assert left(desk) == []


def test_lost_records_exit_with_1_and_score_0(
    desk: Desk, loads: list[FakeLoad], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeLoad, "figures", lambda _: LoadFigures(acknowledged=5, handled=4, open=1, per_s=100))
    ran = rehearse(desk)
    assert (ran.code, ran.json["score"]) == (1, 0)
    assert left(desk) == []


def test_a_refused_plan_is_kept_with_its_reason(desk: Desk, loads: list[FakeLoad]) -> None:
    ran = desk.failover("rehearse", "--to", "p", "--yes", "--rate", "100")
    assert (ran.code, ran.json["rehearsal"]["outcome"]["result"], ran.json["score"]) == (2, "refused", 0)
    assert left(desk) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), TryLaterError("q is away")])
def test_everything_is_removed_when_it_is_stopped(
    desk: Desk, loads: list[FakeLoad], monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    stopped: list[list[str]] = []

    def stop(_: object) -> None:
        found = RouteStore(desk.scene.store).read(SHADOW)
        if not stopped and found is not None and found.route.operation is not None:
            stopped.append(left(desk))
            raise error

    desk.scene.clock.on_sleep.append(stop)
    ran = rehearse(desk)
    assert ran.code in (75, 130)
    assert len(stopped[0]) > 5
    assert left(desk) == []
    (kept,) = desk.failover("history", "--rehearsals").json["rehearsals"]
    assert (kept["rehearsal"]["outcome"]["result"], kept["score"]) == ("failed", 0)
    assert [each["outcome"] for each in desk.failover("history").json["commands"]] == ["failed"]


def test_a_killed_rehearsal_is_removed_by_the_next_one(
    desk: Desk, loads: list[FakeLoad], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL at every second write of the store, after which the process does nothing: the next run finds the rest."""
    store, remove, write = desk.scene.store, ShadowStream.remove, RehearsalHistory.write

    def unless_dead(work: Any) -> Any:
        def done(*words: Any) -> Any:
            if store.cut is not None and store.count > store.cut:
                raise Killed
            return work(*words)

        return done

    monkeypatch.setattr(ShadowStream, "remove", unless_dead(remove))
    monkeypatch.setattr(RehearsalHistory, "write", unless_dead(write))
    cut_at, most_left = 0, 0
    while True:
        desk.scene.store.count, desk.scene.store.cut = 0, cut_at
        try:
            ran = rehearse(desk, "--load", "1s")
        except Killed:
            desk.scene.store.cut = None
            most_left = max(most_left, len(left(desk)))
            desk.scene.clock.advance(60)
            ran = desk.failover("rehearse", "--to", "q", "--yes", "--only-remove")
            assert ran.code == 0, ran.stderr
            assert left(desk) == [], cut_at
        else:
            assert ran.code == 0, ran.stderr
            break
        cut_at += 2
    assert (cut_at > 20, most_left > 5) == (True, True)
    assert left(desk) == []
    kept = desk.failover("history", "--rehearsals").json["rehearsals"]
    assert {each["rehearsal"]["outcome"]["reason"] for each in kept} == {"cut", ""}


def test_names_of_shadows_are_reserved(desk: Desk) -> None:
    ran = desk.run("create", SHADOW, "--cluster", "p", "--partitions", "1", "--yes")
    assert (ran.code, "rehearsals" in ran.stderr) == (2, True)
    assert desk.run("failover", "rehearse", SHADOW, "--to", "q", "--yes").code == 2
    assert desk.run("failover", "rehearse", "nothing", "--to", "q", "--yes").code == 2
    assert rehearse(desk, "--dry-run").code == 2
    assert desk.failover("rehearse", "--to", "q", "--yes", "--rate", "0").code == 2
    assert left(desk) == []
