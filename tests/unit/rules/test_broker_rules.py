"""Rules of retention and segments at their boundaries, with their messages and fixes.

Rules of brokers at their boundaries. Rules of durability at their boundaries. Rules of compacted topics, the cleaner,
and advice for tiered topics, at their boundaries.
"""

import pytest

from kafkakit.core.findings import Severity
from kafkakit.lint.decide.pieces import AssemblyOptions
from kafkakit.rules.families.brokers import msk_partitions
from kafkakit.rules.rule import Limits
from tests.rigs.lint_examples import outcome_of
from tests.rigs.rule_cases import SKIPPED, findings, marks, rule_of, verdict

KNOWN = 'config: {num.io.threads: "8"}\n'
DAY = 86_400_000
STRICT = Limits(strict=True)


def topic(config: str, head: str = KNOWN, more: str = "") -> str:
    return f"{head}topics: [{{name: t, config: {{{config}}}{more}}}]"


def loaded(config: str, *rates: float, head: str = KNOWN, segments: int | None = None) -> str:
    counted = "" if segments is None else f", segments: {segments}"
    listed = ", ".join(f"{{partition: {n}, replicas: [1], bytes_s: {rate}{counted}}}" for n, rate in enumerate(rates))
    return topic(config, head, f", observed: {{partitions: [{listed}]}}")


def broker(config: str, more: str = "", head: str = "") -> str:
    return f"{head}brokers: [{{id: 1, config: {{{config}}}{more}}}]\n"


R1D = f'retention.ms: "{DAY}"'


def with_roll(milliseconds: int) -> str:
    return f'{R1D}, segment.ms: "{milliseconds}"'


def group(name: str, lag: str) -> str:
    return f"\nobserved: {{groups: [{{name: {name}, topics: [t], {lag}}}]}}"


def disk(total: int, rate: float = 1000, config: str = f'{R1D}, segment.ms: "{DAY}"') -> str:
    return loaded(config, rate, head=broker("", f", log_dirs: [{{path: /d, total_bytes: {total}}}]"))


FORECAST = 1000 * (2 * DAY + 300_000) // 1000

COMPACT = "cleanup.policy: compact"
TIERED = 'remote.storage.enable: "true"'


def topic_compaction(config: str, more: str = "", head: str = KNOWN, name: str = "t") -> str:
    return f"{head}topics: [{{name: {name}, config: {{{config}}}{more}}}]"


def broker_compaction(config: str) -> str:
    return f"brokers: [{{id: 1, config: {{{config}}}}}]\n"


def rate(bytes_s: int, limit: str) -> str:
    partition = f", observed: {{partitions: [{{partition: 0, replicas: [1], bytes_s: {bytes_s}}}]}}"
    return topic_compaction(COMPACT, partition, broker_compaction(f"log.cleaner.io.max.bytes.per.second: '{limit}'"))


