"""Carrying an operation out: look, decide, write the intent down, act, look again.

One loop begins, continues after any crash, and ends. Every change of the route is made only to the very route that the
decision was made from; every effect comes after the lease was confirmed.

Effects on clusters are topics, offsets of groups, and fences. Each may be made a second time: the intent is written
before, and the live state is looked at afterwards, so an answer that was lost is no failure here. Journals and
certificates are kept in the control store.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from kafkakit.core.cluster_facts import (
    PRODUCER_BYTE_RATE,
    AclBinding,
    CommittedOffset,
    ItemError,
    LogSpan,
    QuotaEntity,
    ResourceKind,
)
from kafkakit.core.errors import ConflictError, KafkakitError, OperationFailedError, RefusedError, TryLaterError
from kafkakit.core.journal_lines import line_data
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import epoch_ms
from kafkakit.core.text import shell_command
from kafkakit.execution.act.journal_files import LineJournal, StoreLines
from kafkakit.execution.act.leases import ClusterAccess, GuardedAdmin
from kafkakit.ports.acting import Clock, Reporter, pause
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import ClusterClients
from kafkakit.ports.stores import ControlStore
from kafkakit.streams.failover.act.letters import OldRecords
from kafkakit.streams.failover.act.observing import OperationObserver, read_writers
from kafkakit.streams.failover.decide.drain_proof import late_words, losses, uncopied_ranges, with_references
from kafkakit.streams.failover.decide.evidence import Evidence, References
from kafkakit.streams.failover.decide.history import (
    DrainCertificate,
    EndKind,
    RunEnd,
    decode_certificate,
    make_certificate,
    routed_at,
)
from kafkakit.streams.failover.decide.operation import (
    GRAMMAR,
    SIZE_KEY,
    SIZE_LIMIT,
    Action,
    Certify,
    ChangeRoute,
    CopyLetters,
    CreateTopics,
    Failover,
    FailoverRequest,
    FenceChoice,
    FenceKind,
    FenceRecord,
    FinishedOperation,
    LaneMove,
    Line,
    LineSubject,
    LowerFence,
    OldCopies,
    OperationRecord,
    RaiseFence,
    Refuse,
    ReportLate,
    RouteEdit,
    SeedGroups,
    Step,
    Wait,
    certificate_root,
    fold,
    journal_root,
    merged_losses,
    operations_folder,
    step_by_route,
)
from kafkakit.streams.failover.decide.plan import FENCE_RATE, fence_bindings
from kafkakit.streams.failover.decide.steps import apply_edit, next_step
from kafkakit.streams.model.route import DLQ, Route, Segment, lane_client_id, partitions_of, segment_problem
from kafkakit.streams.routes.api_act import (
    LaneShape,
    OpenCluster,
    PlacementScope,
    RouteStore,
    create_topics,
    find_topics,
    limit_producers,
    plan_on,
    set_quotas,
)

POLL_S = 0.25
CONFLICTS = 10
"""Changes of the route by other processes in a row, after which a run gives up."""


class Effects:
    """Changes clusters for one operation; `guard` is called before each change and raises once the lease is lost.

    `store` is where the marks of cordoned brokers are.
    """

    def __init__(
        self,
        open_cluster: OpenCluster,
        clock: Clock,
        guard: Callable[[], None],
        reporter: Reporter,
        store: ControlStore | None = None,
    ) -> None:
        self._open, self._clock, self._guard = open_cluster, clock, guard
        self._reporter, self._store = reporter, store

    def create(self, operation: Failover, move: LaneMove, quota: int | None) -> str:
        """Create a target's topic, or take an empty one of its shape; returns its id once it can be seen.

        `quota` in bytes/s is that of the lane, which its new cluster must have, too.

        Raises `RefusedError` for a topic that is there and cannot be taken.
        """
        from kafkakit.execution.act.retrier import mark_cordoned

        cluster, profile = self._open(operation.request.to), operation.request.to
        found = cluster.admin.cluster().cluster_id
        if found != operation.cluster_id:
            raise RefusedError(f"profile {profile} reaches cluster {found}, planned was {operation.cluster_id}")
        store = self._store
        open_store = None if store is None else lambda: store
        snapshot = cluster.admin.snapshot(now=self._clock.now(), sizes=False)
        snapshot = mark_cordoned(snapshot, open_store, self._reporter.warn, cluster.admin)
        shape = LaneShape(lane=move.lane, partitions=move.partitions, configs=move.configs)
        scope = PlacementScope(replication=move.replication or None)
        planned = plan_on(snapshot, cluster.log, operation.stream, operation.topic_epoch, (shape,), scope)
        ((_, segment),) = create_topics(self._admin(profile), self._clock, profile, found, planned)
        self._match_quota(profile, found, operation.stream, move.lane, quota)
        return segment.topic_id

    def seed(self, profile: str, offsets: Mapping[str, Mapping[TopicPartition, int]]) -> tuple[str, ...]:
        """Commit starts for groups; returns why some are not committed, for the next look to judge.

        A group that joined meanwhile refuses: its members commit for themselves.
        """
        problems = []
        groups = self._open(profile).groups
        for at in range(0, len(offsets), SEEDED_AT_ONCE):
            names = list(offsets)[at : at + SEEDED_AT_ONCE]
            # What another process committed since the look must stay.
            there = groups.committed_by(names, {key for name in names for key in offsets[name]})
            for name in names:
                found = there[name]
                if isinstance(found, ItemError):
                    problems.append(f"group {name}: {found}")
                    continue
                places = {k: CommittedOffset(offset=start) for k, start in offsets[name].items() if k not in found}
                self._guard()
                for key, error in groups.commit(name, places).items() if places else ():
                    if error is not None:
                        problems.append(f"group {name}: {key}: {error}")
        return tuple(problems)

    def planned_fence(
        self, segment: Segment, kind: FenceKind, operation: Failover, quota: int | None, known: FenceRecord | None
    ) -> FenceRecord:
        """What a fence will add and replace, read from the cluster: to be written down before it goes up.

        `quota` is that of the segment's lane, which a quota fence replaces. A fence that is `known` stays as it is,
        unless another process has set a size limit since: then it is the one that comes back.
        """
        if known is not None and kind is not FenceKind.CONFIG:
            return known
        cluster, request = self._cluster_of(segment), operation.request
        if kind is FenceKind.QUOTA:
            client_id, before = operation.client_id_of(segment.id), None if quota is None else str(quota)
            return FenceRecord(segment=segment.id, kind=kind, before=before, client_id=client_id)
        if kind is FenceKind.ACL:
            writers = read_writers(cluster, segment, request.is_open_by_default)
            if writers.problem:
                raise TryLaterError(f"{segment.topic}: {writers.problem}")
            return FenceRecord(segment=segment.id, kind=kind, bindings=fence_bindings(segment.topic, writers))
        configs = cluster.admin.dynamic_configs(ResourceKind.TOPIC, (segment.topic,)).get(segment.topic, {})
        before = configs.get(SIZE_KEY)
        if known is not None and before in (SIZE_LIMIT, known.before):
            return known
        return FenceRecord(segment=segment.id, kind=kind, before=before)

    def raise_fence(self, segment: Segment, fence: FenceRecord) -> None:
        """Put a fence up as it was written down; what allows readers comes first. The next look tells if it shows."""
        self._cluster_of(segment)
        admin = self._admin(segment.cluster)
        if fence.kind is FenceKind.CONFIG:
            self._limit_size(segment, replaced=fence.before, value=SIZE_LIMIT)
        if fence.kind is FenceKind.QUOTA:
            self._limit_producers(segment, fence.client_id, FENCE_RATE)
        for binding in fence.bindings:
            _raise_first(admin.create_acls((binding,)).values(), f"the fence on {segment.topic}")

    def lower_fence(self, segment: Segment, fence: FenceRecord) -> None:
        """Take a fence down: exactly what it brought goes, what it replaced comes back, the denial goes first.

        A size limit that another process set meanwhile stays.
        """
        self._cluster_of(segment)
        admin = self._admin(segment.cluster)
        if fence.kind is FenceKind.CONFIG and not self._limit_size(segment, replaced=SIZE_LIMIT, value=fence.before):
            raise TryLaterError(f"{SIZE_KEY} of {segment.topic} was changed, but does not show it")
        if fence.kind is FenceKind.QUOTA:
            self._limit_producers(segment, fence.client_id, None if fence.before is None else int(fence.before))
        for binding in reversed(fence.bindings):
            _raise_first(admin.delete_acls((binding,)).values(), f"the fence on {segment.topic}")

    def delete(self, segment: Segment, *, only_empty: bool) -> str:
        """Delete the topic of a segment by its id; returns what came of it, in words."""
        cluster = self._open(segment.cluster)
        live = cluster.admin.cluster().cluster_id
        found = find_topics(cluster.admin, (segment.topic,)).get(segment.topic)
        if live != segment.cluster_id:
            return f"kept: profile {segment.cluster} reaches cluster {live}"
        if found is None:
            return "does not exist"
        if found.topic_id != segment.topic_id:
            return "kept: it was created again, under another id"
        spans = cluster.log.spans(partitions_of(segment)) if only_empty else {}
        if any(not isinstance(span, LogSpan) or span.end > 0 for span in spans.values()):
            return "kept: it is not empty"
        error = self._admin(segment.cluster).delete_topic_by_id(segment.topic_id)
        if error is not None:
            raise OperationFailedError(f"topic {segment.topic} is not deleted: {error}")
        return "deleted"

    def drop_quota(self, route: Route, lane: str, segment: Segment) -> None:
        """Remove a lane's quota from the cluster of a segment that is out of the route, where it has no other one."""
        found = route.lane(lane)
        if found is None or found.quota_bytes_per_s is None:
            return
        stays = any(each.cluster_id == segment.cluster_id for each in found.segments)
        if not stays and self._open(segment.cluster).admin.cluster().cluster_id == segment.cluster_id:
            self._set_quota(segment.cluster, segment.cluster_id, route.stream, lane, None)

    def _match_quota(self, profile: str, cluster_id: str, stream: str, lane: str, quota: int | None) -> None:
        """Give a lane its quota, and take one away that an earlier stay left; None needs no right to read quotas."""
        entity = QuotaEntity(client_id=lane_client_id(stream, lane))
        try:
            known = self._open(profile).admin.describe_client_quotas().get(entity, {}).get(PRODUCER_BYTE_RATE)
        except KafkakitError:
            if quota is not None:
                raise
            return
        if known != quota:
            self._set_quota(profile, cluster_id, stream, lane, quota)

    def _set_quota(self, profile: str, cluster_id: str, stream: str, lane: str, rate: int | None) -> None:
        access = ClusterAccess(cluster_id=cluster_id, admin=self._admin(profile), clock=self._clock)
        set_quotas(access, stream, {lane: rate})

    def drop_bindings(self, segment: Segment, bindings: tuple[AclBinding, ...]) -> None:
        """Remove the ACLs of a fence once its topic is gone."""
        if bindings:
            _raise_first(self._admin(segment.cluster).delete_acls(bindings).values(), f"the ACLs of {segment.topic}")

    def _admin(self, profile: str) -> ClusterAdmin:
        return GuardedAdmin(self._open(profile).admin, self._guard)

    def _cluster_of(self, segment: Segment) -> ClusterClients:
        """The cluster of a segment whose topic is still the one that is meant; names and addresses prove nothing."""
        cluster = self._open(segment.cluster)
        found = find_topics(cluster.admin, (segment.topic,)).get(segment.topic)
        problem = segment_problem(segment, cluster.admin.cluster().cluster_id, found)
        if problem:
            raise RefusedError(f"{segment.topic}: {problem}")
        return cluster

    def _limit_producers(self, segment: Segment, client_id: str, rate: int | None) -> None:
        access = ClusterAccess(cluster_id=segment.cluster_id, admin=self._admin(segment.cluster), clock=self._clock)
        limit_producers(access, {client_id: rate}, f"client id {client_id}")

    def _limit_size(self, segment: Segment, *, replaced: str | None, value: str | None) -> bool:
        """Change the size limit of a topic; False while brokers do not show it. Another process's limit stays.

        A limit that a read shows already is written too: reads lag, and the one that it replaces may be there still.
        """
        from kafkakit.execution.act.retrier import SHOW_TIMEOUT_S, ConfigWriter, Retrier, noted_before
        from kafkakit.execution.decide.journal import ConfigKey, change_of

        key = ConfigKey(ResourceKind.TOPIC, segment.topic, SIZE_KEY)
        retrier = Retrier(self._clock, self._reporter, SHOW_TIMEOUT_S)
        writer = ConfigWriter(self._admin(segment.cluster), self._clock, retrier, "size limits")
        found = writer.values([key]).get(key, replaced)
        if found in (replaced, value):
            outcome = writer.write({change_of(key, value): replaced}, noted_before)
            _raise_first(outcome.refused.values(), f"{SIZE_KEY} of {segment.topic}")
            if not outcome.unshown:
                return True
            (found,) = outcome.unshown.values()
        if found == replaced:
            return False
        self._reporter.warn(f"{segment.topic}: another process set {SIZE_KEY} to {found or 'its default'}; it stays")
        return True


