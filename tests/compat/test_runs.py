"""Journals of runs that the version before wrote: what they mean, and that today's executor ends those runs well."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ResourceKind
from kafkakit.core.documents import decode_plan
from kafkakit.core.journal_lines import RecordKind
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.core.plan import identity_of
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.decide.journal import JournalSubject, Record, RunState, decode_journal, replay
from kafkakit.execution.decide.schedule.work import BrokerRates
from tests.compat.recorded import CLUSTER, FOLDER, name_of, recorded
from tests.fakes.admin import FakeCluster
from tests.invariants.journal import verify_journal
from tests.rigs.reassign import Harness

MB = 1_000_000
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADER_LIST, FOLLOWER_LIST = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
JOURNALS = recorded("journal/*.journal")
# name: lines, runs, direction, verdict, unsettled, throttles left, fencing token, cancelled, effects without an answer
STATES: dict[str, tuple[int, int, str, str, bool, bool, int, bool, list[JournalSubject]]] = {
    "applied-and-rolled-back": (37, 2, "rollback", "complete", False, False, 2, False, []),
    "cleaned": (21, 1, "apply", "", True, False, 1, False, []),
    "cleaned-but-for-a-hung-broker": (19, 1, "apply", "", True, True, 1, False, []),
    "complete": (19, 1, "apply", "complete", False, False, 1, False, []),
    "complete-without-throttle": (8, 1, "apply", "complete", False, False, 1, False, []),
    "dirs-complete": (16, 1, "apply", "complete", False, False, 1, False, []),
    "interrupted": (11, 1, "apply", "", True, True, 1, False, []),
    "interrupted-and-resumed": (21, 2, "apply", "complete", False, False, 2, False, []),
    "interrupted-and-rolled-back": (27, 2, "rollback", "complete", False, False, 2, True, []),
    "killed-while-writing-a-line": (6, 1, "apply", "", True, True, 1, False, [JournalSubject.THROTTLE]),
    "killed-with-throttles-left": (10, 1, "apply", "", True, True, 1, False, [JournalSubject.REASSIGN]),
    "paused-changed-aborted": (29, 2, "abort", "incomplete", True, False, 1, True, []),
    "released": (13, 1, "apply", "", True, False, 1, False, []),
}
UNFINISHED = [path for path in JOURNALS if STATES[path.stem][4]]


def records_of(path: Path) -> tuple[Record, ...]:
    return decode_journal(path.read_bytes(), path.name).records


def state_of(name: str) -> RunState:
    path = FOLDER / "journal" / f"{name}.journal"
    return replay(records_of(path), path.name)


@pytest.mark.parametrize("path", JOURNALS, ids=name_of)
def test_a_journal_means_what_it_meant(path: Path) -> None:
    records, state = records_of(path), state_of(path.stem)
    found = (
        len(records),
        state.runs,
        state.direction,
        state.verdict,
        state.unsettled,
        state.throttled,
        state.token,
        state.cancelled,
        [record.what for record in state.open_intents.values()],
    )
    assert found == STATES[path.stem]
    verify_journal(path.read_bytes(), torn_ok="writing-a-line" in path.stem, settled=not state.unsettled)
    plan = "dirs" if path.stem == "dirs-complete" else "p"
    plan_data = (FOLDER / "journal" / f"{plan}.plan.json").read_bytes()
    assert (state.cluster_id, state.fingerprint) == (CLUSTER, identity_of(decode_plan(plan_data, plan)))
    assert state.wanted == (None if "without-throttle" in path.stem else BrokerRates(into=5 * MB, out=5 * MB))
    if state.direction == "abort":
        assert state.promise is None
    else:
        assert state.promise is not None
        assert state.promise.promised_s >= state.promise.bound_s > 0


def test_throttles_that_a_killed_run_left_are_known_with_what_they_replaced() -> None:
    state = state_of("killed-with-throttles-left")
    rates = {(key.name, key.key): (hold.earlier, set(hold.ours)) for key, hold in state.rates.items()}
    assert rates == {
        ("1", LEADER_RATE): ("777", {"5000000"}),
        ("2", LEADER_RATE): (None, {"5000000"}),
        ("3", FOLLOWER_RATE): (None, {"5000000"}),
    }
    entries = {(key.name, key.key): set(held) for key, held in state.entries.items()}
    assert entries == {("t", LEADER_LIST): {"0:1", "0:2", "2:1", "2:2"}, ("t", FOLLOWER_LIST): {"0:3", "2:3"}}
    targets = {TopicPartition("t", 0): (3, 2), TopicPartition("t", 2): (1, 3)}
    assert {key: state.submitted[key] for key in targets} == targets


def test_a_hung_broker_is_still_owed_its_old_rate() -> None:
    state = state_of("cleaned-but-for-a-hung-broker")
    assert [(key.kind, key.name, key.key) for key in state.rates] == [(ResourceKind.BROKER, "2", LEADER_RATE)]
    assert not state.entries


def test_a_log_dir_that_was_sent_is_remembered() -> None:
    sent = state_of("dirs-complete").dirs_sent
    moves = decode_plan((FOLDER / "journal" / "dirs.plan.json").read_bytes(), "p").dir_moves
    assert len(moves) == 6
    for move in moves:
        assert sent[TopicPartitionReplica(move.topic, move.partition, move.broker)][-1] == move.target_dir


class RecordedBench(Harness):
    """Three brokers as the recorded runs found them; a journal's effects may be made on them again."""

    def __init__(self, path: Path) -> None:
        cluster = FakeCluster({1: "a", 2: "b", 3: "c"}, line_rate=10 * MB, dirs_per_broker=2)
        rows = {0: (1, 2), 1: (2, 1), 2: (1, 2)}
        cluster.add_topic("t", rows, size_bytes=20 * MB, configs={FOLLOWER_LIST: "1:7"})
        cluster.brokers[1].configs[LEADER_RATE] = "777"
        super().__init__(cluster, decode_plan((FOLDER / "journal" / "p.plan.json").read_bytes(), "p"))
        self.lists_before, self.configs_before = self.lists(), self.configs()
        self.file.data = path.read_bytes()
        for record in records_of(path):
            if record.kind is RecordKind.INTENT:
                self._repeat(record)
        if "released" in path.stem:  # another process took the throttles away
            for broker in cluster.brokers.values():
                broker.configs.clear()
            cluster.topics["t"].configs.clear()
            self.configs_before = self.configs()
        if "hung" in path.stem:
            cluster.brokers[2].configs[LEADER_RATE] = "5000000"

    def journal(self) -> RunJournal:
        return RunJournal(self.file, self.clock, cluster_id=self.plan.cluster_id, fingerprint=identity_of(self.plan))

    def _repeat(self, record: Record) -> None:
        data: Any = record.data
        if record.what in (JournalSubject.THROTTLE, JournalSubject.RESTORE):
            self.cluster.alter_configs(
                [
                    ConfigChange(
                        kind=ResourceKind(c["kind"]),
                        name=c["name"],
                        key=c["key"],
                        op=ConfigOp(c["op"]),
                        value=c["value"],
                    )
                    for c in data["changes"]
                ]
            )
        elif record.what is JournalSubject.REASSIGN:
            self.cluster.reassign({TopicPartition(t, p): tuple(row) for t, p, row in data["targets"]})
        elif record.what is JournalSubject.CANCEL:
            self.cluster.cancel([TopicPartition(t, p) for t, p in data["partitions"]])
        else:
            assert record.what is JournalSubject.DIRS


def resume(bench: Harness) -> Any:
    return bench.apply(rate=5 * MB)


def undo(bench: Harness) -> Any:
    return bench.rollback(rate=5 * MB)


@pytest.mark.parametrize("finish", [resume, undo])
@pytest.mark.parametrize("path", UNFINISHED, ids=name_of)
def test_an_unfinished_run_is_ended_by_this_version(path: Path, finish: Callable[[Harness], Any]) -> None:
    bench = RecordedBench(path)
    targets = {(move.topic, move.partition): move.after for move in bench.plan.moves}
    outcome = finish(bench)
    assert outcome.ok, outcome
    expected = bench.lists_before if finish is undo else {**bench.lists_before, **targets}
    assert (bench.lists(), bench.configs()) == (expected, bench.configs_before)
    assert not bench.cluster.reassignments()
    verify_journal(bench.file.data)


def test_a_changed_line_is_refused() -> None:
    data = (FOLDER / "journal" / "complete.journal").read_bytes()
    assert hashlib.sha256(data.split(b"\n")[0]).hexdigest().encode() in data.split(b"\n")[1]
    with pytest.raises(Exception, match="does not continue the line before it"):
        decode_journal(data.replace(b'"777"', b'"778"', 1), "changed")
