"""The status for people: a report, one line, a table that is replaced in place."""

from collections.abc import Mapping

from kafkakit.core.quantities import counted, format_bytes, format_rate, format_rough_time
from kafkakit.core.tables import text_table
from kafkakit.execution.decide.precheck import ids
from kafkakit.execution.decide.status.looks import Health, HeldLease
from kafkakit.execution.decide.status.runs import RunView, eta_of
from kafkakit.execution.decide.status.state import CopyState, CopyView, InsideView, MoveView, StatusView, list_sizes
from kafkakit.execution.decide.throttle import FOLLOWER_RATE, INSIDE_RATE, LEADER_RATE
from kafkakit.reassign.show.status_data import COPY_COLUMNS, status_data, status_rows
from kafkakit.reassign.show.status_metrics import render_metrics
from kafkakit.report.report import Report

SHOWN = 30
SHOWN_STALLS = 5
_SIDES = {LEADER_RATE: "sending", FOLLOWER_RATE: "receiving", INSIDE_RATE: "between log dirs"}


def status_report(view: StatusView, *, as_metrics: bool) -> Report:
    """One look at what moves; `as_metrics` gives the text in the format of Prometheus."""
    return Report(
        command="reassign status",
        data=status_data(view),
        text=render_metrics(view) if as_metrics else render_status(view),
        columns=COPY_COLUMNS,
        rows=status_rows(view),
        is_document=as_metrics,
    )


def render_status(view: StatusView) -> str:
    """The whole status; at most `SHOWN` moves, stalled ones first."""
    lines = [_head(view)]
    for run in view.runs:
        lines += _run_lines(run)
    ordered = sorted(view.moves, key=lambda m: (not m.stalled, m.move.topic, m.move.partition))
    for item in ordered[:SHOWN]:
        lines += _move_lines(item, several_runs=bool(view.runs))
    if len(ordered) > SHOWN:
        lines.append(f"  and {len(ordered) - SHOWN} more: {view.program} reassign list")
    lines += _inside_lines(view.inside, SHOWN)
    if view.slowest is not None:
        lines.append(f"slowest: {_slowest(*view.slowest)}")
    lines += _throttle_lines(view)
    if view.health is not None:
        lines.append(_health_line(view.health, view))
    if view.lease is not None:
        lines.append(_lease_line(view.lease))
    lines += [f"journal that cannot be read: {d}" for d in view.damaged]
    return "\n".join(lines) + "\n"


def render_screen(view: StatusView) -> str:
    """The status as a table to be replaced in place; one row a new copy, stalled ones first."""
    lines = [_head(view)]
    for run in view.runs:
        lines += _run_lines(run)
    rows = [_row(m, c) for m in view.moves for c in m.copies]
    rows.sort(key=lambda row: row[-1] != CopyState.STALLED.value)
    if rows:
        lines.append(text_table(("partition", "to", "copied", "of", "%", "rate", "left", "state"), rows[:SHOWN]))
    if len(rows) > SHOWN:
        lines.append(f"and {len(rows) - SHOWN} more")
    lines += [f"{_key(m)} on broker {c.broker} is stalled: {_why(c)}" for m, c in view.stalled[:SHOWN_STALLS]]
    lines += _inside_lines(view.inside, SHOWN_STALLS)
    if view.health is not None:
        lines.append(_health_line(view.health, view))
    if view.lease is not None:
        lines.append(_lease_line(view.lease))
    return "\n".join(lines) + "\n"


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
        copy.state.value,
    )


def status_line(view: StatusView) -> str:
    """One look in one line."""
    words = [counted(len(view.moves), "move")]
    if view.moves:
        words.append(f"{format_bytes(view.copied_bytes)} of {format_bytes(view.total_bytes)}")
        words.append(_rate(view.bytes_per_s))
    words += [_eta_words(run) for run in view.runs if run.promise is not None]
    if view.inside:
        words.append(f"{counted(len(view.inside), 'copy', 'copies')} between log dirs")
    if view.stalled:
        move, copy = view.stalled[0]
        words.append(f"{len(view.stalled)} stalled: {_key(move)} on broker {copy.broker}: {_why(copy)}")
    if view.health is not None and view.health.under_replicated:
        words.append(f"{view.health.under_replicated} under-replicated")
    return f"{view.at:%H:%M:%SZ} " + ", ".join(words)


def _head(view: StatusView) -> str:
    line = f"cluster {view.cluster_id}: {counted(len(view.moves), 'move')} running"
    unknown = sum(m.total_bytes is None for m in view.moves)
    if unknown < len(view.moves):
        line += f", {format_bytes(view.copied_bytes)} of {format_bytes(view.total_bytes)} copied"
        if view.bytes_per_s is not None:
            line += f", {_rate(view.bytes_per_s)} over {format_rough_time(view.window_s)}"
            left = sum(m.missing_bytes or 0 for m in view.moves)
            eta = eta_of(left, view.bytes_per_s)
            line += f", {format_rough_time(eta)} left for these" if eta is not None else ""
    return line + (f", size of {unknown} unknown" if unknown else "")


