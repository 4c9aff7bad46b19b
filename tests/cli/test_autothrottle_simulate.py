"""`kafkakit autothrottle simulate`: over files, plans and the moves of a cluster."""

from pathlib import Path

import pytest

from kafkakit.core.documents import encode_plan
from tests.cli.test_autothrottle import AutothrottleDesk, Service, desk
from tests.clusters.plans import make_plan
from tests.places import ROOT
from tests.rigs.command_line import Home, Ran

__all__ = ["desk"]
CASES = ROOT / "tests" / "cases" / "autothrottle"
KNOWN = ("--capacity", "1MB", "--client-rate", "300kB", "--min-rate", "10kB")


def over_file(folder: Path, *words: str, text: str | None = None) -> Ran:
    home = Home(folder)
    home.work.mkdir(parents=True, exist_ok=True)
    scenario = text or (CASES / "evening.yaml").read_text(encoding="utf-8")
    (home.work / "evening.yaml").write_text(scenario, encoding="utf-8")
    return home.run("autothrottle", "simulate", "--from", "evening.yaml", *words)


@pytest.mark.parametrize(
    ("golden", "words"),
    [
        ("evening.slo.txt", ("--rule", "18-20 80%")),
        ("evening.compare.txt", ("--compare", "slo,headroom,fixed:40MB,fixed:70MB", "--max-time", "40m")),
    ],
)
def test_a_file_is_simulated_without_a_cluster(tmp_path: Path, golden: str, words: tuple[str, ...]) -> None:
    ran = over_file(tmp_path, *words)
    assert (ran.code, ran.stderr) == (0, "simulating\n")
    assert ran.stdout == (CASES / golden).read_text(encoding="utf-8")


def test_programs_get_every_law_with_breaches_and_samples(tmp_path: Path) -> None:
    ran = over_file(tmp_path, "--compare", "slo,fixed:40MB,fixed:500MB", "--max-time", "40m", "-o", "json")
    assert ran.code == 0, ran.stderr
    found = ran.json
    assert (found["brokers"], found["flows"], found["bytes"], found["is_cut"]) == (3, 2, 100_000_000_000, False)
    laws = {law["law"]: law for law in found["laws"]}
    assert [(n, law["finished"]) for n, law in laws.items()] == [
        ("slo", True),
        ("fixed:40MB", False),
        ("fixed:500MB", True),
    ]
    assert laws["fixed:40MB"]["seconds"] is None
    assert laws["fixed:40MB"]["left_bytes"] > 0 == laws["slo"]["left_bytes"]
    assert found["least_seconds"] <= found["ideal_seconds"] <= laws["slo"]["seconds"]
    assert laws["fixed:500MB"]["longest_breach_seconds"] > laws["slo"]["longest_breach_seconds"]
    assert sum(b["seconds"] for b in laws["slo"]["breaches"]) == laws["slo"]["breach_seconds"]
    first = laws["fixed:40MB"]["samples"][0]
    assert {(r["broker"], r["direction"], r["rate_bytes_per_s"]) for r in first["rates"]} == {
        (1001, "out", 40_000_000),
        (1002, "out", 40_000_000),
        (1003, "in", 40_000_000),
    }
    rows = over_file(tmp_path, "--compare", "slo,fixed:40MB", "--max-time", "40m", "-o", "tsv").stdout.splitlines()
    assert [row.split("\t")[:2] for row in rows] == [["slo", "yes"], ["fixed:40MB", "no"]]


def test_more_clients_from_some_time_on_make_it_longer(tmp_path: Path) -> None:
    usual, later = (
        over_file(tmp_path, "--law", "headroom", *words, "-o", "json").json["laws"][0]["seconds"]
        for words in ((), ("--clients", "100%,140%@10m"))
    )
    assert later > usual
    full = over_file(tmp_path, "--rate", "10MB", "--clients", "900%", "--max-time", "1m")
    assert "note: clients already take more than the capacity of broker 1001" in full.stdout
    assert "note: latencies are not simulated" in over_file(tmp_path, "--p99", "20ms", "--max-time", "1m").stdout


