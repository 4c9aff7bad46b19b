"""A company's repository of 44 configuration files of all kinds is linted, and every finding has its reason.

`tests/cases/lint/findings.tsv` lists them: place, rule, resource, key, and why it is there.
"""

from datetime import date
from typing import NamedTuple

import pytest

from kafkakit.adapters.files import read_input
from kafkakit.lint.act.read_files import read_files
from kafkakit.lint.decide.assemble import AssemblyOptions
from kafkakit.lint.decide.decision import Linted, LintRequest, lint
from kafkakit.lint.decide.kinds.registry import KINDS, FileReading
from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.rule import Limits
from tests.places import ROOT

CASES = ROOT / "tests" / "cases" / "lint"
REPOSITORY = CASES / "repository"
SECRETS = ("changeit", '"dbz"')


class Expected(NamedTuple):
    """A finding without its message, which the tests of the rule check."""

    place: str
    rule: str
    where: str
    key: str


def expected() -> dict[Expected, str]:
    lines = (CASES / "findings.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines[1:]]
    return {Expected(*row[:4]): row[4] for row in rows}


@pytest.fixture(scope="module")
def readings() -> tuple[FileReading, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(REPOSITORY)
        return read_files(["."], None, "stdin", read_input)


@pytest.fixture(scope="module")
def run(readings: tuple[FileReading, ...]) -> Linted:
    request = LintRequest(
        rules=tuple(rule for rule in all_rules() if rule.is_core),
        known=all_rules(),
        assemble=AssemblyOptions(kafka_version="4.3"),
        today=date(2026, 11, 22),
        limits=Limits(),
    )
    return lint(readings, (), request)


def test_the_files_are_of_all_kinds(readings: tuple[FileReading, ...]) -> None:
    assert len(readings) >= 40
    assert {kind for reading in readings for kind in reading.kinds} == set(KINDS)
    paths = {reading.document.path for reading in readings}
    assert paths.isdisjoint({"package.json", "charts/templates/topic.yaml", ".github/workflows/lint.yaml"})


def test_every_finding_is_explained_and_every_explanation_is_of_a_finding(run: Linted) -> None:
    findings = [checked.finding for checked in run.result.checked]
    found = [
        Expected(
            f"{f.place.path}:{f.place.line}" if f.place else "", f.rule, f.where, f.setting.key if f.setting else ""
        )
        for f in findings
    ]
    wanted = expected()
    assert sorted(found) == sorted(wanted)
    assert all(why.strip() for why in wanted.values())
    assert run.result.suppressed == 2


def test_no_secret_is_in_what_was_found(run: Linted, readings: tuple[FileReading, ...]) -> None:
    texts = "".join(reading.document.text for reading in readings)
    for secret in SECRETS:
        assert secret in texts
        assert secret.strip('"') not in str(run)
