"""Rules of brokers at their boundaries."""

import pytest

from kafkakit.core.findings import Severity
from kafkakit.rules.families.brokers import msk_partitions
from kafkakit.rules.rule import Limits
from tests.rigs.rule_cases import SKIPPED, findings, verdict


def topic(partitions: int, replicas: str = "[1]") -> str:
    listed = ", ".join(f"{{partition: {n}, replicas: {replicas}}}" for n in range(partitions))
    return f"topics: [{{name: t, observed: {{partitions: [{listed}]}}}}]"


def broker(config: str, rest: str = "") -> str:
    return f"brokers: [{{id: 1, config: {{{config}}}{rest}}}]"


RATE = 'dynamic: {follower.replication.throttled.rate: "1000000"}'
QUIET = "observed: {moves_running: false}"


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("KKB504", "brokers: [{id: 1}]\n" + topic(3), 0),
        ("KKB504", "brokers: [{id: 1}, {id: 2}]\n" + topic(4, "[1, 2]"), 2),
        ("KKB504", "brokers: [{id: 1}]", SKIPPED),
        ("KKB504", "broker_count: 2\ntopics: [{name: t, partitions: 3, replication_factor: 2}]", SKIPPED),
        ("KKB504", "broker_count: 2\ntopics: [{name: t, partitions: 4, replication_factor: 2}]", 1),
        ("KKB505", broker("log.dirs: /tmp"), 1),
        ("KKB505", broker("log.dirs: '/data,/tmp/kafka'"), 1),
        ("KKB505", broker("log.dirs: /tmpfs/kafka"), 0),
        ("KKB505", broker("log.dir: /data"), 0),
        ("KKB505", "brokers: [{id: 1}]", SKIPPED),
        ("KKB505", "brokers: [{id: 1, log_dirs: [{path: /data}]}]", 0),
        ("KKB505", "brokers: [{id: 1, roles: [controller], config: {}}]", 0),
        ("KKB507", broker("num.io.threads: '2', log.dirs: '/a,/b'"), 0),
        ("KKB507", broker("num.io.threads: '1', log.dirs: '/a,/b'"), 1),
        ("KKB507", broker("num.io.threads: '1'", ", log_dirs: [{path: /a}, {path: /b}]"), 1),
        ("KKB510", f"brokers: [{{id: 1, {RATE}}}]", SKIPPED),
        ("KKB510", f"brokers: [{{id: 1, {RATE}}}]\n{QUIET}", 1),
        ("KKB510", f"brokers: [{{id: 1}}]\n{QUIET}", 0),
        (
            "KKB510",
            f"topics: [{{name: t, config: {{leader.replication.throttled.replicas: '0:1'}}}}]\n{QUIET}",
            1,
        ),
        ("KKB510", f"topics: [{{name: t, config: {{leader.replication.throttled.replicas: ''}}}}]\n{QUIET}", 0),
        ("KKB511", "brokers: [{id: 1, host: {memory_bytes: 40, heap_bytes: 10, write_bytes_s: 1}}]", 0),
        ("KKB511", "brokers: [{id: 1, host: {memory_bytes: 39, heap_bytes: 10, write_bytes_s: 1}}]", 1),
        ("KKB511", "brokers: [{id: 1, host: {memory_bytes: 39, heap_bytes: 10}}]", SKIPPED),
        ("KKB512", broker("num.io.threads: '8'"), 0),
        ("KKB512", "labels: [multi_tenant]\n" + broker("num.io.threads: '8'"), 1),
        ("KKB512", "labels: [multi_tenant]\n" + broker("max.connections: '1000'"), 0),
        (
            "KKB513",
            broker("max.incremental.fetch.session.cache.slots: '5'")
            + "\nbroker_count: 3\nobserved: {groups: [{name: g, members: 3}]}",
            0,
        ),
        (
            "KKB513",
            broker("max.incremental.fetch.session.cache.slots: '5'")
            + "\nbroker_count: 3\nobserved: {groups: [{name: g, members: 4}]}",
            1,
        ),
        ("KKB513", broker("num.io.threads: '8'") + "\nobserved: {groups: [{name: g}]}", SKIPPED),
        ("KKB513", broker("num.io.threads: '8'"), SKIPPED),
    ],
)
def test_boundaries(code: str, text: str, expected: int | str) -> None:
    assert verdict(code, text, Limits(partitions_per_broker=3)) == expected


@pytest.mark.parametrize(("dirs", "expected"), [("/a", 1), ("/a,/b", 0)])
def test_recovery_threads_by_log_dir(dirs: str, expected: int) -> None:
    config = broker(f"num.recovery.threads.per.data.dir: '1', log.dirs: '{dirs}'")
    topics = "\ntopics: [{name: t, partitions: 2001, replication_factor: 1}]"
    assert verdict("KKB506", config + topics) == expected
    assert verdict("KKB506", config.replace("'1'", "'2'") + topics) == 0


@pytest.mark.parametrize(
    ("partitions", "severity"), [(300, None), (301, Severity.WARNING), (450, Severity.WARNING), (451, Severity.ERROR)]
)
def test_msk_refuses_updates_beyond_a_half_more(partitions: int, severity: Severity | None) -> None:
    host = 'brokers: [{id: 1, host: {platform: "msk:kafka.t3.small"}}]\n'
    found = findings("KKB504", host + topic(partitions))
    assert [f.severity for f in found] == ([] if severity is None else [severity])


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ("msk:kafka.t3.small", 300),
        ("msk:m7g.large", 1000),
        ("msk:m7g.2xlarge", 2000),
        ("msk:m7g.16xlarge", 4000),
        ("ec2:m7g.large", None),
        (None, None),
    ],
)
def test_replicas_that_a_platform_bears(platform: str | None, expected: int | None) -> None:
    assert msk_partitions(platform) == expected


def test_a_throttle_names_its_rate_and_where_it_stands() -> None:
    (found,) = findings("KKB510", f"brokers: [{{id: 1, {RATE}}}]\n{QUIET}")
    assert found.message == "follower.replication.throttled.rate is 1 MB/s, and no partition moves"
    assert found.where == "broker 1"
    assert found.place is not None
    assert (found.place.line, found.place.column) == (1, 29)
