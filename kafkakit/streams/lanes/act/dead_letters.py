"""Rejected records of a stream: read, replayed, copied to the DLQ lane, and deleted; and the streams of a dual write.

* Read are the records of the DLQ lane, and references of the ledgers of the stream's clusters. A lane is read from its
  first to its last segment, up to where it ended when the reading began.
* A replay writes records of the DLQ lane to their original lane again, batch by batch, at least once: a record counts
  as replayed once it was acknowledged. At most one batch is written twice, by whatever the program is stopped, since
  what was replayed stands in commits of a group without members. Records keep key, value and headers, their provenance
  too.
* Copies to the DLQ lane are made just in time: before their topics may delete them. A copy is acknowledged before the
  reference's tombstone is written; an interruption between both copies again.
* A purge deletes for good: the beginning of the DLQ lane's partitions, and references.

Clusters of a stream's route are opened on first use and checked against the route.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice

from kafkakit.core.cluster_facts import CommittedOffset, ItemError
from kafkakit.core.errors import (
    KafkakitError,
    LeaseLostError,
    OperationFailedError,
    RefusedError,
    TryLaterError,
    UsageError,
)
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import epoch_ms
from kafkakit.core.records import Record
from kafkakit.core.text import shell_command
from kafkakit.ports.acting import Clock, pause, repeat_every
from kafkakit.ports.data import ClusterClients
from kafkakit.streams.lanes.act.reject_ledger import BatchRecord, BatchWriter, RejectLedger
from kafkakit.streams.lanes.decide import (
    CopyOutcome,
    DeadLetter,
    LetterOrigins,
    PurgeOutcome,
    PurgePlan,
    ReplayBudget,
    ReplayOutcome,
    ReplayState,
    ReplayTarget,
    SourceRetention,
    StreamOrigins,
    copy_at_ms,
    letter_of_entry,
    letter_of_reject,
    plan_purge,
    read_replay_state,
)
from kafkakit.streams.model.commit import CommitIdentity, OffsetRanges, topic_id_bytes
from kafkakit.streams.model.provenance import LedgerReject, provenance_headers, replay_group
from kafkakit.streams.model.record_identity import Reconciliation, SeenRecord, reconcile, seen_record
from kafkakit.streams.model.route import DLQ, Lane, Route, Segment
from kafkakit.streams.records.api import LogEntry, ReadResult
from kafkakit.streams.records.api_act import RecordReader


class StreamClusters:
    """The clusters by the profile that the route names; `open_ports` is called once for each."""

    def __init__(self, open_ports: Callable[[str], ClusterClients]) -> None:
        self._open, self._ports = open_ports, dict[tuple[str, str], ClusterClients]()

    def of(self, profile: str, cluster_id: str) -> ClusterClients:
        """The cluster; raises `RefusedError` where the profile leads to another one."""
        if (profile, cluster_id) not in self._ports:
            ports = self._open(profile)
            found = ports.log.cluster_id()
            if found != cluster_id:
                raise RefusedError(
                    f"profile {profile} leads to cluster {found}, the route names {cluster_id}",
                    hint="correct the profile's bootstrap_server, or the stream's route",
                )
            self._ports[profile, cluster_id] = ports
        return self._ports[profile, cluster_id]

    def of_segment(self, segment: Segment) -> ClusterClients:
        """The cluster of a segment; `RefusedError` where its topic is gone, or was created again."""
        ports = self.of(segment.cluster, segment.cluster_id)
        place = ports.log.places([segment.topic]).get(segment.topic)
        if place is None or place.topic_id != topic_id_bytes(segment.topic_id):
            what = "does not exist" if place is None else "was deleted and created again"
            raise RefusedError(f"topic {segment.topic} on cluster {segment.cluster_id} {what}")
        return ports

    def spans(self, segment: Segment, timeout_s: float) -> Mapping[TopicPartition, range]:
        """What the partitions of a segment hold; `TryLaterError` where one does not answer."""
        keys = [TopicPartition(segment.topic, number) for number in range(segment.partitions)]
        found = self.of_segment(segment).data.offsets(keys, timeout_s)
        if len(found) < len(keys):
            raise TryLaterError(f"topic {segment.topic} has {len(found)} of the {len(keys)} partitions of its route")
        return found


class LetterReader:
    """Reads the rejected records of one stream. Each wait lasts at most `wait_s`."""

    def __init__(self, clusters: StreamClusters, clock: Clock, *, wait_s: float) -> None:
        self._clusters, self._clock, self._wait_s = clusters, clock, wait_s
        self.strange = 0
        """Records of ledgers that are no entries."""

    def references(self, route: Route) -> Iterator[DeadLetter]:
        """The stream's references. Cost: reading the ledger of each cluster."""
        for cluster_id, profile in sorted(route.clusters.items()):
            ports = self._clusters.of(profile, cluster_id)
            entries, strange = RejectLedger(ports, self._clock, wait_s=self._wait_s).read()
            self.strange += strange
            for entry in entries.values():
                if entry.place.stream == route.stream and entry.place.cluster_id == cluster_id:
                    yield letter_of_reject(entry)

    def copies(self, route: Route, origins: LetterOrigins | None = None) -> Iterator[DeadLetter]:
        """The records of the DLQ lane, if there is one. Cost: reading it."""
        read = origins or StreamOrigins(route)
        states = ReplayStates(self._clusters, route.stream)
        reader = LaneReader(self._clusters, self._clock, wait_s=self._wait_s)

        def window(segment: Segment, spans: Mapping[TopicPartition, range]) -> Mapping[TopicPartition, range]:
            states.of(segment, spans)
            return spans

        lane = route.lane(DLQ)
        for segment, record in reader.records(lane, window) if lane is not None else ():
            state = states.known(segment)[record.partition]
            yield read.letter(record, segment, is_replayed=state.was_done(record.offset))

    def matching(self, route: Route, matches: Callable[[DeadLetter], bool]) -> Iterator[DeadLetter]:
        """References first, then copies."""
        yield from filter(matches, self.references(route))
        yield from filter(matches, self.copies(route))

    def one(self, route: Route, key: TopicPartition, offset: int) -> tuple[DeadLetter, ReadResult]:
        """One rejected record and what its log holds; `UsageError` where nothing rejected is there.

        Raises `OperationFailedError` where the topic of a reference is gone, or another one now.
        """
        lane = route.lane(DLQ)
        for segment in lane.segments if lane is not None else ():
            if segment.topic == key.topic:
                found = self._read(self._clusters.of_segment(segment), key, offset)
                span = {key: range(found.span.start, found.span.end)}
                state = ReplayStates(self._clusters, route.stream).of(segment, span)[key]
                entry = found.entries[0] if found.entries else None
                return letter_of_entry(
                    key, offset, entry, segment.cluster_id, is_replayed=state.was_done(offset)
                ), found
        for letter in self.references(route):
            if (letter.place, letter.offset) == (key, offset):
                ports = self._clusters.of(route.clusters[letter.cluster_id], letter.cluster_id)
                topic = ports.log.places([key.topic]).get(key.topic)
                if letter.entry is None or topic is None or topic.topic_id != letter.entry.topic_id:
                    raise OperationFailedError(f"topic {key.topic} was deleted since, and the record with it")
                return letter, self._read(ports, key, offset)
        raise UsageError(
            f"nothing of stream {route.stream} was rejected at {key.topic}/{key.partition}@{offset}",
            hint=f"see what was with: {shell_command('streams dlq list', route.stream)}",
        )

    def _read(self, ports: ClusterClients, key: TopicPartition, offset: int) -> ReadResult:
        return RecordReader(ports.log, ports.data, self._clock, wait_s=self._wait_s).read(key, offset, 1)


