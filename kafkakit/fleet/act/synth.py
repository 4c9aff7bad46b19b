"""Writes a made fleet into a store of snapshots."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kafkakit.core.errors import UsageError
from kafkakit.core.tables import text_table
from kafkakit.fleet.act.synth_logs import write_large, write_log_dir
from kafkakit.fleet.act.synth_store import write_fleet
from kafkakit.fleet.decide.synth_defect import truth_document
from kafkakit.fleet.decide.synth_fleet import SynthRequest
from kafkakit.fleet.decide.synth_logs import FILE_DEFECTS, file_truth
from kafkakit.ports.table_store import TableStore
from kafkakit.report.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthOutput:
    """What making a fleet needs of the outside."""

    open_store: Callable[[str], TableStore]
    write_file: Callable[[Path, bytes], None]
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthPlaces:
    """Where a fleet is written to: snapshots, log segments. `large_mib` of further segments are written, with holes or
    without."""

    to: Path | None = None
    segments: Path | None = None
    large_mib: int = 0
    is_sparse: bool = False


def make_fleet(request: SynthRequest, output: SynthOutput, places: SynthPlaces) -> Report:
    """Write what is asked for, and what is wrong where to `truth.json` in each folder."""
    if places.to is None and places.segments is None:
        raise UsageError("no place is given to write to", hint="give --to DIR, --segments DIR, or both")
    found: dict[str, int] = {}
    if places.to is not None:
        of_tables = {n: c for n, c in request.defects.items() if n not in FILE_DEFECTS}
        rows, truth = write_fleet(output.open_store(str(places.to)), replace(request, defects=of_tables), output.say)
        _write_truth(output, places.to, truth)
        found.update(rows)
    if places.segments is not None:
        of_files = {n: c for n, c in request.defects.items() if n in FILE_DEFECTS}
        found["files"] = write_log_dir(places.segments, of_files, request.seed, request.end_ms, output.write_file)
        if places.large_mib:
            found["large batches"] = write_large(
                places.segments, places.large_mib, request.end_ms, is_sparse=places.is_sparse
            )
        _write_truth(
            output,
            places.segments,
            truth_document(file_truth(of_files, str(places.segments.absolute())), request.dates(), request.seed),
        )
    columns, table = ("written", "number"), tuple(sorted(found.items()))
    return Report(
        command="fleet synth",
        data={"written": dict(table), "defects": dict(request.defects)},
        text=text_table(columns, table),
        columns=columns,
        rows=table,
    )


def _write_truth(output: SynthOutput, folder: Path, truth: dict[str, object]) -> None:
    output.write_file(folder / "truth.json", json.dumps(truth, indent=1).encode() + b"\n")
