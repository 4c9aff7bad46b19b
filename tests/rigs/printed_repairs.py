"""Carries out the commands that findings print: the line as printed, the plan that it makes, the cluster afterwards.

The cluster is the JSON of a snapshot file. What a plan does to it is worked out here, by no code of the planners.
"""

import copy
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkakit.core.documents import encode_snapshot
from kafkakit.core.model import ClusterSnapshot
from tests.rigs.command_line import Home, Ran

SNAPSHOT = "s.json"
LIVE = ("alive", "draining")
Facts = dict[str, Any]


def save(home: Home, cluster: ClusterSnapshot | Facts) -> Facts:
    """Write the snapshot that commands read, and give what it says."""
    home.work.mkdir(parents=True, exist_ok=True)
    data = encode_snapshot(cluster) if isinstance(cluster, ClusterSnapshot) else json.dumps(cluster).encode()
    (home.work / SNAPSHOT).write_bytes(data)
    facts: Facts = json.loads(data)
    return facts


def commands_in(hint: str) -> list[list[str]]:
    """The command lines of kafkakit in a hint, as a shell reads them: each ends with its line or at a backquote."""
    found = re.findall(r"(?:^|(?<=[ `(\n]))kafkakit [^\n`]*", hint)
    return [shlex.split(line)[1:] for line in found]


def command_in(hint: str) -> list[str]:
    """The words of the only command of a hint, without the program's name."""
    (words,) = commands_in(hint)
    return words


def hint_of(ran: Ran) -> str:
    """The hint below an error; its commands may be on lines of their own."""
    assert "hint: " in ran.stderr, f"{ran.code}: {ran.stderr}{ran.stdout}"
    return ran.stderr.split("hint: ", 1)[1].strip()


def with_options(words: Sequence[str], given: Sequence[str]) -> list[str]:
    """The words of a command with options of one value in place of those that it had."""
    changed = list(words)
    for flag, value in zip(given[::2], given[1::2], strict=True):
        if flag in changed:
            changed[changed.index(flag) + 1] = value
        else:
            changed += [flag, value]
    return changed


def map_of(plan: Mapping[str, Any]) -> Facts:
    """The reassignment map of a plan, in Kafka's format."""
    rows = [{"topic": m["topic"], "partition": m["partition"], "replicas": m["after"]} for m in plan["moves"]]
    return {"version": 1, "partitions": rows}


@dataclass(frozen=True)
class CarriedOut:
    """What a printed command came to: how it ran, its plan if it made one, and the cluster afterwards."""

    ran: Ran
    plan: Facts | None
    after: Facts

    @property
    def changed(self) -> set[str]:
        """The partitions whose copies or their order the plan changes."""
        plan = self.plan or {"moves": [], "dir_moves": []}
        return {f"{m['topic']}-{m['partition']}" for m in (*plan["moves"], *plan.get("dir_moves", []))}

    @property
    def copied(self) -> set[str]:
        """The partitions that get a copy on another broker or log dir, or lose one."""
        plan = self.plan or {"moves": [], "dir_moves": []}
        moved = [m for m in plan["moves"] if set(m["before"]) != set(m["after"])]
        return {f"{m['topic']}-{m['partition']}" for m in (*moved, *plan.get("dir_moves", []))}


def carry_out(home: Home, words: Sequence[str], before: Facts) -> CarriedOut:
    """Run a planning command as printed, then once more for its plan, and apply that."""
    ran = home.run(*words)
    plan_file = home.work / "repair-plan.json"
    plan_file.unlink(missing_ok=True)
    if ran.code != 0:
        return CarriedOut(ran, None, before)
    assert home.run(*words, "--plan", plan_file.name).code == 0
    if not plan_file.exists():
        return CarriedOut(ran, None, before)
    plan: Facts = json.loads(plan_file.read_bytes())
    return CarriedOut(ran, plan, applied(before, plan))


def applied(before: Facts, plan: Mapping[str, Any]) -> Facts:
    """The cluster once every move of the plan is done, its first replicas lead, and brokers freed what they held."""
    after = copy.deepcopy(before)
    brokers = {b["id"]: b for b in after["brokers"]}
    rows = {(t["name"], p["partition"]): p for t in after["topics"] for p in t["partitions"]}
    for move in plan["moves"]:
        row = rows[move["topic"], move["partition"]]
        assert row["replicas"] == move["before"]
        _replace(row, move, brokers)
    for move in plan.get("dir_moves", []):
        row, broker = rows[move["topic"], move["partition"]], brokers[move["broker"]]
        where = row["replica_dirs"]
        assert where[str(move["broker"])] == move["source_dir"]
        where[str(move["broker"])] = move["target_dir"]
        size = _size(row, move["broker"])
        _use(broker, move["source_dir"], -size)
        _use(broker, move["target_dir"], size)
    return after


def _replace(row: Facts, move: Mapping[str, Any], brokers: Mapping[int, Facts]) -> None:
    targets, size = move["after"], _size(row)
    known_sizes, dirs = row.setdefault("replica_bytes", {}), row.setdefault("replica_dirs", {})
    for gone in set(row["replicas"]) - set(targets):
        _use(brokers.get(gone, {}), dirs.pop(str(gone), None), -_size(row, gone))
        known_sizes.pop(str(gone), None)
    for new in set(targets) - set(row["replicas"]):
        broker = brokers[new]
        known_sizes[str(new)] = size
        open_dirs = [d for d in broker.get("log_dirs", ()) if not d.get("cordoned") and not d.get("error")]
        if open_dirs:
            path = move.get("dirs", {}).get(str(new)) or min(open_dirs, key=lambda d: -(d["usable_bytes"] or 0))["path"]
            dirs[str(new)] = path
            _use(broker, path, size)
    had = row.get("isr")
    row["replicas"] = targets
    live = [b for b in targets if brokers.get(b, {}).get("state", "alive") in LIVE]
    if had is not None:
        row["isr"] = [b for b in live if b in had or b not in move["before"]]
    row["leader"] = next((b for b in targets if b in (row["isr"] if had is not None else live)), None)


def _size(row: Mapping[str, Any], broker: int | None = None) -> int:
    known = row.get("replica_bytes") or {}
    if broker is not None and str(broker) in known:
        return int(known[str(broker)])
    return max(known.values(), default=row.get("size_bytes") or 0)


def _use(broker: Mapping[str, Any], path: str | None, size: int) -> None:
    for d in broker.get("log_dirs", ()):
        if d["path"] == path and d.get("usable_bytes") is not None and not d.get("error"):
            d["usable_bytes"] -= size
    if isinstance(broker, dict) and broker.get("storage_free_bytes") is not None:
        broker["storage_free_bytes"] -= size


def holders(facts: Facts, broker: int, path: str | None = None) -> set[str]:
    """The partitions with a copy on a broker, or in one log dir of it."""
    return {
        f"{t['name']}-{p['partition']}"
        for t in facts["topics"]
        for p in t["partitions"]
        if broker in p["replicas"] and (path is None or (p.get("replica_dirs") or {}).get(str(broker)) == path)
    }