MOST_BYTES = 16 << 20
"""A batch is written once its records have this many bytes."""
_AGAIN = "run the same command again: this batch is written again, all before it are done"


@dataclass(frozen=True, slots=True)
class _Item:
    record: Record
    target: ReplayTarget

    @property
    def written(self) -> BatchRecord:
        """The record as it is written again."""
        one = self.record
        value = None if one.is_null else one.value
        return BatchRecord(place=self.target.place, value=value, key=one.key, headers=one.headers)


States = dict[TopicPartition, ReplayState]


class ReplayStates:
    """The states of one stream, segment by segment."""

    def __init__(self, clusters: StreamClusters, stream: str) -> None:
        self._clusters, self._group = clusters, replay_group(stream)
        self._of: dict[int, States] = {}
        self.uncertain = 0
        """How many records an interrupted replay may have written already."""

    def of(self, segment: Segment, spans: Mapping[TopicPartition, range]) -> States:
        """What was replayed of a segment; read once. Raises like `read_replay_state`, and `TryLaterError`."""
        if segment.id not in self._of:
            groups = self._clusters.of_segment(segment).groups
            commits = groups.committed(self._group, list(spans))
            self._of[segment.id] = {
                key: read_replay_state(_require_settled(commits.get(key)), self._identity(segment, key), span.start)
                for key, span in spans.items()
            }
            self.uncertain += sum(state.in_flight.count for state in self._of[segment.id].values())
        return self._of[segment.id]

    def known(self, segment: Segment) -> States:
        """What `of` has read."""
        return self._of[segment.id]

    def write(self, segment: Segment, offsets: Mapping[TopicPartition, OffsetRanges], *, sent: bool) -> None:
        """Commit that records are about to be written, or with `sent` that they were; `TryLaterError` if refused."""
        states = self._of[segment.id]
        commits = {key: states[key].sent(some) if sent else states[key].sending(some) for key, some in offsets.items()}
        answers = self._clusters.of_segment(segment).groups.commit(self._group, commits)
        for key in commits:
            error = answers.get(key)
            if error is not None:
                raise TryLaterError(f"group {self._group} could not commit for {key}: {error}")

    def _identity(self, segment: Segment, key: TopicPartition) -> CommitIdentity:
        topic_id = topic_id_bytes(segment.topic_id)
        return CommitIdentity(
            cluster_id=segment.cluster_id, topic_id=topic_id, partition=key.partition, group=self._group
        )