Journal: TypeAlias = LineJournal[LineSubject, OperationRecord | None]
OnLine: TypeAlias = Callable[[OperationRecord | None, Line], None]
"""What gets each line that this process writes, with what the journal says after it."""
MOST_OPERATIONS = 1000


def no_line(_record: OperationRecord | None, _line: Line) -> None:
    """Takes a line, and does nothing with it."""


class OperationJournals:
    """The operations of one stream. Reading one costs a request for each 60 kB."""

    def __init__(self, store: ControlStore, clock: Clock, stream: str, on_line: OnLine = no_line) -> None:
        self._store, self._clock, self._stream, self._on_line = store, clock, stream, on_line

    def names(self) -> tuple[str, ...]:
        """The ids of all operations, oldest first: an id begins with the epoch that it was planned for."""
        return tuple(sorted(self._store.children(operations_folder(self._stream)), key=_age))[-MOST_OPERATIONS:]

    def open(self, name: str) -> Journal:
        """The journal of an operation; `InputError` for one that is damaged, or of a newer kafkakit."""
        lines = StoreLines(self._store, journal_root(self._stream, name))
        return LineJournal(lines, self._clock, GRAMMAR, fold, None, self._on_line)

    def begin(self, operation: Failover) -> Journal:
        """The journal of a new operation, with its first line."""
        journal = self.open(operation.id)
        journal.check(LineSubject.PLAN, line_data(operation))
        return journal

    def record(self, name: str) -> OperationRecord | None:
        """What an operation's journal says; None for one that was cut before its first line was whole."""
        return self.open(name).state

    def records(self) -> Iterator[OperationRecord]:
        """Every operation of the stream, oldest first."""
        for name in self.names():
            found = self.record(name)
            if found is not None:
                yield found

    def write_certificate(self, name: str, data: bytes) -> None:
        """Keep the newest certificate of an operation."""
        lines = StoreLines(self._store, certificate_root(self._stream, name))
        if lines.read() != data:
            lines.replace(data)

    def has_certificate(self, name: str, sha256: str) -> bool:
        """Whether the certificate of this hash is kept."""
        data = StoreLines(self._store, certificate_root(self._stream, name)).read()
        return bool(data) and decode_certificate(data, f"certificate of operation {name}").sha256 == sha256

    def certificate(self, name: str) -> tuple[DrainCertificate, bytes]:
        """The newest certificate of an operation, with its bytes; `RefusedError` without one."""
        data = StoreLines(self._store, certificate_root(self._stream, name)).read()
        if not data:
            hint = str(shell_command("streams failover certify", self._stream))
            raise RefusedError(f"operation {name} has no certificate", hint=hint)
        return decode_certificate(data, f"certificate of operation {name}"), data


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverParts:
    """What a run works with; `require_held` raises `LeaseLostError` once the stream's lease is lost."""

    routes: RouteStore
    journals: OperationJournals
    observer: OperationObserver
    effects: Effects
    records: OldRecords
    clock: Clock
    reporter: Reporter
    require_held: Callable[[], None]
    operator: str
    version: str


