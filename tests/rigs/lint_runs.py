"""Runs of lint on texts in memory, with two small rules of known behaviour beside the rules about files."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from kafkakit.core.findings import Severity
from kafkakit.lint.decide.decision import LintRequest, LintRun, lint
from kafkakit.lint.decide.files import FileReading, read_text
from kafkakit.lint.decide.pieces import AssemblyOptions
from kafkakit.rules.rule import (
    CORE,
    ERROR,
    STRICT,
    WARNING,
    Edit,
    Fix,
    Limits,
    LintRule,
    Needs,
    Subject,
    Violation,
    Violations,
    topic_rule,
)
from kafkakit.rules.subjects import LintCluster, LintTopic

TODAY = date(2026, 11, 22)


@topic_rule("KKT001", WARNING, CORE, fix=Fix.SAFE)
def no_zero_retention(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Retention of zero.

    Why: it deletes everything.
    Source: a test.

    Bad:
        topics: [{name: a, config: {retention.ms: "0"}}]

    Good:
        topics: [{name: a, config: {retention.ms: "1"}}]
    """
    del cluster, limits
    if topic.config.overrides.get("retention.ms") and topic.config.number("retention.ms") == 0:
        yield Violation(message="retention is 0", key="retention.ms", edits=(Edit("retention.ms", is_safe=True),))


@topic_rule("KKT002", ERROR, STRICT, Needs.LIVE, fix=Fix.UNSAFE)
def segments_of_a_day(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Segments longer than a day.

    Why: a test.
    Source: a test.

    Bad:
        topics: [{name: a, config: {segment.ms: "86400001"}}]

    Good:
        topics: [{name: a, config: {segment.ms: "86400000"}}]
    """
    del cluster, limits
    if "retention.ms" in topic.config.overrides and (topic.config.number("segment.ms") or 0) > 86_400_000:
        yield Violation(
            message="segments, 100% | too long", key="retention.ms", edits=(Edit("segment.ms", "86400000"),)
        )


def _file_rule(code: str, name: str) -> LintRule:
    return LintRule(code, name, Severity.WARNING, Subject.FILE, True, (Needs.FILE,), Fix.NONE, lambda: iter(()))


FILE_RULES = tuple(
    _file_rule(code, name)
    for code, name in (
        ("KKL001", "unused-suppression"),
        ("KKL002", "suppression-without-reason"),
        ("KKL003", "expired-suppression"),
        ("KKL004", "unknown-rule-in-config"),
        ("KKL005", "stale-baseline-entry"),
        ("KKL006", "unparsable-file"),
    )
)
RULES = (*FILE_RULES, no_zero_retention, segments_of_a_day)


def read(texts: Mapping[str, str]) -> list[FileReading]:
    return [read_text(path, text, is_named=True) for path, text in texts.items()]


def request(**changed: Any) -> LintRequest:
    given: dict[str, Any] = {
        "rules": RULES,
        "known": RULES,
        "assemble": AssemblyOptions(),
        "today": TODAY,
        "limits": Limits(),
    }
    return LintRequest(**(given | changed))


def linted(text: str | Mapping[str, str], **changed: Any) -> LintRun:
    return lint(read({"a.yaml": text} if isinstance(text, str) else text), (), request(**changed))


def codes(run: LintRun) -> list[str]:
    return [checked.rule.code for checked in run.result.checked]
