"""The audit `drift`: which keys are compared and in what form, and each sentence at its threshold."""

from collections.abc import Mapping
from typing import Any

import pytest

from kafkakit.audit.decide.runs import collect_repairs
from kafkakit.rules.audits import drift
from kafkakit.rules.audits.drift import TextForm, compared_key, default_changes, table_with
from tests.rigs.printed_commands import refusal_of_line

DAY_MS = drift.DAY_MS
BASE = {"cluster": "c1", "owner": None, "blast": 6.0}


def said(found: Any) -> list[tuple[str, str, str]]:
    return [(f.rule, f.where, f.message) for f in found]


@pytest.mark.parametrize(
    ("key", "name", "form", "factor"),
    [
        ("log.retention.hours", "log.retention.ms", TextForm.WHOLE, 3_600_000),
        ("log.retention.ms", "log.retention.ms", TextForm.WHOLE, 1),
        ("cleanup.policy", "cleanup.policy", TextForm.LIST, 1),
        ("auto.create.topics.enable", "auto.create.topics.enable", TextForm.BOOLEAN, 1),
        ("min.cleanable.dirty.ratio", "min.cleanable.dirty.ratio", TextForm.DOUBLE, 1),
        ("confluent.tier.enable", "confluent.tier.enable", TextForm.TEXT, 1),
    ],
)
def test_keys_are_compared_in_the_form_of_their_type(key: str, name: str, form: TextForm, factor: int) -> None:
    found = compared_key(key)
    assert found is not None
    assert (found.name, found.form, found.factor, found.is_per_node) == (name, form, factor, False)


@pytest.mark.parametrize(
    "key",
    ["node.id", "broker.rack", "advertised.listeners", "log.dirs", "listener.name.internal.ssl.keystore.location",
     "leader.replication.throttled.replicas", "follower.replication.throttled.rate"],
)  # fmt: skip
def test_what_each_node_has_for_itself_is_not_compared(key: str) -> None:
    found = compared_key(key)
    assert found is not None
    assert found.is_per_node


@pytest.mark.parametrize("key", ["ssl.key.password", "listener.name.x.plain.sasl.jaas.config", "my.api.token"])
def test_secrets_are_not_compared_at_all(key: str) -> None:
    assert compared_key(key) is None


def test_defaults_that_differ_are_those_both_versions_have() -> None:
    assert default_changes("4.3", "4.4") == {}
    assert default_changes("4.0", "4.1")["group.share.partition.max.record.locks"] == ("200", "2000")
    assert table_with("zookeeper.connect", "4.0").version == "3.9"
    assert table_with("log.retention.ms", "4.0").version == "4.0"


def declared(**values: Any) -> Mapping[str, Any]:
    row = {
        "topic": "orders",
        "file": "t.yaml",
        "line": 3,
        "settings": None,
        "live_partitions": 6,
        "live_replication": 3,
    }
    return {**BASE, **row, "partitions": None, "replication": None, **values}


def test_declared_settings_that_differ_end_in_a_change_to_apply() -> None:
    setting = {"key": "retention.ms", "declared": "3600000", "live": "604800000", "line": 4}
    (found,) = drift.declared_drift(declared(settings=[setting]))
    assert (found.rule, found.where, found.repair) == ("KKX001", "topic orders of c1", "retention.ms=3600000")
    assert found.message.endswith("applying the file is unsafe: records are deleted")
    assert found.score == 18.0
    alone = {**setting, "declared": None}
    (found,) = drift.declared_drift(declared(settings=[alone]))
    assert (found.message, found.repair) == ("retention.ms is 604800000 in the cluster, but not in the file", "")
    assert not list(drift.declared_drift(declared()))
    (found,) = drift.declared_drift(declared(replication=2))
    assert "unsupported" in found.message


def test_topics_on_one_side_are_missing_or_unmanaged() -> None:
    assert said(drift.find_undeclared({**BASE, "topic": "a", "is_declared": True})) == [
        ("KKX006", "topic a of c1", "the topic is declared, but not in the cluster")
    ]
    (found,) = drift.find_undeclared({**BASE, "topic": "a", "is_declared": False})
    assert (found.severity, found.message) == ("note", "the topic is in the cluster, but in no file")


def test_an_override_is_stale_beyond_the_days_that_are_set() -> None:
    row = {**BASE, "topic": "a", "broker": None, "key": "retention.ms", "value": "1", "days": 30.0}
    assert not list(drift.stale_override({**row, "age_ms": 30 * DAY_MS}))
    assert said(drift.stale_override({**row, "age_ms": 31 * DAY_MS})) == [
        ("KKX004", "topic a of c1", "retention.ms was set 31 d ago and is in no file")
    ]
    row = {**row, "topic": None, "broker": 5, "age_ms": 31 * DAY_MS}
    assert said(drift.stale_override(row))[0][1] == "broker 5 of c1"


def test_brokers_that_show_no_row_have_the_default() -> None:
    groups = [{"value": "2097152", "source": "static", "brokers": [1, 2]}]
    row = {**BASE, "key": "message.max.bytes", "minor": "4.0", "ids": [1, 2, 3], "groups": groups}
    assert said(drift.different_brokers(row)) == [
        ("KKX003", "cluster c1", "message.max.bytes is 2097152 on 2 brokers, but 1048588 on broker 3")
    ]
    assert not list(drift.different_brokers({**row, "ids": [1, 2]}))


