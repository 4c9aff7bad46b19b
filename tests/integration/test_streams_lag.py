"""The lag monitor on real brokers: groups of every kind, transactions, a poison pill, topics recreated, the program."""

import itertools
import json
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from typing import Any

import pytest

from kafkakit.adapters.kafka.log import KafkaLog
from kafkakit.core.model import TopicPartition
from kafkakit.streams.lag.decide.measure.table import LagStatus
from kafkakit.streams.lag.decide.measure.time_lag import EstimateSource, FigureFlag
from kafkakit.streams.model.commit import CommitIdentity
from kafkakit.streams.model.dialects.kafka_streams import write_kafka_streams
from tests.integration.conftest import SandboxCluster, StartCluster
from tests.integration.lag_watch import Watch, make_topic, new_topic, watching
from tests.integration.stream_clients import (
    OffsetsTransaction,
    commit_with_kafka_python,
    loner,
    member,
    poison_pill,
    produce,
)
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def watch(cluster: SandboxCluster) -> Any:
    with watching(cluster) as watch:
        yield watch


def now_ms() -> int:
    return round(time.time() * 1000)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_members_commits_are_seen(watch: Watch, protocol: str) -> None:
    key = new_topic(watch.cluster)
    stamp = now_ms() - 60_000
    produce(watch.cluster, key, [b"x"] * 10, timestamp_ms=stamp, step_ms=1_000)
    group = f"{protocol}-{key.topic}"
    with member(watch.cluster, group, [key.topic], protocol=protocol) as live:
        live.commit({key: (4, "")})
        row = watch.until(group, key, lambda r: r.lag == 6 and r.backlog.is_exact)
        assert row.backlog.source is EstimateSource.RECORD
        assert row.backlog.as_of_ms - row.backlog.low_ms == stamp + 4_000
        live.commit({key: (10, "")})
        row = watch.until(group, key, lambda r: r.lag == 0 and r.backlog.is_exact)
        assert (row.backlog.source, row.backlog.high_ms) == (EstimateSource.CAUGHT_UP, 0)


def test_commits_of_kafka_python_with_metadata_of_kafka_streams(watch: Watch) -> None:
    key = new_topic(watch.cluster)
    stamp = now_ms() - 300_000
    produce(watch.cluster, key, [b"x"] * 10, timestamp_ms=stamp, step_ms=1_000)
    group = f"streams-{key.topic}"
    commit_with_kafka_python(watch.cluster, group, {key: (5, write_kafka_streams(stamp + 4_000))})
    row = watch.until(group, key, lambda r: r.live.source is EstimateSource.STREAM_TIME)
    assert row.live.high_ms is not None
    assert row.live.as_of_ms - row.live.high_ms == stamp + 4_000
    row = watch.until(group, key, lambda r: r.backlog.is_exact)
    assert row.backlog.source is EstimateSource.RECORD
    assert row.backlog.as_of_ms - row.backlog.low_ms == stamp + 5_000


def test_an_open_transaction_hides_its_own_commits_only(watch: Watch) -> None:
    key = new_topic(watch.cluster)
    produce(watch.cluster, key, [b"x"] * 100)
    group, other = f"tx-{key.topic}", f"plain-{key.topic}"
    with (
        OffsetsTransaction(watch.cluster, f"id-{key.topic}") as transaction,
        loner(watch.cluster, group) as owner,
        loner(watch.cluster, other) as bystander,
    ):
        owner.commit({key: (10, "")})
        watch.until(group, key, lambda r: r.committed == 10)
        transaction.begin()
        transaction.send(owner, {key: (20, "")})
        bystander.commit({key: (30, "")})
        watch.until(other, key, lambda r: r.committed == 30)
        assert watch.rows(group)[key].committed == 10
        condition = watch.watcher.condition()
        assert (group,) in [h.transaction.groups for h in condition.held_back]  # other modules have transactions, too
        transaction.abort()
        bystander.commit({key: (31, "")})
        watch.until(other, key, lambda r: r.committed == 31)
        assert watch.rows(group)[key].committed == 10
        transaction.begin()
        transaction.send(owner, {key: (40, "")})
        transaction.commit()
        watch.until(group, key, lambda r: r.committed == 40)
        until(lambda: (group,) not in [h.transaction.groups for h in watch.watcher.condition().held_back])


