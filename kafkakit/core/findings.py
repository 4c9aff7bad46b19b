"""Findings: what a check holds against the thing it looked at, with the command that repairs it.

Lint, audits and live checks share this shape; `report` lays them out. Findings of fleet
audits, those of every check, also have the job, the cluster, and how much depends on it.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import NamedTuple

from kafkakit.core.errors import ExitCode
from kafkakit.core.quantities import count_of

COLUMNS = ("severity", "rule", "where", "count", "message", "hint")
MIN_ISR = "min.insync.replicas"
MAX_MIN_ISR = 32_767
SHOWN_SUBJECTS = 3
SHOWN_OF_A_RULE = 20


class Severity(StrEnum):
    """How bad a finding is, worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class FailOn(StrEnum):
    """From which severity on a check exits 1."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    NEVER = "never"


_ORDER = tuple(Severity)


class Place(NamedTuple):
    """Where something stands in a file: lines and columns count from 1, columns in characters."""

    path: str
    line: int
    column: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The setting that a finding is about: its key, the value seen and where it comes from, the value wanted."""

    key: str
    observed: str | None = None
    source: str | None = None
    expected: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that breaks a rule, or many of a kind in one place.

    `where` is the place (`topic orders`, `broker 3`), `count` how many things there break the rule and
    `subjects` their names, which may be fewer than `count`. `hint` names the command that repairs it.
    `fingerprint` stays the same from run to run as long as rule and place do. A rule of lint is named by its code
    in `rule` and by words in `name`; `place` is where the setting stands in a file, `owner` who answers for it.
    """

    rule: str
    severity: Severity
    message: str
    where: str
    hint: str
    fingerprint: str
    count: int = 1
    subjects: tuple[str, ...] = ()
    name: str = ""
    place: Place | None = None
    setting: Setting | None = None
    owner: str | None = None


_COUNTED = "count only the replicas that there are, so it protects nothing more"


def stops_above_replicas(version: str | None) -> bool:
    """True for a Kafka before 3.7, which refuses writes with acks=all to a partition that has fewer replicas than
    `min.insync.replicas` (KAFKA-15583). False as well for a version that is not known.
    """
    known = minor_version(version)
    return known is not None and known < (3, 7)


def least_in_sync(minimum: int, replicas: int, *, stops: bool) -> int:
    """How many of a partition's replicas must be in sync for writes with acks=all.

    `minimum` is the topic's `min.insync.replicas`, `stops` what `stops_above_replicas` says of the brokers' version.
    """
    return minimum if stops else min(minimum, replicas)


def min_isr_of(configs: Mapping[str, str], usual: int = 1) -> int:
    """A topic's own `min.insync.replicas`, else `usual`, what brokers use for topics without one; at most 32,767."""
    text = configs.get(MIN_ISR, "").strip()
    return min(int(text), MAX_MIN_ISR) if text.isascii() and text.isdecimal() and len(text) < 10 else usual


def usual_min_isr_words(by_broker: Mapping[int, int]) -> str:
    """That brokers differ in what topics without a minimum of their own have; empty where they agree."""
    brokers: dict[int, list[str]] = {}
    for broker, minimum in sorted(by_broker.items()):
        brokers.setdefault(minimum, []).append(str(broker))
    if len(brokers) < 2:
        return ""
    told = ", ".join(f"{minimum} on {shorten(ids)}" for minimum, ids in sorted(brokers.items()))
    return f"brokers differ in {MIN_ISR}, which topics without one take from them: {told}; taken as {max(brokers)}"


def min_isr_above_replicas(version: str | None) -> tuple[Severity, str]:
    """How bad `min.insync.replicas` above a topic's number of replicas is, and what brokers make of it (KAFKA-15583).

    `version` is Kafka's, as in `3.9` or `3.9.1`; None or another text if it is not known.
    """
    if minor_version(version) is None:
        words = f"Kafka 3.7 and later {_COUNTED}; earlier versions refuse writes with acks=all"
        return Severity.ERROR, words
    if stops_above_replicas(version):
        return Severity.ERROR, "brokers refuse writes with acks=all"
    return Severity.WARNING, f"brokers {_COUNTED}"


def minor_version(version: str | None) -> tuple[int, int] | None:
    """The first two numbers of a version (`3.9`, `3.9.1`, `3.9-IV0`); None for another text and for none."""
    known = re.match(r"(\d+)\.(\d+)", version or "")
    return None if known is None else (int(known[1]), int(known[2]))


def fingerprint_of(*parts: str) -> str:
    """What identifies a finding between runs: SHA-256 over its rule, place and what else names it, 16 hex digits.

    Neither a line nor a value is among the parts: a finding that moves or changes stays the same one.
    """
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that findings name: how bad breaking it is, what it says, what breaking it risks, and what repairs it.

    `about` is what the rule asks for, or completes "3 partitions ..." where it is about many of a kind. With a `code`
    findings are named by that in `rule` and by words in `name`, as those of lint are.
    """

    name: str
    severity: Severity
    about: str
    risk: str = ""
    repair: str = ""
    code: str = ""

    def finding(
        self,
        where: str,
        message: str,
        hint: str | None = None,
        count: int = 1,
        subjects: tuple[str, ...] = (),
        parts: tuple[str, ...] = (),
    ) -> Finding:
        """One finding of this rule; without a `hint` the rule's own way to repair it.

        `parts` tell several findings of the rule in one place apart.
        """
        named = self.code or self.name
        return Finding(
            rule=named,
            name=self.name if self.code else "",
            severity=self.severity,
            message=message,
            where=where,
            hint=self.repair if hint is None else hint,
            fingerprint=fingerprint_of(named, where, *parts),
            count=count,
            subjects=subjects,
        )


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Worst first, then by rule and place; findings of one rule keep the order they were made in."""
    return tuple(sorted(findings, key=lambda f: (_ORDER.index(f.severity), f.rule)))