CASES = [
    ("KKR201", topic(R1D), "E"),
    ("KKR201", topic(with_roll(42_900_000)), ""),
    ("KKR201", topic(with_roll(42_900_001)), "W"),
    ("KKR201", topic(with_roll(4 * DAY - 300_000)), "W"),
    ("KKR201", topic(with_roll(4 * DAY - 299_999)), "E"),
    ("KKR201", topic(with_roll(604_800_000) + ", cleanup.policy: compact"), ""),
    ("KKR201", topic('retention.ms: "-1"'), ""),
    ("KKR201", topic('retention.ms: "0"'), ""),
    ("KKR201", topic(""), ""),
    ("KKR201", topic("", head="config: {log.retention.hours: '167'}\n"), "W"),
    # Kafka's default is the same retention, whether it is written down or not.
    ("KKR201", topic("", head="config: {log.retention.hours: '168'}\n"), ""),
    ("KKR201", topic('retention.ms: "604800000"'), ""),
    ("KKR201", topic(R1D, head=""), SKIPPED),
    ("KKR201", topic("", head=""), SKIPPED),
    ("KKR201", topic(with_roll(604_800_000), head=""), "E"),
    ("KKR201", loaded(R1D, 100_000), ""),
    ("KKR201", loaded(R1D, 10_000), "W"),
    ("KKR201", loaded(R1D, 0, 100_000), "E"),
    ("KKR202", topic(with_roll(DAY)), ""),
    ("KKR202", topic(with_roll(DAY + 1)), "W"),
    ("KKR202", topic(""), ""),
    ("KKR202", topic(R1D, head=""), SKIPPED),
    ("KKR202", topic(with_roll(7 * DAY) + ', cleanup.policy: "compact,delete", max.compaction.lag.ms: "3600000"'), ""),
    ("KKR203", topic('retention.bytes: "2147483648"'), ""),
    ("KKR203", topic('retention.bytes: "2147483647"'), "W"),
    ("KKR203", topic('retention.bytes: "1000", cleanup.policy: compact'), ""),
    ("KKR203", topic('retention.bytes: "1000"', head=""), SKIPPED),
    ("KKR204", topic('retention.ms: "-1"'), "W"),
    ("KKR204", topic('retention.ms: "-1", retention.bytes: "1"'), ""),
    ("KKR204", topic('retention.ms: "-1", remote.storage.enable: "true"'), ""),
    ("KKR204", topic('retention.ms: "-1", cleanup.policy: compact'), ""),
    ("KKR204", topic('retention.ms: "-1", cleanup.policy: "compact,delete"'), ""),
    ("KKR204", topic('cleanup.policy: ""', head='version: "4.2"\n'), "W"),
    ("KKR204", topic('cleanup.policy: ""', head='version: "4.1"\n'), ""),
    ("KKR204", topic('retention.ms: "-1"', head=""), SKIPPED),
    ("KKR205", topic('cleanup.policy: ""', head='version: "3.9"\n'), "W"),
    ("KKR205", topic("cleanup.policy: delete"), ""),
    ("KKR205", topic(""), ""),
    ("KKR206", topic('retention.ms: "299999"'), "N"),
    ("KKR206", topic('retention.ms: "300000"'), ""),
    ("KKR206", topic('retention.ms: "299999"', head=""), SKIPPED),
    ("KKR207", topic('retention.ms: "1000"', more=", observed: {age_s: 3601}"), "E"),
    ("KKR207", topic('retention.ms: "1000"', more=", observed: {age_s: 3600}"), ""),
    ("KKR207", topic('retention.ms: "1001"', more=", observed: {age_s: 3601}"), ""),
    ("KKR207", topic('retention.ms: "1000"'), SKIPPED),
    ("KKR208", topic('segment.ms: "1000", segment.jitter.ms: "500"'), ""),
    ("KKR208", topic('segment.ms: "1000", segment.jitter.ms: "501"'), "W"),
    ("KKR208", topic('segment.ms: "1000", segment.jitter.ms: "999"'), "W"),
    ("KKR208", topic('segment.ms: "1000", segment.jitter.ms: "1000"'), "E"),
    (
        "KKR209",
        broker("", head="broker_count: 1\n") + "topics: [{name: t, partitions: 1001, replication_factor: 1}]",
        "N",
    ),
    (
        "KKR209",
        broker("", head="broker_count: 1\n") + "topics: [{name: t, partitions: 1000, replication_factor: 1}]",
        "",
    ),
    ("KKR209", broker(""), SKIPPED),
    ("KKR210", topic('segment.bytes: "1048588"'), ""),
    ("KKR210", topic('segment.bytes: "1048587"'), "E"),
    ("KKR210", topic('segment.bytes: "1048587"', head=""), SKIPPED),
    ("KKR210", topic("", head=""), ""),
    ("KKR211", topic('index.interval.bytes: "1024"'), "W"),
    ("KKR211", topic('index.interval.bytes: "4096"'), ""),
    ("KKR211", topic('index.interval.bytes: "1024", segment.index.bytes: "12570648"'), ""),
    ("KKR211", topic('index.interval.bytes: "1024", segment.index.bytes: "12570647"'), "W"),
    ("KKR211", topic('index.interval.bytes: "1024"', head=""), SKIPPED),
    ("KKR211", topic("", head=""), ""),
    ("KKR212", topic('segment.index.bytes: "23"'), "E"),
    ("KKR212", topic('segment.index.bytes: "24"'), ""),
    ("KKR213", topic('segment.ms: "599999"'), "W"),
    ("KKR213", topic('segment.ms: "600000", retention.ms: "3600000"'), ""),
    ("KKR213", topic('segment.ms: "600000"'), "W"),
    ("KKR213", loaded("", 1_000_000), ""),
    ("KKR213", loaded("", 1, 2_000_000), "W"),
    ("KKR213", loaded("", 1, segments=1000), ""),
    ("KKR213", loaded("", 1, segments=1001), "W"),
    ("KKR214", disk(10 * 20 * 2**20), ""),
    ("KKR214", disk(10 * 20 * 2**20 - 1), "N"),
    ("KKR214", loaded("", 1, head=broker("")), SKIPPED),
    ("KKR215", topic('preallocate: "true"'), "N"),
    ("KKR215", topic('preallocate: "false"'), ""),
    ("KKR215", broker("log.preallocate: 'true'"), "N"),
    ("KKR216", topic('file.delete.delay.ms: "3600000"'), ""),
    ("KKR216", topic('file.delete.delay.ms: "3600001"'), "N"),
    ("KKR216", topic('file.delete.delay.ms: "60000", retention.ms: "59999"'), "N"),
    ("KKR217", topic('retention.ms: "1200000"', head=broker("")), ""),
    ("KKR217", topic('retention.ms: "1199999"', head=broker("")), "W"),
    ("KKR217", broker("log.retention.minutes: '10'"), "W"),
    ("KKR217", broker("log.retention.minutes: '20'"), ""),
    ("KKR218", topic("", head='version: "3.9"\n' + KNOWN), "W"),
    ("KKR218", topic("", head='version: "4.0"\n' + KNOWN), ""),
    ("KKR218", topic('message.timestamp.after.max.ms: "60480000"'), ""),
    ("KKR218", topic('message.timestamp.after.max.ms: "60480001"'), "W"),
    ("KKR218", topic('message.timestamp.after.max.ms: "60480001", message.timestamp.type: LogAppendTime'), ""),
    ("KKR218", topic('message.timestamp.after.max.ms: "60480001", retention.ms: "-1"'), ""),
    ("KKR218", topic("", head=""), SKIPPED),
    ("KKR219", topic(f'message.timestamp.before.max.ms: "{DAY}", {R1D}'), ""),
    ("KKR219", topic(f'message.timestamp.before.max.ms: "{DAY + 1}", {R1D}'), "N"),
    ("KKR220", topic(R1D) + group("g", "time_lag_s: {t: 69120}"), ""),
    ("KKR220", topic(R1D) + group("g", "time_lag_s: {t: 69121}"), "W"),
    ("KKR220", topic(f'{R1D}, retention.bytes: "1000"') + group("g", "byte_lag: {t: 801}"), "W"),
    ("KKR220", topic(f'{R1D}, retention.bytes: "1000"') + group("g", "byte_lag: {t: 800}"), ""),
    ("KKR220", topic(R1D) + group("g", "members: 1"), SKIPPED),
    ("KKR220", topic(R1D), SKIPPED),
    ("KKR221", disk(int(FORECAST / 0.8) + 1), ""),
    ("KKR221", disk(int(FORECAST / 0.8) - 1), "W"),
    ("KKR221", disk(int(FORECAST / 0.95) - 1), "E"),
    ("KKR221", topic(R1D, head=broker("", ", log_dirs: [{path: /d, total_bytes: 1}]")), SKIPPED),
    ("KKR221", disk(2**31, 1000, 'retention.ms: "-1", retention.bytes: "1"'), ""),
    ("KKR221", disk(2**30, 1000, 'retention.ms: "-1", retention.bytes: "1"'), "E"),
    ("KKR221", disk(2**30, 1000, "cleanup.policy: compact"), SKIPPED),
]


@pytest.mark.parametrize(("code", "text", "expected"), CASES)
def test_retention_at_its_boundaries(code: str, text: str, expected: str) -> None:
    assert marks(code, text) == expected


def test_the_profile_strict_also_reports_the_default_retention() -> None:
    assert marks("KKR201", topic(""), STRICT) == "W"


def test_the_tolerance_is_an_option() -> None:
    assert marks("KKR201", topic(with_roll(43_200_000)), Limits(overshoot_ratio=0.51)) == ""
    assert marks("KKR201", topic(with_roll(43_200_000))) == "W"


