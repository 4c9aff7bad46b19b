"""Every file of the version before is read, and written again to the same bytes."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pytest

from kafkakit.audit.act import spec_bytes
from kafkakit.broker.decide.operation import decode_operation, encode_operation
from kafkakit.core.documents import (
    decode_document,
    decode_partition_map,
    decode_plan,
    decode_snapshot,
    encode_document,
    encode_partition_map,
    encode_plan,
    encode_snapshot,
)
from kafkakit.core.errors import InputError
from kafkakit.core.fleet_tables import manifest_data, manifest_of, spec_of
from kafkakit.core.journal_lines import decode_lines, encode_line
from kafkakit.core.lease import LEASE_DOCUMENT, Holder
from kafkakit.execution.decide import journal as run_lines
from kafkakit.execution.decide.runs import ANSWER_DOCUMENT, decode_control_request, encode_control_request
from kafkakit.sandbox.decide import spec as sandbox_state
from kafkakit.streams.commits.decide.editing import edit as edit_lines
from kafkakit.streams.lag.decide import saved_state
from tests.compat.recorded import name_of, recorded

Rewrite = Callable[[bytes, str], bytes]


def rewrite_journal(data: bytes, source: str) -> bytes:
    lines = decode_lines(data, source, run_lines.GRAMMAR).records
    without_checksums = replace(run_lines.GRAMMAR, salvaged=False)  # which that version did not write
    return b"".join(encode_line(line, without_checksums) for line in lines)


def rewrite_edit(data: bytes, source: str) -> bytes:
    lines = decode_lines(data, source, edit_lines.GRAMMAR).records
    return b"".join(encode_line(line, edit_lines.GRAMMAR) for line in lines)


def rewrite_manifest(data: bytes, source: str) -> bytes:
    return (json.dumps(manifest_data(manifest_of(json.loads(data))), indent=1) + "\n").encode()


def rewrite_sandbox(data: bytes, source: str) -> bytes:
    written = sandbox_state.encode_state(sandbox_state.decode_state(data, source))
    return written.replace(b',"rack_of":{}', b"")  # which that version did not write


REWRITES: dict[str, Rewrite] = {
    "fleet-store/manifests/*/*.json": rewrite_manifest,
    "job-spec/*.json": lambda data, source: spec_bytes(spec_of(json.loads(data))),
    "plan/*.json": lambda data, source: encode_plan(decode_plan(data, source)),
    "journal/*.plan.json": lambda data, source: encode_plan(decode_plan(data, source)),
    "broker-operation/*/*.plan.json": lambda data, source: encode_plan(decode_plan(data, source)),
    "broker-operation/*/*[0-9].json": lambda data, source: encode_operation(decode_operation(data, source)),
    "cluster-snapshot/*.json": lambda data, source: encode_snapshot(decode_snapshot(data, source)),
    "partition-map/*.json": lambda data, source: encode_partition_map(decode_partition_map(data, source)),
    "journal/*.journal": rewrite_journal,
    "commit-edit/*/*.journal": rewrite_edit,
    "control/lease-*.json": lambda data, source: LEASE_DOCUMENT.encode(LEASE_DOCUMENT.decode(data, source)),
    "control/wish-answer*.json": lambda data, source: ANSWER_DOCUMENT.encode(ANSWER_DOCUMENT.decode(data, source)),
    "control/wish-[!a]*.json": lambda data, source: encode_control_request(decode_control_request(data, source)),
    "control/wish-abort*.json": lambda data, source: encode_control_request(decode_control_request(data, source)),
    "sandbox-state/*.json": rewrite_sandbox,
    "lag-state/*.state": lambda data, source: saved_state.encode_state(saved_state.decode_state(data, source)),
}
CASES = [(path, rewrite) for pattern, rewrite in REWRITES.items() for path in recorded(pattern)]
# Read by other tests of this folder; nothing writes the first four again, and the store's files are read as a folder.
READ_ELSEWHERE = (
    "commit/*", "notes/*", "sandbox-state/*.yaml", "control/*.record", "control/file-store/**/*",
    "fleet-store/**/*.parquet",
)  # fmt: skip


@pytest.mark.parametrize(("path", "rewrite"), CASES, ids=[name_of(path) for path, _ in CASES])
def test_a_file_is_read_and_written_again_to_the_same_bytes(path: Path, rewrite: Rewrite) -> None:
    data = path.read_bytes()
    whole = data if path.suffix != ".journal" else data[: data.rindex(b"\n") + 1]
    assert rewrite(data, path.name) == whole


def test_every_recorded_file_has_a_reader() -> None:
    read = {path for path, _ in CASES} | {path for pattern in READ_ELSEWHERE for path in recorded(pattern)}
    assert [name_of(path) for path in recorded("**/*") if path not in read] == []
    assert len(CASES) == len({path for path, _ in CASES}), "two readers of one file"


@dataclass(frozen=True, kw_only=True)
class RenamedLease:
    """A lease of a careless next version: `beats` goes by another name, and the old one is ignored as unknown."""

    token: int
    heartbeats: int = 0
    ttl_s: float
    taken_at: datetime
    renewed_at: datetime
    holder: Holder | None = None


def test_a_reader_that_renamed_a_field_is_caught() -> None:
    (path,) = recorded("control/lease-given-back.json")
    data = path.read_bytes()
    read = decode_document(data, LEASE_DOCUMENT.name, RenamedLease, path.name)
    assert encode_document(LEASE_DOCUMENT.name, read) != data
    assert LEASE_DOCUMENT.encode(LEASE_DOCUMENT.decode(data, path.name)) == data


@pytest.mark.parametrize(
    "path", [path for path, _ in CASES if b'"schema":1' in path.read_bytes() and path.suffix == ".json"], ids=name_of
)
def test_a_newer_schema_is_refused(path: Path) -> None:
    rewrite = next(rewrite for other, rewrite in CASES if other == path)
    document = json.loads(path.read_bytes())
    document["kafkakit"]["schema"] += 1
    with pytest.raises(InputError):
        rewrite(json.dumps(document).encode(), "newer")
