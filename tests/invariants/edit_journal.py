"""An independent reader of the journals of edits: shares no code with the kit, raises on anything that must not be."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

Commit = tuple[int, str] | None
Place = tuple[str, int]
VERDICTS = {"complete", "incomplete", "nothing written", "undone"}


def verify_edit_journal(data: bytes, *, torn_ok: bool = False) -> list[dict[str, Any]]:
    """Check chain, order and completeness; returns the lines.

    A journal opens once, every effect answers an intent for partitions of it, and nothing is found or ended that was
    not intended. An intent holds old and new commit of each partition, and never the same twice.
    """
    *whole, rest = data.split(b"\n")
    assert torn_ok or not rest, "the last line is torn"
    lines = [json.loads(line) for line in whole]
    previous = hashlib.sha256(b"").hexdigest()
    for number, (raw, line) in enumerate(zip(whole, lines, strict=True)):
        assert line["seq"] == number, f"line {number} has seq {line['seq']}"
        assert line["prev"] == previous, f"line {number} does not continue the chain"
        assert (line.get("kafkakit") == {"kind": "commit-edit", "schema": 1}) == (number == 0)
        previous = hashlib.sha256(raw).hexdigest()
    intents: dict[int, set[Place]] = {}
    for line in lines:
        what, kind, data_of = line["what"], line["kind"], line["data"]
        assert (what == "open") == (line["seq"] == 0)
        if (what, kind) == ("write", "intent"):
            places = [(c["topic"], c["partition"]) for c in data_of["changes"]]
            assert len(places) == len(set(places)) > 0
            assert all(_commit(c["old"]) != _commit(c["new"]) for c in data_of["changes"])
            intents[line["seq"]] = set(places)
        elif (what, kind) == ("write", "effect"):
            assert {(t, p) for t, p, _ in data_of["answers"]} <= intents[line["of"]]
        elif what == "found":
            known: set[Place] = set().union(*intents.values())
            assert {(t, p) for t, p, _ in data_of["partitions"]} <= known
            assert {s for _, _, s in data_of["partitions"]} <= {"new", "old", "other"}
        elif what == "end":
            assert data_of["verdict"] in VERDICTS
        else:
            assert what == "open"
            assert {"cluster_id", "group", "verb", "who"} <= set(data_of)
    return lines


def commits_of(lines: Iterable[Mapping[str, Any]], which: str) -> dict[Place, Commit]:
    """The `old` or `new` commits that a journal's first intent names."""
    first = next(line for line in lines if line["what"] == "write" and line["kind"] == "intent")
    return {(c["topic"], c["partition"]): _commit(c[which]) for c in first["data"]["changes"]}


def verify_writes(lines: Iterable[Mapping[str, Any]], writes: Iterable[Mapping[Place, Commit]]) -> None:
    """Every commit that reached the cluster is the new one of an intent written before."""
    new: dict[Place, Commit] = {}
    for line in lines:
        if line["what"] == "write" and line["kind"] == "intent":
            new |= {(c["topic"], c["partition"]): _commit(c["new"]) for c in line["data"]["changes"]}
    for write in writes:
        for place, commit in write.items():
            assert place in new, f"{place} was written without an intent"
            assert new[place] == commit, f"{place}: {commit} was written, {new[place]} was intended"


def _commit(body: Mapping[str, Any] | None) -> Commit:
    return None if body is None else (body["offset"], body["metadata"])