def test_the_message_of_overshoot_has_age_ratio_and_cause() -> None:
    (found,) = findings("KKR201", topic(with_roll(43_200_000)))
    assert found.message == (
        "data may live 36 h 05 min, 1.5 times retention (24 h), "
        "because a segment stays open for up to 12 h (segment.ms)"
    )
    (by_default,) = findings("KKR201", topic(R1D))
    assert by_default.message.startswith("data may live 192 h 05 min, 8 times retention (24 h)")
    assert by_default.message.endswith("(segment.ms, Kafka's default)")
    (slow,) = findings("KKR201", loaded(R1D, 10_000))
    assert slow.message == (
        "data may live 53 h 54 min, 2.2 times retention (24 h), "
        "because the slowest partition takes 29 h 49 min to fill a segment"
    )


def edits(code: str, text: str) -> list[tuple[str, str | None]]:
    found = outcome_of({"x.yaml": text}, rules=[rule_of(code)])
    return [(e.key, e.value) for c in found.checked for e in c.edits]


def test_the_fix_of_overshoot_is_half_the_retention_less_the_check() -> None:
    assert edits("KKR201", topic(R1D)) == [("segment.ms", "42900000")]
    assert edits("KKR202", topic(R1D)) == [("segment.ms", "42900000")]


def test_no_segment_time_below_ten_minutes_is_proposed() -> None:
    assert edits("KKR201", topic('retention.ms: "1800000"')) == [("segment.ms", "600000")]
    (found,) = findings("KKR201", topic('retention.ms: "1799999"'))
    assert found.hint == "no segment.ms of 10 minutes or more keeps it within 0.5 times retention"
    assert edits("KKR201", topic('retention.ms: "1799999"')) == []


def test_a_fix_that_would_exceed_a_brokers_maps_is_not_made() -> None:
    host = ", host: {max_map_count: 65530}"
    one = "topics: [{name: t, partitions: %d, replication_factor: 1, config: {retention.ms: '86400000'}}]"
    text = broker("log.roll.hours: '168'", host, head="broker_count: 1\n") + one
    assert edits("KKR201", text % 8000) == [("segment.ms", "42900000")]
    (found,) = findings("KKR201", text % 9000)
    assert found.hint.startswith("segment.ms 42900000 would do, but broker 1 would need ")
    assert edits("KKR201", text % 9000) == []


def test_a_jitter_above_the_new_segment_time_shrinks_with_it() -> None:
    text = topic(f'{R1D}, segment.ms: "604800000", segment.jitter.ms: "43200000"')
    assert edits("KKR201", text) == [("segment.ms", "42900000"), ("segment.jitter.ms", "4290000")]


def test_an_inherited_setting_is_reported_at_the_topic() -> None:
    (found,) = findings("KKR201", "config:\n  log.roll.hours: '168'\n" + topic(R1D, head=""))
    assert found.place is not None
    assert found.place.line == 3
    assert found.setting is not None
    assert found.setting.source == "static"


def test_topics_that_inherit_a_default_share_one_finding() -> None:
    head = 'version: "3.9"\n' + KNOWN
    many = head + "topics: [{name: a}, {name: b}, {name: c, config: {message.timestamp.after.max.ms: '1'}}]"
    (found,) = findings("KKR218", many)
    assert "(2 topics, by default)" in found.message
    assert edits("KKR218", many) == [("log.message.timestamp.after.max.ms", "3600000")]


def topic_brokers(partitions: int, replicas: str = "[1]") -> str:
    listed = ", ".join(f"{{partition: {n}, replicas: {replicas}}}" for n in range(partitions))
    return f"topics: [{{name: t, observed: {{partitions: [{listed}]}}}}]"


def broker_brokers(config: str, rest: str = "") -> str:
    return f"brokers: [{{id: 1, config: {{{config}}}{rest}}}]"


RATE = 'dynamic: {follower.replication.throttled.rate: "1000000"}'
QUIET = "observed: {moves_running: false}"


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("KKB504", "brokers: [{id: 1}]\n" + topic_brokers(3), 0),
        ("KKB504", "brokers: [{id: 1}, {id: 2}]\n" + topic_brokers(4, "[1, 2]"), 2),
        ("KKB504", "brokers: [{id: 1}]", SKIPPED),
        ("KKB504", "broker_count: 2\ntopics: [{name: t, partitions: 3, replication_factor: 2}]", SKIPPED),
        ("KKB504", "broker_count: 2\ntopics: [{name: t, partitions: 4, replication_factor: 2}]", 1),
        ("KKB505", broker_brokers("log.dirs: /tmp"), 1),
        ("KKB505", broker_brokers("log.dirs: '/data,/tmp/kafka'"), 1),
        ("KKB505", broker_brokers("log.dirs: /tmpfs/kafka"), 0),
        ("KKB505", broker_brokers("log.dir: /data"), 0),
        ("KKB505", "brokers: [{id: 1}]", SKIPPED),
        ("KKB505", "brokers: [{id: 1, log_dirs: [{path: /data}]}]", 0),
        ("KKB505", "brokers: [{id: 1, roles: [controller], config: {}}]", 0),
        ("KKB507", broker_brokers("num.io.threads: '2', log.dirs: '/a,/b'"), 0),
        ("KKB507", broker_brokers("num.io.threads: '1', log.dirs: '/a,/b'"), 1),
        ("KKB507", broker_brokers("num.io.threads: '1'", ", log_dirs: [{path: /a}, {path: /b}]"), 1),
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
        ("KKB512", broker_brokers("num.io.threads: '8'"), 0),
        ("KKB512", "labels: [multi_tenant]\n" + broker_brokers("num.io.threads: '8'"), 1),
        ("KKB512", "labels: [multi_tenant]\n" + broker_brokers("max.connections: '1000'"), 0),
        (
            "KKB513",
            broker_brokers("max.incremental.fetch.session.cache.slots: '5'")
            + "\nbroker_count: 3\nobserved: {groups: [{name: g, members: 3}]}",
            0,
        ),
        (
            "KKB513",
            broker_brokers("max.incremental.fetch.session.cache.slots: '5'")
            + "\nbroker_count: 3\nobserved: {groups: [{name: g, members: 4}]}",
            1,
        ),
        ("KKB513", broker_brokers("num.io.threads: '8'") + "\nobserved: {groups: [{name: g}]}", SKIPPED),
        ("KKB513", broker_brokers("num.io.threads: '8'"), SKIPPED),
    ],
)
def test_boundaries(code: str, text: str, expected: int | str) -> None:
    assert verdict(code, text, Limits(partitions_per_broker=3)) == expected


