"""Edits of commits on real brokers, by the command line: what is stored, what is refused, what a reader sees."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafkakit.adapters.kafka.log import KafkaLog
from kafkakit.core.cluster_facts import CommittedOffset, GroupState, LogSpan
from kafkakit.core.errors import ExitCode
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.commit import CommitIdentity, CommitState, OffsetRanges, ReplayWindow
from kafkakit.streams.model.dialects.registry import read_metadata
from kafkakit.streams.model.kkm1.encode import encode_commit
from kafkakit.streams.model.log_batches import Batch, LogRecord, batches_of, records_of
from tests.integration.conftest import SandboxCluster
from tests.integration.stream_clients import (
    OffsetsTransaction,
    loner,
    member,
    poison_pill,
    produce,
    share_member,
    until_left,
)
from tests.integration.test_streams_contract import open_groups
from tests.invariants.edit_journal import verify_edit_journal
from tests.rigs.command_line import Home, Ran
from tests.rigs.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("slow_brokers_answer")]

RECORDS = 300
OFFSETS = TopicPartition("__consumer_offsets", 0)


class Harness:
    """One topic of two partitions with a record each second up to now, and groups of our own."""

    def __init__(self, cluster: SandboxCluster, stack: ExitStack) -> None:
        self.cluster = cluster
        self.groups = stack.enter_context(closing(open_groups(cluster)))
        self.log = stack.enter_context(closing(KafkaLog(cluster.bootstrap_servers, cluster.security)))
        self.topic = "edits"
        self.key = TopicPartition(self.topic, 0)
        with closing(cluster.open_admin()) as admin:
            assert admin.create_topic(self.topic, {0: cluster.broker_ids[:1], 1: cluster.broker_ids[:1]}, {}) is None
        self.span(self.key)
        self.start_ms = round(time.time() * 1000) - 1000 * RECORDS
        values = [b"v"] * RECORDS
        produce(cluster, self.key, values, timestamp_ms=self.start_ms, step_ms=1000, settings={"linger.ms": 50})

    def identity(self, group: str) -> CommitIdentity:
        topic_id = self.log.places([self.topic])[self.topic].topic_id
        return CommitIdentity(cluster_id=self.log.cluster_id(), topic_id=topic_id, partition=0, group=group)

    def stick(self, group: str, stuck: int = 100) -> None:
        """Commit as librdkafka does, with its NUL: all done but the record at `stuck`."""
        text = poison_pill(
            self.identity(group), stuck=stuck, done_to=RECORDS, oldest_ms=self.start_ms + 1000 * stuck,
            newest_ms=self.start_ms + 1000 * (RECORDS - 1),
        )  # fmt: skip
        with loner(self.cluster, group) as client:
            client.commit({self.key: (stuck, text)})

    def committed(self, group: str) -> CommittedOffset:
        held = self.groups.committed(group)[self.key]
        assert isinstance(held, CommittedOffset)
        return held

    def state(self, group: str) -> CommitState:
        held = self.committed(group)
        reading = read_metadata(held.metadata, held.offset, self.identity(group))
        assert reading.problem is None, reading
        return reading.state

    def span(self, key: TopicPartition) -> LogSpan:
        """The ends of a log, once it has a leader, who may have moved."""
        return until(lambda: span if isinstance(span := self.log.spans([key])[key], LogSpan) else None)

    def stored(self, group: str) -> bytes:
        """The value of the group's newest record in the offsets topic without its time, as the broker wrote it."""
        span = self.span(OFFSETS)
        found, at = b"", span.start
        while at < span.end:
            data = self.log.fetch({OFFSETS: at}, max_bytes=1 << 20, wait_ms=100)[OFFSETS].records
            for batch in batches_of(data):
                if not isinstance(batch, Batch):
                    break
                at = batch.next_offset
                for record in records_of(data, batch):
                    if isinstance(record, LogRecord) and record.value and self._is_of(record.key, group):
                        found = record.value
        return without_time(found)

    def _is_of(self, key: bytes | None, group: str) -> bool:
        names = (name.encode() for name in (group, self.topic))
        return key == b"\0\1" + b"".join(len(name).to_bytes(2, "big") + name for name in names) + bytes(4)

    def run(self, *words: str, code: int = 0) -> Ran:
        """A command of the group `streams commits`, in this process: it starts faster."""
        ran = Home(self.cluster.home.folder).run("--profile", self.cluster.name, "streams", "commits", *words)
        assert ran.code == code, ran.stdout + ran.stderr
        return ran

    def plan(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--dry-run", "-o", "json").stdout)

    def place(self) -> tuple[str, ...]:
        return ("--topic", self.topic, "--partition", "0")


def without_time(value: bytes) -> bytes:
    """An OffsetCommitValue of version 3 or 4 without its commit time: version, offset, leader epoch, metadata."""
    version = int.from_bytes(value[:2], "big")
    assert version in (3, 4)
    at = 14
    if version == 3:
        at += 2 + int.from_bytes(value[at : at + 2], "big")
    else:
        size = shift = 0
        while True:
            byte, at = value[at], at + 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        at += size - 1
    return value[:at]


@pytest.fixture(scope="module")
def scene(cluster: SandboxCluster) -> Iterator[Harness]:
    with ExitStack() as stack:
        yield Harness(cluster, stack)


def test_skip_then_undo_leaves_the_very_bytes_that_were_stored(scene: Harness) -> None:
    scene.stick("skipping")
    before, held = scene.stored("skipping"), scene.committed("skipping")
    assert held.metadata.endswith("\0")
    plan = scene.plan("skip", "skipping", *scene.place(), "--offsets", "100")
    assert (plan["passed"], plan["delivered_again"]) == (1, 0)
    assert scene.stored("skipping") == before, "a plan wrote"
    words = ("skip", "skipping", *scene.place(), "--offsets", "100", "--apply", "--yes")
    done = scene.run(*words, "--expect", plan["fingerprint"], "-o", "json")
    state = scene.state("skipping")
    assert (state.base, state.done) == (RECORDS, OffsetRanges())
    journal = Path(json.loads(done.stdout)["journal"])
    verify_edit_journal(journal.read_bytes())
    assert scene.stored("skipping") != before
    scene.run("undo", "last", "--group", "skipping", "--apply", "--yes")
    assert scene.stored("skipping") == before
    assert scene.committed("skipping") == held


def test_a_live_group_is_refused_and_keeps_its_commit(scene: Harness) -> None:
    scene.stick("living")
    before = scene.committed("living")
    for protocol in ("classic", "consumer"):
        with member(scene.cluster, "living", [scene.topic], protocol=protocol):
            refused = scene.run("skip", "living", *scene.place(), "--offsets", "100", "--apply", "--yes", code=2)
        assert "group living is live" in refused.stderr
        assert scene.committed("living") == before


def test_replay_opens_a_window_that_a_reader_sees_as_pending(scene: Harness) -> None:
    scene.stick("replaying")
    first, last = scene.start_ms + 20_000, scene.start_ms + 30_000
    times = [time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms / 1000)) + f".{ms % 1000:03}Z" for ms in (first, last)]
    words = ("replay", "replaying", *scene.place(), "--from", times[0], "--to", times[1])
    done = json.loads(scene.run(*words, "--apply", "--yes", "-o", "json").stdout)
    assert done["delivered_again"] == 10
    state = scene.state("replaying")
    assert state.base == 20
    assert state.pending == OffsetRanges.of([(20, 30), (100, 101)])
    assert state.replay == ReplayWindow(start=20, end=30, request_id=done["request_id"])
    assert state.watermark is not None
    assert state.watermark.oldest_ms == first
    shown = scene.run("show", "replaying")
    assert "20-29" in shown.stdout


