"""An independent reader of journals: shares no code with the kit, and raises on anything that must not be."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

EFFECTS = {"throttle", "restore", "reassign", "cancel", "elect", "dirs"}


def verify_journal(
    data: bytes, *, torn_ok: bool = False, settled: bool = True, foreign: bool = False
) -> list[dict[str, Any]]:
    """Check chain, order and throttles; returns the lines.

    `settled` says that the last run ended: every throttle then is restored to the value before us,
    released, or named as owed. `foreign`: of what was done to others, outside of runs; each value that goes is named.
    """
    *whole, rest = data.split(b"\n")
    assert torn_ok or not rest, "the last line is torn"
    lines = [json.loads(line) for line in whole]
    previous = hashlib.sha256(b"").hexdigest()
    for number, (raw, line) in enumerate(zip(whole, lines, strict=True)):
        assert line["seq"] == number, f"line {number} has seq {line['seq']}"
        assert line["prev"] == previous, f"line {number} does not continue the chain"
        previous = hashlib.sha256(raw).hexdigest()
    if foreign:
        for line in lines[1:]:
            assert line["what"] in ("foreign", "cancel", "restore")
            assert all(change["earlier"] is not None for change in line["data"].get("changes", ()))
        intents = [line["seq"] for line in lines if line["kind"] == "intent"]
        assert [line["of"] for line in lines if line["kind"] == "effect"] == intents
        return lines
    _check_order(lines)
    _check_runs(lines)
    left = _throttles_left(lines)
    if settled and left:
        owed = [x for x in lines if x["what"] == "owed"]
        named = {(k["kind"], k["name"], k["key"]) for k in owed[-1]["data"]["keys"]} if owed else set()
        assert left <= named, f"throttles neither restored nor owed: {sorted(left - named)}"
    return lines


def verify_effects(lines: Iterable[dict[str, Any]], calls: Iterable[tuple[str, Any]]) -> None:
    """Every mutating call on the cluster has its intent in the journal, in the same order."""
    intents = [line for line in lines if line["kind"] == "intent"]
    position = 0
    for name, argument in calls:
        body = _expected(name, argument)
        while position < len(intents) and _told(intents[position]) != body:
            position += 1
        assert position < len(intents), f"{name} {argument} has no intent in the journal"


def _check_order(lines: list[dict[str, Any]]) -> None:
    assert not lines or lines[0]["what"] == "open"
    open_intents: dict[int, dict[str, Any]] = {}
    running = False
    for line in lines:
        if line["kind"] == "intent":
            assert line["what"] in EFFECTS
            open_intents[line["seq"]] = line
        elif line["kind"] == "effect":
            intent = open_intents.pop(line["of"], None)
            assert intent is not None, f"line {line['seq']} is an effect without an intent"
            assert intent["what"] == line["what"]
        else:
            assert line["kind"] == "check"
        if line["what"] == "start":
            running = True
        if line["kind"] == "intent" and line["what"] not in ("restore",):
            assert running, "a change outside of a run"


def _check_runs(lines: list[dict[str, Any]]) -> None:
    """Runs begin with a start, promise within it, send nothing while paused, and their tokens only grow."""
    token, running, paused, forward, lost = 0, False, False, False, False
    for line in lines:
        data, what = line["data"], line["what"]
        if what == "start":
            running, paused, forward = True, False, data["direction"] in ("apply", "rollback")
            assert data["direction"] in ("apply", "rollback", "abort")
            if data.get("token") is not None:
                assert data["token"] >= token, f"line {line['seq']}: a run with an older token than the one before it"
                token = data["token"]
        elif what == "salvaged":
            lost = True
            assert data["problem"]
        elif what == "end":
            closed = data["verdict"] == "closed"
            assert running or lost or closed, f"line {line['seq']} ends a run that was not begun"
            assert closed or data["verdict"] in ("complete", "incomplete")
            running = False
        elif what == "schedule":
            assert running
            assert forward, f"line {line['seq']}: an abort has no schedule"
            assert 0 <= data["bound_s"] <= data["promised_s"] + 0.01
            assert data["steps"] >= data["detours"] >= 0
            assert data["total_bytes"] >= 0
        elif what in ("pause", "continue"):
            paused = what == "pause"
        elif what == "reassign" and line["kind"] == "intent":
            assert not paused, f"line {line['seq']}: a move was sent while the run was paused"
            for _, _, target in data["targets"]:
                assert target
                assert len(set(target)) == len(target)


Key = tuple[str, str, str]


def _throttles_left(lines: list[dict[str, Any]]) -> set[Key]:
    book = _Book()
    intents = {line["seq"]: line for line in lines if line["kind"] == "intent"}
    for line in lines:
        if line["what"] == "salvaged" or (line["kind"] == "intent" and line["what"] == "throttle"):
            for change in line["data"]["changes"]:
                book.set(_key(change), change)
        elif line["kind"] == "intent" and line["what"] == "restore":
            for change in line["data"]["changes"]:
                if change["op"] == "subtract":
                    book.requested.setdefault(_key(change), set()).update(change["value"].split(","))
        elif line["kind"] == "effect" and line["what"] == "restore":
            for index, change in enumerate(intents[line["of"]]["data"]["changes"]):
                if index not in line["data"]["refused"]:
                    book.restore(_key(change), change)
        elif line["what"] == "released":
            for body in line["data"]["keys"]:
                book.earlier.pop(_key(body), None)
                book.entries.pop(_key(body), None)
    return set(book.earlier) | {k for k, v in book.entries.items() if v}


class _Book:
    """Which throttles are set, and what each rate was before us."""

    def __init__(self) -> None:
        self.earlier: dict[Key, str | None] = {}
        self.entries: dict[Key, set[str]] = {}
        self.requested: dict[Key, set[str]] = {}

    def set(self, key: Key, change: dict[str, Any]) -> None:
        if key[0] == "broker":
            assert change["op"] == "set"
            self.earlier.setdefault(key, change["earlier"])
        else:
            assert change["op"] == "append"
            assert "*" not in change["value"]
            assert len(change["value"]) < 32767
            self.entries.setdefault(key, set()).update(change["value"].split(","))

    def restore(self, key: Key, change: dict[str, Any]) -> None:
        if key[0] == "broker":
            assert change["value"] == self.earlier.pop(key), f"{key} is not restored to its earlier value"
        elif change["op"] == "subtract":
            gone = set(change["value"].split(","))
            assert gone <= self.entries[key], f"{key}: entries removed that are not ours"
            self.entries[key] -= gone
        else:
            assert change["op"] == "delete"
            # What a cut run removed without writing it down was at least asked for.
            assert self.entries.pop(key) <= self.requested.get(key, set())


def _key(body: dict[str, Any]) -> Key:
    return (body["kind"], body["name"], body["key"])


def _expected(name: str, argument: Any) -> Any:
    if name == "alter_configs":
        return [(c.kind.value, c.name, c.key, c.op.value, c.value) for c in argument]
    if name == "reassign":
        return sorted((k.topic, k.partition, tuple(v)) for k, v in argument.items())
    if name == "move_log_dirs":
        return ("dirs", sorted((*replica, path) for replica, path in argument.items()))
    return (name.split("_", maxsplit=1)[0], sorted((k.topic, k.partition) for k in argument))


def _told(intent: dict[str, Any]) -> Any:
    data = intent["data"]
    if "changes" in data:
        return [(c["kind"], c["name"], c["key"], c["op"], c["value"]) for c in data["changes"]]
    if "targets" in data:
        return sorted((t, p, tuple(r)) for t, p, r in data["targets"])
    if "replicas" in data:
        return (intent["what"], sorted((t, p, b, path) for t, p, b, path in data["replicas"]))
    return (intent["what"], sorted((t, p) for t, p in data["partitions"]))
