"""Topics of streams deleted on live clusters, by id, once no group reads them."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from kafkakit.core.errors import OperationFailedError, RefusedError
from kafkakit.core.quantities import counted
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.streams.model.route import Route, Segment
from kafkakit.streams.routes.act.clusters import ClusterObserver, find_topics
from kafkakit.streams.routes.decide.observed import reading_groups, unread_reasons

OpenAdmin: TypeAlias = Callable[[str], ClusterAdmin]
"""The control side of the cluster of a profile, with the right to change it."""
Results: TypeAlias = tuple[tuple[Segment, str], ...]
"""What becomes of each topic, in words."""
MOST_LINES = 50


def refuse_read(route: Route, observer: ClusterObserver) -> None:
    """Raise `RefusedError` that lists the groups which read a stream, or the clusters whose groups are not known."""
    _refuse(
        f"stream {route.stream} is read",
        reading_groups(route, observer.look(route)),
        "stop the groups and delete their commits (kafkakit streams commits delete), or pass --force",
    )


def refuse_unread(route: Route, lane: str, observer: ClusterObserver) -> None:
    """Raise `RefusedError` where a lane may hold records that a reader of the stream has not read."""
    found = route.lane(lane)
    if found is not None:
        reasons = unread_reasons(route, found, observer.look(route))
        _refuse(f"lane {lane} may hold unread records", reasons, "wait until they are read, or pass --force")


def kept_topics(route: Route, result: str) -> Results:
    """One result for every topic of a stream."""
    return tuple((segment, result) for _, segment in route.segments())


def delete_topics(open_admin: OpenAdmin, route: Route) -> Results:
    """Delete the topics of a route, each if it has its segment's id, with what came of each."""
    return tuple((segment, _delete(open_admin(segment.cluster), segment)) for _, segment in route.segments())


def _delete(admin: ClusterAdmin, segment: Segment) -> str:
    """Delete the topic of a segment, if it has the segment's id; returns what came of it, in words.

    Kafka deletes by name: a topic that is created again between the look and the request would be deleted.
    """
    live = admin.cluster().cluster_id
    if live != segment.cluster_id:
        return f"kept: profile {segment.cluster} reaches cluster {live}"
    found = find_topics(admin, (segment.topic,)).get(segment.topic)
    if found is None:
        return "does not exist"
    if found.topic_id != segment.topic_id:
        return "kept: it was created again, under another id"
    error = admin.delete_topic(segment.topic)
    if error is not None:
        raise OperationFailedError(f"topic {segment.topic} is not deleted: {error}")
    return "deleted"


def _refuse(what: str, reasons: Iterable[str], hint: str) -> None:
    lines = tuple(reasons)
    if lines:
        error = RefusedError(f"{what}: {counted(len(lines), 'reason')} above", hint=hint)
        error.lines = lines[:MOST_LINES]
        raise error
