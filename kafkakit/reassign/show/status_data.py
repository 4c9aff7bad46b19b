"""The status for programs: JSON data, and one row a new copy."""

from kafkakit.execution.decide.status.runs import RunView, eta_of
from kafkakit.execution.decide.status.state import CopyState, CopyView, InsideView, MoveView, StatusView, list_sizes
from kafkakit.report.blocks import attributes

COPY_COLUMNS = (
    "topic", "partition", "broker", "state", "copied_bytes", "total_bytes", "bytes_per_s", "eta_s", "run", "reason",
)  # fmt: skip


def status_data(view: StatusView) -> dict[str, object]:
    """The status as JSON data; rates are in bytes/s over `window_seconds`, times in seconds from `at`."""
    return {
        "cluster_id": view.cluster_id,
        "at": view.at,
        "window_seconds": round(view.window_s, 3),
        "copied_bytes": view.copied_bytes,
        "total_bytes": view.total_bytes,
        "bytes_per_s": _rounded(view.bytes_per_s),
        "moves": [move_data(m) for m in view.moves],
        "inside_brokers": [_inside_data(i) for i in view.inside],
        "runs": [_run_data(r) for r in view.runs],
        "slowest": _slowest_data(view),
        "stalled": [_stall_data(m, c) for m, c in view.stalled],
        "partitions": _health_data(view),
        "broker_rates": {b: dict(r) for b, r in view.throttled.brokers.items()},
        "topic_lists": {t: dict(c) for t, c in list_sizes(view.throttled).items()},
        "lease": _lease_data(view),
        "unfinished": [r.name for r in view.runs],
        "damaged_journals": list(view.damaged),
    }


def move_data(item: MoveView) -> dict[str, object]:
    """One move; `waits_for` are destinations that are not alive or do not answer."""
    move = item.move
    return {
        "topic": move.topic,
        "partition": move.partition,
        "run": item.run or None,
        "ours": bool(item.run),
        **attributes(move, "target replicas adding removing"),
        **attributes(item, "leader copied_bytes total_bytes"),
        "bytes_per_s": _rounded(item.bytes_per_s),
        "eta_seconds": _rounded(eta_of(item.missing_bytes, item.bytes_per_s)),
        "stalled": item.stalled,
        "waits_for": [c.broker for c in item.copies if c.stall and c.stall.cause.value.endswith("destination")],
        "copies": [
            {
                **attributes(c, "broker state copied_bytes total_bytes"),
                "bytes_per_s": _rounded(c.bytes_per_s),
                "reason": c.stall.cause.value if c.stall else None,
            }
            for c in item.copies
        ],
    }


def status_rows(view: StatusView) -> tuple[tuple[object, ...], ...]:
    """One row a new copy, in `COPY_COLUMNS`; a move that adds none has one row without a broker."""
    return tuple(row for item in view.moves for row in _rows_of(item))


def _rows_of(item: MoveView) -> list[tuple[object, ...]]:
    head, run = (item.move.topic, item.move.partition), item.run
    if not item.copies:
        return [(*head, None, CopyState.IN_SYNC.value, None, None, None, None, run, None)]
    return [
        (
            *head,
            c.broker,
            c.state.value,
            c.copied_bytes,
            c.total_bytes,
            _rounded(c.bytes_per_s),
            _rounded(eta_of(c.missing_bytes, c.bytes_per_s)),
            run,
            c.stall.cause.value if c.stall else None,
        )
        for c in item.copies
    ]


def _inside_data(item: InsideView) -> dict[str, object]:
    return {
        **attributes(item.replica, "topic partition broker"),
        "source_dir": item.source_dir or None,
        **attributes(item, "target_dir copied_bytes total_bytes offset_lag"),
        "run": item.run or None,
        "bytes_per_s": _rounded(item.bytes_per_s),
    }


def _run_data(run: RunView) -> dict[str, object]:
    promise = run.promise
    return {
        "id": run.id,
        "plan": run.plan_path,
        **attributes(run, "direction journal doing working paused moves left_bytes"),
        "bytes_per_s": _rounded(run.bytes_per_s),
        "eta_seconds": _rounded(run.eta_s),
        "promised_eta_seconds": _rounded(run.promised_s),
        "promised_seconds": None if promise is None else promise.promised_s,
        "promised_at": None if promise is None else promise.made_at,
    }


def _stall_data(item: MoveView, copy: CopyView) -> dict[str, object]:
    stall = copy.stall
    return {
        "topic": item.move.topic,
        "partition": item.move.partition,
        "broker": copy.broker,
        "reason": stall.cause.value if stall else None,
        "words": stall.words if stall else None,
        "advice": stall.advice if stall else None,
    }


def _slowest_data(view: StatusView) -> dict[str, object] | None:
    if view.slowest is None:
        return None
    item, copy = view.slowest
    return {
        "topic": item.move.topic,
        "partition": item.move.partition,
        "broker": copy.broker,
        "missing_bytes": copy.missing_bytes,
        "eta_seconds": _rounded(eta_of(copy.missing_bytes, copy.bytes_per_s)),
    }


def _health_data(view: StatusView) -> dict[str, object] | None:
    health = view.health
    if health is None:
        return None
    return {
        "counted_at": health.at,
        "total": health.partitions,
        **attributes(health, "under_replicated under_min_isr offline"),
    }


def _lease_data(view: StatusView) -> dict[str, object] | None:
    lease = view.lease
    if lease is None:
        return None
    record = lease.record
    holder = None if record is None else record.holder
    return {
        "held": lease.is_held,
        "holder": None if holder is None else str(holder),
        **({} if record is None else attributes(record, "token taken_at renewed_at")),
        "host_lock": lease.locked_by or None,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