@dataclass(slots=True)
class _Run:
    """What a run has done, and the batch that it collects: records of one segment of the DLQ lane."""

    states: ReplayStates
    budget: ReplayBudget
    batch: list[_Item] = field(default_factory=list)
    segment: Segment | None = None
    matching: int = 0
    replayed: int = 0
    stayed: Counter[str] = field(default_factory=Counter)
    targets: Counter[str] = field(default_factory=Counter)

    @property
    def is_full(self) -> bool:
        """Whether the batch is to be written."""
        count, limit = self.budget.batch, self.budget.limit
        wanted = count if limit is None else min(count, limit - self.replayed)
        return len(self.batch) >= wanted or sum(len(item.record.value) for item in self.batch) >= MOST_BYTES


class Replayer:
    """Replays one stream; `guard` is called before each batch and raises where another process may replay it."""

    def __init__(self, clusters: StreamClusters, clock: Clock, guard: Callable[[], None], *, wait_s: float) -> None:
        self._clusters, self._clock, self._guard, self._wait_s = clusters, clock, guard, wait_s
        self._reader = LaneReader(clusters, clock, wait_s=wait_s)
        self._writers: dict[str, BatchWriter] = {}

    def replay(
        self,
        route: Route,
        matches: Callable[[DeadLetter], bool],
        budget: ReplayBudget,
        *,
        to: str | None = None,
        is_plan: bool = False,
        origins: LetterOrigins | None = None,
    ) -> ReplayOutcome:
        """Replay what matches and was not replayed; a plan reads all and writes nothing.

        Raises `OperationFailedError` for records that a broker refuses: their batch counts as not replayed.
        """
        run = _Run(ReplayStates(self._clusters, route.stream), budget)
        origins = origins or StreamOrigins(route)
        for segment, letter, record in self._unreplayed(route, run.states, origins):
            if not matches(letter):
                continue
            run.matching += 1
            target = origins.target(letter, to)
            if isinstance(target, str):
                run.stayed[target] += 1
                continue
            run.targets[target.place.topic] += 1
            if is_plan:
                run.replayed += budget.limit is None or run.replayed < budget.limit
            else:
                if segment is not run.segment:
                    self._write(run)
                run.segment = segment
                run.batch.append(_Item(record, target))
                if run.is_full:
                    self._write(run)
                if run.replayed == budget.limit:
                    break
        self._write(run)
        return ReplayOutcome(
            matching=run.matching,
            replayed=run.replayed,
            uncertain=run.states.uncertain,
            stayed=dict(sorted(run.stayed.items())),
            is_plan=is_plan,
            targets=dict(sorted(run.targets.items())),
        )

    def _unreplayed(
        self, route: Route, states: ReplayStates, origins: LetterOrigins
    ) -> Iterator[tuple[Segment, DeadLetter, Record]]:
        """The records that no replay has written; offsets without a record are noted as done."""
        following: dict[TopicPartition, int] = {}

        def window(segment: Segment, spans: Mapping[TopicPartition, range]) -> dict[TopicPartition, range]:
            found = states.of(segment, spans)
            following.update({key: state.first for key, state in found.items()})
            return {key: range(state.first, spans[key].stop) for key, state in found.items()}

        for segment, record in self._reader.records(lane_of(route, DLQ), window):
            state = states.known(segment)[record.partition]
            state.skip(following[record.partition], record.offset)
            following[record.partition] = record.offset + 1
            if not state.was_done(record.offset):
                yield segment, origins.letter(record, segment, is_replayed=False), record

    def _write(self, run: _Run) -> None:
        """Write the batch, empty it, and wait until the rate allows for another one."""
        if run.segment is None or not run.batch:
            return
        started = self._clock.monotonic()
        offsets: dict[TopicPartition, list[tuple[int, int]]] = {}
        for item in run.batch:
            offsets.setdefault(item.record.partition, []).append((item.record.offset, item.record.offset + 1))
        ranges = {key: OffsetRanges.of(found) for key, found in offsets.items()}
        self._guard()
        run.states.write(run.segment, ranges, sent=False)
        self._send(run.batch)
        run.states.write(run.segment, ranges, sent=True)
        run.replayed += len(run.batch)
        pause(self._clock, max(0.0, len(run.batch) / run.budget.rate - (self._clock.monotonic() - started)))
        run.batch.clear()

    def _send(self, batch: list[_Item]) -> None:
        by_cluster: dict[str, list[_Item]] = {}
        for item in batch:
            by_cluster.setdefault(item.target.segment.cluster_id, []).append(item)
        for cluster_id, items in by_cluster.items():
            if cluster_id not in self._writers:
                data = self._clusters.of_segment(items[0].target.segment).data
                self._writers[cluster_id] = BatchWriter(data, wait_s=self._wait_s)
            self._writers[cluster_id].write([item.written for item in items], _AGAIN)