def test_a_partial_answer_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkakit.autothrottle.decide.simulate.MAX_WORK", 305 * 60)
    ran = over_file(tmp_path, "--rate", "10MB", "-o", "json")
    assert (ran.code, ran.json["is_cut"], ran.json["max_seconds"]) == (0, True, 60)
    assert "simulated for 1m only, which is the limit of work" in ran.stderr
    law = ran.json["laws"][0]
    assert (law["finished"], law["seconds"]) == (False, None)
    assert 99_000_000_000 < law["left_bytes"] < 100_000_000_000
    short = over_file(tmp_path, "--rate", "10MB", "--max-time", "59s")
    assert "limit of work" not in short.stderr
    assert "lowest possible time more than 59s" in short.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--plan", "plan.json"), "--from excludes --plan"),
        (("--prometheus-url", "http://x"), "--from excludes --plan and --prometheus-url"),
        (("--compare", "slo,slo"), "up to 6 different laws"),
        (("--compare", "fixed"), "'fixed' is not a rate policy"),
        (("--compare", "slo:1MB"), "'slo:1MB' is not a rate policy"),
        (("--compare", "fixed:fast"), "'fast' is not a rate"),
        (("--compare", ""), "'' is not a rate policy"),
        (("--clients", "50"), "--clients: '50' is not a percentage"),
        (("--clients", "50%@2h,60%@1h"), "times must rise"),
        (("--clients", "50%,60%"), "times must rise"),
        (("--interval", "10ms"), "--interval must be from 1s"),
        (("--metrics-window", "2h"), "--metrics-window from 1s to 1h"),
        (("--max-time", "long"), "--max-time 'long' is not a duration"),
        (("--reserve", "7"), "--reserve: '7' is not a percentage"),
        (("--law", "fixed"), "--rate is for --law fixed"),
    ],
)
def test_words_that_cannot_be_meant_are_refused(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    ran = over_file(tmp_path, *words)
    assert (ran.code, ran.stdout) == (2, "")
    assert said in ran.stderr


def test_a_file_that_is_no_scenario_is_refused_with_its_place(tmp_path: Path) -> None:
    ran = over_file(tmp_path, text="kafkakit: {kind: autothrottle-scenario, schema: 1}\nbrokers: []\nflows: [{}]\n")
    assert (ran.code, ran.stdout) == (2, "")
    assert "evening.yaml:3:9: Object missing required field `source` - at `$.flows[0]`" in ran.stderr


def test_the_moves_that_run_are_simulated_and_nothing_is_changed(desk: AutothrottleDesk) -> None:
    idle = desk.run("simulate", *KNOWN)
    assert (idle.code, idle.stdout) == (0, "cluster fake-cluster (profile p)\nno moves\n")
    desk.begin()
    ran = desk.run("simulate", *KNOWN, "-o", "json")
    assert (ran.code, desk.configs(), desk.cluster.calls) == (0, {}, [])
    assert (ran.json["scenario"], ran.json["brokers"], ran.json["flows"]) == ("fake-cluster", 2, 1)
    law = ran.json["laws"][0]
    assert (law["law"], law["finished"]) == ("slo", True)
    assert all(10_000 <= r["rate_bytes_per_s"] <= 700_000 for s in law["samples"] for r in s["rates"])
    assert desk.run("simulate", *KNOWN).stdout.startswith("cluster fake-cluster (profile p)\n1 flow between 2 brokers")


def test_what_is_not_known_of_brokers_must_be_stated(desk: AutothrottleDesk) -> None:
    desk.begin()
    for words, said in (
        (("--rate", "1MB"), "the capacity of broker 1 is not known"),
        (("--capacity", "1MB"), "the client traffic of broker 1 is not known"),
    ):
        ran = desk.run("simulate", *words)
        assert (ran.code, ran.stdout) == (2, "")
        assert said in ran.stderr


def test_measured_traffic_is_what_clients_take_and_can_be_saved(
    desk: AutothrottleDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(desk.clock)
    monkeypatch.setattr("kafkakit.wiring.open_prometheus", lambda *_: service)
    desk.begin()
    words = ("--prometheus-url", "http://metrics", "--capacity", "1MB", "--min-rate", "10kB", "--save", "now.json")
    live = desk.run("simulate", *words, "-o", "json")
    assert live.code == 0, live.stderr
    saved = desk.run("simulate", "--from", "now.json", "--min-rate", "10kB", "-o", "json")
    assert saved.code == 0, saved.stderr
    assert saved.json["laws"] == live.json["laws"]
    assert saved.json["scenario"] == "now.json"
    service.is_away = True
    dark = desk.run("simulate", *words, "--client-rate", "300kB")
    assert "note: into: the metrics service does not answer" in dark.stdout


def test_a_plan_is_simulated_before_it_is_applied(desk: AutothrottleDesk) -> None:
    plan = make_plan(desk.cluster, {("t", 0): (3, 2)})
    desk.home.work.mkdir(parents=True)
    (desk.home.work / "plan.json").write_bytes(encode_plan(plan))
    ran = desk.run("simulate", "--plan", "plan.json", *KNOWN, "--rate", "100kB")
    assert (ran.code, desk.cluster.calls) == (0, [])
    assert ran.stdout.startswith("cluster fake-cluster\n1 flow between 2 brokers, 19.1 MiB to copy\n")
    assert "note: what producers write meanwhile is not in a plan" in ran.stdout
