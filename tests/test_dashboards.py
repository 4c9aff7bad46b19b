"""The shipped dashboards: what they show exists, each expression yields something, and Grafana can lay them out."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkakit.streams.lag.decide.measure.ends import TopicLogSettings
from kafkakit.streams.lag.decide.monitors import MonitorCondition, MonitorPhase, PublishedState
from kafkakit.streams.lag.service_report import all_families, exposition
from tests.clusters.lag_rows import T0, Harness
from tests.places import ROOT
from tests.rigs.audit_dashboard import dashboard_json as audits
from tests.rigs.lag_dashboard import dashboard_json as lag
from tests.rigs.required import promtool

BOARDS = {"fleet-audits": audits, "kafkakit-lag": lag}
SLO = ROOT / "deploy/prometheus/kafkakit-lag-slo.rules.yaml"


def exported() -> list[str]:
    """Every series of a service that monitors one cluster, where one group catches up and one does not."""
    bench = Harness()
    bench.facts(TopicLogSettings(is_dense=True, is_log_append=True, retention_ms=60_000))
    for second in range(0, 100, 10):
        bench.end(1_010 + 10 * second, second * 1_000, start=second)
        bench.commit("fast", 500 + 15 * second, second * 1_000 + 1)
        bench.commit("slow", 1_000 + 5 * second, second * 1_000 + 1)
    at = T0 + 90_002
    condition = MonitorCondition(cluster="prod", at_ms=at, phase=MonitorPhase.LIVE, as_of_ms=at, ends_known_ms=at)
    tables = (bench.table(90_002, "prod"),)
    published = PublishedState(at_ms=at, tables=tables, conditions=(condition,), others=(), instances=1)
    text = exposition(all_families(published, 100))
    return [line for line in text.splitlines() if not line.startswith("#")]


def expressions(board: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def chosen(expression: str) -> str:
    """The expression with every value of every variable, as Grafana sends it at first."""
    return re.sub(r"\$\w+", ".*", expression)


@pytest.mark.parametrize("name", BOARDS)
def test_the_committed_dashboard_is_the_generated_one(name: str) -> None:
    assert (ROOT / f"deploy/grafana/{name}.json").read_text() == BOARDS[name]()
    assert {path.stem for path in (ROOT / "deploy/grafana").iterdir()} == set(BOARDS)


@pytest.mark.parametrize("made", BOARDS.values(), ids=BOARDS)
def test_panels_are_told_apart_described_and_do_not_overlap(made: Callable[[], str]) -> None:
    board = json.loads(made())
    panels = board["panels"]
    assert len({p["id"] for p in panels}) == len({p["title"] for p in panels}) == len(panels)
    assert 36 <= board["schemaVersion"] <= 39
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert {place["datasource"]["uid"] for place in (panel, *panel["targets"])} == {"${datasource}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24
        cells = {
            (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    text = json.dumps(panels)
    variables = [v["name"] for v in board["templating"]["list"]]
    assert all(f"${name}" in text or f"${{{name}}}" in text for name in variables)
    assert set(re.findall(r"\$\{?(\w+)", text)) <= set(variables)
    assert all(p["type"] == "stat" for p in panels if p["gridPos"]["y"] == 0)


def test_the_addresses_of_dashboards_stay() -> None:
    assert {json.loads(made())["uid"] for made in BOARDS.values()} == {"kafkakit-fleet-audits", "kafkakit-lag"}


@pytest.mark.parametrize("made", BOARDS.values(), ids=BOARDS)
def test_every_expression_parses(made: Callable[[], str], tmp_path: Path) -> None:
    found = [{"record": f"r{at}", "expr": chosen(e)} for at, e in enumerate(expressions(json.loads(made())))]
    rules = tmp_path / "all.yaml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": found}]}))
    assert f"{len(found)} rules found" in promtool("check", "rules", rules)


def test_what_the_dashboard_of_lag_names_is_exported_or_recorded() -> None:
    board = json.loads(lag())
    queries = [v["definition"] for v in board["templating"]["list"] if v["type"] == "query"]
    named = set(re.findall(r"[\w:]*kafkakit_lag[\w:]*", " ".join([*expressions(board), *queries])))
    rules = [rule for group in yaml.safe_load(SLO.read_text())["groups"] for rule in group["rules"]]
    known = {line.split("{")[0].split(" ")[0] for line in exported()} | {rule.get("record") for rule in rules}
    assert named <= known, named - known
    labels = {line.split("{")[0]: set(re.findall(r'(\w+)="', line)) for line in exported()}
    for target in (target for panel in board["panels"] for target in panel["targets"]):
        for by, metric in re.findall(r"by \(([^)]*)\) \((?:rate\()?(kafkakit\w+)", target["expr"]):
            assert set(by.split(", ")) <= labels[metric], target
        kept = () if target["expr"].startswith(("sum(", "max(")) else re.findall(r"\w+", target["expr"])
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= set(kept), target


def test_every_expression_of_the_dashboard_of_lag_yields_something_and_nothing_without_a_monitor(
    tmp_path: Path,
) -> None:
    found = [chosen(e) for e in expressions(json.loads(lag()))]
    series = [{"series": line.rpartition(" ")[0], "values": f"{line.rpartition(' ')[2]}x10"} for line in exported()]
    shown = [{"expr": f"absent({e})", "eval_time": "5m", "exp_samples": []} for e in found]
    hidden = [{"expr": e, "eval_time": "5m", "exp_samples": []} for e in found]
    tests = [{"interval": "1m", "input_series": series, "promql_expr_test": shown}, {"promql_expr_test": hidden}]
    path = tmp_path / "shown.test.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(SLO)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", path)