@pytest.mark.parametrize(("dirs", "expected"), [("/a", 1), ("/a,/b", 0)])
def test_recovery_threads_by_log_dir(dirs: str, expected: int) -> None:
    config = broker_brokers(f"num.recovery.threads.per.data.dir: '1', log.dirs: '{dirs}'")
    topics = "\ntopics: [{name: t, partitions: 2001, replication_factor: 1}]"
    assert verdict("KKB506", config + topics) == expected
    assert verdict("KKB506", config.replace("'1'", "'2'") + topics) == 0


@pytest.mark.parametrize(
    ("partitions", "severity"), [(300, None), (301, Severity.WARNING), (450, Severity.WARNING), (451, Severity.ERROR)]
)
def test_msk_refuses_updates_beyond_a_half_more(partitions: int, severity: Severity | None) -> None:
    host = 'brokers: [{id: 1, host: {platform: "msk:kafka.t3.small"}}]\n'
    found = findings("KKB504", host + topic_brokers(partitions))
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
        "brokers: [{id: 1}]\n" + topic_brokers(1),
        "brokers: [{id: 1, host: {open_files: 200000, max_map_count: 65530}}]\n" + topic_brokers(1),
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


THREE = "brokers: [{id: 1}, {id: 2}, {id: 3}]\n"


def topic_durability(replicas: int | None, minimum: int | None = None, *, head: str = "", more: str = "") -> str:
    config = "" if minimum is None else f'config: {{min.insync.replicas: "{minimum}"}}, '
    factor = "" if replicas is None else f"replication_factor: {replicas}, "
    return f"{head}topics: [{{name: t, partitions: 6, {factor}{config}{more}}}]".replace(", }", "}")


def broker_durability(config: str, head: str = "") -> str:
    return f"{head}brokers: [{{id: 1, config: {{{config}}}}}]"


def brokers(*configs: str, head: str = "") -> str:
    listed = ", ".join(f"{{id: {n}, config: {{{c}}}}}" for n, c in enumerate(configs, 1))
    return f"{head}brokers: [{listed}]"


def state(*partitions: str, config: str = 'min.insync.replicas: "2"') -> str:
    listed = ", ".join(f"{{partition: {n}, {p}}}" for n, p in enumerate(partitions))
    return f"topics: [{{name: t, config: {{{config}}}, observed: {{partitions: [{listed}]}}}}]"


ELR = "\nobserved: {features: {eligible.leader.replicas.version: 1}}"
NO_ELR = "\nobserved: {features: {eligible.leader.replicas.version: 0}}"
OWN = "brokers: [{id: 1, dynamic: {min.insync.replicas: '2'}}]"

