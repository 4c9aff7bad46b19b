"""Rules of retention and segments at their boundaries, with their messages and fixes."""

import pytest

from kafkakit.rules.rule import Limits
from tests.rigs.lint_examples import outcome_of
from tests.rigs.rule_cases import SKIPPED, findings, marks, rule_of

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
    ("KKR201", topic("", head="config: {log.retention.hours: '168'}\n"), "W"),
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
