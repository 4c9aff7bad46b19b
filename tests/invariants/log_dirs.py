"""An independent check of log dirs in plans, from plan file and snapshot alone; shares no code with the planners."""

from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

Key = tuple[str, int]
Dir = tuple[int, str]
ONE_DIR = 1


def verify_dirs(plan: Mapping[str, Any], snapshot: Mapping[str, Any]) -> None:
    """Assert that named dirs exist and are open, that moves inside brokers start where the copy is, and the sums."""
    dirs = {(b["id"], d["path"]): d for b in snapshot["brokers"] for d in b.get("log_dirs", [])}
    copies = {(t["name"], p["partition"]): p for t in snapshot["topics"] for p in t["partitions"]}
    delta: dict[Dir, int] = defaultdict(int)
    unnamed: set[int] = set()
    for move in plan["moves"]:
        named = {int(b): path for b, path in (move.get("dirs") or {}).items()}
        arriving = [b for b in move["after"] if b not in move["before"]]
        assert set(named) <= set(arriving), f"{move['topic']}: a dir is named where no copy arrives"
        unnamed |= set(arriving) - set(named)
        for broker, path in named.items():
            _verify_open(dirs, (broker, path))
            delta[broker, path] += _size(copies[move["topic"], move["partition"]])
        known = copies.get((move["topic"], move["partition"]), {})
        for broker in set(move["before"]) - set(move["after"]):
            path = (known.get("replica_dirs") or {}).get(str(broker))
            if path is not None:
                delta[broker, path] -= _size(known, broker)
    _verify_inside(plan, dirs, copies, delta)
    _verify_table(plan, dirs, copies, delta, unnamed)


def _verify_open(dirs: Mapping[Dir, Mapping[str, Any]], place: Dir) -> None:
    assert place in dirs, f"{place} is no log dir of that broker"
    assert not dirs[place].get("cordoned"), f"{place} is cordoned"
    assert dirs[place].get("error") is None, f"{place} is broken"


def _verify_inside(
    plan: Mapping[str, Any],
    dirs: Mapping[Dir, Mapping[str, Any]],
    copies: Mapping[Key, Mapping[str, Any]],
    delta: dict[Dir, int],
) -> None:
    after = {(m["topic"], m["partition"]): m["after"] for m in plan["moves"]}
    pinned = {(t, n) for t, n in (plan.get("rules") or {}).get("pinned", [])}
    seen = set()
    for move in plan["dir_moves"]:
        key, broker = (move["topic"], move["partition"]), move["broker"]
        copy = copies[key]
        assert (*key, broker) not in seen, f"{key} changes dirs twice on {broker}"
        seen.add((*key, broker))
        assert key not in pinned, f"{key} is pinned"
        assert broker in after.get(key, copy["replicas"]), f"{key} leaves {broker}"
        assert copy["replica_dirs"][str(broker)] == move["source_dir"] != move["target_dir"]
        assert dirs[broker, move["source_dir"]].get("error") is None, "nothing can leave a broken dir"
        _verify_open(dirs, (broker, move["target_dir"]))
        size = _size(copy, broker)
        assert move["size_bytes"] == size
        delta[broker, move["source_dir"]] -= size
        delta[broker, move["target_dir"]] += size


def _verify_table(
    plan: Mapping[str, Any],
    dirs: Mapping[Dir, Mapping[str, Any]],
    copies: Mapping[Key, Mapping[str, Any]],
    delta: Mapping[Dir, int],
    unnamed: set[int],
) -> None:
    rows = {(d["broker"], d["path"]): d for d in plan.get("dirs", [])}
    held: dict[Dir, int] = defaultdict(int)
    for copy in copies.values():
        for broker, path in (copy.get("replica_dirs") or {}).items():
            held[int(broker), path] += _size(copy, int(broker))
    listed = {b for b, _ in rows}
    assert {place for place in dirs if place[0] in listed} == set(rows), "log dirs are missing from the table"
    room = _rooms(plan, dirs)
    for place, row in rows.items():
        assert row["used_before_bytes"] == held[place], f"{place}: used before"
        if place[0] not in unnamed:
            assert row["used_after_bytes"] == held[place] + delta.get(place, 0), f"{place}: used after"
        assert row["used_after_bytes"] <= held[place] + room[place], f"{place} ends above its ceiling"


def _rooms(plan: Mapping[str, Any], dirs: Mapping[Dir, Mapping[str, Any]]) -> dict[Dir, int]:
    """How much more each dir may hold than now."""
    request = plan["request"]
    whole_disk = request.get("command") not in ("topicmappr rebalance", "topicmappr scale", "topicmappr rebalance-dirs")
    use = Fraction(1) if whole_disk else Fraction(request.get("max-disk-use", "90%").rstrip("%")) / 100
    rooms = {}
    for place, d in dirs.items():
        total, usable = d.get("total_bytes"), d.get("usable_bytes")
        rooms[place] = 0
        if total is not None and usable is not None and not d.get("cordoned") and d.get("error") is None:
            rooms[place] = max(0, usable - (total - int(total * use)))
    return rooms


