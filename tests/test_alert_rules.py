"""The shipped alert rules: promtool checks them and runs their tests; what they name exists."""

import re
from pathlib import Path

import pytest
import yaml

from kafkakit.streams.lag.service_report import _GAUGES, CONDITIONS, PREFIX
from tests.places import ROOT
from tests.rigs.required import promtool

RULES = sorted((ROOT / "deploy/prometheus").glob("*.rules.yaml"))
CASES = sorted((ROOT / "tests/cases/prometheus").glob("*.test.yaml"))


def test_the_rules_are_well_formed() -> None:
    for path in RULES:
        assert "SUCCESS" in promtool("check", "rules", path)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should_and_at_no_other_time(case: Path) -> None:
    promtool("test", "rules", case.name, cwd=case.parent)


def test_each_alert_is_tested() -> None:
    rules = [rule for path in RULES for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]
    fired = {
        name
        for path in CASES
        for test in yaml.safe_load(path.read_text())["tests"]
        for check in test.get("promql_expr_test", ())
        for sample in check["exp_samples"]
        for name in re.findall(r'ALERTS{alertname="(\w+)"', sample.get("labels", ""))
    }
    assert fired == {rule["alert"] for rule in rules if "alert" in rule}


def test_rules_name_metrics_that_are_exported_and_pages_that_exist() -> None:
    exported = {f"{PREFIX}{name}" for name, _, _ in (*_GAUGES, *CONDITIONS)} | {
        f"{PREFIX}{name}" for name in ("carried", "instances", "dropped_series")
    }
    for path in RULES:
        text = path.read_text()
        named = set(re.findall(rf"(?<![:\w]){PREFIX}\w+", text))
        assert named <= exported, named - exported
        for page, anchor in re.findall(r"runbook_url: (\S+?)#(\S+)", text):
            titles = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), flags=re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in titles}, anchor