CASES_DURABILITY = [
    ("KKD125", "broker_count: 1\nconfig: {offsets.topic.replication.factor: '3'}", "E"),
    ("KKD125", "broker_count: 1\nconfig: {num.io.threads: '8'}", ""),
    ("KKD125", "broker_count: 3\nconfig: {transaction.state.log.replication.factor: '3'}", ""),
    ("KKD101", topic_durability(2, 3), "E"),
    ("KKD101", topic_durability(3, 3), ""),
    ("KKD101", topic_durability(3), SKIPPED),
    ("KKD101", topic_durability(None, 3), SKIPPED),
    ("KKD101", topic_durability(3, head="config: {min.insync.replicas: '4'}\n"), "E"),
    ("KKD102", topic_durability(3, 3), "W"),
    ("KKD102", topic_durability(3, 2), ""),
    ("KKD102", topic_durability(1, 1), ""),
    ("KKD102", topic_durability(2, 3), ""),
    ("KKD103", topic_durability(3, 1), "W"),
    ("KKD103", topic_durability(2, 1), ""),
    ("KKD103", topic_durability(3, 2), ""),
    ("KKD103", topic_durability(3, 1, more="labels: [loss_tolerant]"), ""),
    ("KKD103", topic_durability(3, head=KNOWN), "W"),
    ("KKD104", topic_durability(1), "E"),
    ("KKD104", topic_durability(2), ""),
    ("KKD104", topic_durability(1, head="env: dev\n"), ""),
    ("KKD105", topic_durability(2, 1), "W"),
    ("KKD105", topic_durability(3, 2), ""),
    ("KKD105", topic_durability(3, 3), "W"),
    ("KKD105", topic_durability(4, 3), ""),
    ("KKD105", topic_durability(2), "W"),
    ("KKD105", topic_durability(3), SKIPPED),
    ("KKD106", broker_durability('unclean.leader.election.enable: "true"'), "E"),
    ("KKD106", broker_durability('unclean.leader.election.enable: "false"'), ""),
    ("KKD106", broker_durability('unclean.leader.election.enable: "true"', "labels: [loss_tolerant]\n"), ""),
    ("KKD106", "config: {unclean.leader.election.enable: 'TRUE'}\n" + THREE, "E"),
    ("KKD106", KNOWN + "topics: [{name: t, config: {unclean.leader.election.enable: 'true'}}]", "E"),
    ("KKD106", "topics: [{name: t, partitions: 1}]", SKIPPED),
    ("KKD107", KNOWN + "topics: [{name: t, config: {unclean.leader.election.enable: 'true'}}]", "W"),
    ("KKD107", KNOWN + "topics: [{name: t, config: {unclean.leader.election.enable: 'false'}}]", ""),
    (
        "KKD107",
        "config: {unclean.leader.election.enable: 'true'}\n"
        "topics: [{name: t, config: {unclean.leader.election.enable: 'false'}}]",
        "W",
    ),
    ("KKD107", "topics: [{name: t, config: {unclean.leader.election.enable: 'false'}}]", SKIPPED),
    ("KKD108", 'version: "4.2"\n' + KNOWN + THREE, "W"),
    ("KKD108", 'version: "4.2"\nconfig: {default.replication.factor: "2"}\n' + THREE, ""),
    ("KKD108", 'version: "4.2"\n' + KNOWN + "broker_count: 1\nbrokers: [{id: 1}]", ""),
    ("KKD108", 'version: "4.3"\n' + KNOWN + THREE, SKIPPED),
    ("KKD108", 'version: "4.3"\nconfig: {default.replication.factor: "1"}\n' + THREE, "W"),
    (
        "KKD108",
        'version: "4.3"\nbrokers: [{id: 1}, {id: 2}, {id: 9, roles: [controller], config: {}}]',
        "W",
    ),
    (
        "KKD108",
        'version: "4.3"\nbrokers: '
        '[{id: 1}, {id: 2}, {id: 9, roles: [controller], config: {default.replication.factor: "3"}}]',
        "",
    ),
    ("KKD109", 'version: "4.1"\n' + OWN + ELR, "E"),
    ("KKD109", 'version: "4.1"\n' + OWN + NO_ELR, ""),
    ("KKD109", 'version: "4.1"\n' + OWN, SKIPPED),
    ("KKD109", 'version: "4.0"\n' + OWN, ""),
    ("KKD109", 'version: "4.1"\n' + broker_durability('min.insync.replicas: "2"') + ELR, ""),
    ("KKD110", brokers('min.insync.replicas: "2"', 'min.insync.replicas: "1"'), "E"),
    ("KKD110", brokers('min.insync.replicas: "2"', 'min.insync.replicas: "2"'), ""),
    ("KKD110", brokers('min.insync.replicas: "2"', 'node.id: "2"'), "E"),
    ("KKD110", topic_durability(3, 2, head=brokers('min.insync.replicas: "2"', 'node.id: "2"') + "\n"), ""),
    ("KKD110", brokers('node.id: "1"', 'min.insync.replicas: "2"', head='defaults: {min.insync.replicas: "2"}\n'), ""),
    ("KKD111", topic_durability(4, head=THREE), "E"),
    ("KKD111", topic_durability(3, head=THREE), ""),
    ("KKD111", topic_durability(3, head="brokers: [{id: 1}, {id: 2}, {id: 3, alive: false}]\n"), "E"),
    ("KKD111", topic_durability(3), SKIPPED),
    ("KKD112", topic_durability(2, head="rack_count: 3\n"), "W"),
    ("KKD112", topic_durability(3, head="rack_count: 3\n"), ""),
    ("KKD112", topic_durability(1, head="rack_count: 2\n"), "W"),
    ("KKD112", topic_durability(2, head="rack_count: 2\n"), ""),
    ("KKD112", topic_durability(1, head="rack_count: 1\n"), ""),
    ("KKD112", topic_durability(3, head="rack_count: 5\n"), ""),
    ("KKD112", topic_durability(2), SKIPPED),
    ("KKD113", topic_durability(3, 2, head="rack_count: 2\n"), "W"),
    ("KKD113", topic_durability(4, 2, head="rack_count: 2\n"), ""),
    ("KKD113", topic_durability(3, 2, head="rack_count: 3\n"), ""),
    ("KKD113", topic_durability(3, 1, head="rack_count: 2\n"), ""),
    ("KKD113", topic_durability(3, 2, head="rack_count: 1\n"), ""),
    ("KKD113", topic_durability(2, 3, head="rack_count: 3\n"), ""),
    ("KKD114", "config: {offsets.topic.replication.factor: '2'}\n" + THREE, "E"),
    ("KKD114", "config: {offsets.topic.replication.factor: '3'}\n" + THREE, ""),
    ("KKD114", "config: {offsets.topic.replication.factor: '2'}\nbrokers: [{id: 1}, {id: 2}]", ""),
    ("KKD114", broker_durability("transaction.state.log.replication.factor: '1'", "broker_count: 1\n"), ""),
    ("KKD114", THREE + "topics: [{name: __consumer_offsets, replication_factor: 2}]", "E"),
    ("KKD114", THREE + "topics: [{name: __consumer_offsets, replication_factor: 3}]", ""),
    ("KKD124", broker_durability("transaction.state.log.min.isr: '4'"), "E"),
    ("KKD124", broker_durability("transaction.state.log.min.isr: '3'"), ""),
    ("KKD124", broker_durability("min.insync.replicas: '3'"), ""),
    ("KKD124", broker_durability("min.insync.replicas: '3', default.replication.factor: '3'"), ""),
    ("KKD124", broker_durability("min.insync.replicas: '3', default.replication.factor: '2'"), "E"),
    ("KKD115", broker_durability("transaction.state.log.min.isr: '4'"), ""),
    ("KKD115", broker_durability("transaction.state.log.min.isr: '3'"), "E"),
    ("KKD115", broker_durability("transaction.state.log.min.isr: '2'"), ""),
    (
        "KKD115",
        broker_durability("transaction.state.log.min.isr: '1', transaction.state.log.replication.factor: '1'"),
        "",
    ),
    ("KKD115", broker_durability("share.coordinator.state.topic.min.isr: '3'"), "E"),
    (
        "KKD115",
        broker_durability("rlmm.config.remote.log.metadata.topic.replication.factor: '2'", 'version: "4.3"\n'),
        "E",
    ),
    (
        "KKD115",
        broker_durability("rlmm.config.remote.log.metadata.topic.replication.factor: '2'", 'version: "4.2"\n'),
        "",
    ),
    ("KKD118", broker_durability("replica.lag.time.max.ms: '9999'"), "W"),
    ("KKD118", broker_durability("replica.lag.time.max.ms: '10000'"), ""),
    ("KKD118", "brokers: [{id: 1}]", SKIPPED),
    ("KKD119", broker_durability("controlled.shutdown.enable: 'false'"), "W"),
    ("KKD119", broker_durability("controlled.shutdown.enable: 'true'"), ""),
    ("KKD119", broker_durability("node.id: '1'"), ""),
    ("KKD119", "brokers: [{id: 1, roles: [controller], config: {controlled.shutdown.enable: 'false'}}]", ""),
    ("KKD120", "topics: [{name: t, config: {flush.ms: '1000'}}]", "W"),
    ("KKD120", "topics: [{name: t, config: {flush.ms: '9223372036854775807'}}]", ""),
    ("KKD120", "topics: [{name: app-x-changelog, config: {flush.ms: '1000'}}]", ""),
    ("KKD120", "config: {log.flush.interval.messages: '10000'}\n" + THREE, "W"),
    ("KKD121", broker_durability("node.id: '1'"), "W"),
    ("KKD121", broker_durability("auto.create.topics.enable: 'false'"), ""),
    ("KKD121", broker_durability("node.id: '1'", "env: staging\n"), ""),
    ("KKD122", state("replicas: [1, 2, 3], isr: [1, 2, 3], leader: 1"), ""),
    ("KKD122", state("replicas: [1, 2, 3], isr: [1, 2], leader: 1"), "E"),
    ("KKD122", state("replicas: [1, 2, 3], isr: [1], leader: -1"), "EE"),
    ("KKD122", 'version: "3.6"\n' + state("replicas: [1], isr: [1], leader: 1"), "E"),
    ("KKD122", 'version: "3.7"\n' + state("replicas: [1], isr: [1], leader: 1"), ""),
    ("KKD122", state("replicas: [1], isr: [1], leader: 1"), ""),
    ("KKD122", state("replicas: [1, 2, 3]"), SKIPPED),
    ("KKD122", topic_durability(3), SKIPPED),
    ("KKD123", state("replicas: [1, 2, 3]", "replicas: [1, 2]"), "E"),
    ("KKD123", state("replicas: [1, 2, 3]", "replicas: [3, 1, 2]"), ""),
    ("KKD123", topic_durability(3), SKIPPED),
]