def test_a_poison_pill_is_one_pending_record_and_nearly_no_live_lag(watch: Watch) -> None:
    key = new_topic(watch.cluster)
    stamp = now_ms() - 600_000
    produce(watch.cluster, key, [b"x"], timestamp_ms=stamp)
    produce(watch.cluster, key, [b"x"] * 400, timestamp_ms=now_ms() - 1_000)
    group = f"poison-{key.topic}"
    with closing(KafkaLog(watch.cluster.bootstrap_servers, watch.cluster.security)) as log:
        topic_id = log.places([key.topic])[key.topic].topic_id
    identity = CommitIdentity(cluster_id=watch.cluster.cluster_id, topic_id=topic_id, partition=0, group=group)
    text = poison_pill(identity, stuck=0, done_to=401, oldest_ms=stamp, newest_ms=now_ms() - 500)
    commit_with_kafka_python(watch.cluster, group, {key: (0, text)})
    row = watch.until(
        group, key, lambda r: r.backlog.source is EstimateSource.WATERMARK and r.live.source is EstimateSource.CAUGHT_UP
    )
    assert (row.lag, row.pending) == (401, 1)
    assert row.backlog.is_exact
    assert row.backlog.as_of_ms - row.backlog.low_ms == stamp
    assert row.live.high_ms == 0


def test_no_sample_survives_a_topic_made_anew(watch: Watch) -> None:
    key = new_topic(watch.cluster)
    produce(watch.cluster, key, [b"x"] * 1000)
    group = f"again-{key.topic}"
    commit_with_kafka_python(watch.cluster, group, {key: (900, "")})
    watch.until(group, key, lambda r: r.lag == 100)
    with closing(watch.cluster.open_admin()) as admin:
        assert admin.delete_topic(key.topic) is None
    until(lambda: (row := watch.rows(group).get(key)) is None or row.lag != 100)
    make_topic(watch.cluster, key.topic, 1, {})
    produce(watch.cluster, key, [b"x"] * 7)
    # The old commit is deleted with its topic by the broker; whether before or after, it says nothing of the new one.
    for _ in range(20):
        row = watch.rows(group).get(key)
        assert row is None or row.lag == -1 or FigureFlag.OTHER_TOPIC in row.backlog.flags
        time.sleep(0.1)
    commit_with_kafka_python(watch.cluster, group, {key: (3, "")})
    row = watch.until(group, key, lambda r: r.lag == 4 and r.backlog.source is EstimateSource.RECORD)
    assert row.end == 7


def test_the_program_looks_at_clusters_of_two_versions_together(
    cluster: SandboxCluster, sandbox_cluster: StartCluster
) -> None:
    old = sandbox_cluster(brokers=1, racks=1, log_dirs=(1,), kafka="3.9.2")
    key = TopicPartition("lag-both", 0)
    for one, offset in ((cluster, 3), (old, 8)):
        make_topic(one, key.topic, 1, {})
        produce(one, key, [b"x"] * 10)
        commit_with_kafka_python(one, "both", {key: (offset, "")})
    names = f"{cluster.name},{old.name}"
    ran = program(cluster, "once", "both", "--clusters", names, "-o", "json", "--wait", "120s")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert {line["cluster"]: line["lag"] for line in found["lines"]} == {cluster.name: 7, old.name: 2}
    assert all(line["source"] == "record" for line in found["lines"])
    ran = program(cluster, "once", "both", "--clusters", names, "--by", "stream", "--wait", "120s")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[1].split()[:2] == ["both", "lag-both"]
    # On a slow machine the last commit is so long ago that the group counts as stopped.
    limits = ("both", "--clusters", names, "--nagios", "--crit-status", "none", "--warn-status", "none")
    ran = program(cluster, "check", *limits, "--crit-lag", "5")
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout.startswith(f"LAG CRITICAL - {cluster.name} both lag-both: lag 7 is above 5 | ")
    old.kill(old.broker_ids[0])
    ran = program(cluster, "check", *limits, "--warn-lag", "5")
    assert ran.returncode == 3, ran.stderr
    assert ran.stdout.startswith(f"LAG UNKNOWN - {old.name}: ")


