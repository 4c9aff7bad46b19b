"""`streams failover status --watch` and `history` by the command line, on clusters in memory."""

import json
from pathlib import Path

import pytest

from kafkakit.cli.context import CliContext
from kafkakit.core.errors import TryLaterError
from kafkakit.streams.failover.decide.history import audit_root
from tests.rigs.failover import STREAM
from tests.rigs.failover_desk import OLD
from tests.rigs.failover_desk import FailoverDesk as Desk


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


def slow_reader(desk: Desk, left: int, per_tick: int) -> None:
    """A group `left` behind that reads as the clock moves, and a producer of the active segment."""
    scene = desk.scene
    scene.readers.clear()
    scene.write(OLD, left)
    assert desk.failover("run", "--to", "q", "--yes", "--wait", "3s").json["reason"] == "backlog"
    state = {"at": scene.end_of(OLD) - left, "end": scene.end_of(OLD)}
    (old,) = (s for _, s in scene.route.segments() if s.topic == OLD)

    def tick(_: object) -> None:
        scene.write("orders.live.2", 7, cluster="q")
        state["at"] = min(state["end"], state["at"] + per_tick)
        scene.commit("billing", old, 0, state["at"])

    scene.clock.on_sleep.append(tick)


def test_the_view_has_traffic_drain_and_what_is_waited_for(desk: Desk, tmp_path: Path) -> None:
    slow_reader(desk, left=100, per_tick=10)
    writes = desk.scene.store.writes
    file = tmp_path / "failover.prom"
    ran = desk.failover("status", "--watch", "--count", "4", "--metrics", str(file))
    assert ran.code == 0, ran.stderr
    assert desk.scene.store.writes == writes
    view = ran.json
    assert (view["step"], view["reason"], view["to"]) == ("sealed", "backlog", "q")
    assert "70 offsets" in view["lines"][0]
    traffic = {each["topic"]: each for each in view["traffic"]}
    assert (traffic[OLD]["state"], traffic[OLD]["records_per_s"]) == ("sealed", 0.0)
    assert (traffic["orders.live.2"]["state"], traffic["orders.live.2"]["records_per_s"]) == ("active", 7.0)
    (drain,) = view["drain"]
    assert (drain["group"], drain["left"], drain["total"], drain["records_per_s"]) == ("billing", 70, 115, 10.0)
    assert view["eta_s"] == drain["eta_s"] == 7.0
    said = [line for line in ran.stderr.splitlines() if "operation" in line]
    assert len(said) == 1, "one line a phase"
    assert "waits" not in said[0]
    text = file.read_text()
    assert 'kafkakit_failover_step{stream="orders",step="sealed"} 1' in text
    assert 'kafkakit_failover_group_records_left{stream="orders",group="billing",topic="orders.live.1"} 70' in text


def test_watching_ends_with_the_operation(desk: Desk) -> None:
    slow_reader(desk, left=30, per_tick=10)
    looks = []

    def finish(_: object) -> None:
        looks.append(1)
        if len(looks) == 5:
            desk.failover("resume", "--yes")

    desk.scene.clock.on_sleep.append(finish)
    ran = desk.failover("status", "--watch")
    assert (ran.code, ran.json["operation"], ran.json["step"]) == (0, "", "")
    text = desk.run("failover", "status", STREAM, "--watch", options=()).stdout
    assert "no operation is open" in text


def test_a_cluster_that_is_away_is_named_and_read_by_no_look_again(desk: Desk) -> None:
    desk.scene.clusters["p"].is_away = True
    assert desk.failover("run", "--to", "q", "--emergency", "--yes").code == 75
    desk.scene.looks.clear()
    ran = desk.failover("status", "--watch", "--count", "1")
    assert desk.scene.looks.count("p") == 1, "no second wait for a cluster that is away"
    assert (
        "to continue: kafkakit streams failover resume"
        in desk.run("failover", "status", STREAM, "--watch", "--count", "1", options=()).stdout
    )
    view = ran.json
    traffic = {each["topic"]: each for each in view["traffic"]}
    assert (view["step"], view["reason"]) == ("stranded", "stranded")
    assert (traffic[OLD]["end"], traffic[OLD]["problem"]) == (None, "cluster p does not answer")
    assert traffic["orders.live.2"]["end"] == 0
    assert [(each["left"], each["eta_s"]) for each in view["drain"]] == [(None, None)] * len(view["drain"])
    assert view["eta_s"] is None


def test_metrics_need_looks(desk: Desk) -> None:
    assert desk.failover("status", "--metrics", "x.prom").code == 2
    assert desk.failover("status", "--count", "2").code == 2
    assert desk.failover("status", "--watch", "--interval", "soon").code == 2


