"""A cluster in memory for edits of commits: one group, a topic of a few partitions, records with known times."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.model import TopicPartition
from kafkakit.ports.acting import ProgressBar
from kafkakit.streams.commits.act.editing import EditJournal, Editor, Edits, edits_folder
from kafkakit.streams.commits.act.reading import GroupObserver, PartitionScope
from kafkakit.streams.commits.decide.editing.decision import decide_edit, times_wanted
from kafkakit.streams.commits.decide.editing.edit import (
    EditAllowances,
    EditOpening,
    EditOutcome,
    EditPlan,
    EditRequest,
    Verb,
    times_of,
)
from kafkakit.streams.model.commit import CommitIdentity, CommitState, OffsetRanges
from kafkakit.streams.model.dialects.registry import read_metadata
from kafkakit.streams.model.kkm1.encode import encode_commit
from tests.clusters.streams_batches import Rec, batch
from tests.fakes.admin import FakeClock
from tests.fakes.groups import FakeGroups
from tests.fakes.log_reader import FakeLogReader

CLUSTER, GROUP, TOPIC = "fake-cluster", "orders", "payments"
START_MS = 1_758_335_000_000
NOW = datetime(2026, 11, 22, 15, 0, tzinfo=UTC)


class Progress:
    def update(self, done: float, total: float, note: str = "") -> None:
        del done, total, note


class LineReporter:
    """Keeps the lines that were reported."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    def warn(self, line: str) -> None:
        self.said.append(line)

    def progress(self, label: str) -> AbstractContextManager[ProgressBar]:
        self.said.append(label)
        return nullcontext(Progress())


class Rig:
    """One group over one topic; every partition holds `records` records, one a second from START_MS on."""

    def __init__(self, folder: Path, *, partitions: int = 2, records: int = 300, limit: int = 4096) -> None:
        self.groups = FakeGroups(limit=limit)
        self.log = FakeLogReader(CLUSTER)
        self.log.add_topic(TOPIC, partitions)
        self.groups.add_topic(TOPIC, partitions)
        self.keys = tuple(TopicPartition(TOPIC, number) for number in range(partitions))
        for key in self.keys:
            self.log.append(key, batch(0, [Rec(None, b"v", 1000 * n) for n in range(records)], base_ms=START_MS))
        self.clock, self.reporter = FakeClock(NOW), LineReporter()
        self.edits = Edits(edits_folder(folder, CLUSTER), self.clock)
        self.limit = limit

    def identity(self, key: TopicPartition) -> CommitIdentity:
        topic_id = self.log.places([TOPIC])[TOPIC].topic_id
        return CommitIdentity(cluster_id=CLUSTER, topic_id=topic_id, partition=key.partition, group=GROUP)

    def commit_kkm1(self, key: TopicPartition, state: CommitState, alphabets: tuple[str, ...] = ("b",)) -> str:
        text = encode_commit(state, self.identity(key), limit_chars=self.limit - 1, alphabets=alphabets).text
        self.groups.seed(GROUP, key, state.base, text)
        return text

    def state(self, key: TopicPartition) -> CommitState:
        held = self.committed(key)
        assert held is not None
        reading = read_metadata(held.metadata, held.offset, self.identity(key))
        assert reading.problem is None
        return reading.state

    def dialect(self, key: TopicPartition) -> str:
        held = self.committed(key)
        assert held is not None
        return read_metadata(held.metadata, held.offset).dialect

    def committed(self, key: TopicPartition) -> CommittedOffset | None:
        found = self.groups.committed(GROUP, [key]).get(key)
        assert found is None or isinstance(found, CommittedOffset)
        return found

    @property
    def observer(self) -> GroupObserver:
        return GroupObserver(self.groups, self.log, cluster_id=CLUSTER, limit_chars=self.limit)

    def plan(self, verb: Verb, *numbers: int, uncommitted: bool = False, **options: object) -> EditPlan:
        request = EditRequest(verb=verb, allows=EditAllowances(**options))  # type: ignore[arg-type]
        scope = PartitionScope(topic=TOPIC, partitions=numbers, uncommitted=uncommitted)
        observed = self.observer.look(GROUP, scope, times_of(verb), self.clock.now())
        plan = decide_edit(observed, request)
        wanted = times_wanted(plan)
        return decide_edit(observed.with_times(self.observer.record_times(wanted)), request) if wanted else plan

    def editor(self) -> Editor:
        return Editor(self.groups, self.log, self.reporter, lambda name: f"finish or undo {name}")

    def opening(self, plan: EditPlan) -> EditOpening:
        return EditOpening(cluster_id=CLUSTER, group=GROUP, verb=plan.verb, who="me@here", undoes=plan.undoes)

    def apply(self, plan: EditPlan, journal: EditJournal | None = None) -> EditOutcome:
        held = journal or self.edits.begin(plan.verb, GROUP)
        return self.editor().carry_out(plan, held, self.opening(plan))

    def do(self, verb: Verb, *numbers: int, **options: object) -> EditOutcome:
        return self.apply(self.plan(verb, *numbers, **options))  # type: ignore[arg-type]


def ranges(*pairs: tuple[int, int]) -> OffsetRanges:
    return OffsetRanges.of(pairs)


def only(*offsets: int) -> OffsetRanges:
    return OffsetRanges.of((offset, offset + 1) for offset in offsets)


def journals(folder: Path) -> Iterable[Path]:
    return sorted(edits_folder(folder, CLUSTER).glob("*.journal"))
