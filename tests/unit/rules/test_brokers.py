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


def test_a_finding_of_a_cluster_names_the_owner_of_the_broker() -> None:
    (found,) = findings("KKB510", f"cluster: c\nbrokers: [{{id: 1, owner: platform, {RATE}}}]\n{QUIET}")
    assert (found.owner, found.where) == ("platform", "broker 1 of c")


def counted(segments: int, host: str, brokers: str = "[1]") -> str:
    parts = f"{{partition: 0, replicas: {brokers}, segments: {segments}}}"
    return f"brokers: [{{id: 1, host: {{{host}}}}}]\ntopics: [{{name: t, observed: {{partitions: [{parts}]}}}}]"


ENDLESS = "topics: [{name: t, config: {retention.ms: '-1'}, observed: {partitions: [{partition: 0, replicas: [1]}]}}]"


@pytest.mark.parametrize(
    ("code", "text", "severities"),
    [
        ("KKB501", counted(78_000, "open_files: 100000, connections: 1000"), []),
        ("KKB501", counted(78_001, "open_files: 100000, connections: 1000"), [Severity.WARNING]),
        ("KKB501", counted(98_000, "open_files: 100000, connections: 1000"), [Severity.WARNING]),
        ("KKB501", counted(98_001, "open_files: 100000, connections: 1000"), [Severity.ERROR]),
        ("KKB501", counted(1, "open_files: 99999"), [Severity.WARNING]),
        ("KKB502", counted(25_712, "max_map_count: 65530"), []),
        ("KKB502", counted(25_713, "max_map_count: 65530"), [Severity.WARNING]),
        ("KKB502", counted(32_265, "max_map_count: 65530"), [Severity.WARNING]),
        ("KKB502", counted(32_266, "max_map_count: 65530"), [Severity.ERROR]),
        ("KKB502", counted(40_000, "max_map_count: 65530", "[2]"), []),
    ],
)
def test_handles(code: str, text: str, severities: list[Severity]) -> None:
    assert [f.severity for f in findings(code, text)] == severities


@pytest.mark.parametrize("code", ["KKB501", "KKB502", "KKB503"])
@pytest.mark.parametrize(
    "text",
    [
        "brokers: [{id: 1}]\n" + topic(1),
        "brokers: [{id: 1, host: {open_files: 200000, max_map_count: 65530}}]\n" + topic(1),
        "brokers: [{id: 1, config: {}, host: {open_files: 200000, max_map_count: 65530}}]\n" + ENDLESS,
        "brokers: [{id: 1, config: {}, host: {open_files: 200000, max_map_count: 65530}}]\ntopics: [{name: t}]",
    ],
)
def test_handles_are_not_guessed(code: str, text: str) -> None:
    assert verdict(code, text) == SKIPPED


def test_the_worked_value_of_memory_maps() -> None:
    parts = ", ".join(f"{{partition: {n}, replicas: [1], segments: 12}}" for n in range(4000))
    text = "brokers: [{id: 1, host: {max_map_count: 65530}}]\n"
    (found,) = findings("KKB502", f"{text}topics: [{{name: t, observed: {{partitions: [{parts}]}}}}]")
    assert found.severity is Severity.ERROR
    assert found.message == ("48,000 segments and the JVM need 97,000 memory maps, 148% of 65,530 (vm.max_map_count)")


CHANGE = """
brokers: [{id: 1, config: {log.retention.ms: '86400000'}, host: {max_map_count: %d}}, {id: 2, config: {}}]
topics:
  - name: t
    config: {segment.ms: '%d'}
    observed:
      current: {segment.ms: '43200000'}
      partitions: [{partition: 0, replicas: [1], segments: 4}]
"""


@pytest.mark.parametrize(
    ("maps", "segment_ms", "severities"),
    [
        # 12 h: at most 4 segments; 4 h: 8, so 4 more than the 4 that were counted, and 1,016 maps of 1,008.
        (1270, 14_400_000, []),
        (1269, 14_400_000, [Severity.WARNING]),
        (1016, 14_400_000, []),  # above 80 % before: KKB502
        (1015, 14_400_000, [Severity.ERROR]),
        (1007, 14_400_000, []),
        (1015, 43_200_000, []),
        (1015, 86_400_000, []),
    ],
)
def test_the_growth_of_a_change(maps: int, segment_ms: int, severities: list[Severity]) -> None:
    found = verdict("KKB503", CHANGE % (maps, segment_ms))
    assert found == SKIPPED  # broker 2 has no known limits
    text = (CHANGE % (maps, segment_ms)).replace(", {id: 2, config: {}}", "")
    assert [f.severity for f in findings("KKB503", text)] == severities