def fails(findings: Iterable[Finding], fail_on: FailOn) -> bool:
    """True when a finding is at or above the severity to fail on."""
    if fail_on is FailOn.NEVER:
        return False
    return any(_ORDER.index(f.severity) <= _ORDER.index(Severity(fail_on.value)) for f in findings)


def exit_code_of(findings: Iterable[Finding], fail_on: FailOn) -> ExitCode:
    """What a check ends with."""
    return ExitCode.FAILED if fails(findings, fail_on) else ExitCode.DONE


def shorten(subjects: Sequence[object], count: int | None = None) -> str:
    """The first three names, and how many more there are."""
    total = len(subjects) if count is None else count
    more = f" and {total - SHOWN_SUBJECTS} more" if total > SHOWN_SUBJECTS else ""
    return ", ".join(map(str, subjects[:SHOWN_SUBJECTS])) + more


def finding_rows(findings: Iterable[Finding]) -> tuple[tuple[object, ...], ...]:
    """One row a finding, in the order of `COLUMNS`."""
    return tuple((f.severity.value, f.rule, f.where, f.count, f.message, f.hint) for f in findings)


def totals(findings: Iterable[Finding]) -> str:
    """How many findings of each severity, in words."""
    numbers = Counter(f.severity for f in findings)
    return ", ".join(count_of(numbers[s], s.value) for s in _ORDER)


def findings_data(findings: Sequence[Finding]) -> dict[str, object]:
    """The findings as JSON fields, with the totals by severity."""
    numbers = Counter(f.severity for f in findings)
    return {
        "findings": [
            {
                "rule": f.rule,
                "severity": f.severity.value,
                "where": f.where,
                "message": f.message,
                "hint": f.hint,
                "fingerprint": f.fingerprint,
                "count": f.count,
                "subjects": list(f.subjects),
            }
            for f in findings
        ],
        "totals": {s.value: numbers[s] for s in _ORDER},
    }


JOB_COLUMNS = "job string, cluster string, rule string, name string, severity string, where string, message string, " \
    "hint string, fingerprint string, count bigint, score double, key string, observed string, expected string, " \
    "owner string, repair string, since string"  # fmt: skip
"""The columns of `findings.parquet`, as Spark's DDL. `since` is the first day that a finding of this fingerprint was
seen on, as far as the store's earlier results tell; null where that is not looked up."""

NAMED_IN_WHERE: Mapping[str, str] = {
    "topics": r"^(?:topic (\S+)|partition (\S+)-[0-9]+(?: on broker [0-9]+)?) of ",
    "brokers": r"^(?:(?:log dirs of |partition \S+ on )?(?:broker|controller) ([0-9]+)|log dir ([0-9]+):.*) of ",
}
"""What a finding is about, by the beginning of its `where`: patterns whose first or second group is the name."""

SEVERITY_WEIGHTS: Mapping[Severity, float] = {Severity.ERROR: 9.0, Severity.WARNING: 3.0, Severity.NOTE: 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """One row of `findings.parquet`; see `JOB_COLUMNS`.

    `score` is the weight of the severity times what depends on it (partitions, or MB/s where rates are known), for
    sorting. `repair` is a command line of kafkakit, or a change of configuration as `KEY=VALUE` lines, empty where
    only people can tell.
    """

    job: str
    cluster: str
    rule: str
    severity: str
    where: str
    message: str
    fingerprint: str
    name: str = ""
    hint: str = ""
    count: int = 1
    score: float = 0.0
    key: str | None = None
    observed: str | None = None
    expected: str | None = None
    owner: str | None = None
    repair: str = ""
    since: str | None = None


def audit_finding(job: str, cluster: str, finding: Finding, *, blast: float = 1.0, repair: str = "") -> AuditFinding:
    """A finding of any rule as a row of an audit; `blast` is how many partitions (or MB/s) depend on it."""
    setting = finding.setting
    return AuditFinding(
        job=job,
        cluster=cluster,
        rule=finding.rule,
        name=finding.name,
        severity=finding.severity.value,
        where=finding.where,
        message=finding.message,
        hint=finding.hint,
        fingerprint=finding.fingerprint,
        count=finding.count,
        score=SEVERITY_WEIGHTS[finding.severity] * max(blast, 1.0),
        key=setting.key if setting is not None else None,
        observed=setting.observed if setting is not None else None,
        expected=setting.expected if setting is not None else None,
        owner=finding.owner,
        repair=repair,
    )


def finding_row(finding: AuditFinding) -> dict[str, object]:
    """The row of a finding, by column."""
    return asdict(finding)