def test_every_command_that_may_write_is_in_the_audit_log(desk: Desk) -> None:
    desk.scene.readers.clear()
    desk.scene.write(OLD, 3)
    planned = desk.failover("run", "--to", "q", "--yes", "--wait", "3s")
    assert planned.json["reason"] == "backlog"
    desk.failover("plan", "--to", "q")
    desk.failover("status")
    assert desk.failover("abort", "--yes").code == 2
    desk.scene.readers.append("billing")
    assert desk.failover("retire", "--yes").code == 0
    desk.failover("reclaim", "--yes")
    found = desk.failover("history").json["commands"]
    assert [(each["line"]["command"], each["outcome"]) for each in found] == [
        ("streams failover run", "waiting"),
        ("streams failover abort", "failed"),
        ("streams failover retire", "done"),
        ("streams failover reclaim", "failed"),
    ]
    first, refused, last, _ = (each["line"] for each in found)
    assert (first["operation"], first["step"], first["reason"]) == (planned.json["operation"], "sealed", "backlog")
    assert first["plan_sha256"] == last["plan_sha256"] != ""
    assert "cannot be aborted" in refused["error"]
    assert first["by"]
    text = desk.run("failover", "history", STREAM, options=()).stdout
    assert first["plan_sha256"][:16] in text


def test_what_was_not_begun_is_no_success_in_the_audit_log(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert desk.failover("run", "--to", "p", "--yes").code == 2
    monkeypatch.setattr(CliContext, "input_allowed", True)
    desk.home.run("--profile", "q", "streams", "failover", "run", STREAM, "--to", "q", stdin="no\n")
    found = desk.failover("history").json["commands"]
    ends = [(each["outcome"], each["line"]["reason"]) for each in found]
    assert ends == [("refused", "target"), ("not confirmed", "")]


def test_a_stream_that_never_was_has_no_history(desk: Desk) -> None:
    for more in ((), ("--rehearsals",)):
        ran = desk.run("failover", "history", "ordres", *more)
        assert (ran.code, "there is no stream ordres" in ran.stderr) == (2, True)
    desk.scene.routes.delete(STREAM, desk.scene.route, by="o", what="delete", at_ms=1)
    assert desk.failover("history").code == 0


def test_without_an_audit_line_nothing_is_done(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    cas = desk.scene.store.cas

    def refusing(path: str, value: bytes, expected: int | None) -> int:
        if path.startswith(audit_root(STREAM)):
            raise TryLaterError("the control store is full")
        return cas(path, value, expected)

    monkeypatch.setattr(desk.scene.store, "cas", refusing)
    assert desk.failover("run", "--to", "q", "--yes").code == 75
    assert desk.scene.route.operation is None


def test_an_outcome_that_cannot_be_written_is_a_warning(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    cas = desk.scene.store.cas

    def refusing(path: str, value: bytes, expected: int | None) -> int:
        if path.startswith(audit_root(STREAM)) and b'"outcome":"done"' in value:
            raise TryLaterError("the control store is full")
        return cas(path, value, expected)

    monkeypatch.setattr(desk.scene.store, "cas", refusing)
    ran = desk.failover("run", "--to", "q", "--yes")
    assert (ran.code, ran.json["step"]) == (0, "retired")
    assert "the audit log has no outcome" in ran.stderr
    assert [each["outcome"] for each in desk.failover("history").json["commands"]] == ["cut or running"]


def test_events_of_an_operation_go_to_datadog_in_order(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkakit import wiring

    sent: list[tuple[str, tuple[str, ...]]] = []

    class Api:
        def send_event(self, title: str, text: str, tags: tuple[str, ...]) -> None:
            assert "operation" in text
            sent.append((title, tuple(tags)))

    monkeypatch.setattr(wiring, "open_datadog_events", lambda *_: Api())
    assert desk.failover("run", "--to", "q", "--yes", "--dd-events", "--dd-event-tags", "team:x").code == 0
    titles = [title.rpartition(": ")[2] for title, _ in sent]
    assert titles == [
        "failover begun", "planned", "opened", "routed", "sealed", "certified", "drained", "retired"
    ]  # fmt: skip
    assert {tags for _, tags in sent} == {("name:kafkakit-failover", f"stream:{STREAM}", "team:x")}
    sent.clear()
    ran = desk.failover("back", "--yes", "--dd-events")
    assert ran.code == 0, ran.stderr
    assert (sent[0][0].rpartition(": ")[2], sent[-1][0].rpartition(": ")[2]) == ("return begun", "retired")
    assert "return of stream orders to p" in ran.stderr


def test_a_damaged_line_of_the_log_is_counted(desk: Desk) -> None:
    assert desk.failover("run", "--to", "q", "--yes").code == 0
    path = f"{audit_root(STREAM)}/0/0"
    found = desk.scene.store.get(path)
    assert found is not None
    desk.scene.store.cas(path, b"{}\n" + found.value, found.version)
    ran = desk.failover("history")
    assert "1 line of the audit log cannot be read" in ran.stderr
    assert json.loads(ran.stdout)["commands"]