@pytest.mark.parametrize(("code", "text", "expected"), CASES_DURABILITY)
def test_durability_at_its_boundaries(code: str, text: str, expected: str) -> None:
    assert marks(code, text) == expected


def test_targets_are_options() -> None:
    four = Limits(target_replication_factor=4)
    assert marks("KKD105", topic_durability(3, 2), four) == "W"
    assert marks("KKD112", topic_durability(3, head="rack_count: 4\n"), four) == "W"
    assert marks("KKD112", topic_durability(3, head="rack_count: 3\n"), four) == ""


def test_an_upgrade_to_4_1_counts_as_one_to_eligible_leader_replicas() -> None:
    text = 'version: "4.0"\n' + OWN
    assert marks("KKD109", text, target="4.1") == "E"


def test_a_shared_setting_is_reported_once_and_at_its_line() -> None:
    (found,) = findings("KKD106", "config:\n  unclean.leader.election.enable: 'true'\n" + THREE)
    assert found.place is not None
    assert (found.place.line, found.where) == (2, "broker 1")


def test_messages_have_the_numbers() -> None:
    (loss,) = findings("KKD113", topic_durability(3, 2, head="rack_count: 2\n"))
    assert loss.message == (
        "3 replicas in 2 racks: losing one leaves 1, below min.insync.replicas 2, and writes with acks=all fail"
    )
    assert loss.hint == "kafkakit topicmappr set-replication 4 --topics t"
    (short,) = findings("KKD122", state("replicas: [1, 2, 3], isr: [1], leader: 1"))
    assert short.message.startswith("1 partition (0) has fewer replicas in sync than min.insync.replicas 2")


def group_compaction(lag_s: int) -> str:
    return f"\nobserved: {{groups: [{{name: g, topics: [t], time_lag_s: {{t: {lag_s}}}}}]}}"


SLOW = ", observed: {partitions: [{partition: 0, replicas: [1], bytes_s: %d}]}"

CASES_COMPACTION = [
    ("KKC301", topic_compaction(f"{COMPACT}, retention.ms: '1', retention.bytes: '1'"), "WW"),
    ("KKC301", topic_compaction(COMPACT), ""),
    ("KKC301", topic_compaction("cleanup.policy: 'compact,delete', retention.ms: '1'"), ""),
    ("KKC301", topic_compaction("retention.ms: '1'", head="config: {log.cleanup.policy: compact}\n"), "W"),
    ("KKC301", topic_compaction("retention.ms: '1'", head=""), ""),
    ("KKC302", topic_compaction(f"{COMPACT}, segment.ms: '{DAY}'"), ""),
    ("KKC302", topic_compaction(f"{COMPACT}, segment.ms: '{DAY + 1}'"), "W"),
    ("KKC302", topic_compaction(f"{COMPACT}, max.compaction.lag.ms: '{DAY}'"), ""),
    ("KKC302", topic_compaction(COMPACT, head=""), SKIPPED),
    ("KKC302", topic_compaction(COMPACT, name="__consumer_offsets"), ""),
    ("KKC302", topic_compaction(COMPACT, SLOW % 100_000), ""),
    ("KKC302", topic_compaction(COMPACT, SLOW % 10_000), "W"),
    ("KKC302", topic_compaction(""), ""),
    ("KKC304", topic_compaction(f"{COMPACT}, max.compaction.lag.ms: '604799999'"), "N"),
    ("KKC304", topic_compaction(f"{COMPACT}, max.compaction.lag.ms: '604800000'"), ""),
    ("KKC304", topic_compaction("max.compaction.lag.ms: '1'"), ""),
    ("KKC305", topic_compaction(f"{COMPACT}, delete.retention.ms: '3599999'"), "W"),
    ("KKC305", topic_compaction(f"{COMPACT}, delete.retention.ms: '3600000'"), ""),
    ("KKC305", topic_compaction(f"{COMPACT}, delete.retention.ms: '3600000'") + group_compaction(3601), "W"),
    ("KKC305", topic_compaction("delete.retention.ms: '1'"), ""),
    ("KKC306", topic_compaction(f"{COMPACT}, min.cleanable.dirty.ratio: '0.05'"), ""),
    ("KKC306", topic_compaction(f"{COMPACT}, min.cleanable.dirty.ratio: '0.049'"), "W"),
    ("KKC306", topic_compaction(f"{COMPACT}, min.cleanable.dirty.ratio: '0.9'"), ""),
    ("KKC306", topic_compaction(f"{COMPACT}, min.cleanable.dirty.ratio: '0.91'"), "W"),
    ("KKC306", topic_compaction("min.cleanable.dirty.ratio: '1'"), ""),
    ("KKC307", broker_compaction("log.cleaner.enable: 'false'"), "E"),
    ("KKC307", broker_compaction("log.cleaner.threads: '0'"), "E"),
    ("KKC307", broker_compaction("log.cleaner.threads: '1'"), ""),
    ("KKC307", "brokers: [{id: 1}]", SKIPPED),
    ("KKC309", topic_compaction(COMPACT, ", observed: {dirty_unique_keys: 5033164}"), ""),
    ("KKC309", topic_compaction(COMPACT, ", observed: {dirty_unique_keys: 5033165}"), "N"),
    ("KKC309", topic_compaction(COMPACT), SKIPPED),
    ("KKC310", topic_compaction("cleanup.policy: delete", ", labels: [state]"), "W"),
    ("KKC310", topic_compaction("cleanup.policy: 'compact,delete'", ", labels: [changelog, windowed]"), ""),
    ("KKC310", topic_compaction(COMPACT, ", labels: [state]"), ""),
    ("KKC311", topic_compaction("cleanup.policy: 'compact,delete'", name="__consumer_offsets"), "E"),
    ("KKC311", topic_compaction(COMPACT, name="__transaction_state"), ""),
    ("KKC311", topic_compaction("cleanup.policy: delete", name="__share_group_state"), ""),
    ("KKC311", topic_compaction("", name="__consumer_offsets"), SKIPPED),
    ("KKC311", topic_compaction("", name="__consumer_offsets") + "\nobserved: {live: true}", "E"),
    ("KKC312", topic_compaction(COMPACT, ", observed: {keyless_records: 1}"), "W"),
    ("KKC312", topic_compaction(COMPACT, ", observed: {keyless_records: 0}"), ""),
    ("KKC312", topic_compaction(COMPACT), SKIPPED),
    ("KKC313", rate(500, "1000"), ""),
    ("KKC313", rate(501, "1000"), "W"),
    ("KKC313", rate(501, "1.0E3"), "W"),
    ("KKC313", topic_compaction(COMPACT, head=broker_compaction("log.cleaner.io.max.bytes.per.second: '1'")), SKIPPED),
    ("KKT906", topic_compaction(f"{TIERED}, retention.ms: '1000', local.retention.ms: '900'"), "N"),
    ("KKT906", topic_compaction(f"{TIERED}, retention.ms: '1000', local.retention.ms: '899'"), ""),
    ("KKT906", topic_compaction(f"{TIERED}, retention.ms: '-1', local.retention.ms: '1000'"), ""),
    ("KKT906", topic_compaction(f"{TIERED}, retention.ms: '-1'"), "N"),
    ("KKT906", topic_compaction(f"{TIERED}, local.retention.bytes: '1000'"), ""),
    ("KKT906", topic_compaction("retention.ms: '1000'"), ""),
    ("KKT906", topic_compaction(TIERED, head=""), SKIPPED),
    ("KKT907", topic_compaction(f"{TIERED}, local.retention.ms: '{DAY}', segment.ms: '{DAY}'"), ""),
    ("KKT907", topic_compaction(f"{TIERED}, local.retention.ms: '{DAY}', segment.ms: '{DAY + 1}'"), "W"),
    ("KKT907", topic_compaction(f"{TIERED}, local.retention.ms: '{DAY}'", SLOW % 100_000), ""),
    ("KKT907", topic_compaction(f"{TIERED}, local.retention.ms: '{DAY}'", head=""), SKIPPED),
    ("KKT908", topic_compaction(f"{TIERED}, local.retention.ms: '1000'") + group_compaction(1), ""),
    ("KKT908", topic_compaction(f"{TIERED}, local.retention.ms: '1000'") + group_compaction(2), "W"),
    ("KKT908", topic_compaction(f"{TIERED}, local.retention.ms: '1000'"), SKIPPED),
    ("KKT908", topic_compaction("local.retention.ms: '1000'"), ""),
]


