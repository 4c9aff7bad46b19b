"""Changes of the tags of many objects as values: what is checked before, and what becomes of each."""

from collections.abc import Callable, Mapping

from kafkakit.core.errors import KafkakitError
from kafkakit.core.plan_rules import topic_problem
from kafkakit.core.printable import printable
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.registry.decide.faults import code_of, invalid
from kafkakit.registry.decide.history import etag_of
from kafkakit.registry.decide.tags import MAX_GIVEN, Kind, Tags, check_tag, is_broker_id, merged, without
from kafkakit.registry.decide.v2.messages import ChangeTagsReply, ChangeTagsRequest, ObjectChange, TagResult

MAX_CHANGES = 1000
_NOT_FINAL = frozenset({RpcCode.UNAVAILABLE, RpcCode.DEADLINE_EXCEEDED, RpcCode.INTERNAL})


class EtagConflictError(RpcError):
    """Tags that are not those that the caller has seen; `tags` are the present ones."""

    def __init__(self, change: ObjectChange, tags: Tags) -> None:
        super().__init__(RpcCode.ABORTED, f"the tags of {change.kind} {change.name} were changed: read them again")
        self.tags = tags


def check_request(request: ChangeTagsRequest, if_match: str | None) -> ChangeTagsRequest:
    """The request with the etag of the header, which is for a single change; `RpcError` for what cannot be meant."""
    changes = request.changes
    if not 0 < len(changes) <= MAX_CHANGES:
        raise invalid(f"{len(changes)} changes are given: 1 to {MAX_CHANGES} are taken at once")
    if len({(change.kind, change.name) for change in changes}) < len(changes):
        raise invalid("an object is named twice")
    if if_match is None or if_match == "*":
        return request
    if len(changes) != 1 or changes[0].etag:
        raise invalid("If-Match is for a request with one change that has no etag of its own")
    etag = if_match.removeprefix('"').removesuffix('"')
    only = changes[0]
    found = ObjectChange(kind=only.kind, name=only.name, set=only.set, delete=only.delete, etag=etag)
    return ChangeTagsRequest(changes=(found,), dry_run=request.dry_run)


def check_change(change: ObjectChange) -> None:
    """`RpcError` for a change of one object that would never be made."""
    kind = Kind(change.kind)
    if topic_problem(change.name) if kind is Kind.TOPIC else not is_broker_id(change.name):
        raise RpcError(RpcCode.NOT_FOUND, f"{kind} {printable(change.name[:80])} does not exist")
    if not change.set and not change.delete:
        raise invalid("nothing is to be set or deleted")
    if len(change.set) + len(change.delete) > MAX_GIVEN:
        raise invalid(f"{len(change.set) + len(change.delete)} tags are given: at most {MAX_GIVEN}")
    for key, value in change.set.items():
        check_tag(kind, key, value)
        if not key or ":" in key or ":" in value:
            raise invalid(f"tag '{printable(key[:40])}': neither key nor value may have a colon, the key not be empty")
    both = change.set.keys() & set(change.delete)
    if both:
        raise invalid(f"tag '{printable(min(both)[:40])}' is to be set and deleted")


def tags_after(change: ObjectChange, present: Tags) -> Mapping[str, str]:
    """The tags that a change leaves; `RpcError` where they are not those of its etag, or would be too many."""
    if change.etag and change.etag != etag_of(present):
        raise EtagConflictError(change, present)
    return merged(Kind(change.kind), change.name, without(present, change.delete), change.set)


def changed_result(change: ObjectChange, before: Tags, after: Tags) -> TagResult:
    """The result of a change that was made, or would be."""
    is_changed = dict(before) != dict(after)
    return TagResult(kind=change.kind, name=change.name, changed=is_changed, tags=after, etag=etag_of(after))


def refused_result(change: ObjectChange, error: KafkakitError) -> TagResult:
    """The result of a change that was not made, or of which it is not known."""
    if isinstance(error, EtagConflictError):
        tags, etag = error.tags, etag_of(error.tags)
    else:
        tags, etag = {}, ""
    return TagResult(
        kind=change.kind,
        name=printable(change.name[:249]),
        code=int(code_of(error)),
        message=error.message,
        tags=tags,
        etag=etag,
    )


def is_final(reply: ChangeTagsReply) -> bool:
    """Whether repeating the request would give the same: no change waits for a store that did not answer."""
    return not any(result.code in _NOT_FINAL for result in reply.results)


def results_of(
    request: ChangeTagsRequest, work: Callable[[ObjectChange], TagResult], is_late: Callable[[], bool]
) -> ChangeTagsReply:
    """Each change for itself; those that the deadline leaves no time for are not begun."""
    found = list[TagResult]()
    for change in request.changes:
        try:
            if is_late():
                raise RpcError(RpcCode.DEADLINE_EXCEEDED, "not begun before the deadline")
            check_change(change)
            found.append(work(change))
        except KafkakitError as error:
            found.append(refused_result(change, error))
    return ChangeTagsReply(results=tuple(found), dry_run=request.dry_run)