def _size(copy: Mapping[str, Any], broker: int | None = None) -> int:
    """The bytes of one copy, or of the largest."""
    sizes: dict[int, int] = {int(b): n for b, n in (copy.get("replica_bytes") or {}).items()}
    if not sizes:
        return int(copy.get("size_bytes") or 0)
    return sizes.get(broker, 0) if broker is not None else max(sizes.values())


def verify_dir_levels(plan: Mapping[str, Any], snapshot: Mapping[str, Any]) -> None:
    """Assert that a plan of `rebalance-dirs` keeps every replica list and its band, and that its bound is right.

    Where a warning says that a broker's band cannot be had, neither its band nor the bound is checked.
    """
    assert plan["moves"] == []
    band = Fraction(plan["request"]["band"].rstrip("%")) / 100
    certificate = plan["certificate"]
    moved = sum(m["size_bytes"] for m in plan["dir_moves"])
    assert (certificate["unit"], certificate["objective"]) == ("bytes", moved)
    assert 0 <= certificate["lower_bound"] <= moved
    missed = {b for b in _brokers(plan) if any(w.startswith(f"broker {b}: its log dirs") for w in plan["warnings"])}
    bound = 0
    for broker in _brokers(plan):
        rows = [d for d in plan["dirs"] if d["broker"] == broker and d.get("is_open", True)]
        shares = _shares(rows)
        low = [_ceil(share * (1 - band)) for share in shares]
        high = [int(share * (1 + band)) for share in shares]
        if broker not in missed and len(rows) > ONE_DIR:
            for row, least, most in zip(rows, low, high, strict=True):
                assert least <= row["used_after_bytes"] <= most, f"{broker} {row['path']} is outside the band"
        over = sum(max(0, r["used_before_bytes"] - h) for r, h in zip(rows, high, strict=True))
        under = sum(max(0, n - r["used_before_bytes"]) for r, n in zip(rows, low, strict=True))
        bound += max(over, under) if len(rows) > ONE_DIR else 0
    if not missed and certificate["status"] != "optimal":
        assert certificate["lower_bound"] <= bound, f"the bound is {certificate['lower_bound']}, really {bound}"
    if not missed:
        assert certificate["objective"] >= bound, "the plan moves less than it must"


def _brokers(plan: Mapping[str, Any]) -> list[int]:
    return sorted({d["broker"] for d in plan.get("dirs", [])})


def _shares(rows: list[Mapping[str, Any]]) -> list[int]:
    """Each dir's part of what they hold together, by capacity; what rounding leaves goes to the first ones."""
    total, whole = sum(r["used_before_bytes"] for r in rows), sum(r["capacity_bytes"] for r in rows)
    shares = [total * r["capacity_bytes"] // whole for r in rows]
    rest = total - sum(shares)
    return [s + (1 if n < rest else 0) for n, s in enumerate(shares)]


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


def verify_space(plan: Mapping[str, Any], snapshot: Mapping[str, Any], most_use: Fraction = Fraction(95, 100)) -> None:
    """Assert that new copies fit in the open log dirs of their brokers, all of them once others have left.

    Every way to put them there is tried, so this is for a handful of copies a broker.
    """
    copies = {(t["name"], p["partition"]): p for t in snapshot["topics"] for p in t["partitions"]}
    for broker in snapshot["brokers"]:
        space = {d["path"]: _space(d, most_use) for d in broker["log_dirs"] if _is_open(d)}
        arriving = []
        for move in plan["moves"]:
            copy = copies[move["topic"], move["partition"]]
            if broker["id"] in move["after"] and broker["id"] not in move["before"]:
                arriving.append(_size(copy))
            path = (copy.get("replica_dirs") or {}).get(str(broker["id"]))
            if broker["id"] in move["before"] and broker["id"] not in move["after"] and path in space:
                space[path] += _size(copy, broker["id"])
        assert _packs(sorted(arriving, reverse=True), [*space.values()]), (
            f"broker {broker['id']}: {arriving} in {space}"
        )


def _is_open(log_dir: Mapping[str, Any]) -> bool:
    return not log_dir.get("cordoned") and log_dir.get("error") is None


def _space(log_dir: Mapping[str, Any], most_use: Fraction) -> int:
    total, usable = int(log_dir["total_bytes"]), int(log_dir["usable_bytes"])
    return max(0, usable - (total - int(total * most_use)))


def _packs(sizes: list[int], rooms: list[int]) -> bool:
    if not sizes:
        return True
    return any(
        room >= sizes[0] and _packs(sizes[1:], [*rooms[:k], room - sizes[0], *rooms[k + 1 :]])
        for k, room in enumerate(rooms)
    )