@pytest.mark.parametrize(("code", "text", "expected"), CASES_COMPACTION)
def test_compaction_and_tiering_at_their_boundaries(code: str, text: str, expected: str) -> None:
    assert marks(code, text) == expected


def test_freshness_is_an_option() -> None:
    assert (
        marks("KKC302", topic_compaction(f"{COMPACT}, segment.ms: '{DAY + 1}'"), Limits(freshness_s=2 * 86_400)) == ""
    )


def test_the_passes_of_the_cleaner_are_counted() -> None:
    (found,) = findings("KKC309", topic_compaction(COMPACT, ", observed: {dirty_unique_keys: 15099493}"))
    assert found.message.endswith("15,099,493: 4 passes")


HOUR_OF_DATA = "retention.ms: '3600000'"
NODE = "process.roles=broker\nnode.id=1\nlog.dirs=/data\n"


def found_in(files: dict[str, str], *codes: str, assume: bool = True) -> list[tuple[str, str, str]]:
    options = AssemblyOptions(assume_defaults=assume)
    found = outcome_of(files, rules=[rule_of(code) for code in codes], options=options).checked
    return [(c.rule.code, c.finding.severity.value, c.finding.message) for c in found]


def test_a_topic_without_brokers_is_judged_by_kafkas_defaults() -> None:
    files = {"t.yaml": f"topics: [{{name: t, config: {{{HOUR_OF_DATA}}}}}]"}
    (found,) = found_in(files, "KKR202")
    assert found[:2] == ("KKR202", "warning")
    assert found[2].endswith(" (assumed: segment.ms 7 d, Kafka's default)")
    (found,) = found_in(files, "KKR201")
    assert found[1] == "warning", "an error with a broker's file"
    assert found_in(files, "KKR201", "KKR202", assume=False) == []
    files = {"t.yaml": f"topics: [{{name: t, config: {{{HOUR_OF_DATA}, segment.ms: '60000'}}}}]"}
    assert found_in(files, "KKR202") == []


@pytest.mark.parametrize(
    ("lines", "code", "severity"),
    [
        ("log.retention.hours=1\n", "KKR201", "error"),
        ("log.retention.hours=1\n", "KKR202", "warning"),
        ("log.retention.hours=-1\n", "KKR204", "warning"),
        ("default.replication.factor=2\nmin.insync.replicas=2\n", "KKD102", "warning"),
        ("default.replication.factor=3\nmin.insync.replicas=3\n", "KKD102", "warning"),
        ("message.max.bytes=209715200\n", "KKM401", "error"),
        ("message.max.bytes=20971520\nreplica.fetch.max.bytes=1048576\n", "KKM402", "note"),
    ],
)
def test_the_defaults_of_a_broker_alone_are_judged(lines: str, code: str, severity: str) -> None:
    assert [f[:2] for f in found_in({"server.properties": NODE + lines}, code)] == [(code, severity)]
    assert found_in({"server.properties": NODE}, code) == [], "Kafka's own defaults are not told"


def test_defaults_are_left_to_topics_that_inherit_them() -> None:
    files = {"server.properties": NODE + "log.retention.hours=1\n", "t.yaml": "topics: [{name: t}]"}
    assert [f[0] for f in found_in(files, "KKR202")] == ["KKR202"]


