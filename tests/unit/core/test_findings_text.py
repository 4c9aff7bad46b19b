"""The text of findings: one hint that repairs all of a rule, where hints differ in ids alone."""

import pytest

from kafkakit.core.findings import Rule, Severity, findings_text

RULE = Rule(name="dir-share", severity=Severity.WARNING, about="dirs are even")


def repairs(*hints: str) -> list[str]:
    text = findings_text([RULE.finding(f"broker {n}", "uneven", hint) for n, hint in enumerate(hints)])
    return [line.strip() for line in text.partition("to repair:\n")[2].splitlines() if line.startswith("  ")]


@pytest.mark.parametrize(
    ("hints", "shown"),
    [
        (["level --brokers 1"], ["dir-share: level --brokers 1"]),
        (
            [f"level --brokers {n} --band 10%" for n in (3, 1, 3, 12, 7)],
            ["dir-share: level --brokers 3,1,12,7 --band 10%"],
        ),
        (
            ["start broker 1 again, or: drain --brokers 1", "start broker 2 again, or: drain --brokers 2"],
            ["dir-share: start broker 1,2 again, or: drain --brokers 1,2"],
        ),
        (["restart broker 1, or: x 1", "restart broker 2, or: x 2"], ["dir-share: restart broker 1,2, or: x 1,2"]),
        (["do a", "do b", "do c", "do d"], ["dir-share: do a", "dir-share: do b", "dir-share: do c"]),
        (["do 1", "do 1 2"], ["dir-share: do 1", "dir-share: do 1 2"]),
    ],
)
def test_hints_that_differ_in_ids_alone_are_one(hints: list[str], shown: list[str]) -> None:
    assert repairs(*hints) == shown