def _require_settled(commit: CommittedOffset | ItemError | None) -> CommittedOffset | None:
    if isinstance(commit, ItemError):
        raise TryLaterError(f"the commits of replays cannot be read: {commit}")
    return commit


AT_ONCE = 100


@dataclass(slots=True)
class _Tally:
    copied: int = 0
    waiting: list[int | None] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


class RejectCopier:
    """Copies the references of one stream; `guard` raises where another process may copy them."""

    def __init__(self, clusters: StreamClusters, clock: Clock, guard: Callable[[], None], *, wait_s: float) -> None:
        self._clusters, self._clock, self._guard, self._wait_s = clusters, clock, guard, wait_s

    def copy(self, route: Route, *, ahead_s: float | None, is_plan: bool = False) -> CopyOutcome:
        """Copy what may be deleted within `ahead_s`, or everything where that is None; `is_plan`: only read and count.

        Raises `RefusedError` where the DLQ lane has no active segment, and what brokers say of a write.
        """
        target = lane_of(route, DLQ).active
        if target is None:
            raise RefusedError(f"lane {DLQ} of stream {route.stream} has no active segment")
        tally = _Tally()
        writer = None if is_plan else BatchWriter(self._clusters.of_segment(target).data, wait_s=self._wait_s)
        for cluster_id, profile in sorted(route.clusters.items()):
            ports = self._clusters.of(profile, cluster_id)
            ledger = RejectLedger(ports, self._clock, wait_s=self._wait_s)
            mine = (route.stream, cluster_id)
            entries = [e for e in ledger.read()[0].values() if (e.place.stream, e.place.cluster_id) == mine]
            batch: list[tuple[LedgerReject, LogEntry]] = []
            segments = (*route.segments(), *route.left())
            known = {topic_id_bytes(s.topic_id) for _, s in segments if s.cluster_id == cluster_id}
            for entry, found in self._found(ports, known, self._due(ports, entries, ahead_s, tally), tally):
                batch.append((entry, found))
                if len(batch) >= AT_ONCE or sum(one.size for _, one in batch) >= MOST_BYTES:
                    self._write(target, writer, ledger, batch, tally)
            self._write(target, writer, ledger, batch, tally)
        return CopyOutcome(
            copied=tally.copied,
            waiting=len(tally.waiting),
            next_at_ms=min((at for at in tally.waiting if at is not None), default=None),
            lost=tally.lost,
            failed=tally.failed,
            is_plan=is_plan,
        )

    def _due(
        self, ports: ClusterClients, entries: Sequence[LedgerReject], ahead_s: float | None, tally: _Tally
    ) -> Iterator[LedgerReject]:
        """Those to copy now; the others are counted as waiting."""
        from kafkakit.streams.lag.api_act import topic_facts

        facts = topic_facts(ports.admin, sorted({entry.place.topic for entry in entries})) if entries else {}
        now_ms = epoch_ms(self._clock.now())
        for entry in entries:
            known = facts.get(entry.place.topic)
            if known is None or ahead_s is None:
                yield entry
                continue
            settings = SourceRetention(
                retention_ms=known.retention_ms,
                retention_bytes=known.retention_bytes,
                is_compacted=known.is_compacted,
            )
            at_ms = copy_at_ms(entry.place.at_ms, settings, round(1000 * ahead_s))
            if at_ms is not None and at_ms <= now_ms:
                yield entry
            else:
                tally.waiting.append(at_ms)

    def _found(
        self, ports: ClusterClients, topic_ids: Collection[bytes], entries: Iterator[LedgerReject], tally: _Tally
    ) -> Iterator[tuple[LedgerReject, LogEntry]]:
        """The records of these references; those that are gone or cannot be read are noted.

        A reference to a topic that is none of the stream's is not followed: an entry must not lead to other data.
        """
        reader = RecordReader(ports.log, ports.data, self._clock, wait_s=self._wait_s)
        for entry in entries:
            place = entry.place
            key = TopicPartition(place.topic, place.partition)
            name = f"{place.topic}/{place.partition}@{place.offset} of group {entry.failure.group}"
            if entry.topic_id not in topic_ids:
                tally.failed[name] = "its topic is not in the stream's route"
                continue
            try:
                known = ports.log.places([place.topic]).get(place.topic)
                if known is None or known.topic_id != entry.topic_id:
                    tally.lost[name] = "its topic was deleted"
                    continue
                found = reader.read(key, place.offset, 1)
            except KafkakitError as error:
                tally.failed[name] = error.message
                continue
            if found.problem:
                tally.lost[name] = found.problem
            elif found.entries[0].instead:
                tally.failed[name] = found.entries[0].instead
            else:
                yield entry, found.entries[0]

    def _write(
        self,
        target: Segment,
        writer: BatchWriter | None,
        ledger: RejectLedger,
        batch: list[tuple[LedgerReject, LogEntry]],
        tally: _Tally,
    ) -> None:
        """Write copies, then their references' tombstones; empties the batch. Without a writer they are counted."""
        tally.copied += len(batch)
        if not batch or writer is None:
            batch.clear()
            return
        self._guard()
        copies = [
            BatchRecord(
                place=TopicPartition(target.topic, entry.place.partition % target.partitions),
                value=found.value,
                key=found.key,
                headers=provenance_headers(found.headers, entry.place, entry.failure),
            )
            for entry, found in batch
        ]
        writer.write(copies, "their references stay: run the same command again")
        ledger.remove([entry.key for entry, _ in batch])
        batch.clear()


