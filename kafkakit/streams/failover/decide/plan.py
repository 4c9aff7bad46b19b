"""The plan of a failover: a verdict for each precondition, the fences, the window, and the duplicate budget.

Which fence may be put on an old topic, and why another may not (Kafka's behaviour as measured on 3.9 and 4.1):

* An ACL denies writes only. Where everyone is allowed as long as a topic has no binding, the denial also cuts off
  readers, unless a binding that allows everything stands beside it. Super users are denied nothing.
* A size limit of 1 rejects every produce request, and transaction markers too: a partition with an open transaction
  would be stuck, even after the limit is taken away. A producer of kafka-python with its defaults has to be made again.
* A quota delays writes and refuses none, so it proves nothing: the window by time counts. It is set on the client id of
  the lane's producers, and reaches no others. Brokers look for quotas of users first, so those must not be there.

No fence reports to a producer with acks=0: its records are lost without an error. So ends of logs are compared in any
case, a fence only makes the window short.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256

import msgspec

from kafkakit.core.cluster_facts import (
    PRODUCER_BYTE_RATE,
    AclBinding,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResourceKind,
    GroupState,
    GroupType,
    ItemError,
    QuotaEntity,
)
from kafkakit.core.errors import RefusedError, UsageError
from kafkakit.core.quantities import count_of, format_bytes
from kafkakit.core.rights import lacking_rights
from kafkakit.streams.failover.decide.drain_proof import BacklogRow, CommitPace, backlog_rows, left_in
from kafkakit.streams.failover.decide.evidence import (
    DuplicateBudget,
    Evidence,
    QuietBasis,
    TopicStanding,
    WriterFacts,
    duplicate_budget,
    has_read,
    letters_in,
    metadata_hazards,
    window_s,
)
from kafkakit.streams.failover.decide.operation import (
    DEFAULT_QUIET_S,
    SIZE_KEY,
    SIZE_LIMIT,
    DeadLetterChoice,
    Failover,
    FailoverRequest,
    FenceChoice,
    FenceKind,
    FenceRecord,
    LaneMove,
    ReadOrder,
)
from kafkakit.streams.model.provenance import REPLAY_GROUPS
from kafkakit.streams.model.route import DLQ, Lane, Route, Segment, SegmentState, topic_name


class Level(StrEnum):
    """What a verdict means for the plan."""

    OK = "ok"
    WARNING = "warning"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Precondition:
    """One precondition: `check` names it for programs, `where` is a topic, a group or a cluster."""

    check: str
    level: Level
    where: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceVerdict:
    """Whether a fence can be used on a topic, with the reasons why not, and what it brings with it."""

    kind: FenceKind
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_usable(self) -> bool:
        """True where nothing speaks against it."""
        return not self.reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterRow:
    """Dead letters of an old topic, None where they were not counted; `groups` are those that read the lane `dlq`.

    `references` lead to rejected records in the topic, and `gone` to records that were deleted before they were copied.
    """

    topic: str
    cluster: str
    letters: int | None
    references: int | None
    gone: int
    groups: tuple[str, ...]
    then: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverPlan:
    """What would be done and what speaks against it. `fences` and `topics` are by old segment id, windows by basis."""

    operation: Failover
    verdicts: tuple[Precondition, ...]
    backlog: tuple[BacklogRow, ...] = ()
    fences: Mapping[int, tuple[FenceVerdict, ...]] = field(default_factory=dict)
    topics: Mapping[int, str] = field(default_factory=dict)
    windows_s: Mapping[QuietBasis, float] = field(default_factory=dict)
    budget: DuplicateBudget = field(default_factory=DuplicateBudget)
    letters: tuple[LetterRow, ...] = ()

    @property
    def sha256(self) -> str:
        """What an approval is about: the same for the same plan of another process, and another one for any change of
        the route, the request, the topics or the groups."""
        essence = replace(self.operation, id="", operator="", started_ms=0, approval="", starts={})
        return sha256(msgspec.json.encode(essence, order="deterministic")).hexdigest()

    @property
    def refused(self) -> tuple[Precondition, ...]:
        """The verdicts that keep the operation from being begun."""
        return tuple(verdict for verdict in self.verdicts if verdict.level is Level.REFUSED)


def moves_of(request: FailoverRequest, route: Route, configs: Mapping[str, Mapping[str, str]]) -> tuple[LaneMove, ...]:
    """The lanes that move and the topics that take their writes, of the shape of those that are written now.

    Raises `UsageError` for a lane that the stream does not have, and where no lane is left to move.
    """
    unknown = sorted(set(request.lanes) - {lane.name for lane in route.lanes})
    if unknown:
        raise UsageError(f"stream {route.stream} has no lane {', '.join(unknown)}")
    chosen = [lane for lane in route.lanes if lane.active and (not request.lanes or lane.name in request.lanes)]
    opened = [lane.name for lane in chosen for each in lane.segments if each.state is SegmentState.OPENED]
    if opened:
        raise RefusedError(f"lane {opened[0]} has a segment that is opened already", hint="finish or remove it first")
    alike = [lane.name for lane in chosen if lane.active and lane.active.partitions == request.partitions]
    if alike:
        raise UsageError(f"lane {alike[0]} of stream {route.stream} has {request.partitions} partitions already")
    if not chosen:
        raise UsageError(f"stream {route.stream} has no active segment that could move")
    return tuple(_move(request, route, lane, configs.get(lane.name, {})) for lane in chosen)


def required_groups(request: FailoverRequest, route: Route, evidence: Evidence) -> tuple[str, ...]:
    """The groups that must have read the old segments: those of the route, those that are named, those that registered
    or committed for an old topic; without the ignored ones, and those that read only dead letters."""
    letters = {each.id for lane, each in route.segments() if lane.name == DLQ}
    found = {rule.name for rule in route.groups} | set(request.groups)
    found |= {client.group for client in evidence.clients if not client.is_producer and client.group}
    readers = {name for number, facts in evidence.old.items() if number not in letters for name in facts.groups}
    only = set(letter_groups(request, route, evidence)) - readers - {rule.name for rule in route.groups}
    own = {name for name in found | readers if name.startswith(REPLAY_GROUPS)}
    return tuple(sorted((found | readers) - only - own - set(request.ignored)))


def lanes_read(
    request: FailoverRequest, route: Route, evidence: Evidence, groups: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """The lanes that groups read, for those that certainly do not read all of them.

    It is certain by what all consumers of a group registered, else by a cluster where the group is stable: its members
    hold partitions of all that they read there. A lane counts as read, too, for which the group has committed, and
    so does each lane for a group that is named with `--require-group`.
    """
    lanes = {each.id: (lane.name, each.cluster_id) for lane, each in route.segments() if lane.name != DLQ}
    every, found = {name for name, _ in lanes.values()}, dict[str, tuple[str, ...]]()
    old = {number: facts for number, facts in evidence.old.items() if number in lanes and not facts.problem}
    for group in sorted(set(groups) - set(request.groups)):
        own = {number: facts.groups[group] for number, facts in old.items() if group in facts.groups}
        read = {lanes[number][0] for number, facts in own.items() if has_read(facts)}
        clients = [client for client in evidence.clients if client.group == group and not client.is_producer]
        if clients:
            read |= {lane for client in clients for lane in client.lanes or every}
        else:
            stable = {lanes[n][1] for n, f in own.items() if f.state is GroupState.STABLE and any(f.held)}
            read |= {lane for n, (lane, cluster) in lanes.items() if cluster not in stable or n not in old}
        if not every <= read:
            found[group] = tuple(sorted(read & every))
    return found


def letter_groups(request: FailoverRequest, route: Route, evidence: Evidence) -> tuple[str, ...]:
    """The groups that read the lane `dlq`, without the ignored ones and those in which replays keep what they did."""
    facts = [evidence.old[s.id] for lane, s in route.segments() if lane.name == DLQ and s.id in evidence.old]
    found = {name for each in facts for name, group in each.groups.items() if has_read(group)}
    return tuple(sorted(n for n in found - set(request.ignored) if not n.startswith(REPLAY_GROUPS)))


def letter_rows(operation: Failover, evidence: Evidence) -> Iterator[LetterRow]:
    """A row for each old topic that holds dead letters, or rejected records that references lead to."""
    is_copied = operation.request.dead_letters is DeadLetterChoice.COPY
    for lane, segment in operation.old_segments(evidence.route):
        facts = evidence.old.get(segment.id)
        letters = letters_in(segment, facts) if lane.name == DLQ else 0
        known = evidence.rejects.get(segment.id)
        groups = () if facts is None or lane.name != DLQ else tuple(_reading_groups(facts))
        if not groups and not (known is not None and any(known)) and letters == 0:
            continue
        if facts is not None and facts.is_gone:
            then = "gone with the topic"
        elif letters == 0 and known is not None and not known.held:
            then = "nothing is left to copy"
        else:
            then = f"copied to lane {DLQ}" if is_copied else "stay readable"
        yield LetterRow(
            topic=segment.topic,
            cluster=segment.cluster,
            letters=letters,
            references=None if known is None else known.held,
            gone=0 if known is None else known.gone,
            groups=groups,
            then=then,
        )


def _reading_groups(facts: TopicStanding) -> Iterator[str]:
    """The groups that read a topic of dead letters, each with what it has left, in words."""
    for name, group in sorted(facts.groups.items()):
        if name.startswith(REPLAY_GROUPS):
            yield f"{name} (what was replayed)"
        elif has_read(group):
            spans = facts.whole_spans or {}
            left = sum(left_in(group.commits.get(number), span.end, span.start) for number, span in spans.items())
            yield f"{name} ({left:,} to read)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPlace:
    """The cluster that is to take the writes. `free_bytes` None: not known. `rights` None: brokers do not say.

    `bindings` are the ACLs that concern each target topic's name, None without an authorizer.
    """

    profile: str
    cluster_id: str
    brokers: int
    free_bytes: int | None = None
    rights: frozenset[str] | None = None
    bindings: Mapping[str, tuple[AclBinding, ...] | None] = field(default_factory=dict)


def make_plan(
    operation: Failover, evidence: Evidence, place: TargetPlace, sizes: Mapping[int, int | None], pace: CommitPace
) -> FailoverPlan:
    """Judge every precondition; `sizes` are the bytes of one copy of each old segment."""
    old, request = known_segments(operation, evidence), operation.request
    budget = duplicate_budget(old, operation.groups)
    rows = tuple(letter_rows(operation, evidence))
    verdicts = [*judge_preconditions(operation, evidence, place, sizes), *_of_letters(operation, evidence, rows)]
    for group, topic, text in metadata_hazards(old, operation.groups):
        verdicts.append(Precondition(check="metadata", level=Level.WARNING, where=group, text=f"{topic}: {text}"))
    over = budget.problem(request.max_duplicates)
    if over:
        verdicts.append(Precondition(check="duplicates", level=Level.REFUSED, where=operation.stream, text=over))
    return FailoverPlan(
        operation=operation,
        verdicts=tuple(verdicts),
        backlog=tuple(backlog_rows(operation, old.values(), sizes, pace, evidence.now_ms)),
        fences={
            number: judge_fences(operation, segment, facts, evidence.writers[number])
            for number, (segment, facts) in old.items()
            if number in evidence.writers
        },
        topics={number: segment.topic for number, (segment, _) in old.items()},
        windows_s={basis: window_s(request, basis, evidence) for basis in QuietBasis},
        budget=budget,
        letters=rows,
    )


def _of_letters(operation: Failover, evidence: Evidence, rows: tuple[LetterRow, ...]) -> Iterator[Precondition]:
    """What becomes of dead letters, and why it cannot be as it is asked for."""
    is_copied, check = operation.request.dead_letters is DeadLetterChoice.COPY, "dead-letters"
    if evidence.rejects_problem:
        text = f"rejected records could not be counted: {evidence.rejects_problem}"
        yield Precondition(check=check, level=Level.WARNING, where=operation.stream, text=text)
    for row in rows:
        found = ["dead letters, not counted,"] if row.letters is None else []
        found += [count_of(row.letters, "dead letter")] if row.letters else []
        found += [count_of(row.references, "rejected record")] if row.references else []
        level, text = Level.OK, f"{' and '.join(found) or 'no dead letter'} on {row.cluster}: {row.then}"
        if row.gone:
            text += f"; {count_of(row.gone, 'rejected record')} deleted before it was copied"
        if row.references and is_copied and evidence.route.lane(DLQ) is None:
            level = Level.REFUSED
            text += ", which the stream does not have: add the lane, or plan with --dead-letters leave"
        elif row.gone or row.letters is None or row.references is None or row.then.startswith("gone"):
            level = Level.WARNING
        yield Precondition(check=check, level=level, where=row.topic, text=text)
    for name in operation.letter_groups if is_copied else ():
        text = f"reads lane {DLQ}: it is waited for, and gets the copies again; --dead-letters leave does neither"
        yield Precondition(check=check, level=Level.WARNING, where=name, text=text)


def _move(request: FailoverRequest, route: Route, lane: Lane, configs: Mapping[str, str]) -> LaneMove:
    if lane.active is None:
        raise UsageError(f"lane {lane.name} has no active segment")
    return LaneMove(
        lane=lane.name,
        sources=tuple(segment.id for segment in lane.segments),
        topic=topic_name(route.stream, lane.name, route.epoch + 1),
        partitions=request.partitions or lane.active.partitions,
        replication=0,
        configs=tuple(sorted(configs.items())),
    )


COMPACT = "compact"


def judge_preconditions(
    operation: Failover, evidence: Evidence, place: TargetPlace, sizes: Mapping[int, int | None]
) -> Iterator[Precondition]:
    """A verdict for each precondition; `sizes` are the bytes of one copy of each old segment."""
    old = known_segments(operation, evidence)
    yield from _of_target(operation, evidence, place)
    yield from _of_topics(operation, evidence)
    for segment, facts in old.values():
        yield from _of_source(operation, segment, facts)
        yield from _of_writers(operation, segment, facts, evidence.writers.get(segment.id))
    yield from _of_groups(operation, old.values())
    yield from _of_order(operation, evidence, old.values())
    yield from _of_window(operation)
    yield from _of_disk(operation, place, sizes)
    yield from _of_rights(operation, evidence, place)
    if operation.request.is_emergency:
        text = "consumers are not waited for; the new topics get the settings of the old ones that the route has"
        yield Precondition(check="emergency", level=Level.WARNING, where=operation.stream, text=text)


def known_segments(operation: Failover, evidence: Evidence) -> dict[int, tuple[Segment, TopicStanding]]:
    """The old segments that were looked at, by id."""
    segments = operation.old_segments(evidence.route)
    return {each.id: (each, evidence.old[each.id]) for _, each in segments if each.id in evidence.old}


def _of_target(operation: Failover, evidence: Evidence, place: TargetPlace) -> Iterator[Precondition]:
    homes = {s.cluster_id for _, s in operation.old_segments(evidence.route) if s.state is SegmentState.ACTIVE}
    if operation.request.partitions is not None and homes != {operation.cluster_id}:
        text = f"profile {place.profile} reaches cluster {place.cluster_id}, the lane is written on another one"
        yield Precondition(check="target", level=Level.REFUSED, where=place.profile, text=text)
    elif operation.request.partitions is None and operation.cluster_id in homes:
        text = f"profile {place.profile} reaches cluster {place.cluster_id}, which the stream is already written on"
        yield Precondition(check="target", level=Level.REFUSED, where=place.profile, text=text)
    else:
        text = f"cluster {place.cluster_id} with {count_of(place.brokers, 'live broker')}"
        yield Precondition(check="target", level=Level.OK, where=place.profile, text=text)
    for move in operation.moves:
        if move.replication > place.brokers:
            text = f"{move.topic} needs {move.replication} replicas, brokers that are alive: {place.brokers}"
            yield Precondition(check="target-size", level=Level.REFUSED, where=place.profile, text=text)


def _of_topics(operation: Failover, evidence: Evidence) -> Iterator[Precondition]:
    for move in operation.moves:
        facts = evidence.targets.get(move.lane)
        if facts is None or facts.topic_id is None:
            continue
        if facts.records or facts.whole_spans is None:
            text = "exists on the target and is not empty" if facts.records else "exists, and its log cannot be read"
            yield Precondition(check="target-empty", level=Level.REFUSED, where=move.topic, text=text)
        elif facts.partitions != move.partitions or differing_configs(move, facts):
            keys = ", ".join(differing_configs(move, facts))
            configs = f", and other configurations: {keys}" if keys else ""
            text = f"exists with {count_of(facts.partitions, 'partition')}, {move.partitions} planned{configs}"
            yield Precondition(check="target-empty", level=Level.REFUSED, where=move.topic, text=text)
        else:
            yield Precondition(
                check="target-empty", level=Level.OK, where=move.topic, text="exists, is empty, and is taken"
            )


def differing_configs(move: LaneMove, facts: TopicStanding) -> tuple[str, ...]:
    """The keys of configurations in which a topic that is there differs from the planned one."""
    wanted = dict(move.configs)
    return tuple(sorted(key for key in {*wanted, *facts.configs} if wanted.get(key) != facts.configs.get(key)))


def _of_source(operation: Failover, segment: Segment, facts: TopicStanding) -> Iterator[Precondition]:
    request = operation.request
    if facts.is_gone:
        text = "the topic does not exist, and what it held is gone: it counts as empty"
        yield Precondition(check="source", level=Level.WARNING, where=segment.topic, text=text)
        return
    if facts.problem:
        level = Level.WARNING if request.is_emergency and not facts.is_reachable else Level.REFUSED
        yield Precondition(check="source", level=level, where=segment.topic, text=facts.problem)
        return
    if COMPACT in facts.configs.get("cleanup.policy", ""):
        text = "it is compacted: that it was read does not mean that it may be deleted"
        level = Level.WARNING if request.allow_compacted else Level.REFUSED
        yield Precondition(check="compacted", level=level, where=segment.topic, text=text)
    if facts.whole_spans is None:
        yield Precondition(check="source", level=Level.REFUSED, where=segment.topic, text="not every leader answers")
    else:
        yield Precondition(
            check="source", level=Level.OK, where=segment.topic, text=count_of(facts.records or 0, "offset")
        )
    for move in operation.moves:
        if segment.id in move.sources and segment.partitions != move.partitions:
            text = f"{segment.partitions} partitions become {move.partitions}: keys go to other partitions"
            if request.order is ReadOrder.STRICT:
                yield Precondition(check="partitions", level=Level.OK, where=segment.topic, text=text)
                continue
            text += ", and records of a key are read side by side; --order strict reads the old topic first"
            yield Precondition(check="partitions", level=Level.WARNING, where=segment.topic, text=text)


def _of_writers(
    operation: Failover, segment: Segment, facts: TopicStanding, writers: WriterFacts | None
) -> Iterator[Precondition]:
    request = operation.request
    if writers is None or facts.problem or facts.is_gone:
        return
    if writers.problem:
        yield Precondition(check="writers", level=Level.WARNING, where=segment.topic, text=writers.problem)
    open_here = any(span.stable < span.end for span in (facts.whole_spans or {}).values())
    if open_here or writers.open_transactions:
        names = ", ".join(writers.open_transactions[:3]) or "unknown producers"
        text = f"transactions are open ({names}): the old topic is sealed when they have ended"
        yield Precondition(check="transactions", level=Level.WARNING, where=segment.topic, text=text)
    if request.fence not in (FenceChoice.AUTO, FenceChoice.NONE):
        for verdict in judge_fences(operation, segment, facts, writers):
            if verdict.kind.value == request.fence.value and not verdict.is_usable:
                text = f"fence {verdict.kind}: {'; '.join(verdict.reasons)}"
                yield Precondition(check="fence", level=Level.REFUSED, where=segment.topic, text=text)


def _of_groups(operation: Failover, old: Iterable[tuple[Segment, TopicStanding]]) -> Iterator[Precondition]:
    allowed = operation.request.allow_transactions
    for segment, facts in old:
        is_dlq = operation.lane_of(segment.id) == DLQ
        for name, group in sorted(facts.groups.items()):
            if (is_dlq or name in operation.lanes) and name not in operation.readers_of(segment.id):
                continue  # nothing is taken from it: the topic stays readable, or it does not read the lane
            if name not in operation.readers_of(segment.id):
                yield Precondition(
                    check="groups", level=Level.WARNING, where=name, text=f"not waited for: {segment.topic}"
                )
                continue
            unstable = any(isinstance(commit, ItemError) for commit in group.commits.values())
            if group.has_stream_time or group.type is GroupType.STREAMS or unstable:
                text = "it commits in transactions, which do not reach across clusters"
                level = Level.WARNING if allowed else Level.REFUSED
                yield Precondition(check="transactional-group", level=level, where=name, text=text)
            elif group.type is GroupType.SHARE:
                text = "a share group has no offsets that could prove anything"
                yield Precondition(check="share-group", level=Level.REFUSED, where=name, text=text)
    moved = {move.lane for move in operation.moves if move.lane != DLQ}
    for name, lanes in sorted(operation.lanes.items()):
        if unread := sorted(moved - set(lanes)):
            text = f"it does not read lane {', '.join(unread)}: not waited for there"
            yield Precondition(check="groups", level=Level.OK, where=name, text=text)
    if not operation.groups:
        text = "no group is required: the old segments count as drained once they are quiet"
        yield Precondition(check="groups", level=Level.WARNING, where=operation.stream, text=text)


def _of_order(
    operation: Failover, evidence: Evidence, old: Iterable[tuple[Segment, TopicStanding]]
) -> Iterator[Precondition]:
    """Clients of streams wait with a new topic until the old ones are out of the route, plain clients do not."""
    if operation.request.order is not ReadOrder.STRICT:
        return
    if operation.request.is_emergency:
        text = "--order strict would keep consumers from the new topics while the old cluster is away"
        yield Precondition(check="order", level=Level.REFUSED, where=operation.stream, text=text)
    members = {name for _, facts in old for name, group in facts.groups.items() if any(group.held)}
    for name in operation.groups:
        if evidence.consumers(name):
            text = "its consumers read the new topics once the old ones are retired"
            yield Precondition(check="order", level=Level.OK, where=name, text=text)
        elif name in members:
            text = "its members are plain clients: they would read old and new topics side by side"
            yield Precondition(check="order", level=Level.REFUSED, where=name, text=text)
        else:
            text = "it has no members now: the order is kept if they are clients of streams"
            yield Precondition(check="order", level=Level.WARNING, where=name, text=text)


def _of_window(operation: Failover) -> Iterator[Precondition]:
    quiet_s = operation.request.quiet_s
    if quiet_s is not None and quiet_s < DEFAULT_QUIET_S:
        text = f"--quiet-for {quiet_s:g} s is less than the {DEFAULT_QUIET_S:g} s for which Kafka's producers try by "
        text += "default: without a fence or acknowledgements a record may come after the seal"
        yield Precondition(check="window", level=Level.WARNING, where=operation.stream, text=text)


def _of_disk(operation: Failover, place: TargetPlace, sizes: Mapping[int, int | None]) -> Iterator[Precondition]:
    known = [size for number, size in sizes.items() if number in operation.sources and size is not None]
    if place.free_bytes is None or not known:
        yield Precondition(
            check="disk", level=Level.WARNING, where=place.profile, text="free space or sizes are not known"
        )
        return
    # The new topics grow to what the old ones hold before retention takes as much as comes in.
    needed = sum(known) * max(move.replication for move in operation.moves)
    level = Level.REFUSED if needed > place.free_bytes else Level.OK
    text = f"{format_bytes(needed)} when as full as the old topics, {format_bytes(place.free_bytes)} are free"
    yield Precondition(check="disk", level=level, where=place.profile, text=text)


def _of_rights(operation: Failover, evidence: Evidence, place: TargetPlace) -> Iterator[Precondition]:
    if lacking_rights({"create"}, place.rights):
        text = "CREATE is not granted on the cluster: it must be on the new topics"
        yield Precondition(check="rights", level=Level.WARNING, where=place.profile, text=text)
    for move in operation.moves:
        there = place.bindings.get(move.topic)
        for number in move.sources:
            writers = evidence.writers.get(number)
            if writers is None or not writers.bindings or there is None:
                continue
            absent = lacking_bindings(writers.bindings, there)
            if absent:
                names = ", ".join(sorted({f"{each.principal} {each.operation}" for each in absent})[:5])
                text = f"lacks ACLs that the old topic has: {names}"
                yield Precondition(check="acls", level=Level.REFUSED, where=move.topic, text=text)


def lacking_bindings(old: Iterable[AclBinding], there: Iterable[AclBinding]) -> tuple[AclBinding, ...]:
    """Bindings of an old topic's name or prefix without a counterpart for the new one; `*` is the cluster's."""
    found = {(each.principal, each.host, each.operation, each.permission) for each in there}
    return tuple(
        each
        for each in old
        if (each.pattern is AclPattern.PREFIXED or each.name != "*")
        and (each.principal, each.host, each.operation, each.permission) not in found
    )


EVERYONE = "User:*"
FENCE_RATE = 1
"""Bytes/s of a quota fence: after its first request a producer waits for as long as its records would take."""


def judge_fences(
    operation: Failover, segment: Segment, topic: TopicStanding, writers: WriterFacts
) -> tuple[FenceVerdict, ...]:
    """What each kind of fence would do to the topic of a segment."""
    quota_notes = (
        "it delays writes and refuses none, so the ends must stay the same for the window by time",
        f"only producers with client id {operation.client_id_of(segment.id)} are delayed",
    )
    return (
        FenceVerdict(kind=FenceKind.ACL, reasons=tuple(_against_acl(topic, writers)), notes=_ACL_NOTES),
        FenceVerdict(kind=FenceKind.CONFIG, reasons=tuple(_against_config(topic, writers)), notes=_CONFIG_NOTES),
        FenceVerdict(
            kind=FenceKind.QUOTA, reasons=tuple(_against_quota(operation, segment, topic, writers)), notes=quota_notes
        ),
        FenceVerdict(kind=FenceKind.NONE),
    )


def choose_fence(choice: FenceChoice, verdicts: tuple[FenceVerdict, ...]) -> FenceKind:
    """The fence to use; raises `RefusedError` for one that is asked for and cannot be used."""
    usable = {verdict.kind: verdict for verdict in verdicts}
    if choice is FenceChoice.AUTO:
        return FenceKind.ACL if usable[FenceKind.ACL].is_usable else FenceKind.NONE
    chosen = usable[FenceKind(choice.value)]
    if not chosen.is_usable:
        raise RefusedError(
            f"fence {choice} cannot be used: {'; '.join(chosen.reasons)}",
            hint="--fence auto, acl, config, quota or none",
        )
    return chosen.kind


def fence_bindings(topic: str, writers: WriterFacts) -> tuple[AclBinding, ...]:
    """The bindings of an ACL fence in the order in which they are made: readers are allowed before writers are denied.

    Only those that are not there yet, so that taking the fence away removes what it brought and nothing else.
    """
    deny = _deny_binding(topic, AclOperation.WRITE, AclPermission.DENY)
    allow = _deny_binding(topic, AclOperation.ALL, AclPermission.ALLOW)
    there = frozenset(writers.bindings or ())
    wanted = (allow, deny) if needs_allowance(topic, writers) else (deny,)
    return tuple(binding for binding in wanted if binding not in there)


def needs_allowance(topic: str, writers: WriterFacts) -> bool:
    """True where readers live by the absence of bindings, which the denial ends; our own do not count as others."""
    own = {
        _deny_binding(topic, AclOperation.WRITE, AclPermission.DENY),
        _deny_binding(topic, AclOperation.ALL, AclPermission.ALLOW),
    }
    return bool(writers.allows_everyone) and not set(writers.bindings or ()) - own


def is_in_place(fence: FenceRecord, topic: str, facts: TopicStanding, writers: WriterFacts) -> bool:
    """Whether a fence is in place, as far as the cluster's metadata say."""
    match fence.kind:
        case FenceKind.ACL:
            return writers.bindings is not None and not fence_bindings(topic, writers)
        case FenceKind.QUOTA:
            found = (writers.quotas or {}).get(QuotaEntity(client_id=fence.client_id), {})
            return found.get(PRODUCER_BYTE_RATE) == FENCE_RATE
        case FenceKind.CONFIG:
            return facts.configs.get(SIZE_KEY) == SIZE_LIMIT
        case _:
            return False


