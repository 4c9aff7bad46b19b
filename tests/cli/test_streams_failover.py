"""`kafkakit streams failover` and `streams verify-drain` by the command line, on clusters in memory."""

import json
from pathlib import Path

import pytest

from kafkakit.cli.context import CliContext
from kafkakit.streams.model.route import GroupRule
from tests.rigs.failover import STREAM
from tests.rigs.failover_desk import OLD, FailoverDesk


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FailoverDesk:
    return FailoverDesk(tmp_path, monkeypatch)


def test_plan_writes_nothing_and_names_every_precondition(desk: FailoverDesk) -> None:
    writes = desk.scene.store.writes
    desk.scene.p.admin.write(OLD, 0, 1_500)
    desk.scene.write(OLD, 5)
    ran = desk.failover("plan", "--to", "q")
    assert ran.code == 0, ran.stderr
    found = {(each["check"], each["level"]) for each in ran.json["verdicts"]}
    assert {("target", "ok"), ("source", "ok"), ("disk", "ok")} <= found
    (row,) = ran.json["backlog"]
    assert (row["group"], row["topic"], row["offsets"], row["size_bytes"]) == ("billing", OLD, 5, 375)
    assert row["eta_s"] == 6.0, "five offsets in the six seconds that the plan measured"
    assert row["time_lag_s"] == 8_890_339.274, "from the record's time to 1 January 2026"
    assert ran.json["duplicates"]["most"] == 0
    assert ran.json["windows_s"] == {"fence": 2.0, "acknowledged": 2.0, "time": 125.0}
    assert desk.scene.store.writes == writes
    text = desk.run("failover", "plan", STREAM, "--to", "q", options=()).stdout
    desk.scene.readers.clear()
    desk.scene.write(OLD, 5)
    (row,) = desk.failover("plan", "--to", "q").json["backlog"]
    assert (row["offsets"], row["eta_s"]) == (5, None), "a group that reads nothing has no end in sight"
    assert "basis time: the ends of old logs must stay the same for 125 s" in text


def test_plan_says_what_becomes_of_rejected_records(desk: FailoverDesk) -> None:
    desk.scene.rejects = 2
    (row,) = desk.failover("plan", "--to", "q").json["dead_letters"]
    assert (row["topic"], row["cluster"], row["references"], row["then"]) == (OLD, "p", 2, "stay readable")
    text = desk.run("failover", "plan", STREAM, "--to", "q", options=()).stdout
    assert "Dead letters:" in text
    assert "2 rejected records on p: stay readable" in text
    refused = desk.failover("plan", "--to", "q", "--dead-letters", "copy")
    assert (refused.code, refused.json["reason"]) == (2, "dead-letters")


def test_a_refused_plan_and_run_exit_with_2(desk: FailoverDesk) -> None:
    assert desk.failover("plan", "--to", "p").code == 2
    ran = desk.failover("run", "--to", "p", "--yes")
    assert (ran.code, ran.json["reason"]) == (2, "target")
    assert desk.scene.route.operation is None


def test_a_failover_its_certificate_and_the_end_of_the_old_topic(desk: FailoverDesk, tmp_path: Path) -> None:
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


def test_a_group_is_not_waited_for_on_a_lane_that_it_does_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = FailoverDesk(tmp_path, monkeypatch, ("live", "slow"))
    live, _ = desk.scene.route.lanes
    desk.scene.write("orders.slow.1", 7)
    desk.scene.read_all("billing")
    desk.scene.consumer("fast", lanes=("live",))
    for number, offset in enumerate((10, 5)):
        desk.scene.commit("fast", live.segments[0], number, offset)
    plan = desk.failover("plan", "--to", "q")
    assert ["groups", "ok", "fast", "it does not read lane slow: not waited for there"] in [
        [each[key] for key in ("check", "level", "where", "text")] for each in plan.json["verdicts"]
    ]
    ran = desk.failover("run", "--to", "q", "--yes", "--wait", "5s")
    assert (ran.code, ran.json["step"]) == (0, "retired"), ran.stderr
    certificate = json.loads(desk.run("failover", "certify", STREAM, "--print", options=()).stdout)
    assert [[group["group"] for group in each["groups"]] for each in certificate["segments"]] == [
        ["billing", "fast"], ["billing"]
    ]  # fmt: skip


def test_waiting_exits_with_75_and_a_late_writer_with_1(desk: FailoverDesk) -> None:
    desk.scene.readers.clear()
    desk.scene.write(OLD, 3)
    ran = desk.failover("run", "--to", "q", "--yes", "--wait", "5s")
    assert (ran.code, ran.json["reason"], ran.json["records_left"]) == (75, "backlog", 3)
    desk.scene.write(OLD, 1)
    ran = desk.failover("resume", "--yes")
    assert (ran.code, ran.json["reason"]) == (1, "late-writer")
    desk.scene.readers.append("billing")
    assert desk.failover("retire", "--yes").code == 0