def test_an_open_transaction_of_the_group_is_waited_for(scene: Harness) -> None:
    scene.stick("in-doubt")
    with OffsetsTransaction(scene.cluster, "edits-in-doubt") as transaction:
        transaction.begin()
        with loner(scene.cluster, "in-doubt") as owner:
            transaction.send(owner, {scene.key: (150, "")})
        later = scene.run("skip", "in-doubt", *scene.place(), "--offsets", "100", "--dry-run", code=ExitCode.TRY_LATER)
        assert "open transaction" in later.stderr


def test_a_plain_group_is_reset_to_a_time_seeded_and_forgotten_again(scene: Harness) -> None:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(scene.start_ms / 1000 + 51))
    scene.run("reset", "fresh", "--topic", scene.topic, "--to", at, "--apply", "--yes")
    held = scene.groups.committed("fresh")
    offsets = {key.partition: c.offset for key, c in held.items() if isinstance(c, CommittedOffset)}
    assert offsets[0] in (50, 51)
    assert offsets[1] == 0
    scene.run("undo", "last", "--group", "fresh", "--apply", "--yes")
    assert scene.groups.committed("fresh") == {}


KILLED = """
import os, signal, sys
from kafkakit.adapters.kafka.groups import KafkaGroups
from kafkakit.cli.root import run

real = KafkaGroups.commit

def commit(self, group, offsets):
    if sys.argv[1] == "after":
        real(self, group, offsets)
    os.kill(os.getpid(), signal.SIGKILL)

KafkaGroups.commit = commit
run(sys.argv[2:])
"""


