"""Reports on routes: the streams of a store, one stream with what is behind it, its lanes and its history."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from kafkakit.core.errors import ExitCode
from kafkakit.core.quantities import counted
from kafkakit.core.tables import plain_value, text_table
from kafkakit.report.blocks import attributes, records, section, text_of
from kafkakit.report.report import Report
from kafkakit.streams.model.route import Lane, Route
from kafkakit.streams.routes.decide.history import KeptChange
from kafkakit.streams.routes.decide.observed import RouteFacts

LIST_COLUMNS = ("stream", "epoch", "lanes", "segments", "clusters", "problem")
SHOW_COLUMNS = ("lane", "segment", "state", "cluster", "topic", "partitions", "records", "problem")
LANE_COLUMNS = ("lane", "state", "weight", "segments", "writes to", "partitions", "quota_bytes_per_s")
READER_COLUMNS = ("topic", "group", "state", "members", "unread")
HISTORY_COLUMNS = ("epoch", "time", "by", "what", "in effect")
SHOWN_CHANGES = 50


def list_report(found: Mapping[str, Route | str]) -> Report:
    """The streams of a store; a text stands for a route that cannot be read, and makes the command exit with 1."""
    rows = tuple(_list_row(name, route) for name, route in found.items())
    return Report(
        command="streams list",
        data={"streams": records(LIST_COLUMNS, rows)},
        text=text_table(LIST_COLUMNS, rows) if rows else "there are no streams; kafkakit streams create makes one",
        columns=LIST_COLUMNS,
        rows=rows,
        code=ExitCode.FAILED if any(isinstance(route, str) for route in found.values()) else ExitCode.DONE,
    )


def show_report(route: Route, facts: RouteFacts) -> Report:
    """A stream with the state of its topics and its readers; a topic that is not as the route says makes it exit 1."""
    rows = tuple(
        (
            lane.name,
            segment.id,
            segment.state,
            segment.cluster,
            segment.topic,
            segment.partitions,
            facts.segments[segment.id].records,
            facts.segments[segment.id].problem,
        )
        for lane, segment in route.segments()
    )
    topics = {segment.id: segment.topic for _, segment in route.segments()}
    readers = [(topics[r.segment], r.group, r.state, r.members, r.unread) for r in facts.readers]
    lines = [f"stream {route.stream}, epoch {route.epoch}", "", *text_table(SHOW_COLUMNS, rows).splitlines()]
    if route.operation is not None:
        lines.insert(1, f"{route.operation.kind} {route.operation.id} is open, step {route.operation.step}")
    lines += section("Lanes:", text_table(LANE_COLUMNS, map(_lane_row, route.lanes)).splitlines())
    if route.rules:
        lines += section("Rules:", (f"to {rule.lane}: where {rule.where}" for rule in route.rules))
    if route.groups:
        lines += section("Groups that must read:", (f"{g.name} (seen epoch {g.ack_epoch})" for g in route.groups))
    lines += section(
        "Readers:", text_table(READER_COLUMNS, readers).splitlines() if readers else ["no group reads the stream"]
    )
    return Report(
        command="streams show",
        data={"route": plain_value(route), "segments": records(SHOW_COLUMNS, rows), "readers": facts.readers},
        text=text_of(lines),
        columns=SHOW_COLUMNS,
        rows=rows,
        warnings=tuple(f"the groups are not known: {reason}" for reason in facts.unknown),
        code=ExitCode.FAILED if any(row[-1] for row in rows) else ExitCode.DONE,
    )


def lanes_report(route: Route) -> Report:
    """The lanes of a stream."""
    rows = tuple(map(_lane_row, route.lanes))
    return Report(
        command="streams lane list",
        data={"stream": route.stream, "epoch": route.epoch, "lanes": records(LANE_COLUMNS, rows)},
        text=text_table(LANE_COLUMNS, rows),
        columns=LANE_COLUMNS,
        rows=rows,
    )


def history_report(stream: str, kept: Sequence[KeptChange]) -> Report:
    """The changes of a stream, newest last."""
    rows = tuple(
        (each.change.route.epoch, _time(each.change.at_ms), each.change.by, each.change.what, each.in_effect)
        for each in kept
    )
    shown = rows[-SHOWN_CHANGES:]
    lines = [text_table(HISTORY_COLUMNS, shown)]
    if len(rows) > len(shown):
        lines.insert(0, f"the last {len(shown)} of {counted(len(rows), 'change')} (all of them with -o tsv)")
    if not all(each.in_effect for each in kept):
        lines.append("a change that is not in effect was cut before the route was written, or is being made now")
    return Report(
        command="streams history",
        data={"stream": stream, "changes": [_change_data(each) for each in kept]},
        text=text_of(lines),
        columns=HISTORY_COLUMNS,
        rows=rows,
    )


def changed_report(command: str, stream: str, route: Route | None, before: Route | None, said: str) -> Report:
    """What a change made of a route, and in words; `route` None: nothing was done."""
    is_changed, left = route is not None and route != before, route or before
    epoch = None if left is None else left.epoch
    result = "done" if is_changed else "nothing to do" if route is not None else "nothing is done"
    return Report(
        command=command,
        data={"stream": stream, "changed": is_changed, "epoch": epoch, "route": plain_value(left)},
        text=f"{result}: {said}\nstream {stream}, {'no epoch yet' if epoch is None else f'epoch {epoch}'}\n",
        columns=("stream", "epoch", "changed"),
        rows=((stream, epoch, is_changed),),
    )


def _list_row(name: str, route: Route | str) -> tuple[object, ...]:
    if isinstance(route, str):
        return name, None, (), None, (), route
    lanes = tuple(lane.name for lane in route.lanes)
    return name, route.epoch, lanes, sum(1 for _ in route.segments()), tuple(sorted(route.clusters.values())), ""


def _lane_row(lane: Lane) -> tuple[object, ...]:
    active = lane.active
    state = "paused" if lane.is_paused else "open"
    topic, partitions = (active.topic, active.partitions) if active else (None, None)
    return lane.name, state, lane.weight, len(lane.segments), topic, partitions, lane.quota_bytes_per_s


def _change_data(each: KeptChange) -> dict[str, object]:
    change = each.change
    return {
        "epoch": change.route.epoch,
        **attributes(change, "from_epoch at_ms by what is_deletion"),
        "in_effect": each.in_effect,
        "route": plain_value(change.route),
    }


def _time(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return str(at_ms)
