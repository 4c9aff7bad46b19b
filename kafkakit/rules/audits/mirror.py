"""The sentences and thresholds of the audit `mirror`: records that one of two clusters lacks, or has twice."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from kafkakit.core.findings import AuditFinding, Rule, Severity, audit_finding, shown
from kafkakit.core.quantities import agreeing, counted, format_span
from kafkakit.rules.families.drift_between import MIRROR_OF

JOB = "mirror"
WINDOW_S = 300.0
"""The length of the windows that records are counted in."""
ROUND_MS = 1_000
"""How far the times of two copies without an id may be apart."""
CLOCK_S = 1.0
"""How far the clocks of the two sides may be apart before that is reported."""
EXAMPLES = 3
Row = Mapping[str, Any]

MISSING_ON_MIRROR = Rule(
    "missing-on-mirror",
    Severity.ERROR,
    "every record of the primary is on its mirror",
    risk="Readers that fail over to the mirror never see these records.",
    repair="copy the windows again from the primary; see the table mirror_windows of this run",
    code="KKZ001",
)
MISSING_ON_PRIMARY = Rule(
    "missing-on-primary",
    Severity.WARNING,
    "every record of a mirror is on its primary",
    risk="The write to the primary failed and was not repeated, or something else writes to the mirror.",
    repair="look for failed sends of the producers in these windows; see the table mirror_windows of this run",
    code="KKZ002",
)
DUPLICATES = Rule(
    "duplicates-in-mirrored-topic",
    Severity.WARNING,
    "a record is once on each side",
    risk="Readers process these records twice.",
    repair="make the producer idempotent, or drop records by their id when reading",
    code="KKZ003",
)
CLOCKS = Rule(
    "mirror-clock-difference",
    Severity.NOTE,
    "the same record has the same time on both sides",
    risk="Offsets that are looked up by time differ between the sides. Windows are compared without the difference.",
    repair="synchronise the clocks, or use message.timestamp.type=CreateTime on both sides",
    code="KKZ004",
)
RULES: tuple[Rule, ...] = (MISSING_ON_MIRROR, MISSING_ON_PRIMARY, DUPLICATES, CLOCKS)


def sources_of(name: str, labels: Collection[str] | None, mirror_of: str | None) -> tuple[str, ...]:
    """The clusters that a cluster mirrors, by its labels `mirror:NAME` and by `mirror_of`."""
    found = {label.removeprefix(MIRROR_OF) for label in labels or () if label.startswith(MIRROR_OF)}
    return tuple(sorted((found | {mirror_of or ""}) - {"", name}))


def mirrored(row: Row) -> Iterator[AuditFinding]:
    """KKZ001 to KKZ004 of a topic and its mirror.

    `row` has cluster (the mirror), source, topic, shift_ms, clock_s, and for `mirror`, `primary` (what each lacks)
    and `twice_on_mirror`, `twice_on_primary` a count, and how many windows (`_windows`) and the first records
    (`_first`: partition, offset).
    """
    mirror, source = row["cluster"], row["source"]
    for rule, name, lacking, having in (
        (MISSING_ON_MIRROR, "mirror", mirror, source),
        (MISSING_ON_PRIMARY, "primary", source, mirror),
    ):
        count = row[name]
        if count:
            are = agreeing(count, "are not on")
            message = f"{counted(count, 'record')} of {having} {are} {lacking}, {_places(row, name, having)}"
            yield _finding(rule, row, message, count)
    for name, where in (("twice_on_mirror", mirror), ("twice_on_primary", source)):
        count = row[name]
        if count:
            message = f"{counted(count, 'record')} more than once on {where}, {_places(row, name, where)}"
            yield _finding(DUPLICATES, row, message, count, where)
    if abs(row["shift_ms"] or 0) > row["clock_s"] * 1000:
        ahead, behind = (mirror, source) if row["shift_ms"] > 0 else (source, mirror)
        span = format_span(abs(row["shift_ms"]) / 1000)
        yield _finding(CLOCKS, row, f"records have times on {ahead} that are {span} later than on {behind}", 1)


def _places(row: Row, name: str, cluster: str) -> str:
    first = [f"{e['partition']}:{e['offset']}" for e in row[f"{name}_first"][:EXAMPLES]]
    return f"in {counted(row[f'{name}_windows'], 'window')}; first on {cluster} (partition:offset) {shown(first)}"


def _finding(rule: Rule, row: Row, message: str, count: int, *parts: str) -> AuditFinding:
    where = f"topic {row['topic']} of {row['cluster']}"
    return audit_finding(JOB, row["cluster"], rule.finding(where, message, count=count, parts=(row["source"], *parts)))