@pytest.mark.parametrize(("verb", "end"), [("resume", "retired"), ("retire", "retired"), ("certify", "drained")])
def test_an_operation_is_continued_once_it_was_shown_and_confirmed(desk: FailoverDesk, verb: str, end: str) -> None:
    desk.scene.readers.clear()
    desk.scene.write(OLD, 3)
    assert desk.failover("run", "--to", "q", "--yes", "--wait", "5s").code == 75
    desk.scene.readers.append("billing")
    writes = desk.scene.store.writes
    looked = desk.failover(verb, "--dry-run")
    assert (looked.code, looked.json["step"]) == (0, "sealed"), looked.stderr
    assert looked.json["kafkakit"]["command"] == f"streams failover {verb}"
    assert desk.scene.store.writes == writes
    refused = desk.failover(verb)
    question = f"Continue until the old topics of stream orders are {end}?"
    assert (refused.code, "confirmation needed" in refused.json["error"]["message"]) == (2, True)
    assert 0 <= refused.stderr.index(": sealed\n") < refused.stderr.index(question)
    done = desk.failover(verb, "--yes")
    assert (done.code, done.json["step"]) == (0, end), done.stderr
    assert desk.failover(verb).code == 2, "nothing to continue" if end == "retired" else "not confirmed"


def test_the_plan_is_shown_before_the_question(desk: FailoverDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CliContext, "input_allowed", True)
    words = ("--profile", "q", "streams", "failover", "run", STREAM, "--to", "q")
    ran = desk.home.run(*words, stdin="no\n")
    question = "Send the producers of stream orders to cluster q-id (profile q)? Type 'yes'"
    assert (ran.code, desk.scene.route.operation) == (0, None)
    assert 0 <= ran.stderr.index("Preconditions:") < ran.stderr.index(question)
    assert ran.stdout.endswith("nothing is done\n")
    ran = desk.home.run(*words, stdin="yes\n")
    assert (ran.code, ran.stdout.splitlines()[0].endswith("is retired")) == (0, True), ran.stderr


def test_an_operation_is_aborted(desk: FailoverDesk) -> None:
    desk.scene.consumer("billing", follows=False)
    assert desk.failover("run", "--to", "q", "--yes", "--wait", "1s").json["reason"] == "consumers-behind"
    assert desk.run("lane", "add", STREAM, "bulk", "--partitions", "1", "--yes", profile="p").code == 2
    looked = desk.failover("abort", "--dry-run")
    assert (looked.code, len(desk.scene.route.lanes[0].segments)) == (0, 2)
    assert desk.failover("abort", "--yes").code == 0
    assert len(desk.scene.route.lanes[0].segments) == 1
    assert desk.failover("abort", "--yes").code == 2
    assert desk.failover("resume", "--yes").code == 2


def test_words_that_cannot_be_meant(desk: FailoverDesk) -> None:
    assert desk.failover("run", "--to", "q", "--yes", "--lane", "no").code == 2
    assert desk.failover("run", "--to", "nothing", "--yes").code == 2
    ran = desk.failover("run", "--to", "", "--yes")
    assert (ran.code, "the name of a profile is empty" in ran.stderr) == (2, True), "a variable that is not set"
    assert desk.run("failover", "run", "nothing", "--to", "q", "--yes").code == 2
    assert desk.failover("run", "--to", "q").code == 2
    assert desk.failover("plan", "--to", "q", "--quiet-for", "soon").code == 2
    assert desk.failover("certify", "--print").code == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--require-group", "g", "--ignore-group", "g"), "group g is given to --require-group and to --ignore-group"),
        (("--require-group", ""), "a group has a name"),
        (("--ignore-group", ""), "a group has a name"),
    ],
)
def test_groups_that_cannot_be_meant(desk: FailoverDesk, words: tuple[str, ...], says: str) -> None:
    ran = desk.failover("plan", "--to", "q", *words)
    assert (ran.code, says in ran.stderr) == (2, True), ran.stderr


def test_a_short_window_is_a_warning(desk: FailoverDesk) -> None:
    for words, warned in ((("--quiet-for", "10s"), ["window"]), (("--quiet-for", "120s"), []), ((), [])):
        verdicts = desk.failover("plan", "--to", "q", *words).json["verdicts"]
        assert [each["check"] for each in verdicts if each["level"] == "warning"] == warned


def test_another_operation_is_told_from_one_without_a_certificate(desk: FailoverDesk) -> None:
    assert desk.failover("run", "--to", "q", "--yes").code == 0
    for words in (("certify", "--print"), ("reclaim", "--yes")):
        ran = desk.failover(*words, "--operation", "none")
        assert (ran.code, "the stream has no operation none" in ran.stderr) == (2, True), ran.stderr
    assert "ends in 24 h" in desk.failover("reclaim", "--yes").stderr


def test_required_groups_of_the_route(desk: FailoverDesk) -> None:
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
