"""`kafkakit streams failover` and `streams verify-drain` by the command line, on clusters in memory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkakit import wiring
from kafkakit.core.lease import Holder, LeaseRecord, Life, encode_lease
from kafkakit.streams.client import api_act
from kafkakit.streams.failover.decide.journal import lease_of
from kafkakit.streams.routes.api import GroupRule
from tests.rigs.command_line import Home, Ran
from tests.rigs.failover import STREAM, FailoverScene

OLD = "orders.live.1"


class Desk:
    """The scene behind profiles `p`, `q` and `r`."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.home, self.scene = Home(folder), FailoverScene()
        for name in "pqr":
            self.home.write_config(f"bootstrap_server: {name}:1\ncontrol_store: file\n", f"profiles.d/{name}.yaml")
        scene = self.scene

        def port(name: str) -> Callable[..., Any]:
            return lambda settings, **_: getattr(scene.open_cluster(settings.bootstrap_servers[0]), name)

        for name in ("admin", "log", "groups"):
            patch.setattr(wiring, f"open_{name}", port(name))
        patch.setattr(wiring, "open_control", lambda *_: scene.store)
        patch.setattr(api_act, "read_clients", lambda *_: [client.registration() for client in scene.clients])
        patch.setattr(wiring, "system_clock", lambda: scene.clock)
        scene.write(OLD, 10)
        scene.write(OLD, 5, partition=1)
        scene.readers.append("billing")
        scene.read_all("billing")
        scene.producer()

    def run(self, *words: str, options: tuple[str, ...] = ("-o", "json"), profile: str = "q") -> Ran:
        return self.home.run("--profile", profile, *options, "streams", *words)

    def failover(self, verb: str, *words: str) -> Ran:
        return self.run("failover", verb, STREAM, *words)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


def test_plan_writes_nothing_and_names_every_precondition(desk: Desk) -> None:
    writes = desk.scene.store.writes
    desk.scene.p.admin.write(OLD, 0, 1_500)
    desk.scene.write(OLD, 5)
    ran = desk.failover("plan", "--to", "q")
    assert ran.code == 0, ran.stderr
    found = {(each["check"], each["level"]) for each in ran.json["verdicts"]}
    assert {("target", "ok"), ("source", "ok"), ("disk", "ok")} <= found
    assert ran.json["backlog"] == [{"group": "billing", "topic": OLD, "offsets": 5, "size_bytes": 375}]
    assert ran.json["duplicates"]["most"] == 0
    assert ran.json["windows_s"] == {"fence": 2.0, "acknowledged": 2.0, "time": 125.0}
    assert desk.scene.store.writes == writes
    text = desk.run("failover", "plan", STREAM, "--to", "q", options=()).stdout
    assert "basis time: the ends of old logs must stay the same for 125 s" in text


def test_a_refused_plan_and_run_exit_with_2(desk: Desk) -> None:
    assert desk.failover("plan", "--to", "p").code == 2
    ran = desk.failover("run", "--to", "p", "--yes")
    assert (ran.code, ran.json["reason"]) == (2, "target")
    assert desk.scene.route.operation is None


def test_a_failover_its_certificate_and_the_end_of_the_old_topic(desk: Desk, tmp_path: Path) -> None:
    ran = desk.failover("run", "--to", "q", "--yes")
    assert (ran.code, ran.json["result"], ran.json["step"]) == (0, "done", "retired"), ran.stderr
    assert desk.failover("run", "--to", "q", "--yes").json["operation"] == ran.json["operation"]
    status = desk.failover("status")
    assert (status.code, status.json["step"]) == (0, "retired")
    assert [each["certificate"] for each in desk.failover("history").json["operations"]] == [ran.json["certificate"]]
    printed = desk.run("failover", "certify", STREAM, "--print", options=())
    assert printed.code == 0
    file = tmp_path / "orders.cert"
    file.write_text(printed.stdout)
    checked = desk.run("verify-drain", str(file))
    assert (checked.code, checked.json["result"], checked.json["is_anchored"]) == (0, "verified", True)
    data = printed.stdout.encode()
    for place in range(0, len(data), 41):
        file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert desk.run("verify-drain", "--offline", str(file)).code == 2
    assert desk.failover("reclaim", "--yes").code == 75
    gone = desk.failover("reclaim", "--yes", "--grace", "0")
    assert (gone.code, gone.json["topics"]) == (0, [{"topic": OLD, "result": "deleted"}])
    file.write_bytes(data)
    checked = desk.run("verify-drain", str(file))
    assert (checked.code, len(checked.json["gone"])) == (0, 1)


