"""Reports on lanes: rejected records, what replays, purges and copies did or would do, dual writes, and lane rules.

Rejected records are shown as tables, or one of them with all that is known. A dual write shows how the secondary
differs from the primary. Rules show where sampled records would go.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from kafkakit.core.errors import ExitCode, OperationFailedError
from kafkakit.core.quantities import count_of
from kafkakit.core.text import sanitize, shell_command
from kafkakit.report.report import INDENT, FactList, Report, ResultTable, Section, attributes
from kafkakit.streams.lanes.decide import CopyOutcome, DeadLetter, LaneShare, PurgeOutcome, PurgePlan, ReplayOutcome
from kafkakit.streams.model.commit import utc_text
from kafkakit.streams.model.provenance import Provenance
from kafkakit.streams.model.record_identity import Reconciliation
from kafkakit.streams.model.route import Route
from kafkakit.streams.records.api import ReadResult, bytes_field, bytes_text

LETTER_COLUMNS = (
    "place", "held", "failed", "reason", "group", "lane", "tries", "hops", "key", "bytes", "replayed", "origin",
    "error_class",
)  # fmt: skip
_SHOWN_BYTES = 60
"""Bytes of a key in a table."""


def letters_report(
    stream: str, letters: Sequence[DeadLetter], matching: Mapping[str, int], strange: int, kind: str = "stream"
) -> Report:
    """The first records that match; `matching` counts all of them by reason, `strange` are no entries of a ledger."""
    total = sum(matching.values())
    warnings = (f"{count_of(strange, 'record')} of the reject ledger cannot be read",) if strange else ()
    return Report(
        command="streams dlq list",
        data={
            "stream": stream,
            "matching": total,
            "by_reason": dict(sorted(matching.items())),
            "unreadable_references": strange,
            "records": [letter_data(letter) for letter in letters],
        },
        sections=(
            f"{kind} {stream}: {count_of(total, 'rejected record')}",
            *(f"  {number:>7,}  {sanitize(reason)}" for reason, number in sorted(matching.items())),
            *([""] if letters else []),
            ResultTable(LETTER_COLUMNS, [_row(letter) for letter in letters], empty=""),
            *([f"the first {len(letters):,} are shown; --limit shows more"] if total > len(letters) else []),
        ),
        warnings=warnings,
    )


def letter_report(letter: DeadLetter, found: ReadResult, most_bytes: int) -> Report:
    """One rejected record; it fails where there is none at its place any more."""
    problem = found.problem or found.entries[0].instead
    record = None if problem else found.entries[0]
    held = "in the DLQ lane" if letter.entry is None else "by reference"
    facts = [("held", held), *_provenance_facts(letter.provenance), ("replayed", "yes" if letter.is_replayed else "no")]
    if record is not None:
        facts.append(("time", utc_text(record.at_ms) if record.at_ms >= 0 else "none"))
        facts.append(("key", bytes_text(record.key, most_bytes)))
        facts.append(("value", bytes_text(record.value, most_bytes)))
        facts += [("header", f"{sanitize(name)} = {bytes_text(value, most_bytes)}") for name, value in record.headers]
    if problem:
        facts.append(("record", problem))
    body = None
    if record is not None:
        body = {
            "timestamp_ms": record.at_ms if record.at_ms >= 0 else None,
            "key": bytes_field(record.key, most_bytes),
            "value": bytes_field(record.value, most_bytes),
            "headers": [{"name": name, "value": bytes_field(value, most_bytes)} for name, value in record.headers],
        }
    return Report(
        command="streams dlq show",
        is_private=True,
        data={**letter_data(letter), "problem": problem or None, "record": body},
        sections=(f"{sanitize(letter.name)} on cluster {letter.cluster_id}", FactList(facts, 13, INDENT)),
        failure=OperationFailedError(f"{sanitize(letter.name)}: {problem}") if problem else None,
    )


def letter_data(letter: DeadLetter) -> dict[str, object]:
    """A rejected record for programs."""
    found = letter.provenance
    return {
        "cluster_id": letter.cluster_id,
        "place": letter.name,
        **attributes(letter.place, "topic partition"),
        "offset": letter.offset,
        "held": "copy" if letter.entry is None else "reference",
        "replayed": letter.is_replayed,
        "timestamp_ms": letter.at_ms,
        "key": bytes_field(letter.key, 1_000),
        "bytes": letter.size_bytes,
        "provenance": None if found is None else _provenance_data(found),
    }


def reason_of(letter: DeadLetter) -> str:
    """The reason that a list counts it under."""
    return letter.provenance.failure.reason if letter.provenance else "no readable provenance"


def tally(letters: Iterator[DeadLetter], most: int) -> tuple[list[DeadLetter], Counter[str]]:
    """The first letters, and the number of all of them by reason."""
    first: list[DeadLetter] = []
    reasons: Counter[str] = Counter()
    for letter in letters:
        reasons[reason_of(letter)] += 1
        if len(first) < most:
            first.append(letter)
    return first, reasons


def _provenance_data(found: Provenance) -> dict[str, object]:
    origin, failure = found.origin, found.failure
    return {
        **attributes(origin, "stream lane segment epoch cluster_id topic partition offset"),
        "timestamp_ms": origin.at_ms,
        **attributes(failure, "group reason"),
        "failed_ms": failure.at_ms,
        **attributes(failure, "tries error_class error_text"),
        "hops": found.hops,
    }


def _provenance_facts(found: Provenance | None) -> Iterator[tuple[str, str]]:
    if found is None:
        yield "provenance", "none that can be read"
        return
    origin, failure = found.origin, found.failure
    tries = count_of(failure.tries, "try", "tries")
    yield "reason", f"{sanitize(failure.reason)}, after {tries} of group {sanitize(failure.group)}"
    yield "failed", utc_text(failure.at_ms)
    if failure.error_class or failure.error_text:
        yield "error", f"{sanitize(failure.error_class)}: {sanitize(failure.error_text)}"
    yield "origin", f"{_origin(found)} on cluster {sanitize(origin.cluster_id)}"
    yield "route", f"stream {origin.stream}, lane {origin.lane}, segment {origin.segment}, epoch {origin.epoch}"
    if origin.at_ms is not None:
        yield "written", utc_text(origin.at_ms)
    yield "moved", count_of(found.hops, "time")


def _origin(found: Provenance) -> str:
    topic, partition, offset = found.origin.topic, found.origin.partition, found.origin.offset
    place = f"/{partition}" if partition >= 0 else ""  # other programs do not always tell them
    return sanitize(f"{topic}{place}@{offset}" if offset >= 0 else f"{topic}{place}")


def _row(letter: DeadLetter) -> tuple[object, ...]:
    found = letter.provenance
    key = None if letter.key is None else bytes_text(letter.key, _SHOWN_BYTES)
    held = "copy" if letter.entry is None else "reference"
    if found is None:
        nothing = (None,) * 6
        return (letter.name, held, *nothing, key, letter.size_bytes, letter.is_replayed, None, None)
    failure = found.failure
    return (
        sanitize(letter.name), held, utc_text(failure.at_ms), sanitize(failure.reason), sanitize(failure.group),
        found.origin.lane, failure.tries, found.hops, key, letter.size_bytes, letter.is_replayed, _origin(found),
        sanitize(failure.error_class),
    )  # fmt: skip


_SHOWN = 20


def replay_report(stream: str, outcome: ReplayOutcome, kind: str = "stream") -> Report:
    """What a replay wrote, or with `is_plan` what it would write."""
    stayed = sum(outcome.stayed.values())
    reader = "lane" if kind == "stream" else "topic"
    lines = [f"{kind} {stream}: {count_of(outcome.matching, 'matching record')} not replayed before"]
    if outcome.is_plan:
        lines.append(f"would replay {outcome.replayed:,}; every group that reads the {reader} gets them")
    else:
        lines.append(f"replayed {outcome.replayed:,}")
    lines += [f"  {number:>7,}  to {sanitize(topic)}" for topic, number in outcome.targets.items()]
    if outcome.uncertain:
        lines.append(f"up to {outcome.uncertain:,} of them may be there twice: a replay was interrupted at them")
    lines += [f"stayed: {number:,} {reason}" for reason, number in outcome.stayed.items()]
    return Report(
        command="streams dlq replay",
        data={
            "stream": stream,
            **attributes(outcome, "is_plan matching replayed"),
            "may_be_twice": outcome.uncertain,
            "stayed": outcome.stayed,
            "targets": dict(outcome.targets),
        },
        sections=lines,
        table=ResultTable(
            ("matching", "replayed", "may_be_twice", "stayed"),
            ((outcome.matching, outcome.replayed, outcome.uncertain, stayed),),
        ),
    )


def purge_lines(stream: str, plan: PurgePlan) -> list[str]:
    """The plan of a purge."""
    references = sum(map(len, plan.references.values()))
    records = sum(cut.records for cut in plan.cuts)
    behind = sum(cut.behind for cut in plan.cuts)
    lines = [f"stream {stream}: purge {count_of(records, 'record')} and {count_of(references, 'reference')} for good"]
    lines += [
        f"  {cut.place} on {cut.cluster_id}: {cut.records:,} below {cut.offset}" for cut in plan.cuts if cut.records
    ]
    if behind:
        lines.append(f"{count_of(behind, 'matching record')} stay: others that do not match lie before them")
    return lines


def purge_report(stream: str, outcome: PurgeOutcome, *, is_plan: bool) -> Report:
    """What a purge deleted, or would delete."""
    plan, failure = outcome.plan, None
    lines = purge_lines(stream, plan)
    if not is_plan:
        lines += [f"not deleted: {place}: {error}" for place, error in outcome.errors.items()]
        lines += [] if outcome.errors else ["deleted"]
    if outcome.errors:
        failure = OperationFailedError(f"{count_of(len(outcome.errors), 'partition')} could not be cut")
    cuts = [
        {
            "cluster_id": cut.cluster_id,
            **attributes(cut.place, "topic partition"),
            "offset": cut.offset,
            "records": cut.records,
            "matching_behind": cut.behind,
        }
        for cut in plan.cuts
    ]
    return Report(
        command="streams dlq purge",
        data={
            "stream": stream,
            "is_plan": is_plan,
            "partitions": cuts,
            "references": {cluster: len(keys) for cluster, keys in plan.references.items()},
            "errors": {place: str(error) for place, error in outcome.errors.items()},
        },
        sections=lines,
        table=ResultTable(
            ("cluster_id", "topic", "partition", "offset", "records", "matching_behind"),
            tuple(tuple(cut.values()) for cut in cuts),
        ),
        failure=failure,
    )


def copy_report(stream: str, outcome: CopyOutcome) -> Report:
    """What a look at the ledgers came to; it fails where a record is gone, or cannot be read."""
    lines = [copy_line(stream, outcome)]
    for what, found in (("lost", outcome.lost), ("not copied", outcome.failed)):
        lines += [f"{what}: {sanitize(name)}: {sanitize(reason)}" for name, reason in list(found.items())[:_SHOWN]]
        lines += [f"{what}: {len(found) - _SHOWN:,} more"] if len(found) > _SHOWN else []
    failure = None
    if outcome.lost or outcome.failed:
        failure = OperationFailedError(
            f"{count_of(len(outcome.lost), 'rejected record')} lost, {len(outcome.failed):,} not copied",
            hint=f"to remove references that are given up: {shell_command('streams dlq purge', stream)}",
        )
    return Report(
        command="streams dlq copy",
        data={
            "stream": stream,
            **attributes(outcome, "is_plan copied waiting"),
            "next_ms": outcome.next_at_ms,
            **attributes(outcome, "lost failed"),
        },
        sections=lines,
        table=ResultTable(
            ("copied", "waiting", "next_ms", "lost", "failed"),
            ((outcome.copied, outcome.waiting, outcome.next_at_ms, len(outcome.lost), len(outcome.failed)),),
        ),
        failure=failure,
    )


def copy_line(stream: str, outcome: CopyOutcome) -> str:
    """One look in a line."""
    verb = "would copy" if outcome.is_plan else "copied"
    following = "" if outcome.next_at_ms is None else f", the first is due at {utc_text(outcome.next_at_ms)}"
    return (
        f"stream {stream}: {verb} {count_of(outcome.copied, 'record')}, {outcome.waiting:,} waiting{following}, "
        f"{len(outcome.lost):,} lost, {len(outcome.failed):,} not readable"
    )


def reconciliation_report(primary: str, secondary: str, from_ms: int, to_ms: int, found: Reconciliation) -> Report:
    """Counts of both sides, with examples of each difference; differences make the command exit with 1."""
    sides = ((primary, found.primary), (secondary, found.secondary))
    rows = (
        ("in both", found.both),
        ("only in primary", found.missing),
        ("only in secondary", found.extra),
        ("other key", found.other_key),
    )
    examples = {
        "only in primary": found.examples_missing,
        "only in secondary": found.examples_extra,
        "other key": found.examples_other_key,
    }
    table = [(name, s.records, s.identities, s.duplicates, s.without_identity) for name, s in sides]
    return Report(
        command="streams reconcile",
        data={
            "primary": {"stream": primary, **asdict(found.primary)},
            "secondary": {"stream": secondary, **asdict(found.secondary)},
            "from_ms": from_ms,
            "to_ms": to_ms,
            **attributes(found, "is_equal both"),
            "only_in_primary": found.missing,
            "only_in_secondary": found.extra,
            "other_key": found.other_key,
            "examples": {name.replace(" ", "_"): ids for name, ids in examples.items()},
        },
        sections=(
            "no difference" if found.is_equal else f"{primary} and {secondary} differ",
            "",
            ResultTable(("difference", "records"), rows),
            "",
            ResultTable(("stream", "records", "ids", "duplicates", "without_id"), table),
            *(Section(f"Ids, {name}:", ids) for name, ids in examples.items()),
        ),
        warnings=tuple(
            f"{count_of(side.without_identity, 'record')} of stream {name} without an id: not compared"
            for name, side in sides
            if side.without_identity
        ),
        code=ExitCode.DONE if found.is_equal else ExitCode.FAILED,
    )


RULE_COLUMNS = ("rule", "lane", "where")


def routing_report(shares: Sequence[LaneShare], source: str) -> Report:
    """The records of each rule, and of those that no rule matches; `source` names the rules."""
    total = sum(share.records for share in shares)
    lanes: dict[str, int] = {}
    for share in shares:
        lanes[share.lane] = lanes.get(share.lane, 0) + share.records
    rows = [
        (
            share.lane,
            "none" if share.rule is None else str(share.rule),
            f"{share.records:,}",
            f"{100 * share.records / total:.1f}%" if total else "-",
            sanitize(share.where),
        )
        for share in shares
    ]
    return Report(
        command="streams lane route",
        data={
            "rules": source,
            "records": total,
            "lanes": lanes,
            "by_rule": [
                {"lane": s.lane, "rule": s.rule, "where": s.where or None, "records": s.records} for s in shares
            ],
        },
        sections=(
            f"{count_of(total, 'record')} by the rules of {sanitize(source)}",
            "",
            ResultTable(("lane", "rule", "records", "share", "where"), rows),
        ),
        table=ResultTable(
            ("lane", "rule", "records", "where"), tuple((s.lane, s.rule, s.records, s.where or None) for s in shares)
        ),
    )


def rules_report(before: Route, route: Route) -> Report:
    """The rules of a route, and whether they are other ones than `before`; with the same epoch they are not written."""
    rows = tuple((number, rule.lane, rule.where) for number, rule in enumerate(route.rules, 1))
    is_changed, differs = route.epoch != before.epoch, route.rules != before.rules
    said = "replaced" if is_changed else "not replaced; these would be the rules" if differs else "as they are"
    shown = [(number, lane, sanitize(where)) for number, lane, where in rows]
    return Report(
        command="streams lane rules",
        data={
            **attributes(route, "stream epoch"),
            "changed": is_changed,
            "before": [{"lane": rule.lane, "where": rule.where} for rule in before.rules],
            "rules": [{"lane": rule.lane, "where": rule.where} for rule in route.rules],
        },
        sections=(
            f"stream {route.stream}, epoch {route.epoch}: {count_of(len(rows), 'rule')}, {said}",
            "",
            ResultTable(RULE_COLUMNS, shown, empty="No rules: every record goes to lane live."),
        ),
        table=ResultTable(RULE_COLUMNS, rows),
    )
