"""The status of moves: for people (a report, one line, a table replaced in place), for programs, and as metrics.

JSON data has all; rows are one a new copy, and `list` prints running moves, one line each. Metrics are Prometheus
text exposition, for node_exporter's textfile collector. The number of series does not grow with the cluster: copies
beyond the `TOP` that miss most are summed, and runs are those of this host that are not finished.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from kafkakit.core.lease import HeldLease
from kafkakit.core.quantities import count_of, format_bytes, format_rate, format_rough_time
from kafkakit.core.text import shell_command
from kafkakit.execution.decide.plan_state import ids
from kafkakit.execution.decide.status import (
    CopyState,
    CopyView,
    InsideView,
    MoveView,
    RunView,
    StatusView,
    eta_of,
    list_sizes,
)
from kafkakit.execution.decide.status_looks import Cause, HealthCounts
from kafkakit.report.exports import MetricFamily, exposition, gauge, single_gauge
from kafkakit.report.report import Part, RawDocument, Remarks, Report, ResultTable, attributes

SHOWN = 30
SHOWN_STALLS = 5


def status_report(view: StatusView, *, as_metrics: bool) -> Report:
    """One look at what moves; `as_metrics` gives the text in the format of Prometheus."""
    return Report(
        command="reassign status",
        data=status_data(view),
        sections=(RawDocument(render_metrics(view)),) if as_metrics else status_sections(view),
        table=ResultTable(COPY_COLUMNS, status_rows(view)),
    )


def status_sections(view: StatusView) -> Iterator[Part]:
    """The whole status; at most `SHOWN` moves, stalled ones first."""
    yield from _head_lines(view)
    ordered = sorted(view.moves, key=lambda m: (not m.stalled, m.move.topic, m.move.partition))
    for item in ordered[:SHOWN]:
        yield from _move_lines(item, several_runs=bool(view.runs))
    if len(ordered) > SHOWN:
        yield f"  and {len(ordered) - SHOWN} more: {shell_command('reassign list', program=view.around.program)}"
    yield from _inside_lines(view.inside, SHOWN)
    if view.slowest is not None:
        yield f"slowest: {_slowest_text(*view.slowest)}"
    yield from _throttle_lines(view)
    yield from _last_lines(view)
    yield Remarks("journal that cannot be read", view.around.damaged)


def screen_sections(view: StatusView) -> Iterator[Part]:
    """The status as a table to be replaced in place; one row a new copy, stalled ones first."""
    yield from _head_lines(view)
    rows = [_row(m, c) for m in view.moves for c in m.copies]
    rows.sort(key=lambda row: row[-1] != CopyState.STALLED.words)
    columns = ("partition", "to", "copied", "of", "%", "rate", "left", "state")
    yield ResultTable(columns, rows, empty="", most=SHOWN, rest="and {} more")
    yield from (f"{_key(m)} on broker {c.broker} is stalled: {_stall_text(c)}" for m, c in view.stalled[:SHOWN_STALLS])
    yield from _inside_lines(view.inside, SHOWN_STALLS)
    yield from _last_lines(view)


def _head_lines(view: StatusView) -> Iterator[str]:
    yield _head(view)
    for run in view.runs:
        yield from _run_lines(run)


def _last_lines(view: StatusView) -> Iterator[str]:
    if view.around.health is not None:
        yield _health_line(view.around.health, view)
    if view.around.lease is not None:
        yield _lease_line(view.around.lease)


def _row(item: MoveView, copy: CopyView) -> tuple[object, ...]:
    eta = eta_of(copy.missing_bytes, copy.bytes_per_s)
    total, copied = copy.total_bytes, copy.copied_bytes
    return (
        _key(item),
        copy.broker,
        format_bytes(copied),
        format_bytes(total),
        None if total is None or copied is None else 100 if total == 0 else 100 * copied // total,
        None if copy.bytes_per_s is None else format_rate(copy.bytes_per_s),
        None if eta is None else format_rough_time(eta),
        copy.state.words,
    )


def status_line(view: StatusView) -> str:
    """One look in one line."""
    words = [count_of(len(view.moves), "move")]
    if view.moves:
        words.append(_copied_words(view))
        words.append(_rate(view.bytes_per_s))
    words += [_eta_words(run) for run in view.runs if run.promise is not None]
    if view.inside:
        words.append(f"{count_of(len(view.inside), 'copy', 'copies')} between log dirs")
    if view.stalled:
        move, copy = view.stalled[0]
        words.append(f"{len(view.stalled)} stalled: {_key(move)} on broker {copy.broker}: {_stall_text(copy)}")
    if view.around.health is not None and view.around.health.under_replicated:
        words.append(f"{view.around.health.under_replicated} under-replicated")
    return f"{view.at:%H:%M:%SZ} " + ", ".join(words)


def _head(view: StatusView) -> str:
    line = f"cluster {view.cluster_id}: {count_of(len(view.moves), 'move')} running"
    unknown = sum(m.total_bytes is None for m in view.moves)
    if unknown < len(view.moves):
        line += f", {_copied_words(view)} copied"
        if view.bytes_per_s is not None:
            line += f", {_rate(view.bytes_per_s)} over {format_rough_time(view.window_s)}"
            left = sum(m.missing_bytes or 0 for m in view.moves)
            eta = eta_of(left, view.bytes_per_s)
            line += f", {format_rough_time(eta)} left for these" if eta is not None else ""
    return line + (f", size of {unknown} unknown" if unknown else "")


def _copied_words(view: StatusView) -> str:
    """Bytes copied and in all, with those of moves that ended since the first look."""
    ended = view.around.ended_bytes
    return f"{format_bytes(view.copied_bytes + ended)} of {format_bytes(view.total_bytes + ended)}"


def _run_lines(run: RunView) -> list[str]:
    lines = [f"run {run.id}: {run.name}: {count_of(run.moves, 'move')} in flight; {run.doing}"]
    if run.close:
        lines.append(f"  if it is not to be finished, close it: {run.close}")
    if run.left_bytes is not None:
        whole = "" if run.total_bytes is None else f" of {format_bytes(run.total_bytes)}"
        lines.append(f"  {format_bytes(run.left_bytes)}{whole} still to copy; {_eta_words(run)}")
    elif run.promise is not None:
        lines.append(f"  {_eta_words(run)}; its plan file is missing, so what is left is unknown")
    return lines


def _eta_words(run: RunView) -> str:
    if run.eta_s is not None:
        now = f"{format_rough_time(run.eta_s)} left"
    else:
        now = "ETA not known yet" if run.bytes_per_s is None else "no ETA while nothing is copied"
    if run.promised_s is None or run.promise is None:
        return now
    if run.promise.least_s is not None and run.promise.most_s is not None:  # too thin a basis for one time
        since_s = run.promise.promised_s - run.promised_s
        least_s, most_s = run.promise.least_s - since_s, run.promise.most_s - since_s
        if most_s >= 0:
            span = f"{format_rough_time(max(0.0, least_s))} to {format_rough_time(most_s)}"
            return f"{now} (the first forecast said {span} from here)"
        return f"{now}, should have ended {format_rough_time(-most_s)} ago"
    if run.promised_s < 0:
        return f"{now}, should have ended {format_rough_time(-run.promised_s)} ago"
    return f"{now} (the first forecast said {format_rough_time(run.promised_s)} from here)"


def _move_lines(item: MoveView, *, several_runs: bool) -> list[str]:
    move = item.move
    owner = f" ({item.run})" if item.run else " (not of a run on this host)" if several_runs else ""
    line = (
        f"  {_key(item)}: to {ids(move.target)}, adding {ids(move.adding)}, "
        f"{format_bytes(item.copied_bytes)} of {format_bytes(item.total_bytes)}"
    )
    if item.bytes_per_s is not None:
        line += f", {_rate(item.bytes_per_s)}"
        eta = eta_of(item.missing_bytes, item.bytes_per_s)
        line += f", {format_rough_time(eta)} left" if eta is not None else ""
    lines = [line + owner]
    lines += [f"    broker {c.broker} is stalled: {_stall_text(c)}" for c in item.copies if c.stall is not None]
    if len(item.copies) > 1:
        waits = [c for c in item.copies if c.state is not CopyState.STALLED]
        lines += [
            f"    broker {c.broker}: {c.state.words}, {format_bytes(c.copied_bytes)}"
            + (f", {_rate(c.bytes_per_s)}" if c.state is CopyState.COPIES and c.bytes_per_s is not None else "")
            for c in waits
        ]
    return lines


def _inside_lines(inside: tuple[InsideView, ...], shown: int) -> list[str]:
    lines = []
    if inside:
        lines.append(f"between log dirs: {count_of(len(inside), 'copy', 'copies')}")
    for item in inside[:shown]:
        rate = f", {_rate(item.bytes_per_s)}" if item.bytes_per_s is not None else ""
        lines.append(
            f"  {item.replica.topic}-{item.replica.partition} on broker {item.replica.broker}: to {item.target_dir}, "
            f"{format_bytes(item.copied_bytes)} of {format_bytes(item.total_bytes)}{rate}, "
            f"{count_of(item.offset_lag, 'record')} behind" + (f" ({item.run})" if item.run else "")
        )
    if len(inside) > shown:
        lines.append(f"  and {len(inside) - shown} more")
    return lines


def _throttle_lines(view: StatusView) -> list[str]:
    rates, lists = view.around.throttled.brokers, list_sizes(view.around.throttled)
    lines = ["throttles:" if rates or lists else "throttles: none set"]
    for broker, values in sorted(rates.items(), key=lambda pair: int(pair[0])):
        lines.append(f"  broker {broker}: " + ", ".join(f"{k} {_value_text(v)}" for k, v in sorted(values.items())))
    for topic, counts in sorted(lists.items()):
        lines.append(f"  topic {topic}: " + ", ".join(_list_words(topic, k, n, view) for k, n in counts.items()))
    if view.idle_throttles:
        every = shell_command("reassign cleanup", program=view.around.program, all=True)
        lines.append(
            f"  leftover throttle on {view.idle_throttles}, but nothing is moving there; show and remove it: {every}"
        )
    return lines


def _list_words(topic: str, key: str, count: int, view: StatusView) -> str:
    value = view.around.throttled.topics[topic][key]
    return f"{key} " + ("*" if value.strip() == "*" else f"({count_of(count, 'entry', 'entries')})")


def _health_line(health: HealthCounts, view: StatusView) -> str:
    bad: Mapping[str, int] = {
        "under-replicated": health.under_replicated,
        "under min ISR": health.under_min_isr,
        "offline": health.offline,
    }
    age = (view.at - health.at).total_seconds()
    when = f" ({format_rough_time(age)} ago)" if age >= 1 else ""
    return f"partitions{when}: {health.partitions}, " + ", ".join(f"{n} {word}" for word, n in bad.items())


def _lease_line(lease: HeldLease) -> str:
    record = lease.record
    if not lease.is_held and lease.locked_by:
        return (
            f"lock: not held in this control store, but a process of this host changes the cluster: {lease.locked_by}"
        )
    if record is None or record.holder is None:
        return "lock: free"
    if not lease.is_held:
        return f"lock: free; {record.holder} had it and ended without giving it back"
    return f"lock: {record}"


def _slowest_text(move: MoveView, copy: CopyView) -> str:
    words = f"{_key(move)} on broker {copy.broker}, {format_bytes(copy.missing_bytes)} behind"
    eta = eta_of(copy.missing_bytes, copy.bytes_per_s)
    return words + (f", {format_rough_time(eta)} left" if eta is not None else "")


def _stall_text(copy: CopyView) -> str:
    return "" if copy.stall is None else str(copy.stall)


def _key(item: MoveView) -> str:
    return f"{item.move.topic}-{item.move.partition}"


def _rate(bytes_per_s: float | None) -> str:
    return "rate unknown" if bytes_per_s is None else format_rate(bytes_per_s)


def _value_text(value: str) -> str:
    return format_rate(int(value)) if value.isdigit() else value


COPY_COLUMNS = (
    "topic", "partition", "broker", "state", "copied_bytes", "total_bytes", "bytes_per_s", "eta_s", "run", "reason",
)  # fmt: skip


def status_data(view: StatusView) -> dict[str, object]:
    """The status as JSON data; rates are in bytes/s over `window_seconds`, times in seconds from `at`."""
    return {
        **attributes(view, "cluster_id at"),
        "window_seconds": round(view.window_s, 3),
        **attributes(view, "copied_bytes total_bytes"),
        "ended_bytes": view.around.ended_bytes,
        "bytes_per_s": _round_value(view.bytes_per_s),
        "moves": [move_data(m) for m in view.moves],
        "inside_brokers": [_inside_data(i) for i in view.inside],
        "runs": [_run_data(r) for r in view.runs],
        "slowest": _slowest_data(view),
        "stalled": [_stall_data(m, c) for m, c in view.stalled],
        "partitions": _health_data(view),
        "broker_rates": {b: dict(r) for b, r in view.around.throttled.brokers.items()},
        "topic_lists": {t: dict(c) for t, c in list_sizes(view.around.throttled).items()},
        "lease": _lease_data(view),
        "unfinished": [r.name for r in view.runs],
        "damaged_journals": list(view.around.damaged),
    }


def move_data(item: MoveView) -> dict[str, object]:
    """One move; `waits_for` are destinations that are not alive or do not answer."""
    move = item.move
    return {
        **attributes(move, "topic partition"),
        "run": item.run or None,
        "ours": bool(item.run),
        **attributes(move, "target replicas adding removing"),
        **attributes(item, "leader copied_bytes total_bytes"),
        "bytes_per_s": _round_value(item.bytes_per_s),
        "eta_seconds": _round_value(eta_of(item.missing_bytes, item.bytes_per_s)),
        "stalled": item.stalled,
        "waits_for": [c.broker for c in item.copies if c.stall and c.stall.cause.value.endswith("destination")],
        "copies": [
            {
                **attributes(c, "broker state copied_bytes total_bytes"),
                "bytes_per_s": _round_value(c.bytes_per_s),
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
            _round_value(c.bytes_per_s),
            _round_value(eta_of(c.missing_bytes, c.bytes_per_s)),
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
        "bytes_per_s": _round_value(item.bytes_per_s),
    }


def _run_data(run: RunView) -> dict[str, object]:
    promise = run.promise
    return {
        "id": run.id,
        "plan": run.plan_path,
        **attributes(run, "direction journal doing working paused moves left_bytes total_bytes"),
        "bytes_per_s": _round_value(run.bytes_per_s),
        "eta_seconds": _round_value(run.eta_s),
        "promised_eta_seconds": _round_value(run.promised_s),
        "promised_seconds": None if promise is None else promise.promised_s,
        "promised_at": None if promise is None else promise.made_at,
    }


def _stall_data(item: MoveView, copy: CopyView) -> dict[str, object]:
    stall = copy.stall
    return {
        **attributes(item.move, "topic partition"),
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
        **attributes(item.move, "topic partition"),
        **attributes(copy, "broker missing_bytes"),
        "eta_seconds": _round_value(eta_of(copy.missing_bytes, copy.bytes_per_s)),
    }


def _health_data(view: StatusView) -> dict[str, object] | None:
    health = view.around.health
    if health is None:
        return None
    return {
        "counted_at": health.at,
        "total": health.partitions,
        **attributes(health, "under_replicated under_min_isr offline"),
    }


def _lease_data(view: StatusView) -> dict[str, object] | None:
    lease = view.around.lease
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


def _round_value(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


PREFIX = "kafkakit_reassign_"
TOP = 20
MAX_RUNS = 20


def render_metrics(view: StatusView) -> str:
    """All families, in a fixed order."""
    families = [*_move_families(view), *_copy_families(view), *_run_families(view), *_cluster_families(view)]
    return exposition(families, PREFIX, (("cluster", view.cluster_id),))


def _move_families(view: StatusView) -> list[MetricFamily]:
    owners = (("ours", [m for m in view.moves if m.run]), ("foreign", [m for m in view.moves if not m.run]))

    def each(name: str, about: str, value: Callable[[MoveView], float]) -> MetricFamily:
        return gauge(name, about, *(((("owner", owner),), sum(map(value, moves))) for owner, moves in owners))

    return [
        each("moves", "Running reassignments, of runs on this host and of others.", lambda m: 1),
        each("copied_bytes", "Bytes copied so far by the running reassignments.", lambda m: m.copied_bytes or 0),
        each("total_bytes", "Bytes that the running reassignments copy in all.", lambda m: m.total_bytes or 0),
        each("bytes_per_second", "Rate of copying over the window of the looks.", lambda m: m.bytes_per_s or 0.0),
    ]


def _copy_families(view: StatusView) -> list[MetricFamily]:
    stalls = dict.fromkeys(Cause, 0)
    for _, copy in view.stalled:
        if copy.stall is not None:
            stalls[copy.stall.cause] += 1
    behind = [(copy.missing_bytes or 0, item, copy) for item in view.moves for copy in item.copies]
    behind.sort(key=lambda found: (-found[0], found[1].move.topic, found[1].move.partition, found[2].broker))
    top = (
        ((("topic", m.move.topic), ("partition", str(m.move.partition)), ("broker", str(c.broker))), float(missing))
        for missing, m, c in behind[:TOP]
    )
    rest = behind[TOP:]
    return [
        gauge(
            "stalled_copies",
            "Stalled new copies, by the likely reason.",
            *(((("reason", cause.value),), float(n)) for cause, n in stalls.items()),
        ),
        gauge("copy_missing_bytes", f"Bytes still to come, for the {TOP} copies that miss most.", *top),
        single_gauge("other_copies", "New copies without their own series.", len(rest)),
        single_gauge(
            "other_copies_missing_bytes",
            "Bytes still to come for the copies without their own series.",
            sum(missing for missing, _, _ in rest),
        ),
        single_gauge(
            "inside_broker_copies", "Copies on their way to another log dir of their broker.", len(view.inside)
        ),
        single_gauge(
            "inside_broker_offset_lag_max",
            "The most records that such a copy is behind.",
            max((i.offset_lag for i in view.inside), default=0),
        ),
    ]


def _run_families(view: StatusView) -> list[MetricFamily]:
    def each(name: str, about: str, value: Callable[[RunView], float | None]) -> MetricFamily:
        found = (((("plan", r.plan_path), ("direction", r.direction)), value(r)) for r in view.runs[:MAX_RUNS])
        return gauge(name, about, *((labels, float(number)) for labels, number in found if number is not None))

    promised = "Seconds left of the forecast made at the start; negative once it is over."
    return [
        each("run_working", "1 while the run's process holds the lease.", lambda r: r.working),
        each("run_paused", "1 while the run is paused.", lambda r: r.paused),
        each("run_left_bytes", "Bytes that the run still has to copy between brokers.", lambda r: r.left_bytes),
        each("run_eta_seconds", "Seconds until the run is done, at the present rate.", lambda r: r.eta_s),
        each("run_promised_eta_seconds", promised, lambda r: r.promised_s),
    ]


def _cluster_families(view: StatusView) -> list[MetricFamily]:
    health, counts = view.around.health, []
    if health is not None:
        counts = [
            single_gauge("partitions", "Partitions of the cluster.", health.partitions),
            single_gauge(
                "under_replicated_partitions", "Partitions with too few copies in sync.", health.under_replicated
            ),
            single_gauge("under_min_isr_partitions", "Partitions below min.insync.replicas.", health.under_min_isr),
            single_gauge("offline_partitions", "Partitions without a live leader.", health.offline),
            single_gauge(
                "partitions_counted_timestamp_seconds", "When the partitions were counted.", health.at.timestamp()
            ),
        ]
    held = "1 while a process holds the lease to change the cluster."
    seen = "When the cluster was last looked at; alert when it gets old."
    return [
        *counts,
        single_gauge("throttled_brokers", "Brokers with a replication throttle.", len(view.around.throttled.brokers)),
        single_gauge(
            "throttled_topics", "Topics with a list of throttled replicas.", len(view.around.throttled.topics)
        ),
        *([single_gauge("lease_held", held, view.around.lease.is_held)] if view.around.lease is not None else []),
        single_gauge("window_seconds", "The time over which rates were taken.", view.window_s),
        single_gauge("look_timestamp_seconds", seen, view.at.timestamp()),
    ]


COLUMNS = ("topic", "partition", "target", "adding", "removing", "copied_bytes", "total_bytes", "run")


def choose_moves(moves: Iterable[MoveView], *, ours: bool, foreign: bool) -> tuple[MoveView, ...]:
    """The moves of runs on this host (`ours`), or the others (`foreign`); all when neither or both are wanted."""
    return tuple(m for m in moves if ours == foreign or bool(m.run) == ours)


def list_report(cluster_id: str, moves: tuple[MoveView, ...], damaged: Iterable[str]) -> Report:
    """The moves; `damaged` says of journals why they cannot be read."""
    return Report(
        command="reassign list",
        data={"cluster_id": cluster_id, "moves": [move_data(m) for m in moves]},
        sections=(move_table(moves),),
        table=ResultTable(COLUMNS, list_rows(moves)),
        warnings=tuple(f"a journal cannot be read, its moves count as foreign: {problem}" for problem in damaged),
    )


def list_rows(moves: Iterable[MoveView]) -> tuple[tuple[object, ...], ...]:
    """One row a move, in `COLUMNS`."""
    found = ((m.move, m) for m in moves)
    return tuple(
        (r.topic, r.partition, r.target, r.adding, r.removing, m.copied_bytes, m.total_bytes, m.run) for r, m in found
    )


def move_table(moves: tuple[MoveView, ...]) -> ResultTable:
    """A table for people; nothing where nothing moves."""
    rows = [
        (*row[:5], format_bytes(m.copied_bytes), format_bytes(m.total_bytes), m.run or "foreign")
        for m, row in zip(moves, list_rows(moves), strict=True)
    ]
    return ResultTable(("topic", "partition", "target", "adding", "removing", "copied", "of", "run"), rows, empty="")
