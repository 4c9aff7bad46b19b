"""One look at everything that an operation needs to know, in the order that makes its conclusions safe."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import InputError, KafkakitError
from kafkakit.ports.clock import Clock
from kafkakit.streams.failover.act.clients import ClientWatch
from kafkakit.streams.failover.act.reading import read_bindings, read_segments, read_targets, read_writers
from kafkakit.streams.failover.decide.drained import left_in
from kafkakit.streams.failover.decide.evidence import Evidence, TopicFacts, WriterFacts
from kafkakit.streams.failover.decide.fences import is_in_place
from kafkakit.streams.failover.decide.journal import OperationRecord
from kafkakit.streams.failover.decide.operation import FailoverRequest, FenceChoice, FenceKind, Operation, Step
from kafkakit.streams.failover.decide.quiet import QuietWatch, basis_of, ends_of, quiet_of, watch_ends
from kafkakit.streams.failover.decide.standing import standing
from kafkakit.streams.model.route import Route, Segment
from kafkakit.streams.routes.api_act import OpenCluster

CountRejects = Callable[[Segment], int]
"""How many records of a segment are rejected by reference and not copied yet."""


RELOOKED = (FenceChoice.CONFIG, FenceChoice.QUOTA)
"""Fences whose look at a cluster is whole each time; for an ACL the bindings are enough."""


class OperationObserver:
    """The looks of one process at one operation; what is quiet and what is fenced is in its memory alone."""

    def __init__(
        self, open_cluster: OpenCluster, clients: ClientWatch, clock: Clock, count_rejects: CountRejects
    ) -> None:
        self._open, self._clients, self._clock, self._count_rejects = open_cluster, clients, clock, count_rejects
        self._quiet: QuietWatch | None = None
        self._writers: dict[int, WriterFacts] = {}
        self._routed_s: float | None = None

    def plan_look(self, operation: Operation, route: Route) -> Evidence:
        """Everything a plan judges; in an emergency the old clusters are left alone: they may hang."""
        evidence = self._base(operation, route)
        segments = [segment for _, segment in operation.old_segments(route)]
        if operation.request.is_emergency:
            groups = {client.group for client in evidence.clients if client.group} | set(operation.groups)
            return replace(evidence, targets=self._targets(operation, groups))
        old = self._old(segments, operation.groups, every_group=True, effective=False)
        groups = {name for facts in old.values() for name in facts.groups} | set(operation.groups)
        return replace(
            evidence,
            old=old,
            targets=self._targets(operation, groups),
            writers={each.id: self.writers_of(each, operation.request) for each in segments},
        )

    def look(self, record: OperationRecord, route: Route, *, retiring: bool) -> Evidence:
        """What the next step of an operation depends on, and no more. `retiring`: every group is listed, too."""
        operation, step = record.operation, standing(record.operation, route)
        evidence = self._base(operation, route)
        if step in (Step.PLANNED, Step.OPENED):
            evidence = replace(evidence, targets=self._targets(operation, operation.groups))
            if step is Step.OPENED and not operation.request.is_emergency:
                old = self._old(_old_of(operation, route), operation.groups, every_group=False, effective=False)
                evidence = replace(evidence, old=old)
            return evidence
        if step is None:
            return evidence
        return self._look_at_old(record, evidence, step, retiring=retiring)

    def _look_at_old(self, record: OperationRecord, evidence: Evidence, step: Step, *, retiring: bool) -> Evidence:
        operation, route = record.operation, evidence.route
        segments = _old_of(operation, route)
        now_s = self._clock.monotonic()
        self._routed_s = now_s if self._routed_s is None else self._routed_s
        is_sealed = step is Step.SEALED
        every_group = is_sealed and retiring and bool(record.certificate)
        old = self._old(segments, operation.groups, every_group=every_group, effective=not is_sealed)
        evidence = replace(evidence, old=old, routed_for_s=now_s - self._routed_s)
        if is_sealed:
            return replace(
                evidence,
                rejects=self._rejects(segments) if _is_read(record, segments, old) else {},
                unknown_groups=_unknown(operation, old) if every_group else None,
            )
        evidence = replace(evidence, writers=self._look_at_writers(record, segments, old))
        in_place = {each.id: _kinds_in_place(record, each, evidence) for each in segments}
        fenced = frozenset(number for number, kinds in in_place.items() if kinds - {FenceKind.QUOTA})
        delayed = frozenset(number for number, kinds in in_place.items() if FenceKind.QUOTA in kinds)
        evidence = replace(evidence, fenced=fenced, delayed=delayed)
        basis = basis_of(evidence, [each.id for each in segments], record.routed_epoch or route.epoch)
        ends = ends_of(operation, route, old)
        self._quiet = watch_ends(self._quiet, basis, ends, now_s, self._clock.monotonic())
        kind = next((each.kind for each in record.fences if each.segment in fenced), FenceKind.NONE)
        return replace(evidence, quiet=quiet_of(self._quiet, kind))

    def writers_of(self, segment: Segment, request: FailoverRequest) -> WriterFacts:
        """Who wrote to a topic, read now."""
        return read_writers(self._open(segment.cluster), segment, request.is_open_by_default)

    def forget_quiet(self) -> None:
        """Begin the window again, as after a late writer."""
        self._quiet = None

    def _base(self, operation: Operation, route: Route) -> Evidence:
        """The clients first: what they acknowledged was so before anything else is read.

        A registration that cannot be read may be of a newer client, and stops a failover that is not an emergency.
        """
        try:
            clients = self._clients.look()
        except InputError:
            if not operation.request.is_emergency:
                raise
            clients = ()
        return Evidence(route=route, now_ms=epoch_ms(self._clock.now()), clients=clients)

    def _targets(self, operation: Operation, groups: Iterable[str]) -> dict[str, TopicFacts]:
        profile = operation.request.to
        return read_targets(self._open(profile), profile, operation.moves, sorted(set(groups)))

    def _old(
        self, segments: list[Segment], groups: Iterable[str], *, every_group: bool, effective: bool
    ) -> dict[int, TopicFacts]:
        """Clusters side by side: one that hangs delays no other."""
        profiles = sorted({segment.cluster for segment in segments})
        names = tuple(groups)

        def read(profile: str) -> dict[int, TopicFacts]:
            mine = [segment for segment in segments if segment.cluster == profile]
            return read_segments(self._open(profile), mine, names, every_group=every_group, effective=effective)

        if len(profiles) < 2:
            return read(profiles[0]) if profiles else {}
        with ThreadPoolExecutor(len(profiles)) as pool:
            return {number: facts for found in pool.map(read, profiles) for number, facts in found.items()}

    def _look_at_writers(
        self, record: OperationRecord, segments: list[Segment], old: Mapping[int, TopicFacts]
    ) -> dict[int, WriterFacts]:
        """Once for each topic, and the ACLs at each look; nothing where no fence is wanted or the cluster is away."""
        if record.request.fence is FenceChoice.NONE:
            return {}
        found: dict[int, WriterFacts] = {}
        for each in segments:
            if not old[each.id].is_reachable:
                continue
            cluster, known = self._open(each.cluster), self._writers.get(each.id)
            needs_all = known is None or known.problem or record.request.fence in RELOOKED
            found[each.id] = self.writers_of(each, record.request) if needs_all or known is None else known
            if not needs_all and known is not None and known.bindings is not None:
                found[each.id] = read_bindings(cluster, each, known)
        self._writers |= found
        return found

    def _rejects(self, segments: list[Segment]) -> dict[int, int]:
        found: dict[int, int] = {}
        for each in segments:
            try:
                found[each.id] = self._count_rejects(each)
            except KafkakitError:
                continue
        return found


def _old_of(operation: Operation, route: Route) -> list[Segment]:
    return [segment for _, segment in operation.old_segments(route)]


def _is_read(record: OperationRecord, segments: list[Segment], old: Mapping[int, TopicFacts]) -> bool:
    """Whether every group is at the ends; until then it does not matter what is rejected by reference."""
    return not any(
        left_in(old[each.id].groups[name].commits.get(seal.partition), seal.effective_end, spans[seal.partition].start)
        for each in segments
        if (spans := old[each.id].whole_spans)
        for name in record.operation.groups
        if name in old[each.id].groups
        for seal in each.seal
    )


def _kinds_in_place(record: OperationRecord, segment: Segment, evidence: Evidence) -> frozenset[FenceKind]:
    """The fences that the topic has now, by its cluster's own word; only those of this operation count."""
    facts, writers = evidence.old[segment.id], evidence.writers.get(segment.id)
    fences = [fence for fence in record.fences if fence.segment == segment.id]
    return frozenset(f.kind for f in fences if writers is not None and is_in_place(f, segment.topic, facts, writers))


def _unknown(operation: Operation, old: Mapping[int, TopicFacts]) -> tuple[str, ...] | None:
    """Groups with commits that the operation does not know; None where a cluster was not read."""
    if any(facts.problem for facts in old.values()):
        return None
    known = set(operation.groups) | set(operation.request.ignored)
    return tuple(sorted({n for facts in old.values() for n, g in facts.groups.items() if g.commits} - known))
