"""What pins and budgets promise, whatever the verb; works on JSON and shares no code with the planners."""

import re
from collections.abc import Mapping
from typing import Any

from tests.rigs.certificate_checks import Key

Lists = Mapping[Key, list[int]]
VERBS = ("drain", "repair", "fix-racks", "set-replication", "leaders")
_UNITS = {"": 1, "kB": 10**3, "MB": 10**6, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "B": 1}


def spared_by(plan: Mapping[str, Any], scope: Lists) -> set[Key]:
    """Partitions that pins or the budget of a plain request leave as they are."""
    if plan["request"].get("command") not in [f"topicmappr {verb}" for verb in VERBS]:
        return set()
    return _asked_pins(plan, scope) | _later(plan)


def verify_budget(
    plan: Mapping[str, Any], scope: Lists, after: Lists, sizes: Mapping[Key, int | None], stranded: set[Key]
) -> None:
    """Assert that pinned partitions stay, that the plan spends no more than it may, and leaves nothing that fits."""
    later, words = _later(plan), plan["request"]
    if words.get("command") not in [f"topicmappr {verb}" for verb in VERBS]:
        assert not later, "only plain requests leave partitions for later"
        return
    requested = _asked_pins(plan, scope)
    assert requested <= {(t, p) for t, p in plan["rules"].get("pinned", [])}, "a pinned partition is not in the rules"
    assert not requested & later, "a pinned partition is left for later"
    for key in requested | later:
        assert after[key] == scope[key], f"{key} is to stay as it is"
    moves, size = words.get("max-moves"), words.get("max-moved-bytes")
    assert not later or moves or size, "partitions are left for later without a budget"
    copies = spent = 0
    for key, new in after.items():
        coming = len({*new} - {*scope[key]})
        copies += (new != scope[key]) if words["command"] == "topicmappr leaders" else coming
        if coming and size is not None:
            known = sizes[key]
            assert known is not None, f"{key} is moved without a known size"
            spent += coming * known
    room = int(moves) - copies if moves is not None else None
    left = _size(size) - spent if size is not None else None
    assert room is None or room >= 0, f"{copies} moves are more than {moves}"
    assert left is None or left >= 0, f"{spent} bytes are more than {size}"
    if (
        words["command"] == "topicmappr drain"
        and "log-dir" not in words
        and "replanned-from" not in words
        and not plan["warnings"]
    ):
        leaving = set(map(int, words["brokers"].split(",")))
        for key in later:
            go = len(leaving & {*scope[key]})
            assert go, f"{key} had nothing to do"
            fits = (room is None or go <= room) and (left is None or go * (sizes[key] or 0) <= left)
            assert not fits, f"{key} would have fitted"
    if words["command"] == "topicmappr leaders":
        assert not later or room == 0, "the budget had room for another leader"
    assert not later & stranded


def _later(plan: Mapping[str, Any]) -> set[Key]:
    return {(topic, partition) for topic, partition in (plan.get("rules") or {}).get("later", [])}


def _asked_pins(plan: Mapping[str, Any], scope: Lists) -> set[Key]:
    words = [w for w in plan["request"].get("pin", "").split(",") if w]
    topics = {topic for topic, _ in scope}
    found: set[Key] = set()
    for word in words:
        topic, slash, number = word.rpartition("/")
        if slash and number.isdigit():
            found.add((topic, int(number)))
            continue
        literal = word in topics or re.fullmatch(r"[A-Za-z0-9_\-\\]*", word)
        named = {t for t in topics if (t == word if literal else re.search(word, t))}
        found |= {key for key in scope if key[0] in named}
    return found & set(scope)


def _size(text: str) -> int:
    match = re.fullmatch(r"([0-9]+)\s*([A-Za-z]*)", text)
    assert match, text
    return int(match[1]) * _UNITS[match[2]]