def copy_again_and_again(
    look: Callable[[], CopyOutcome],
    clock: Clock,
    every_s: float,
    *,
    say: Callable[[CopyOutcome], None],
    warn: Callable[[str], None],
    first: CopyOutcome,
) -> None:
    """Look every `every_s` seconds until the program is stopped; what changed is printed.

    A cluster or store that does not answer is tried again, and so are records that a broker did not take.
    """
    before = first
    say(before)
    for _ in islice(repeat_every(clock, every_s), 1, None):
        try:
            now = look()
        except LeaseLostError:
            raise
        except (TryLaterError, OperationFailedError) as error:
            warn(f"{error.message}; trying again")
            continue
        if now.copied or (now.lost, now.failed) != (before.lost, before.failed):
            say(now)
        before = now


class Purger:
    """Plans and carries out purges of one stream."""

    def __init__(self, clusters: StreamClusters, clock: Clock, *, wait_s: float) -> None:
        self._clusters, self._clock, self._wait_s = clusters, clock, wait_s

    def plan(self, route: Route, matches: Callable[[DeadLetter], bool]) -> PurgePlan:
        """What a purge of what matches would delete now; reads all rejected records."""
        reader = LetterReader(self._clusters, self._clock, wait_s=self._wait_s)
        return plan_purge((letter, matches(letter)) for letter in reader.matching(route, lambda letter: True))

    def carry_out(self, route: Route, plan: PurgePlan) -> PurgeOutcome:
        """Delete what the plan names and nothing that came later; brokers answer for each partition."""
        errors: dict[str, ItemError] = {}
        for cluster_id, profile in sorted(route.clusters.items()):
            ports = self._clusters.of(profile, cluster_id)
            cuts = {cut.place: cut.offset for cut in plan.cuts if cut.cluster_id == cluster_id and cut.records}
            if cuts:
                answers = ports.admin.delete_records(cuts)
                errors |= {f"{key} on {cluster_id}": error for key, error in answers.items() if error is not None}
            RejectLedger(ports, self._clock, wait_s=self._wait_s).remove(plan.references.get(cluster_id, ()))
        return PurgeOutcome(plan=plan, errors=errors)


