"""Writes a made fleet into a store of snapshots."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import counted
from kafkakit.core.tables import text_table
from kafkakit.fleet.act.synth_store import write_fleet
from kafkakit.fleet.decide.synth_fleet import SynthRequest
from kafkakit.ports.table_store import TableStore
from kafkakit.report.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthOutput:
    """What making a fleet needs of the outside."""

    open_store: Callable[[str], TableStore]
    write_file: Callable[[Path, bytes], None]
    say: Callable[[str], None]


def make_fleet(request: SynthRequest, output: SynthOutput, folder: Path | None) -> Report:
    """Write the snapshots into a folder, and what is wrong where to `truth.json` in it."""
    if folder is None:
        raise UsageError("no place is given to write to", hint="give --to DIR")
    rows, truth = write_fleet(output.open_store(str(folder)), request, output.say)
    output.write_file(folder / "truth.json", json.dumps(truth, indent=1).encode() + b"\n")
    columns = ("table", "rows")
    table = tuple(sorted(rows.items()))
    return Report(
        command="fleet synth",
        data={"folder": str(folder), "rows": dict(table), "defects": dict(request.defects)},
        text=text_table(columns, table)
        + f"\n{counted(sum(request.defects.values()), 'defect')}, see {folder}/truth.json\n",
        columns=columns,
        rows=table,
    )
