"""The audits `segments` and `bombs` in plain Python, over rows as mappings; thresholds and sentences are the rules'."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor
from typing import Any

from kafkakit.core.findings import AuditFinding
from kafkakit.rules.audits import segments
from kafkakit.rules.audits import segments as bombs

Row = Mapping[str, Any]
Configs = Mapping[tuple[str, str], Mapping[str, Any]]
DAY_MS = 86_400_000
DEFAULTS = {"cleanup.policy": "delete", "retention.ms": 7 * DAY_MS, "segment.ms": 7 * DAY_MS, "segment.bytes": 1 << 30,
            "segment.index.bytes": 10 << 20, "segment.jitter.ms": 0, "file.delete.delay.ms": 60_000,
            "max.message.bytes": 1_048_588}  # fmt: skip
CHECK_MS = 300_000


def segment_findings(
    rows: Sequence[Row], configs: Mapping[tuple[str, str], Mapping[str, Any]], now: int
) -> list[AuditFinding]:
    """`configs` are the own settings of the topics of the store, by cluster and topic."""
    replicas: dict[Any, list[Row]] = defaultdict(list)
    dirs: dict[Any, dict[str, Any]] = {}
    for row in rows:
        if row["role"] == "log":
            replicas[tuple(row[n] for n in ("cluster", "topic", "partition", "broker", "log_dir"))].append(row)
        elif row["role"] != "future":
            _add_dead(dirs, row, configs.get((row["cluster"], row["topic"])), now)
    partitions: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    of_copies: dict[Any, list[tuple[Any, dict[str, Any]]]] = defaultdict(list)
    for key, log in replicas.items():
        copy = _replica(sorted(log, key=lambda r: r["base_offset"]), configs.get(key[:2]), now)
        partitions[key[:3]].append(copy)
        of_copies[key[:3]].append((key, copy))
    topics: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    found: list[AuditFinding] = []
    for key, copies in partitions.items():
        one = _summed(copies) | dict(zip(("cluster", "topic", "partition"), key, strict=True))
        one["copies"] = [{**copy, "broker": at[3], "log_dir": at[4]} for at, copy in of_copies[key]]
        skews = [c["skew"] for c in copies if c["skew"] is not None]
        one |= {"skew": min(skews, default=None), "replicas": len(copies), "is_known": key[:2] in configs}
        if not one["is_known"] and one["missing_records"]:
            one["gaps"] = 0
        found += segments.partition_findings(one)
        topics[key[:2]].append(one)
    for key, members in topics.items():
        found += segments.topic_findings(_topic(key, members, configs.get(key)))
    for row in dirs.values():
        found += segments.log_dir_findings(row)
    return found


def _settings(own: Mapping[str, Any] | None) -> dict[str, Any]:
    return {**DEFAULTS, **(own or {})}


def _n(row: Row, name: str) -> int:
    return row.get(name) or 0


def _add_dead(dirs: dict[Any, dict[str, Any]], row: Row, own: Mapping[str, Any] | None, now: int) -> None:
    age = (row.get("seen_at_ms") or now) - _n(row, "mtime_ms")
    late = age > _settings(own)["file.delete.delay.ms"] + segments.DEAD_MARGIN_MS
    role = row["role"]
    is_dead = (
        role in ("stray", "orphan") or (role in ("deleted", "delete") and late)
        or (role in ("swap", "cleaned") and age > segments.SWAP_MS)
    )  # fmt: skip
    if not is_dead and role != "foreign":
        return
    where = {name: row[name] for name in ("cluster", "broker", "log_dir")}
    empty: dict[str, Any] = {f"{k}_{v}": 0 for k in ("dead", "foreign") for v in ("files", "bytes")} | {
        "dead_path": "~",
        "foreign_path": "~",
    }
    found = dirs.setdefault(tuple(where.values()), where | empty | {"kinds": set()})
    kind = "dead" if is_dead else "foreign"
    found[f"{kind}_files"] += 1
    found[f"{kind}_bytes"] += _n(row, "dead_bytes")
    found[f"{kind}_path"] = min(found[f"{kind}_path"], row["path"])
    if is_dead:
        found["kinds"].add(role)
    found["dead_roles"] = ", ".join(sorted(found["kinds"]))


def _replica(log: list[Row], own: Mapping[str, Any] | None, now: int) -> dict[str, Any]:  # noqa: C901
    s, topic = _settings(own), log[0]["topic"]
    compacts = "compact" in s["cleanup.policy"]
    found: dict[str, Any] = defaultdict(int)
    paths: dict[str, str] = {}
    ahead, ages, late, skews, opens, bounds = [], [], [], [], [], []
    end = epoch = None
    for place, row in enumerate(log):
        seen = row.get("seen_at_ms") or now
        closed, fault = not row["is_active"], row.get("fault") or ""
        gone, unreadable = "vanished" in fault, "cannot be" in fault
        first = row["first_offset"] if row["first_offset"] is not None else row["base_offset"]
        last = row["last_offset"] + 1 if row["last_offset"] is not None else row["base_offset"]
        open_ms = seen - row["open_txn_since_ms"] if row["is_active"] and row["open_txn_since_ms"] is not None else None
        lacks = row["index_entries"] is None or row["time_index_entries"] is None
        held = {
            "crc_failures": _n(row, "crc_failures"), "damaged": bool(fault) and not gone and not unreadable,
            "unreadable": unreadable and not gone, "torn": closed and _n(row, "torn_bytes") > 0 and not fault,
            "gaps": 0 if (topic.startswith("__") if own is None else compacts) or row["legacy_batches"] != 0
            else _n(row, "offset_gaps") + (end is not None and first > end),
            "overlaps": _n(row, "overlaps") + (end is not None and first < end),
            "regressions": _n(row, "epoch_regressions")
            + (epoch is not None and row["first_epoch"] is not None and row["first_epoch"] < epoch),
            "epoch_faults": _n(row, "epoch_faults"),
            "index_faults": _n(row, "index_faults") + _n(row, "time_index_faults"),
            "missing_indexes": closed and row["size_bytes"] > 0 and lacks and not fault,
            "lost_tails": row["is_active"] and not fault and _n(row, "recovery_point") > last,
            "open_transactions": open_ms is not None and open_ms > segments.OPEN_TRANSACTION_MS,
        }  # fmt: skip
        for name, number in held.items():
            found[name] += int(number)
            if number:
                paths[f"path_{name}"] = min(paths.get(f"path_{name}", "~"), row["path"])
        for name in ("size_bytes", "missing_records", "batches", "records", "missing_times", "single_record_batches",
                     "tiny_batches",
                     "aborted_records", "legacy_batches", *(f"{c}_batches" for c in segments.CODECS)):  # fmt: skip
            found[name] += _n(row, name)
        if closed and row["size_bytes"] == 0:
            found["empty_segments"] += 1
        elif closed:
            following = log[place + 1]["first_batch_max_ms"] if place + 1 < len(log) else None
            cause = _cause(row, following, s, compacts, own is not None)
            found[f"rolled_by_{cause}"] += 1
            if cause == "time":
                found["full"] += row["size_bytes"] / s["segment.bytes"]
        if row["max_ms"] is not None:
            ahead.append(row["max_ms"] - seen)
            found["future_segments"] += ahead[-1] > segments.FUTURE_MS
            before = log[place - 1]["mtime_ms"] if place else None
            if row["append_time_batches"] < row["batches"]:
                skews.append(row["max_ms"] - row["mtime_ms"])
                if before is not None and before > row["max_ms"]:
                    skews.append(before - row["max_ms"])
        oldest = row["first_batch_max_ms"] if row["first_batch_max_ms"] is not None else row["max_ms"]
        if not place and oldest is not None:
            ages.append(seen - oldest)
            waited = seen - row["mtime_ms"]
            pause = CHECK_MS + s["file.delete.delay.ms"]
            if row["max_ms"] is None or (
                waited > pause
                if row["max_ms"] + s["retention.ms"] < seen
                else row["mtime_ms"] - row["max_ms"] <= pause
                and waited + row["max_ms"] - oldest > s["retention.ms"] + pause
            ):
                late.append(seen - oldest)
        if open_ms is not None:
            opens.append(open_ms)
        bounds.append(row.get("smallest_ratio_bound"))
        end = row["last_offset"] + 1 if row["last_offset"] is not None else end
        epoch = row["last_epoch"] if row["last_epoch"] is not None else epoch
    found |= paths
    most = {"ahead_ms": ahead, "age_ms": ages, "late_ms": late, "open_ms": opens}
    return (
        found
        | {n: max(v, default=None) for n, v in most.items()}
        | {"skew": max(skews, default=None), "segments": len(log)}
    )


def _cause(row: Row, following: int | None, s: Mapping[str, Any], compacts: bool, is_known: bool) -> str:
    if not is_known:
        return "else"
    if row["size_bytes"] >= segments.SIZE_FULL * s["segment.bytes"]:
        return "size"
    limit = s["segment.index.bytes"]
    if (row["index_entries"] or 0) >= floor(limit / 8) or (row["time_index_entries"] or 0) >= floor(limit / 12) - 1:
        return "index"
    if following is None or row["first_batch_max_ms"] is None:
        return "else"
    roll = s["segment.ms"]
    return "time" if following - row["first_batch_max_ms"] > roll - min(s["segment.jitter.ms"], roll) else "else"


def _summed(members: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = defaultdict(int)
    for member in members:
        for name, value in member.items():
            if name.startswith("path_"):
                continue
            if name in ("ahead_ms", "age_ms", "late_ms", "open_ms"):
                found[name] = max((v for v in (found[name] or None, value) if v is not None), default=None)
            elif name != "skew":
                found[name] += value
    return found


def _topic(key: tuple[str, str], members: list[dict[str, Any]], own: Mapping[str, Any] | None) -> dict[str, Any]:
    s = _settings(own)
    numbers = [{n: v for n, v in m.items() if isinstance(v, int | float) or v is None} for m in members]
    t = _summed([{n: v for n, v in m.items() if n != "partition"} for m in numbers])
    aged = [m for m in members if m["late_ms"] is not None]
    skews = [m["skew"] for m in members if m["skew"] is not None]
    skew = max(skews, default=None)
    expires = own is not None and "retention.ms" in own and "delete" in s["cleanup.policy"] and s["retention.ms"] > 0
    oldest = max(aged, key=lambda m: (m["late_ms"], -m["partition"]), default=None)
    age = oldest["late_ms"] if oldest else None
    busy = t["batches"] >= segments.LEAST_BATCHES
    shares = sum(t[f"{c}_batches"] > segments.MIXED_SHARE * t["batches"] for c in segments.CODECS)
    timed = t["rolled_by_time"]
    return t | {
        "cluster": key[0], "topic": key[1], "partitions": len(members), "future_ms": t["ahead_ms"], "skew_ms": skew,
        "late_age_ms": age, "late_partition": oldest["partition"] if oldest else None,
        "late_is_pinned": bool(oldest and oldest["future_segments"]), "retention_ms": s["retention.ms"],
        "roll_ms": s["segment.ms"], "check_interval_ms": CHECK_MS, "index_bytes": s["segment.index.bytes"],
        "time_full": t["full"] / timed if timed else None,
        "is_aborted": t["records"] >= segments.LEAST_BATCHES
        and t["aborted_records"] > segments.ABORTED_SHARE * t["records"],
        "is_churning": t["full"] < segments.CHURN_FULL * timed and timed >= segments.CHURN_SEGMENTS * t["replicas"],
        "is_overshot": expires and age is not None and age > (1 + segments.OVERSHOOT) * s["retention.ms"] + CHECK_MS,
        "is_tiny": busy and t["tiny_batches"] > segments.TINY_SHARE * t["batches"],
        "is_mixed": busy and shares > 1, "is_skewed": skew is not None and skew > 3_600_000,
    }  # fmt: skip


def bomb_findings(rows: Sequence[Row], configs: Configs, memory: int, limits: str) -> list[AuditFinding]:
    """All batches of a topic are handed to the sentences, which drop those that are read."""
    topics: dict[Any, dict[Any, Row]] = defaultdict(dict)
    for row in rows:
        topics[row["cluster"], row["topic"]][row["partition"], row["base_offset"]] = row
    found: list[AuditFinding] = []
    for key, batches in topics.items():
        ordered = sorted(
            batches.values(), key=lambda b: (b["decompressed_bytes"], b["partition"], b["base_offset"]), reverse=True
        )
        lowest = bombs.limits_of(limits)[0]
        kept = [b for b in ordered if b["decompressed_bytes"] > memory or (
            b["codec"] == "zstd" and (b["decompressed_bytes"] > (lowest - 4_000) // 3
                                      or (b["content_size"] or 2 * b["compressed_bytes"]) > lowest))]  # fmt: skip
        ratios = sorted(
            (b["decompressed_bytes"] if not b["is_bound"] or b["decompressed_bytes"] >= bombs.SURE_BYTES
             else max(b["records"] * 7, b["compressed_bytes"])) / b["compressed_bytes"] for b in ordered
        )  # fmt: skip
        at = 0.999 * (len(ratios) - 1)
        ratio = ratios[floor(at)] + (at - floor(at)) * (ratios[ceil(at)] - ratios[floor(at)])
        own = configs.get(key)
        row = {
            "cluster": key[0], "topic": key[1], "batches": kept, "ratio": ratio, "memory_bytes": memory,
            "limits": limits,
            "large_batches": sum(b["decompressed_bytes"] > memory for b in kept),
            "max_message_bytes": _settings(own)["max.message.bytes"],
        }  # fmt: skip
        found += bombs.bomb_findings(row)
    return found