@dataclass(slots=True, kw_only=True)
class RunProgress:
    """Since when nothing could be done, and what was tried since; `mark` is what the last turn found."""

    idle_since_s: float = 0.0
    conflicts: int = 0
    tried: list[Action] = field(default_factory=list)
    mark: tuple[int, OperationRecord, int | None] | None = None


class OperationRun:
    """One process's work on one operation."""

    def __init__(self, parts: FailoverParts, journal: Journal) -> None:
        self._parts, self._journal = parts, journal
        self._said = ""
        self._problems: tuple[str, ...] = ()
        self._progress = RunProgress()

    @property
    def record(self) -> OperationRecord:
        """The operation as its journal has it."""
        return state_of(self._journal)

    def run(self, until: Step, wait_s: float) -> RunEnd:
        """Continue until a step is reached, or `wait_s` have passed in which nothing could be done.

        Raises `ConflictError` when other processes change the route again and again, `LeaseLostError` when another
        process takes the stream's lease, and what clusters and stores raise.
        """
        self._progress = RunProgress(idle_since_s=self._parts.clock.monotonic())
        while True:
            end = self.turn(until, wait_s)
            if end is not None:
                return end

    def turn(self, until: Step, wait_s: float) -> RunEnd | None:
        """One look and what follows from it; None: continue. What a run knows between two turns is in its fields."""
        parts, operation, progress = self._parts, self.record.operation, self._progress
        parts.require_held()
        route = parts.routes.existing(operation.stream).route
        evidence = parts.observer.look(self.record, route, retiring=until is Step.RETIRED)
        self._remember(evidence)
        action = next_step(self.record, evidence, until)
        mark = (route.epoch, self.record, action.records if isinstance(action, Wait) else None)
        if mark != progress.mark:
            progress.mark, progress.tried, progress.idle_since_s = mark, [], parts.clock.monotonic()
        if isinstance(action, Wait):
            left_s = wait_s - (parts.clock.monotonic() - progress.idle_since_s)
            self._say(action)
            if left_s <= 0 or action.reason == "stranded":
                return self._end(EndKind.WAITING, route, action.reason, action.lines, action.records)
            pause(parts.clock, max(0.01, min(POLL_S, left_s, action.seconds or POLL_S)))
            return None
        if isinstance(action, FinishedOperation):
            return self._finished(action)
        if isinstance(action, Refuse):
            return self._end(EndKind.REFUSED, route, action.reason, action.lines)
        if action not in progress.tried:
            progress.tried.append(action)
        elif parts.clock.monotonic() - progress.idle_since_s >= wait_s:
            return self._end(EndKind.WAITING, route, "no-effect", self._problems)
        else:
            pause(parts.clock, POLL_S)  # the last try has no effect that shows yet
        try:
            if isinstance(action, ReportLate):
                return self._report_late(action, evidence)
            self._act(action, evidence)
            progress.conflicts = 0
        except ConflictError:
            # Another process changed the route between the look and the change: look again, and decide anew.
            progress.conflicts += 1
            if progress.conflicts >= CONFLICTS:
                raise
        return None

    def amend(self, request: FailoverRequest) -> None:
        """Take over other limits; the shape of the request is the operation's."""
        self._journal.check(LineSubject.AMEND, line_data(request))

    def _act(
        self,
        action: CreateTopics | SeedGroups | ChangeRoute | RaiseFence | LowerFence | CopyLetters | Certify,
        evidence: Evidence,
    ) -> None:
        operation, journal, effects = self.record.operation, self._journal, self._parts.effects
        match action:
            case CreateTopics():
                journal.intent(LineSubject.CREATE, {"topics": [move.topic for move in action.moves]})
                quotas = {lane.name: lane.quota_bytes_per_s for lane in evidence.route.lanes}
                made = {move.lane: effects.create(operation, move, quotas.get(move.lane)) for move in action.moves}
                journal.check(LineSubject.CREATE, {"topic_ids": made})
            case SeedGroups():
                self._seed(action)
            case RaiseFence():
                fences = [f for f in self.record.fences if (f.segment, f.kind) == (action.segment.id, action.kind)]
                known = fences[0] if fences else None
                lane = next(lane for lane, each in evidence.route.segments() if each.id == action.segment.id)
                quota = lane.quota_bytes_per_s
                fence = effects.planned_fence(action.segment, action.kind, operation, quota, known)
                if fence != known:
                    journal.intent(LineSubject.FENCE, line_data(fence))
                effects.raise_fence(action.segment, fence)
                self._parts.reporter.say(f"fence {fence.kind} on {action.segment.topic}")
            case LowerFence():
                for fence in [each for each in self.record.fences if each.segment == action.segment.id]:
                    journal.intent(LineSubject.UNFENCE, {"segment": fence.segment, "transactions": action.transactions})
                    effects.lower_fence(action.segment, fence)
                    journal.check(LineSubject.UNFENCE, {"segment": fence.segment})
                if action.transactions:
                    names = ", ".join(action.transactions)
                    self._parts.reporter.warn(f"{action.segment.topic}: the fence is down again, it held up {names}")
                    self._amend_without_fence()
            case CopyLetters():
                self._copy_letters(action, evidence)
            case ChangeRoute(edit=RouteEdit.RETIRE) if not self._has_certificate():
                self._certify(evidence)
            case ChangeRoute():
                self._change_route(action, evidence)
            case Certify():
                self._certify(evidence)

    def _seed(self, action: SeedGroups) -> None:
        places = {g: {str(k): v for k, v in offsets.items()} for g, offsets in action.offsets.items()}
        self._journal.intent(LineSubject.SEED, {"offsets": places})
        problems = self._parts.effects.seed(self.record.request.to, action.offsets)
        for problem in problems if problems != self._problems else ():
            self._parts.reporter.warn(problem)
        self._problems = problems

    def _has_certificate(self) -> bool:
        """Whether the store still has the certificate that the journal names: it may have lost it."""
        return self._parts.journals.has_certificate(self.record.operation.id, self.record.certificate)

    def _copy_letters(self, action: CopyLetters, evidence: Evidence) -> None:
        """Dead letters first, each segment from where an interruption left it; then what references lead to."""
        for segment in action.segments:
            self._journal.intent(LineSubject.LETTERS, {"segment": segment.id})
            before = self.record.copies_of(segment.id)
            spans = uncopied_ranges(segment, evidence.old[segment.id].whole_spans or {}, before)
            self._parts.records.copy(evidence.route, DLQ, segment, spans, before, self._note_copies)
            done = self.record.copies_of(segment.id)
            self._parts.reporter.say(f"{segment.topic}: {done.records:,} dead letters copied, {done.passed:,} replayed")
        if not action.references:
            return
        self._journal.intent(LineSubject.LETTERS, {"references": True})
        outcome = self._parts.records.references(evidence.route)
        self._problems = tuple(f"{place}: {why}" for place, why in sorted(outcome.failed.items())[:20])
        for _, segment in self.record.operation.old_segments(evidence.route):
            known, before = evidence.rejects.get(segment.id, References()), self.record.copies_of(segment.id)
            after = with_references(before, segment.topic, known, outcome.lost, outcome.failed)
            if after != before:
                self._note_copies(after)
        self._parts.reporter.say(f"{outcome.copied:,} rejected records copied, {len(outcome.lost):,} are gone")

    def _note_copies(self, copies: OldCopies) -> None:
        self._journal.check(LineSubject.LETTERS, line_data(copies))

    def _certify(self, evidence: Evidence) -> None:
        certificate, data = make_certificate(self.record, evidence, self._parts.version)
        self._parts.journals.write_certificate(self.record.operation.id, data)
        self._journal.check(LineSubject.CERTIFIED, {"sha256": certificate.sha256, "epoch": evidence.route.epoch})
        self._note(Step.DRAINED, evidence.route)
        self._parts.reporter.say(f"drained: certificate {certificate.sha256[:16]}")

    def _change_route(self, action: ChangeRoute, evidence: Evidence) -> None:
        """One compare-and-set. A process whose evidence is older than the route changes nothing."""
        parts, record = self._parts, self.record
        if action.edit is RouteEdit.SEAL and evidence.quiet is not None:
            data = {"basis": evidence.quiet.basis, "window_s": round(evidence.quiet.seconds, 3)}
            self._journal.check(LineSubject.QUIET, data)
        left = {"left": list(action.left)} if action.left else {}
        self._journal.intent(LineSubject.ROUTE, {"edit": action.edit, "epoch": evidence.route.epoch, **left})
        parts.require_held()
        changed = parts.routes.change(
            record.operation.stream,
            lambda found: apply_edit(record, require_same(found, evidence.route), action.edit, evidence),
            by=parts.operator,
            what=f"operation {record.operation.id}: {action.edit}",
            at_ms=epoch_ms(parts.clock.now()),
        )
        for _, segment in record.operation.old_segments(evidence.route) if action.left else ():
            if segment.id in action.left:
                parts.reporter.say(f"{segment.topic} stays readable on {segment.cluster} for its dead letters")
        step = step_by_route(record.operation, changed)
        if action.edit is RouteEdit.ROUTE and step is not None:
            self._note_routed(changed.epoch, action.unready)
            self._note(step, changed)
        elif action.edit is RouteEdit.RETIRE:
            self._note(Step.RETIRED, changed)
        elif step is not None:
            self._note(step, changed)

    def _report_late(self, action: ReportLate, evidence: Evidence) -> RunEnd:
        """Void the seal, and name what brokers know of the writers."""
        segments = {number for number, _, _ in action.grown}
        self._journal.check(LineSubject.LATE, {"grown": [list(each) for each in action.grown]})
        self._change_route(ChangeRoute(edit=RouteEdit.UNSEAL), evidence)
        self._parts.observer.forget_quiet()
        lines = []
        for _, segment in self.record.operation.old_segments(evidence.route):
            if segment.id in segments:
                grown = {partition: more for number, partition, more in action.grown if number == segment.id}
                lines += [late_words(segment, n, more) for n, more in grown.items()]
                writers = self._parts.observer.writers_of(segment, self.record.request)
                lines += [f"{segment.topic}: {each}" for each in writers.words_of(grown)]
        lines.append("the seal is void; find the writer and stop it, then continue")
        route = self._parts.routes.existing(self.record.operation.stream).route
        return self._end(EndKind.LATE, route, "late-writer", tuple(lines))

    def _remember(self, evidence: Evidence) -> None:
        """Write down what a later look could not see any more."""
        record = self.record
        step = step_by_route(record.operation, evidence.route)
        if step is None:
            return
        if step not in record.reached_ms:
            self._note(step, evidence.route)
        merged = merged_losses(record.lost, losses(record, evidence))
        if merged != record.lost:  # at any step: a group that goes on behind a gap shows it no more
            self._journal.check(LineSubject.LOST, {"lost": data_of_list(merged)})

    def _note_routed(self, epoch: int, unready: tuple[str, ...] = ()) -> None:
        """The line that says at which epoch producers were sent elsewhere."""
        self._journal.check(LineSubject.STEP, {"step": Step.ROUTED, "epoch": epoch, "unready": list(unready)})
        self._parts.reporter.say(f"{Step.ROUTED}: stream {self.record.operation.stream}, epoch {epoch}")

    def _note(self, step: Step, route: Route) -> None:
        """A line for a step that is reached; where a crash took that of the routed one, the history has its epoch."""
        record = self.record
        if step in (Step.ROUTED, Step.STRANDED, Step.SEALED) and Step.ROUTED not in record.reached_ms:
            history = self._parts.routes.history(record.operation.stream, 200)
            found = routed_at(record.operation, [each.change.route for each in history if each.in_effect])
            self._note_routed(found or route.epoch)
        if step not in self.record.reached_ms:
            self._journal.check(LineSubject.STEP, {"step": step, "epoch": route.epoch})
            self._parts.reporter.say(f"{step}: stream {record.operation.stream}, epoch {route.epoch}")

    def _amend_without_fence(self) -> None:
        self.amend(replace(self.record.request, fence=FenceChoice.NONE))

    def _finished(self, action: FinishedOperation) -> RunEnd:
        route = self._parts.routes.existing(self.record.operation.stream).route
        if action.step.is_over and action.step not in self.record.reached_ms:
            self._journal.check(LineSubject.STEP, {"step": action.step, "epoch": route.epoch})
        if action.step in (Step.ABORTED, Step.SUPERSEDED):
            lines = (f"operation {self.record.operation.id} is not the stream's any more, and has not moved it",)
            return RunEnd(kind=EndKind.REFUSED, step=action.step, record=self.record, reason=action.step, lines=lines)
        return RunEnd(kind=EndKind.DONE, step=action.step, record=self.record)

    def _end(
        self, kind: EndKind, route: Route, reason: str, lines: tuple[str, ...], records: int | None = None
    ) -> RunEnd:
        step = step_by_route(self.record.operation, route) or Step.RETIRED
        return RunEnd(kind=kind, step=step, record=self.record, reason=reason, lines=lines, records=records)

    def _say(self, wait: Wait) -> None:
        """What is waited for, once for each reason."""
        if wait.reason != self._said:
            self._said = wait.reason
            self._parts.reporter.say("; ".join(("waiting: " + wait.lines[0], *wait.lines[1:3])))


def require_same(found: Route, seen: Route) -> Route:
    """The route that was found; `ConflictError` where it is not the one that was looked at."""
    if found != seen:
        raise ConflictError(f"stream {seen.stream} was changed by another process")
    return found


def data_of_list(values: tuple[object, ...]) -> list[Mapping[str, object]]:
    """Values as the data of a line."""
    return [line_data(value) for value in values]


SEEDED_AT_ONCE = 50
"""Groups whose offsets are read together before each of them gets its own."""


def _raise_first(answers: Iterable[ItemError | None], what: str) -> None:
    error = next((each for each in answers if each is not None), None)
    if error is not None:
        raise (TryLaterError if error.retriable else OperationFailedError)(f"{what} is not changed: {error}")


def state_of(journal: Journal) -> OperationRecord:
    """What a journal that has begun says."""
    if journal.state is None:
        raise ValueError("the journal has not begun")
    return journal.state


def _age(name: str) -> tuple[int, str]:
    head = name.partition("-")[0]
    return (int(head) if head.isascii() and head.isdigit() else 0, name)
