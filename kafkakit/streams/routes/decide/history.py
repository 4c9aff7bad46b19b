"""The history of a stream: an entry for each change of its route, and which entries came into effect.

An entry is written before the route that it leads to. A process that ends between the two leaves an entry whose epoch
no route ever had; the next change takes a higher epoch. So an entry names the epoch that it replaced, and the entries
that came into effect are those on the way back from the route that is there.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kafkakit.core.control_paths import VALUE_LIMIT_BYTES
from kafkakit.core.documents import decode_document, encode_document
from kafkakit.core.errors import InputError, UsageError
from kafkakit.streams.model.route import Route, problem_of

CHANGE_KIND = "stream-route-change"
BY_LIMIT, WHAT_LIMIT = 200, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteChange:
    """One entry of a stream's history: the route after a change, who made it, when and why.

    `from_epoch` is the epoch that was replaced, 0 for a new stream. With `is_deletion` there is no route afterwards,
    and `route` is the last one under the epoch of the deletion.
    """

    at_ms: int
    by: str
    what: str
    route: Route
    from_epoch: int = 0
    is_deletion: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptChange:
    """An entry of a history; one that is not `in_effect` was cut before its route was written, or is being written."""

    change: RouteChange
    in_effect: bool


def encode_change(change: RouteChange) -> bytes:
    """The document of an entry; raises `UsageError` for a route that is not valid, or too large to be kept."""
    problem = problem_of(change.route)
    if problem:
        raise UsageError(f"stream {change.route.stream}: {problem}")
    data = encode_document(CHANGE_KIND, change)
    if len(data) > VALUE_LIMIT_BYTES:
        raise UsageError(
            f"stream {change.route.stream}: the entry of its history has {len(data):,} bytes, "
            f"at most {VALUE_LIMIT_BYTES:,}"
        )
    return data


def decode_change(data: bytes, source: str) -> RouteChange:
    """The entry in a document; `InputError` where it is another one, or not valid."""
    change = decode_document(data, CHANGE_KIND, RouteChange, source)
    problem = problem_of(change.route)
    if problem:
        raise InputError(source, problem)
    return change


def in_effect(changes: Iterable[RouteChange], epoch: int | None) -> frozenset[int]:
    """The epochs that came into effect, of a route that has `epoch` now; None: the stream is deleted.

    Entries that are not among them never came, or are being written at this moment.
    """
    known = {change.route.epoch: change for change in changes}
    deletions = sorted(e for e, change in known.items() if change.is_deletion)
    at = epoch if epoch is not None else max(deletions, default=0)
    came: set[int] = set()
    while at in known and at not in came:
        came.add(at)
        earlier = known[at].from_epoch
        at = earlier if earlier else max((e for e in deletions if e < at), default=0)
    return frozenset(came)