def test_the_program_names_the_members_of_groups_of_both_protocols(cluster: SandboxCluster) -> None:
    key = TopicPartition("lag-members", 0)
    make_topic(cluster, key.topic, 2, {})
    with ExitStack() as stack:
        for protocol in ("classic", "consumer"):
            live = stack.enter_context(member(cluster, f"who-{protocol}", [key.topic], protocol=protocol))
            live.commit({key: (0, ""), TopicPartition(key.topic, 1): (0, "")})
        commit_with_kafka_python(cluster, "who-left", {key: (0, "")})
        ran = program(
            cluster, "once", "who-*", "--clusters", cluster.name, "--by", "partition", "--members", "-o", "json"
        )
        assert ran.returncode == 0, ran.stderr
        found = json.loads(ran.stdout)
    assert found["member_notes"] == []
    held = {(line["group"], line["partition"]): (line["client_id"], line["host"]) for line in found["lines"]}
    assert held.pop(("who-left", 0)) == (None, None)
    assert sorted(held) == [(f"who-{p}", number) for p in ("classic", "consumer") for number in (0, 1)]
    assert all(client and host for client, host in held.values()), held
    assert {one["group"]: (one["type"], len(one["members"])) for one in found["groups"]} == {
        "who-classic": ("classic", 1), "who-consumer": ("consumer", 1), "who-left": ("classic", 0),
    }  # fmt: skip


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_partitions_owned_without_a_commit_are_not_ok(cluster: SandboxCluster, protocol: str) -> None:
    topic = f"lag-owned-{protocol}"
    make_topic(cluster, topic, 4, {})
    for number in range(3):
        produce(cluster, TopicPartition(topic, number), [b"x"] * 5)
    with member(cluster, topic, [topic], protocol=protocol) as live:
        until(lambda: statuses(cluster, topic, ["no_commit"] * 3 + ["ok"]))
        live.commit({TopicPartition(topic, 0): (5, "")})
        until(lambda: statuses(cluster, topic, ["ok", "no_commit", "no_commit", "ok"]))
        ran = program(cluster, "check", topic, "--crit-lag", "1", "--clusters", cluster.name)
        assert (ran.returncode, ran.stdout.startswith("LAG UNKNOWN - ")) == (75, True), ran.stdout


def statuses(cluster: SandboxCluster, group: str, wanted: list[str]) -> bool:
    """True once `lag once` shows these statuses, by partition."""
    words = ("--clusters", cluster.name, "--by", "partition", "--sort", "name", "-o", "json")
    ran = program(cluster, "once", group, *words)
    return ran.returncode == 0 and [line["status"] for line in json.loads(ran.stdout)["lines"]] == wanted


def program(cluster: SandboxCluster, *words: str) -> subprocess.CompletedProcess[str]:
    """`kafkakit streams lag` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "kafkakit", "streams", "lag", *words],
        env=cluster.env, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip


def test_what_lives_of_groups_read_as_on_a_real_log(cluster: SandboxCluster) -> None:
    """Six lives side by side, with windows of 9 s: a group that dies caught up is stopped, an idle one is not."""
    plain, idle, markers = (new_topic(cluster) for _ in range(3))
    produce(cluster, idle, [b"x"] * 5)
    lives = ("steady", "dies", "sticks", "idle", "reader", "reader-dies")
    names = {life: f"{life}-{plain.topic}" for life in lives}
    with watching(cluster) as watch, ExitStack() as stack:
        transaction = stack.enter_context(OffsetsTransaction(cluster, f"writer-{markers.topic}"))
        watch.until_live()
        watch.monitor.book.window.step_ms = 1_000
        clients = {life: stack.enter_context(loner(cluster, names[life])) for life in lives}
        clients["idle"].commit({idle: (5, "")})
        written = read = 0
        deadline = time.monotonic() + 400
        for beat in itertools.count():
            produce(cluster, plain, [b"x"] * 3)
            written += 3
            if beat < 4:
                transaction.begin()
                transaction.produce(markers, b"x", b"x")
                transaction.commit()
                read += 3  # two records and a marker: who commits a record's offset and one stands below the marker
            clients["steady"].commit({plain: (written, "")})
            clients["sticks"].commit({plain: (min(written, 12), "")})
            if beat < 12:
                clients["dies"].commit({plain: (written, "")})
            if beat < 4:
                clients["reader"].commit({markers: (read - 1, "")})
            if beat < 3:
                clients["reader-dies"].commit({markers: (read - 1, "")})
            found = {life: watch.rows(names[life]) for life in lives}
            seen = {life: next(iter(rows.values())).status for life, rows in found.items() if rows}
            if beat > 20 and seen == EXPECTED:
                break
            assert time.monotonic() < deadline, seen
            time.sleep(0.5)
        assert watch.rows(names["reader"])[markers].lag == 0, "a marker is no lag"
        assert watch.rows(names["reader-dies"])[markers].lag == 2 + 1


EXPECTED = {
    "steady": LagStatus.OK, "dies": LagStatus.STOPPED, "sticks": LagStatus.STALLED, "idle": LagStatus.OK,
    "reader": LagStatus.OK, "reader-dies": LagStatus.STOPPED,
}  # fmt: skip