def _run_lines(run: RunView) -> list[str]:
    lines = [f"run {run.id}: {run.name}: {counted(run.moves, 'move')} in flight; {run.doing}"]
    if run.close:
        lines.append(f"  not to be finished: {run.close}")
    if run.left_bytes is not None:
        lines.append(f"  {format_bytes(run.left_bytes)} to copy yet; {_eta_words(run)}")
    elif run.promise is not None:
        lines.append(f"  {_eta_words(run)}; its plan is not there, so what is left is not known")
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
            return f"{now}, {format_rough_time(max(0.0, least_s))} to {format_rough_time(most_s)} forecast at the start"
        return f"{now}, should have ended {format_rough_time(-most_s)} ago"
    if run.promised_s < 0:
        return f"{now}, should have ended {format_rough_time(-run.promised_s)} ago"
    return f"{now}, {format_rough_time(run.promised_s)} promised"


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
    lines += [f"    broker {c.broker} is stalled: {_why(c)}" for c in item.copies if c.stall is not None]
    if len(item.copies) > 1:
        waits = [c for c in item.copies if c.state is not CopyState.STALLED]
        lines += [
            f"    broker {c.broker}: {c.state.value}, {format_bytes(c.copied_bytes)}"
            + (f", {_rate(c.bytes_per_s)}" if c.state is CopyState.COPIES and c.bytes_per_s is not None else "")
            for c in waits
        ]
    return lines


def _inside_lines(inside: tuple[InsideView, ...], shown: int) -> list[str]:
    lines = []
    if inside:
        lines.append(f"between log dirs: {counted(len(inside), 'copy', 'copies')}")
    for item in inside[:shown]:
        rate = f", {_rate(item.bytes_per_s)}" if item.bytes_per_s is not None else ""
        lines.append(
            f"  {item.replica.topic}-{item.replica.partition} on broker {item.replica.broker}: to {item.target_dir}, "
            f"{format_bytes(item.copied_bytes)} of {format_bytes(item.total_bytes)}{rate}, "
            f"{counted(item.offset_lag, 'record')} behind" + (f" ({item.run})" if item.run else "")
        )
    if len(inside) > shown:
        lines.append(f"  and {len(inside) - shown} more")
    return lines


def _throttle_lines(view: StatusView) -> list[str]:
    rates, lists = view.throttled.brokers, list_sizes(view.throttled)
    lines = ["throttles:" if rates or lists else "throttles: none set"]
    for broker, values in sorted(rates.items(), key=lambda pair: int(pair[0])):
        lines.append(f"  broker {broker}: " + ", ".join(f"{_SIDES[k]} {_told(v)}" for k, v in sorted(values.items())))
    for topic, counts in sorted(lists.items()):
        lines.append(f"  topic {topic}: " + ", ".join(_list_words(topic, k, n, view) for k, n in counts.items()))
    if view.idle_throttles:
        lines.append(
            f"  nothing moves under {view.idle_throttles}; remove what is ours: {view.program} reassign cleanup"
        )
    return lines


def _list_words(topic: str, key: str, count: int, view: StatusView) -> str:
    value = view.throttled.topics[topic][key]
    return f"{key.split('.', maxsplit=1)[0]} list " + ("*" if value.strip() == "*" else f"of {count}")


def _health_line(health: Health, view: StatusView) -> str:
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
            f"lease: not held in this control store, but a process of this host changes the cluster: {lease.locked_by}"
        )
    if record is None or record.holder is None:
        return "lease: no process changes the cluster"
    if not lease.is_held:
        return f"lease: no process changes the cluster; {record.holder} had it and ended without giving it back"
    return f"lease: {record}"


def _slowest(move: MoveView, copy: CopyView) -> str:
    words = f"{_key(move)} on broker {copy.broker}, {format_bytes(copy.missing_bytes)} behind"
    eta = eta_of(copy.missing_bytes, copy.bytes_per_s)
    return words + (f", {format_rough_time(eta)} left" if eta is not None else "")


def _why(copy: CopyView) -> str:
    return "" if copy.stall is None else str(copy.stall)


def _key(item: MoveView) -> str:
    return f"{item.move.topic}-{item.move.partition}"


def _rate(bytes_per_s: float | None) -> str:
    return "rate unknown" if bytes_per_s is None else format_rate(bytes_per_s)


def _told(value: str) -> str:
    return format_rate(int(value)) if value.isdigit() else value