MOST_RECORDS = 2_000_000
"""Of each side; a record takes about 300 bytes of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRange:
    """Ids made from `from_ms` to before `to_ms`; read are records whose time is at most `margin_ms` outside."""

    from_ms: int
    to_ms: int
    margin_ms: int


class Reconciler:
    """Compares streams; reads their lanes but `dlq`, joins no group and writes nothing."""

    def __init__(self, clusters: StreamClusters, clock: Clock, *, wait_s: float) -> None:
        self._clusters = clusters
        self._reader = LaneReader(clusters, clock, wait_s=wait_s)

    def compare(self, primary: Route, secondary: Route, compared: ComparedRange) -> Reconciliation:
        """Read both sides and compare them; `RefusedError` for more than two million records of a side."""
        first, second = self._seen(primary, compared), self._seen(secondary, compared)
        return reconcile(first, second, compared.from_ms, compared.to_ms)

    def _seen(self, route: Route, compared: ComparedRange) -> Iterator[SeenRecord | None]:
        def window(segment: Segment, spans: Mapping[TopicPartition, range]) -> dict[TopicPartition, range]:
            first = self._offsets_at(segment, spans, compared.from_ms - compared.margin_ms)
            stop = self._offsets_at(segment, spans, compared.to_ms + compared.margin_ms)
            return {key: range(max(first[key], span.start), min(stop[key], span.stop)) for key, span in spans.items()}

        count = 0
        for lane in route.lanes:
            for _, record in self._reader.records(lane, window) if lane.name != DLQ else ():
                count += 1
                if count > MOST_RECORDS:
                    raise RefusedError(
                        f"stream {route.stream} has more than {MOST_RECORDS:,} records in this range",
                        hint="compare parts of it: --since and --until",
                    )
                yield seen_record(record.headers, record.key)

    def _offsets_at(
        self, segment: Segment, spans: Mapping[TopicPartition, range], at_ms: int
    ) -> dict[TopicPartition, int]:
        found = self._clusters.of_segment(segment).log.offsets_at(dict.fromkeys(spans, max(0, at_ms)))
        offsets = {}
        for key, span in spans.items():
            offset = found.get(key)
            if isinstance(offset, ItemError):
                raise TryLaterError(f"the offsets of {key} at a time cannot be read: {offset}")
            offsets[key] = span.stop if offset is None else offset
        return offsets


_POLL_S = 0.1
Window = Callable[[Segment, Mapping[TopicPartition, range]], Mapping[TopicPartition, range]]
"""The part of what the partitions of a segment hold that is to be read."""


class LaneReader:
    """Reads lanes of a route; `TryLaterError` where a topic gives no records for `wait_s`."""

    def __init__(self, clusters: StreamClusters, clock: Clock, *, wait_s: float) -> None:
        self._clusters, self._clock, self._wait_s = clusters, clock, wait_s

    def records(self, lane: Lane, window: Window) -> Iterator[tuple[Segment, Record]]:
        """Every committed record of the window, which is taken of each segment when its turn comes."""
        for segment in lane.segments:
            wanted = window(segment, self._clusters.spans(segment, self._wait_s))
            spans = {key: span for key, span in wanted.items() if span}
            if spans:
                yield from self._read(segment, spans)

    def _read(self, segment: Segment, spans: Mapping[TopicPartition, range]) -> Iterator[tuple[Segment, Record]]:
        data = self._clusters.of_segment(segment).data
        left = set(spans)
        deadline = self._clock.monotonic() + self._wait_s
        with closing(data.consumer(sorted(left), {key: span.start for key, span in spans.items()})) as consumer:
            while left:
                for record in consumer.poll(_POLL_S):
                    end = spans[record.partition].stop
                    if record.offset < end:
                        yield segment, record
                    if record.offset >= end - 1:
                        left.discard(record.partition)
                    deadline = self._clock.monotonic() + self._wait_s
                left -= set(consumer.ended())
                if left and self._clock.monotonic() > deadline:
                    raise TryLaterError(f"topic {segment.topic} gave no records for {self._wait_s:g} s")


def lane_of(route: Route, name: str) -> Lane:
    """The lane of a route; `UsageError` where it has none of this name."""
    lane = route.lane(name)
    if lane is None:
        known = ", ".join(lane.name for lane in route.lanes)
        raise UsageError(f"stream {route.stream} has no lane {name[:40]!r}", hint=f"it has {known}")
    return lane