@pytest.mark.parametrize(
    ("text", "code", "found"),
    [
        ("brokers: [{id: 1, host: {memory_bytes: 4, heap_bytes: 4}}]", "KKB517", "E"),
        ("brokers: [{id: 1, host: {memory_bytes: 5, heap_bytes: 4}}]", "KKB517", ""),
        ("brokers: [{id: 1, host: {heap_bytes: 4}}]", "KKB517", ""),
        ("brokers: [{id: 1, log_dirs: [{path: /d, is_ephemeral: true}]}]", "KKB516", "E"),
        ("env: dev\nbrokers: [{id: 1, log_dirs: [{path: /d, is_ephemeral: true}]}]", "KKB516", ""),
    ],
)
def test_what_a_broker_cannot_have(text: str, code: str, found: str) -> None:
    assert marks(code, text) == found


def zookeeper(**settings: str) -> str:
    own = {"zookeeper.connect": "zk:2181"} | {key.replace("_", "."): value for key, value in settings.items()}
    version = own.pop("version", "3.9")
    config = ", ".join(f"{key}: '{value}'" for key, value in own.items())
    return f"version: '{version}'\nbrokers: [{{config: {{{config}}}}}]"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (zookeeper(), ""),
        (zookeeper(listeners="SSL://:9092"), "E"),
        (zookeeper(listeners="SSL://:9092", security_inter_broker_protocol="SSL"), ""),
        (zookeeper(listeners="SSL://:9092", security_inter_broker_protocol="SSL", process_roles="broker"), ""),
        (zookeeper(listeners="SSL://:9092", version="4.0"), ""),
        (zookeeper(listeners="SSL://:9092", inter_broker_listener_name="${NAME}"), "skipped"),
        (zookeeper(security_inter_broker_protocol="TLS", version="2.8"), "EE"),
        (zookeeper(advertised_listeners="PLAINTEXT://b:9092,SSL://b:9093"), "E"),
        (zookeeper(control_plane_listener_name="PLAINTEXT"), "E"),
        (zookeeper(control_plane_listener_name="SSL"), "E"),
        (zookeeper(inter_broker_protocol_version="3.9"), ""),
        (zookeeper(inter_broker_protocol_version="3.9", version="3.8"), "E"),
        (zookeeper(broker_id="1000"), ""),
        (zookeeper(broker_id="1001"), "E"),
        (zookeeper(broker_id="1001", broker_id_generation_enable="false"), ""),
        (zookeeper(broker_id="-1"), ""),
        (zookeeper(broker_id="-1", broker_id_generation_enable="false"), "E"),
        (zookeeper(group_coordinator_rebalance_protocols="classic,consumer"), "E"),
    ],
)
def test_what_a_broker_with_zookeeper_does_not_start_with(text: str, found: str) -> None:
    assert marks("KKB518", text) == found


KRAFT_NODE = (
    "brokers: [{{config: {{process.roles: {0}, node.id: '1', controller.listener.names: C, listeners: '{1}', "
    "controller.quorum.{2}, advertised.listeners: '{3}', "
    "listener.security.protocol.map: 'PLAINTEXT:PLAINTEXT,C:SSL'}}}}]"
)
VOTERS = "voters: '2@a:9093'"


@pytest.mark.parametrize(
    ("node", "before", "since"),
    [
        (("controller", "C://:9093", "voters: '1@a:9093'", "C://a:9093"), "E", ""),
        (("controller", "C://:9093", "voters: '1@a:9093'", ""), "E", ""),
        (("broker", "PLAINTEXT://:9092", VOTERS, "PLAINTEXT://a:9092"), "", ""),
        (("broker", "PLAINTEXT://:9092", "bootstrap.servers: 'a:9093'", "PLAINTEXT://a:9092"), "E", ""),
    ],
)
def test_quorums_are_dynamic_since_3_9(node: tuple[str, str, str, str], before: str, since: str) -> None:
    text = KRAFT_NODE.format(*node)
    assert marks("KKQ854", f"version: '3.8'\n{text}") == before
    assert marks("KKQ854", f"version: '3.9'\n{text}") == since
    assert marks("KKQ854", f"version: '3.0'\n{text}") == ""


@pytest.mark.parametrize(("version", "found"), [("3.5", "E"), ("3.6", "")])
def test_a_port_of_both_families_of_addresses_may_be_shared_since_3_6(version: str, found: str) -> None:
    text = f"version: '{version}'\nbrokers: [{{config: {{listeners: 'A://127.0.0.1:9092,B://[::1]:9092'}}}}]"
    assert marks("KKB515", text) == found


@pytest.mark.parametrize(("version", "text", "found"), [("2.8", "x", "E"), ("2.8", "GZIP", ""), ("3.9", "x", "E")])
def test_every_version_checks_the_compression(version: str, text: str, found: str) -> None:
    assert marks("KKV003", f"version: '{version}'\nbrokers: [{{id: 1, config: {{compression.type: {text}}}}}]") == found


def test_a_wait_above_a_negative_lag_is_refused() -> None:
    text = "brokers: [{id: 1, config: {replica.fetch.wait.max.ms: '-1', replica.lag.time.max.ms: '-2'}}]"
    assert marks("KKD116", text) == "E"


@pytest.mark.parametrize(("text", "found"), [("a:1,", ""), ("a:1, ,", ""), (",", ""), ("a:1,,b:2", "E"), (",a:1", "E")])
def test_only_at_the_end_of_a_map_may_an_item_be_empty(text: str, found: str) -> None:
    assert marks("KKV003", f"brokers: [{{id: 1, config: {{max.connections.per.ip.overrides: '{text}'}}}}]") == found


@pytest.mark.parametrize(
    ("code", "settings", "line"),
    [
        ("KKR201", ("log.segment.bytes=1073741824", "log.retention.hours=24"), 4),
        ("KKR201", ("log.retention.minutes=1440", "log.roll.hours=168"), 4),
        ("KKR202", ("log.retention.ms=86400000", "log.dirs=/d"), 3),
        ("KKR203", ("log.dirs=/d", "log.retention.bytes=1000"), 4),
        ("KKD101", ("log.dirs=/d", "min.insync.replicas=2", "default.replication.factor=1"), 4),
    ],
)
def test_what_defaults_make_of_topics_stands_at_their_line(code: str, settings: tuple[str, ...], line: int) -> None:
    text = "\n".join(("process.roles=broker", "node.id=1", *settings))
    (found,) = findings(code, {"server.properties": text})
    assert found.place is not None
    assert (found.where, found.place.line) == ("topics by default", line)
