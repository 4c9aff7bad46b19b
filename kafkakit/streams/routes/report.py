"""Reports on routes: all streams of a store, one stream with what is behind it, its lanes, history and topics.

Topics are those that a command creates or deletes. Addresses and topics for clients that do not follow routes are
printed as Java properties or data.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kafkakit.core.errors import ExitCode
from kafkakit.core.quantities import counted
from kafkakit.core.text import plain_value, printable, text_table
from kafkakit.report import Report, attributes, optional_section, records, section, text_of
from kafkakit.streams.model.route import Lane, Route, Segment
from kafkakit.streams.routes.decide import KeptChange, PlannedTopic, RouteFacts

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
        text=text_table(LIST_COLUMNS, rows)
        if rows
        else "there are no streams; to make one: kafkakit streams create NAME",
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
    left = [f"{lane.name}: {each.topic} on {each.cluster}" for lane, each in route.left()]
    lines += optional_section("Kept for references to rejected records, read by no client:", left)
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


COLUMNS = ("lane", "topic", "partitions", "replication", "quota_bytes_per_s", "configs", "action")
DELETED_COLUMNS = ("topic", "cluster", "result")


def plan_lines(planned: Sequence[PlannedTopic], leftovers: Sequence[str] = ()) -> list[str]:
    """The topics that are created or adopted, as lines."""
    lines = text_table(COLUMNS, map(_row, planned)).splitlines()
    lines += [f"note: {note}" for note in _notes(planned)]
    if leftovers:
        lines.append(f"not part of the stream, maybe left by an earlier run: {', '.join(leftovers)}")
    return lines


def _notes(planned: Sequence[PlannedTopic]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for each in planned for note in each.notes))


def created_report(
    command: str,
    stream: str,
    cluster_id: str,
    profile: str,
    planned: Sequence[PlannedTopic],
    leftovers: Sequence[str],
    route: Route | None,
) -> Report:
    """The plan, and the route that came of it; None: nothing was done."""
    rows = tuple(map(_row, planned))
    count = counted(len(planned), "topic")
    said = f"nothing is done: {count} planned" if route is None else f"done: {count}, epoch {route.epoch}"
    return Report(
        command=command,
        data={
            "cluster_id": cluster_id,
            "profile": profile,
            "stream": stream,
            "topics": [
                dict(record, replicas=each.lists) for record, each in zip(records(COLUMNS, rows), planned, strict=True)
            ],
            "leftovers": tuple(leftovers),
            "notes": _notes(planned),
            "route": None if route is None else plain_value(route),
        },
        text=text_of([f"stream {stream} on cluster {cluster_id}", said, "", *plan_lines(planned, leftovers)]),
        columns=COLUMNS,
        rows=rows,
    )


def deleted_report(route: Route, results: Sequence[tuple[Segment, str]], *, is_done: bool) -> Report:
    """What became of a stream's topics; without any the topics stay."""
    rows = tuple((segment.topic, segment.cluster, result) for segment, result in results)
    done = f"deleted: stream {route.stream}; its history stays" if is_done else "nothing is done"
    return Report(
        command="streams delete",
        data={"stream": route.stream, "deleted": is_done, "topics": records(DELETED_COLUMNS, rows)},
        text=text_of([done, "", text_table(DELETED_COLUMNS, rows)]),
        columns=DELETED_COLUMNS,
        rows=rows,
    )


def _row(planned: PlannedTopic) -> tuple[object, ...]:
    configs = tuple(f"{key}={value}" for key, value in planned.shape.configs)
    action = "adopt" if planned.is_there else "create"
    shape = planned.shape
    return shape.lane, planned.topic, shape.partitions, planned.replication, shape.quota_bytes_per_s, configs, action


LOST = (
    "a plain client does not follow changes of the route: restart it with new addresses after each",
    "a plain client has no out-of-order commits, retries, rejection to the dlq lane, lane weights or bomb guard",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedCluster:
    """How clients reach a cluster; `is_checked`: an address answered with the cluster's id just now."""

    name: str
    cluster_id: str
    bootstrap_servers: str
    security_protocol: str
    is_checked: bool


def resolve_report(
    route: Route, lanes: Sequence[Lane], clusters: Sequence[ResolvedCluster], warnings: Sequence[str]
) -> Report:
    """The text is a file of Java properties without credentials; what plain clients lose goes to stderr."""
    rows = tuple(
        (lane.name, segment is lane.active, segment.cluster, segment.topic, segment.partitions)
        for lane in lanes
        for segment in lane.segments
    )
    return Report(
        command="streams resolve",
        data={
            "stream": route.stream,
            "epoch": route.epoch,
            "clusters": {each.name: each for each in clusters},
            "lanes": {lane.name: _lane_data(lane) for lane in lanes},
            "lost": LOST,
        },
        text=text_of(_properties(route, lanes, clusters)),
        columns=("lane", "is_written", "cluster", "topic", "partitions"),
        rows=rows,
        warnings=(*warnings, *LOST),
        is_document=True,
    )


def _lane_data(lane: Lane) -> dict[str, object]:
    active = None if lane.is_paused else lane.active
    return {
        "is_paused": lane.is_paused,
        "write": None if active is None else {"cluster": active.cluster, "topic": active.topic},
        "read": [{"cluster": segment.cluster, "topic": segment.topic} for segment in lane.segments],
    }


def _properties(route: Route, lanes: Sequence[Lane], clusters: Sequence[ResolvedCluster]) -> Iterator[str]:
    yield f"# stream {route.stream}, epoch {route.epoch}"
    if len(clusters) == 1:
        yield _line("bootstrap.servers", clusters[0].bootstrap_servers)
        yield _line("security.protocol", clusters[0].security_protocol)
    for each in clusters:
        start = f"stream.cluster.{each.name}"
        yield _line(f"{start}.id", each.cluster_id)
        yield _line(f"{start}.bootstrap.servers", each.bootstrap_servers)
        yield _line(f"{start}.security.protocol", each.security_protocol)
    yield _line("stream.name", route.stream)
    yield _line("stream.epoch", str(route.epoch))
    yield _line("stream.lanes", ",".join(lane.name for lane in lanes))
    for lane in lanes:
        start = f"stream.lane.{lane.name}"
        active = None if lane.is_paused else lane.active
        if active is not None:
            yield _line(f"{start}.write.cluster", active.cluster)
            yield _line(f"{start}.write.topic", active.topic)
        yield _line(f"{start}.read", ",".join(f"{segment.cluster}/{segment.topic}" for segment in lane.segments))


def _line(key: str, value: str) -> str:
    """A property; a backslash begins an escape in such files, and a key ends at `:`, `=` and a blank."""
    escaped = "".join(f"\\{char}" if char in "\\:= #!" else char for char in key)
    return f"{escaped}={printable(value.replace(chr(92), chr(92) * 2))}"
