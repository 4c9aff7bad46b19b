"""Reports on the topics of streams: those that a command creates, and those that it deletes."""

from collections.abc import Sequence

from kafkakit.core.quantities import counted
from kafkakit.core.tables import plain_value, text_table
from kafkakit.report.blocks import records, text_of
from kafkakit.report.report import Report
from kafkakit.streams.model.route import Route, Segment
from kafkakit.streams.routes.decide.new_topics import PlannedTopic

COLUMNS = ("lane", "topic", "partitions", "replication", "quota_bytes_per_s", "configs", "action")
DELETED_COLUMNS = ("topic", "cluster", "result")


def plan_lines(planned: Sequence[PlannedTopic], leftovers: Sequence[str] = ()) -> list[str]:
    """The topics that are created or adopted, as lines."""
    lines = text_table(COLUMNS, map(_row, planned)).splitlines()
    if leftovers:
        lines.append(f"not part of the stream, maybe left by an earlier run: {', '.join(leftovers)}")
    return lines


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
