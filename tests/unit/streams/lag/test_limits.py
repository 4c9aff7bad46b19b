"""Limits by rule from a file, owners, and what moves of our own silence."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.execution.decide.journal import Layers, RunState
from kafkakit.streams.lag.decide.limits import (
    LIMIT_KEYS,
    CheckResult,
    JudgedBound,
    LagLimits,
    LimitRules,
    Thresholds,
    Verdict,
    check_lag,
    parse_thresholds,
)
from kafkakit.streams.lag.decide.measure.ends import TopicFacts
from kafkakit.streams.lag.decide.measure.table import LagStatus
from kafkakit.streams.lag.decide.monitors import moved_topics, read_limit_rules
from tests.clusters.lag_rows import Bench

WORDS: Mapping[str, str | None] = {
    **dict.fromkeys(LIMIT_KEYS), "crit_time": "10m", "crit_status": "lost", "warn_status": "stalled",
}  # fmt: skip
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def read(text: str) -> LimitRules:
    return read_limit_rules(text.encode(), "limits.yaml", WORDS, JudgedBound.HIGH)


def test_the_first_rule_that_fits_counts_and_inherits_what_it_does_not_name() -> None:
    rules = read(
        "owners:\n  pay: ['pay-*', billing]\n  late: 'pay-late'\nrules:\n"
        "- {group: 'pay-batch-*', crit_time: none, crit_lag: 10M}\n"
        "- {owner: pay, topic: 'orders.*', crit_time: 5m, warn_status: none}\n"
        "- {group: 'pay-*', crit_time: 1m}\n"
    )
    owners = {group: rules.owner_of(group) for group in ("pay-a", "billing", "pay-late", "other")}
    assert owners == {"pay-a": "pay", "billing": "pay", "pay-late": "pay", "other": ""}, "the first owner counts"

    def limits(group: str, topic: str) -> Thresholds:
        return rules.of(group, topic, rules.owner_of(group))

    assert limits("other", "orders.x") == rules.default == parse_thresholds(WORDS, JudgedBound.HIGH, str)
    batch = limits("pay-batch-1", "orders.x")
    assert (batch.critical.max_lag, batch.critical.max_time_lag_ms) == (10_000_000, None)
    assert batch.critical.statuses == {LagStatus.LOST}
    owned = limits("billing", "orders.x")
    assert (owned.critical.max_time_lag_ms, owned.warning.statuses) == (300_000, frozenset())
    assert owned.judge is JudgedBound.HIGH
    assert limits("pay-a", "other").critical.max_time_lag_ms == 60_000
    assert limits("billing", "other") == rules.default, "a rule with a topic is not about other topics"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("rules:\n- crit_lga: 5", "limits.yaml:2: unknown key 'crit_lga'; did you mean crit_lag?"),
        ("rule: []", "limits.yaml:1: unknown key 'rule'; did you mean rules?"),
        ("", "limits.yaml: holds no limits"),
        ("rules:\n- group: g\n  crit_lag: many", "limits.yaml:3: crit_lag 'many' is not a number of records"),
        ("rules:\n- warn_time: soon", "limits.yaml:2: warn_time 'soon' is not a duration"),
        ("rules:\n- crit_status: late", "limits.yaml:2: crit_status: 'late' is no status"),
        ("rules:\n- crit_lag: ", "limits.yaml:2: crit_lag is empty"),
        ("rules:\n- group: [a, b]", "limits.yaml:2: group must be a text, found a list"),
        ("rules:\n- {}", "limits.yaml:2: a rule is empty"),
        ("rules: 5", "limits.yaml:1: a rule must be a mapping"),
        ("owners: {a: x}\nrules:\n- {owner: b, crit_lag: 1}", "limits.yaml:3: no owner is called 'b'"),
        ("owners:\n  a: []", "limits.yaml:2: owner a names no group"),
        ("owners:\n  a:", "limits.yaml:2: owner a names no group"),
        ("rules: &x []\nowners: *x", "limits.yaml:1: anchors and aliases"),
        ("rules:\n- {group: a, group: b}", "limits.yaml:2: the key 'group' is given twice"),
        ("rules: [", "limits.yaml: not valid YAML"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_line(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert caught.value.message.startswith(told)


def test_known_keys_and_owners_are_the_hint() -> None:
    with pytest.raises(InputError) as caught:
        read("rules:\n- lag: 5")
    assert caught.value.hint == "known keys are group, topic, owner, " + ", ".join(LIMIT_KEYS)
    with pytest.raises(InputError) as caught:
        read("owners: {a: x, b: y}\nrules:\n- owner: c")
    assert caught.value.hint == "owners: a, b"


EVERY = LagLimits(max_lag=0, max_time_lag_ms=0, min_retention_left_ms=10**12, statuses=frozenset(LagStatus))


def judged(bench: Bench, at: int, moved: Mapping[tuple[str, str], str]) -> CheckResult:
    return check_lag([bench.table(at)], LimitRules(default=Thresholds(critical=EVERY)), moved)


def test_what_is_lost_stopped_or_soon_deleted_is_never_silenced() -> None:
    bench = Bench()
    bench.facts(TopicFacts(is_dense=True, is_log_append=True))
    bench.commit("dead", 10, 0)
    bench.commit("loses", 5, 0, topic="u")
    for minute in range(31):
        bench.end(90 + minute, minute * 60_000)
        bench.end(20_000, minute * 60_000, topic="u", start=50 + minute * 100)
    found = judged(bench, 1_800_001, {("c1", "t"): "run1", ("c1", "u"): "run1"})
    assert {b.text.split(",")[0].split(" in ")[0] for b in found.breaches} == {
        "status stopped", "status lost", "records are lost",
    }  # fmt: skip
    assert {b.text.split()[0] for b in found.silenced} == {"lag", "time"}
    assert found.silenced_count == len(found.silenced) == 3
    assert found.verdict is Verdict.CRITICAL
    assert judged(bench, 1_800_001, {("c2", "t"): "run1", ("c1", "v"): "run1"}).silenced == ()


def test_what_is_not_known_is_never_silenced() -> None:
    bench = Bench()
    bench.commit("g", 5, 0)
    found = judged(bench, 0, {("c1", "t"): "run1"})
    assert "the lag is not known now" in found.breaches[0].text
    assert found.silenced == ()


def state(hours_ago: float, **more: object) -> RunState:
    values = {"fingerprint": "sha256:0123456789", "unsettled": True, "began_at": NOW - timedelta(hours=hours_ago)}
    sent: Layers[TopicPartition, tuple[tuple[int, ...], ...]] = Layers(({TopicPartition("t", 0): ((1, 2),)},))
    return RunState(**{"trail": sent, **values, **more})  # type: ignore[arg-type]


def test_topics_of_unfinished_runs_are_silenced_for_a_bounded_time() -> None:
    def topics(*states: RunState) -> dict[tuple[str, str], str]:
        return moved_topics("c", states, NOW, 4 * 3600)

    assert topics(state(3.9)) == {("c", "t"): "01234567"}
    assert topics(state(4)) == {}
    assert topics(state(1, unsettled=False)) == {}
    assert topics(state(1, began_at=None)) == {}
    assert topics(state(1, trail=Layers())) == {}
    copies = Layers(({TopicPartitionReplica("u", 0, 1): ("/d",)},))
    later = state(1, fingerprint="sha256:fedcba98", dirs_sent=copies)
    assert topics(later, state(2)) == {("c", "t"): "fedcba98", ("c", "u"): "fedcba98"}
