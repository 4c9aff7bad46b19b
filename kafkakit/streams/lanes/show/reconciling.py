"""How the secondary of a dual write differs from the primary."""

from dataclasses import asdict

from kafkakit.core.errors import ExitCode
from kafkakit.core.quantities import counted
from kafkakit.core.tables import text_table
from kafkakit.report.blocks import section, text_of
from kafkakit.report.report import Report
from kafkakit.streams.model.record_identity import Reconciliation

COLUMNS = ("difference", "records")
SIDE_COLUMNS = ("stream", "records", "ids", "duplicates", "without_id")


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
    table = ((name, s.records, s.identities, s.duplicates, s.without_identity) for name, s in sides)
    lines = ["no difference" if found.is_equal else f"{primary} and {secondary} differ", ""]
    lines += [*text_table(COLUMNS, rows).splitlines(), "", *text_table(SIDE_COLUMNS, table).splitlines()]
    for name, ids in examples.items():
        lines += section(f"Ids, {name}:", ids) if ids else []
    return Report(
        command="streams reconcile",
        data={
            "primary": {"stream": primary, **asdict(found.primary)},
            "secondary": {"stream": secondary, **asdict(found.secondary)},
            "from_ms": from_ms,
            "to_ms": to_ms,
            "is_equal": found.is_equal,
            "both": found.both,
            "only_in_primary": found.missing,
            "only_in_secondary": found.extra,
            "other_key": found.other_key,
            "examples": {name.replace(" ", "_"): ids for name, ids in examples.items()},
        },
        text=text_of(lines),
        columns=COLUMNS,
        rows=rows,
        warnings=tuple(
            f"{counted(side.without_identity, 'record')} of stream {name} without an id: not compared"
            for name, side in sides
            if side.without_identity
        ),
        code=ExitCode.DONE if found.is_equal else ExitCode.FAILED,
    )