@pytest.mark.parametrize(
    ("groups", "repair"),
    [
        # One broker has a value of its own above what all have in their files: it is removed.
        (
            [("1000", "static", [1, 3]), ("2000", "dynamic-broker", [2])],
            "kafkakit --profile c1 config plan --brokers 2 --delete message.max.bytes --plan change.json",
        ),
        # The others have theirs as own ones: removing it would not bring the same.
        (
            [("1000", "dynamic-broker", [1, 3]), ("2000", "dynamic-broker", [2])],
            "kafkakit --profile c1 config plan message.max.bytes=1000 --brokers 2 --plan change.json",
        ),
        # Two files that differ from the others'.
        (
            [("1000", "static", [1, 4, 5]), ("2000", "static", [2]), ("3000", "dynamic-broker", [3])],
            "kafkakit --profile c1 config plan message.max.bytes=1000 --brokers 2,3 --plan change.json",
        ),
        # One against one: no value is the usual one.
        ([("1000", "static", [1]), ("2000", "dynamic-broker", [2])], ""),
    ],
)
def test_brokers_that_differ_are_repaired_by_the_value_of_most(
    groups: list[tuple[str, str, list[int]]], repair: str
) -> None:
    row = {**BASE, "key": "message.max.bytes", "minor": "4.1", "ids": [b for _, _, ids in groups for b in ids],
           "groups": [dict(zip(("value", "source", "brokers"), group, strict=True)) for group in groups]}  # fmt: skip
    (found,) = drift.different_brokers(row)
    assert found.repair == repair
    assert (repair or "no value is the usual one") in found.hint
    repairs = collect_repairs([found])
    assert (repairs.commands, repairs.left_out) == ((repair,) if repair else (), ())
    for command in repairs.commands:
        assert refusal_of_line(command) == ""


def test_an_outlier_needs_three_peers_of_which_95_percent_agree() -> None:
    row = {**BASE, "key": "log.retention.ms", "value": "3600000", "minor": "4.0", "usual": "604800000"}
    assert said(drift.different_peers({**row, "agree": 19, "peers": 20})) == [
        ("KKX002", "cluster c1", "log.retention.ms is 3600000 here and 604800000 in 19 of 20 peers")
    ]
    assert not list(drift.different_peers({**row, "agree": 18, "peers": 19}))
    assert not list(drift.different_peers({**row, "agree": 2, "peers": 2}))


def test_a_mirrored_topic_is_repaired_with_the_primary_s_value() -> None:
    row = {**BASE, "source": "c0", "topic": "c0.a", "key": "cleanup.policy", "ours": "compact", "theirs": "delete"}
    (found,) = drift.different_mirror({**row, "from_broker": ""})
    assert (found.rule, found.where, found.repair) == ("KKX005", "topic c0.a of c1", "cleanup.policy=compact")
    (meant,) = drift.different_mirror({**row, "from_broker": "", "is_meant": True})
    assert meant.message == "cleanup.policy is delete on the mirror and compact in the files of c0"
    inherited = {**row, "topic": None, "key": "retention.ms", "ours": "1000", "theirs": "2000"}
    assert said(drift.different_mirror({**inherited, "from_broker": "log.retention.ms"})) == [
        ("KKX005", "cluster c1", "topics inherit retention.ms 2000 on the mirror and 1000 on c0")
    ]


def test_versions_may_differ_for_seven_days_and_two_minors() -> None:
    def of(minor: str, days: float, *versions: str) -> dict[str, Any]:
        return {"cluster": f"c{minor}", "minor": minor, "versions": versions, "since_ms": 10**12 - int(days * DAY_MS),
                "blast": 1.0}  # fmt: skip

    assert not list(drift.version_skews([of("4.2", 7.0, "4.2.0", "4.3.0"), of("4.4", 0, "4.4.0")], 10**12))
    found = list(drift.version_skews([of("4.1", 7.1, "4.1.0", "4.2.0"), of("4.4", 0, "4.4.0")], 10**12))
    assert [f.message for f in found] == [
        "Kafka 4.1 is 3 minor versions behind 4.4, the newest of the fleet",
        "brokers run 4.1 and 4.2 for 7 days, longer than 7",
    ]


def test_since_when_versions_differ_counts_days_without_a_break() -> None:
    two = ("4.0", "4.1")
    days = {"2026-11-01": two, "2026-11-02": ("4.0",), "2026-11-04": two, "2026-11-06": two}
    assert drift.differing_since_ms(days, "2026-11-06") == 1_793_750_400_000
    assert drift.differing_since_ms(days, "2026-11-02") is None


def test_defaults_of_another_version_are_one_finding() -> None:
    keys = [{"key": "b", "ours": "1", "theirs": "2"}, {"key": "a", "ours": "", "theirs": "x"}]
    row = {**BASE, "minor": "4.0", "other_minor": "4.1", "other": "cluster c0", "keys": keys}
    (found,) = drift.other_defaults(row)
    assert (found.rule, found.count) == ("KKX010", 2)
    assert found.message == (
        "2 settings that no file sets have another default in Kafka 4.0 than in 4.1 of cluster c0: "
        "a not set, there x, b 1, there 2"
    )