def inherited_fences(operation: Failover, route: Route, fences: tuple[FenceRecord, ...]) -> tuple[FenceRecord, ...]:
    """Fences of a superseded operation that this one has to take down, as its own.

    A quota on the cluster that producers go to is not among them: the lane's own is set there with its topic.
    """
    at = {segment.id: segment.cluster_id for _, segment in route.segments()}
    return tuple(
        each for each in fences if each.kind is not FenceKind.QUOTA or at.get(each.segment) != operation.cluster_id
    )


def _against_acl(topic: TopicStanding, writers: WriterFacts) -> Iterator[str]:
    if not topic.is_reachable or writers.problem:
        yield topic.problem or writers.problem
    elif writers.bindings is None:
        yield "the cluster has no authorizer"
    elif writers.allows_everyone is None and not writers.bindings:
        # Without a binding and without knowing the setting, a denial may cut off readers, an allowance open the topic.
        yield "brokers do not tell whether topics without ACLs are open: --open-by-default or --closed-by-default"


def _against_config(topic: TopicStanding, writers: WriterFacts) -> Iterator[str]:
    if not topic.is_reachable or writers.problem:
        yield topic.problem or writers.problem
        return
    spans = topic.whole_spans
    if spans is None or len(writers.producers) < topic.partitions:
        yield "not every partition was read, so an open transaction may be there"
    elif any(span.stable < span.end for span in spans.values()):
        yield "a transaction is open: its marker would be rejected, and the partition stuck"
    if writers.open_transactions:
        stuck = ", ".join(writers.open_transactions[:3])
        yield f"transactions are not complete ({stuck}): their markers would be rejected, and partitions stuck"


def _against_quota(operation: Failover, segment: Segment, topic: TopicStanding, writers: WriterFacts) -> Iterator[str]:
    if not topic.is_reachable or writers.problem:
        yield topic.problem or writers.problem
        return
    if operation.cluster_id == segment.cluster_id:
        yield "the lane's new topic is on the same cluster: its producers would also be delayed"
    if writers.quotas is None:
        yield "the quotas of the cluster cannot be read"
    elif any(entity.user is not None and PRODUCER_BYTE_RATE in values for entity, values in writers.quotas.items()):
        yield "users have quotas, which override quotas of client ids"


def _deny_binding(topic: str, operation: AclOperation, permission: AclPermission) -> AclBinding:
    return AclBinding(
        kind=AclResourceKind.TOPIC, name=topic, principal=EVERYONE, operation=operation, permission=permission
    )


_ACL_NOTES = (
    "super users are not denied",
    "a producer with acks=0 loses its records without an error",
    "transactional producers that write under it must be made again",
)
_CONFIG_NOTES = (
    "a producer with acks=0 loses its records without an error",
    "producers of kafka-python must be made again",
    "a transaction that begins under it gets its partitions stuck",
)