@pytest.mark.parametrize(("when", "way"), [("before", "finish"), ("after", "undo")])
def test_an_edit_killed_around_its_write_is_settled_by_its_journal(scene: Harness, when: str, way: str) -> None:
    group = f"killed-{when}"
    scene.stick(group)
    held = scene.committed(group)
    words = ("skip", group, *scene.place(), "--offsets", "100", "--apply", "--yes")
    program = (sys.executable, "-c", KILLED, when, "--profile", scene.cluster.name, "streams", "commits")
    killed = subprocess.run(
        [*program, *words], env={**os.environ, **scene.cluster.env}, capture_output=True, timeout=800, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (scene.committed(group) == held) == (when == "before")
    refused = scene.run(*words, code=2).stderr
    assert "was interrupted" in refused
    journal = refused.partition("streams commits finish ")[2].split()[0]
    assert "was stopped while it wrote" in scene.run(way, journal, "--dry-run").stdout
    scene.run(way, journal, "--apply", "--yes")
    if way == "undo":
        assert scene.committed(group) == held
    else:
        assert scene.state(group).base == RECORDS
    verify_edit_journal(Path(journal).read_bytes())


def test_translate_writes_what_parallel_consumer_reads(scene: Harness) -> None:
    state = CommitState(base=100, done=OffsetRanges.of([(101, 103), (105, 110)]))
    text = encode_commit(state, scene.identity("moving"), limit_chars=4095).text
    scene.groups.commit("moving", {scene.key: CommittedOffset(offset=100, metadata=text)})
    scene.run("translate", "moving", "--all-topics", "--to", "pc", "--apply", "--yes")
    assert scene.state("moving").done == state.done
    assert scene.committed("moving").metadata in ("bAAK5gMA", "bwAAAArmAwA=")


def test_the_offsets_of_a_file_are_committed_and_taken_back(scene: Harness, tmp_path: Path) -> None:
    scene.stick("from-a-file")
    before, held = scene.stored("from-a-file"), scene.committed("from-a-file")
    shown = scene.run("show", "from-a-file", "-o", "tsv").stdout
    rows = [line.split("\t")[:3] for line in shown.splitlines()]
    assert rows == [[scene.topic, "0", "100"]]
    path = tmp_path / "offsets.csv"
    path.write_text(
        "".join(f"from-a-file,{t},{p},{int(o) - 60}\n" for t, p, o in rows) + f"other,{scene.topic},1,5\r\n"
    )
    scene.run("reset", "from-a-file", "--from-csv", str(path), "--apply", "--yes")
    assert scene.state("from-a-file").base == 40
    path.write_text(f"{scene.topic},0,{RECORDS + 1}\n")
    refused = scene.run("reset", "from-a-file", "--from-csv", str(path), "--apply", "--yes", code=2)
    assert f"offsets.csv line 1: {scene.topic}-0: offset {RECORDS + 1} is outside of the log" in refused.stderr
    scene.run("undo", "last", "--group", "from-a-file", "--apply", "--yes")
    assert scene.stored("from-a-file") == before
    assert scene.committed("from-a-file") == held


@pytest.mark.parametrize("what", ["topic", "group"])
def test_what_is_deleted_comes_back_as_the_bytes_that_were_stored(scene: Harness, what: str) -> None:
    group = f"deleted-{what}"
    words = ("--all",) if what == "group" else ("--topic", scene.topic)
    scene.stick(group)
    before, held = scene.stored(group), scene.committed(group)
    for protocol in ("classic", "consumer"):
        with member(scene.cluster, group, [scene.topic], protocol=protocol):
            refused = scene.run("delete", group, *words, "--apply", "--yes", code=2)
        assert f"group {group} is live" in refused.stderr
        until_left(scene.groups, group)
    plan = scene.plan("delete", group, *words)
    assert [one["after"] for one in plan["partitions"]] == [None]
    assert scene.committed(group) == held, "a plan wrote"
    done = scene.run("delete", group, *words, "--apply", "--yes", "--expect", plan["fingerprint"], "-o", "json")
    assert scene.groups.committed(group) == {}
    names = {one.group for one in scene.groups.groups()}
    assert json.loads(done.stdout)["group_deleted"] is (what == "group")
    if what == "group":
        assert group not in names
    verify_edit_journal(Path(json.loads(done.stdout)["journal"]).read_bytes())
    scene.run("undo", "last", "--group", group, "--apply", "--yes")
    assert scene.stored(group) == before
    assert scene.committed(group) == held


@pytest.mark.parametrize("protocol", ["classic", "consumer", "share"])
def test_a_group_that_committed_nothing_is_deleted(scene: Harness, protocol: str) -> None:
    group = f"bare-{protocol}"
    joins = partial(member, protocol=protocol) if protocol != "share" else share_member
    with joins(scene.cluster, group, [scene.topic]):
        until(lambda: getattr(scene.groups.describe([group])[group], "state", None) is GroupState.STABLE, "stable")
        refused = scene.run("delete", group, "--all", "--apply", "--yes", code=2)
        assert f"group {group} is live" in refused.stderr
    until_left(scene.groups, group)
    assert scene.plan("delete", group, "--all")["deletes_group"] is True
    assert group in {one.group for one in scene.groups.groups()}, "a plan deleted"
    done = scene.run("delete", group, "--all", "--apply", "--yes", "-o", "json")
    assert json.loads(done.stdout)["group_deleted"] is True
    assert group not in {one.group for one in scene.groups.groups()}
    verify_edit_journal(Path(json.loads(done.stdout)["journal"]).read_bytes())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_live_group_loses_the_commits_of_a_topic_it_left(scene: Harness, protocol: str) -> None:
    group, other = f"left-{protocol}", f"left-for-{protocol}"
    with closing(scene.cluster.open_admin()) as admin:
        assert admin.create_topic(other, {0: scene.cluster.broker_ids[:1]}, {}) is None
    scene.span(TopicPartition(other, 0))
    scene.stick(group)
    held = scene.committed(group)
    with member(scene.cluster, group, [other], protocol=protocol):
        scene.run("delete", group, "--topic", scene.topic, "--apply", "--yes")
        assert scene.key not in scene.groups.committed(group)
        refused = scene.run("undo", "last", "--group", group, "--apply", "--yes", code=2)
        assert f"group {group} is live" in refused.stderr
    until_left(scene.groups, group)
    scene.run("undo", "last", "--group", group, "--apply", "--yes")
    assert scene.committed(group) == held
    with member(scene.cluster, group, [scene.topic], protocol=protocol):
        refused = scene.run("delete", group, "--topic", scene.topic, "--apply", "--yes", code=2)
        assert f"reads topic {scene.topic}" in refused.stderr
    assert scene.committed(group) == held