def test_waiting_exits_with_75_and_a_late_writer_with_1(desk: Desk) -> None:
    desk.scene.readers.clear()
    desk.scene.write(OLD, 3)
    ran = desk.failover("run", "--to", "q", "--yes", "--wait", "5s")
    assert (ran.code, ran.json["reason"], ran.json["records_left"]) == (75, "backlog", 3)
    desk.scene.write(OLD, 1)
    ran = desk.failover("resume")
    assert (ran.code, ran.json["reason"]) == (1, "late-writer")
    desk.scene.readers.append("billing")
    assert desk.failover("retire").code == 0


def test_an_operation_is_aborted(desk: Desk) -> None:
    desk.scene.consumer("billing", follows=False)
    assert desk.failover("run", "--to", "q", "--yes", "--wait", "1s").json["reason"] == "consumers-behind"
    assert desk.run("lane", "add", STREAM, "bulk", "--partitions", "1", "--yes", profile="p").code == 2
    looked = desk.failover("abort", "--dry-run")
    assert (looked.code, len(desk.scene.route.lanes[0].segments)) == (0, 2)
    assert desk.failover("abort", "--yes").code == 0
    assert len(desk.scene.route.lanes[0].segments) == 1
    assert desk.failover("abort", "--yes").code == 2
    assert desk.failover("resume").code == 2


def test_another_operator_holds_the_lease(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = Holder(host="other", user="eve", command="streams failover run", pid=7)
    now = desk.scene.clock.now()
    record = LeaseRecord(token=1, beats=0, ttl_s=15, taken_at=now, renewed_at=now, holder=holder)
    desk.scene.store.cas(lease_of(STREAM), encode_lease(record), None)
    from kafkakit.adapters import own_process

    monkeypatch.setattr(own_process, "life_of", lambda _: Life.ALIVE)
    ran = desk.failover("run", "--to", "q", "--yes")
    assert ran.code == 75
    assert "held by process 7 of eve on other" in ran.stderr


def test_words_that_cannot_be_meant(desk: Desk) -> None:
    assert desk.failover("run", "--to", "q", "--yes", "--lane", "no").code == 2
    assert desk.failover("run", "--to", "nothing", "--yes").code == 2
    assert desk.run("failover", "run", "nothing", "--to", "q", "--yes").code == 2
    assert desk.failover("run", "--to", "q").code == 2
    assert desk.failover("plan", "--to", "q", "--quiet-for", "soon").code == 2
    assert desk.failover("certify", "--print").code == 2


def test_required_groups_of_the_route(desk: Desk) -> None:
    desk.scene.routes.change(
        STREAM,
        lambda route: type(route)(
            stream=route.stream, epoch=route.epoch, next_segment=route.next_segment, lanes=route.lanes,
            groups=(GroupRule(name="audit"),),
        ),
        by="me", what="groups", at_ms=1,
    )  # fmt: skip
    ran = desk.failover("run", "--to", "q", "--yes", "--wait", "5s")
    assert (ran.code, ran.json["reason"]) == (75, "backlog")
    assert "group audit has 10 offsets" in " ".join(ran.json["lines"]) or "group audit has 15 offsets" in str(ran.json)
