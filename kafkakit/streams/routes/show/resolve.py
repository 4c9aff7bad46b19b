"""Addresses and topics of a stream for clients that do not follow routes, as Java properties or data."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafkakit.core.printable import printable
from kafkakit.report.blocks import text_of
from kafkakit.report.report import Report
from kafkakit.streams.model.route import Lane, Route

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
