"""What is asked for, resolved against a cluster: words, files, findings; steps; the plan and its file."""

import json
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kafkakit.core.cluster_facts import CLUSTER_DEFAULT, ConfigLayer, LayeredValue, ResourceKind
from kafkakit.core.errors import InputError, TryLaterError, UsageError
from kafkakit.core.findings import Severity
from kafkakit.core.plan import PlanBroker
from kafkakit.lint.decide.files import read_text
from kafkakit.rollout.decide.plan import (
    ConfigPlan,
    FindingsChange,
    decode_config_plan,
    encode_config_plan,
    hash_of,
    make_plan,
    subject_of,
)
from kafkakit.rollout.decide.settings import (
    ClusterConfigs,
    ResolvedSettings,
    SettingChange,
    StepChoice,
    StepShares,
    StepSize,
    WantedSetting,
    broker_waves,
    is_same,
    parse_steps,
    plan_steps,
    resolve,
)
from tests.rigs.rollouts import Harness, rules

DAY = "86400000"
BROKER, TOPIC = ResourceKind.BROKER, ResourceKind.TOPIC


@pytest.fixture
def bench(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def rows(plan: ConfigPlan) -> list[tuple[str, str, str | None, str | None]]:
    return [(c.where, c.key, c.before, c.after) for c in plan.all_changes]


def test_words_with_each_scope(bench: Harness) -> None:
    bench.cluster.topics["b"].configs["retention.ms"] = DAY
    assert rows(bench.plan(f"retention.ms={DAY}", topics="a,b")) == [("topic a", "retention.ms", None, DAY)]
    assert rows(bench.plan("log.retention.ms=5", brokers=(2,))) == [("broker 2", "log.retention.ms", None, "5")]
    assert [row[0] for row in rows(bench.plan("log.retention.ms=5", all_brokers=True))] == [
        "broker 1",
        "broker 2",
        "broker 3",
    ]
    assert rows(bench.plan("log.retention.ms=5", cluster_default=True))[0][0] == "cluster default"
    assert rows(bench.plan(topics="b", deleted=("retention.ms",))) == [("topic b", "retention.ms", DAY, None)]


def test_a_plan_says_what_must_restart_and_what_it_takes_back(bench: Harness) -> None:
    bench.cluster.own_static[2] = {"replica.fetch.max.bytes": "7"}
    plan = bench.plan("replica.fetch.max.bytes=5", f"log.retention.ms={DAY}", cluster_default=True)
    assert [(c.name, c.before, c.after) for c in plan.restarts] == [("1", None, "5"), ("2", "7", "5"), ("3", None, "5")]
    assert (plan.rollback[0].where, plan.rollback[0].before, plan.rollback[0].after) == ("broker 3", "5", None)
    assert plan.steps[-1].name == "restart of broker 3"
    assert [s.restart for s in plan.steps] == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("words", "scope", "said"),
    [
        (("retention.ms",), {"topics": "a"}, "is not KEY=VALUE"),
        (("retention.ms=1", "retention.ms=2"), {"topics": "a"}, "given twice"),
        (("retention.ms=1",), {}, "no scope is given"),
        ((), {"topics": "a"}, "nothing is asked for"),
        (("retention.ms=1",), {"topics": "zzz"}, "no topic matches"),
        (("no.such.key=1",), {"topics": "a"}, "is not a topic setting"),
        (("log.retention.ms=1",), {"brokers": (9,)}, "broker 9 is not in the cluster"),
        (("ssl.keystore.password=x",), {"brokers": (1,)}, "holds a secret"),
        (("listeners=PLAINTEXT://:1",), {"cluster_default": True}, "is set for each broker"),
        (("num.io.thread=4",), {"all_brokers": True}, "is not a broker setting.*did you mean num.io.threads"),
        (("retention.ms=4",), {"cluster_default": True}, "is not a broker setting.*did you mean log.retention.ms"),
        (("cruise.control.metrics.topic=x",), {"brokers": (1,)}, "is not a broker setting"),
        (("listener.name.x.ssl.no.such.key=x",), {"brokers": (1,)}, "is not a broker setting"),
        (("broker.id=5",), {"brokers": (1,)}, "broker.id is never changed on a broker: the data"),
        (("node.id=7",), {"all_brokers": True}, "node.id is never changed"),
        (("node.id=7",), {"cluster_default": True}, "node.id is never changed"),
        (("cluster.id=x",), {"all_brokers": True}, "cluster.id is never changed"),
        (("process.roles=broker",), {"brokers": (2,)}, "process.roles is never changed"),
        (("log.dirs=/a,/b",), {"brokers": (2,)}, "log.dirs is never changed on a broker: they hold replicas"),
        (("log.dir=/a",), {"brokers": (2,)}, "log.dir is never changed"),
        (("metadata.log.dir=/a",), {"brokers": (2,)}, "metadata.log.dir is never changed"),
        (("controller.quorum.voters=1@a:1",), {"all_brokers": True}, "controller.quorum.voters is never changed"),
    ],
)
def test_what_cannot_be_asked_for(bench: Harness, words: tuple[str, ...], scope: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        bench.plan(*words, **scope)


def test_what_a_broker_never_changes_is_not_taken_out_either(bench: Harness) -> None:
    with pytest.raises(UsageError, match=r"node\.id is never changed"):
        bench.plan(all_brokers=True, deleted=("node.id",))


@pytest.mark.parametrize(
    ("now", "wanted", "said"),
    [
        ("8", "32", "from 8 it goes to 4 to 16 (plan after plan: 8 -> 16 -> 32)"),
        ("8", "17", "from 8 it goes to 4 to 16 (plan after plan: 8 -> 16 -> 17)"),
        ("8", "1", "from 8 it goes to 4 to 16 (plan after plan: 8 -> 4 -> 2 -> 1)"),
        ("1", "999999", "(plan after plan: 1 -> 2 -> 4 -> 8 -> 16 -> 32 -> ... -> 999999)"),
        ("8", "16", None),
        ("8", "4", None),
        ("3", "1", None),
        ("1", "2", None),
    ],
)
@pytest.mark.parametrize("scope", [{"all_brokers": True}, {"cluster_default": True}])
@pytest.mark.parametrize("key", ["num.io.threads", "log.cleaner.threads", "remote.log.reader.threads"])
def test_a_thread_pool_goes_from_half_to_double(
    bench: Harness, now: str, wanted: str, said: str | None, scope: dict[str, bool], key: str
) -> None:
    bench.cluster.static_settings[key] = now
    errors = [f.message for f in bench.plan(f"{key}={wanted}", **scope).errors if f.rule == "KKV003"]  # type: ignore[arg-type]
    assert len(errors) == (0 if said is None else 3)
    assert all(message.startswith(f"{key} {wanted} ") and said in message for message in errors if said)


def test_a_thread_pool_counts_from_what_each_broker_runs_with(bench: Harness) -> None:
    bench.cluster.static_settings["background.threads"] = "4"
    bench.cluster.own_static[3] = {"background.threads": "9"}
    bench.cluster.brokers[2].configs["background.threads"] = "64"
    default = bench.plan("background.threads=8", cluster_default=True)  # broker 2 keeps its own
    assert default.errors == ()
    assert {f.where for f in bench.plan("background.threads=16", all_brokers=True).errors} == {"broker 1", "broker 2"}
    assert bench.plan(brokers=(2,), deleted=("background.threads",)).errors == ()  # its file is not known
    bench.cluster.dynamic_default["background.threads"] = "8"
    (error,) = bench.plan(brokers=(2,), deleted=("background.threads",)).errors
    assert (error.where, "from 64 it goes to 32 to 128" in error.message) == ("broker 2", True)


@pytest.mark.parametrize(
    ("before", "word", "rule"),
    [
        (None, "retention.ms=1d", "KKV002"),
        ("5d", "retention.ms=1d", "KKV002"),
        (None, "cleanup.policy=foo", "KKV003"),
        (None, "retention.ms=-5", "KKV003"),
    ],
)
def test_what_brokers_refuse_is_an_error_whatever_lint_leaves_out(
    bench: Harness, before: str | None, word: str, rule: str
) -> None:
    """An ignored rule, one whose level was lowered, and a value of now that was refused as well."""
    if before is not None:
        bench.cluster.topics["a"].configs["retention.ms"] = before
    for request in (rules(), replace(rules(), rules=()), replace(rules(), severities={rule: Severity.NOTE})):
        plan = bench.plan(word, topics="a", lint_with=request)
        assert rule in {f.rule for f in plan.errors}
        assert rule not in {f.rule for f in plan.findings_gone}
    assert bench.plan("retention.ms=86400000", topics="a", lint_with=replace(rules(), rules=())).errors == ()


def test_a_broker_that_does_not_answer_is_named_and_not_planned_for(bench: Harness) -> None:
    bench.cluster.kill(3)
    assert "broker 3 does not answer" in bench.plan("log.retention.ms=1", all_brokers=True).warnings[0]
    with pytest.raises(UsageError, match="broker 3 does not answer"):
        bench.plan("log.retention.ms=1", brokers=(3,))


def test_a_default_that_a_broker_hides_is_warned_of(bench: Harness) -> None:
    bench.cluster.brokers[2].configs["log.retention.ms"] = "9"
    plan = bench.plan("log.retention.ms=1", cluster_default=True)
    assert plan.warnings == ("broker 2 has its own log.retention.ms, which the cluster default does not change",)
    assert all(c.name != "2" for step in plan.steps for c in step.changes)


FILE = """kafkakit: cluster
cluster: prod
config:
  log.retention.ms: 3600000
  replica.fetch.max.bytes: 2000000
topics:
  - name: a
    config: {retention.ms: 5000, segment.ms: 9000}
  - name: new
    config: {retention.ms: 1}
"""


def test_files_of_lint_are_what_is_wanted(bench: Harness) -> None:
    bench.cluster.topics["a"].configs.update({"segment.ms": "9000", "max.message.bytes": "77"})
    plan = bench.plan(files=(read_text("prod.yaml", FILE).pieces,))
    assert [row for row in rows(plan) if row[0] == "topic a"] == [("topic a", "retention.ms", None, "5000")]
    assert {c.key for c in plan.changes if c.kind is BROKER} == {"log.retention.ms"}
    assert {c.name for c in plan.restarts} == {"1", "2", "3"}
    assert plan.warnings == ("not in the cluster, and left out: topic new",)
    both = (read_text("a.yaml", FILE).pieces, read_text("b.yaml", FILE.replace("prod", "other")).pieces)
    with pytest.raises(UsageError, match="of several clusters: other, prod"):
        bench.plan(files=both)


def test_keys_of_plugins_in_files_are_left_out(bench: Harness) -> None:
    text = FILE.replace("log.retention.ms", "num.io.thread: 3\n  confluent.x.y: 4\n  log.retention.ms")
    plan = bench.plan(files=(read_text("prod.yaml", text).pieces,))
    assert {c.key for c in plan.all_changes if c.kind is BROKER} == {"log.retention.ms", "replica.fetch.max.bytes"}
    assert "not settings of Kafka fake, and left out: confluent.x.y, num.io.thread" in plan.warnings


def test_a_finding_of_lint_is_ended_by_its_plan(bench: Harness) -> None:
    bench.cluster.topics["a"].configs["retention.ms"] = DAY
    plan = bench.plan(findings=("KKR201",))
    # With all rules b and c have this finding, too, but lint does not print it.
    assert [row[:2] for row in rows(plan)] == [("topic a", "segment.ms")]
    assert {f.rule for f in plan.findings_gone} >= {"KKR201"}
    assert "KKR201" not in {f.rule for f in plan.findings_new}
    bench.apply(plan)
    with pytest.raises(UsageError, match="no finding of the cluster is 'KKR201'"):
        bench.plan(findings=("KKR201",))
    with pytest.raises(UsageError, match="no finding of the cluster is 'KKX999'"):
        bench.plan(findings=("KKX999",))


def test_findings_of_lint_and_audits_from_a_file(bench: Harness) -> None:
    findings = [
        {"rule": "KKR1", "where": "topic a of prod", "key": "segment.ms", "expected": "600000", "fingerprint": "f1"},
        {"rule": "KKR2", "where": "partition b-0 of prod", "repair": "retention.ms=5\nsegment.ms=7", "cluster": "prod"},
        {"rule": "KKB1", "where": "broker 2 of prod", "key": "num.io.threads", "expected": "9"},
        {"rule": "KKC1", "where": "cluster prod", "key": "x", "expected": "y"},
    ]
    data = json.dumps({"kafkakit": {}, "findings": findings}).encode()
    assert [row[:2] for row in rows(bench.plan(findings_file=("f.json", data)))] == [
        ("broker 2", "num.io.threads"),
        ("topic a", "segment.ms"),
        ("topic b", "retention.ms"),
        ("topic b", "segment.ms"),
    ]
    assert rows(bench.plan(findings_file=("f.json", data), findings=("f1",)))[0][:2] == ("topic a", "segment.ms")
    with pytest.raises(InputError, match="has no finding of the chosen ones"):
        bench.plan(findings_file=("f.json", data), findings=("KKC1",))
    with pytest.raises(InputError):
        bench.plan(findings_file=("f.json", b"[]"))


def test_what_a_finding_is_about() -> None:
    assert subject_of("topic a.b of prod") == (TOPIC, "a.b")
    assert subject_of("topic a") == (TOPIC, "a")
    assert subject_of("broker 12 of x") == (BROKER, "12")
    assert subject_of("controller 1 of x") is None
    assert subject_of("cluster x") is None


def test_values_that_differ_in_blanks_are_the_same() -> None:
    assert is_same("0:1, 1:2", "0:1,1:2")
    assert not is_same(None, "")
    assert is_same(None, None)


@pytest.mark.parametrize(
    ("one", "other"), [("007", "7"), ("+5", "5"), ("0.50", "0.5"), ("1e7", "10000000"), ("TRUE", "true"), (" 5", "5")]
)
def test_values_that_brokers_write_otherwise_are_the_same(one: str, other: str) -> None:
    assert is_same(one, other)
    assert is_same(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [("7", "70"), ("0.5", "0.05"), ("true", "false"), ("1:2", "1:02"), ("a", "A"), ("", "0"), ("1e999", "inf")],
)
def test_values_that_mean_something_else_are_not_the_same(one: str, other: str) -> None:
    assert not is_same(one, other)


def schema() -> dict[str, Any]:
    text = resources.files("kafkakit").joinpath("core", "schemas", "config-plan.schema.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_plan_survives_its_file_and_fits_its_schema(bench: Harness) -> None:
    plan = bench.plan("log.cleaner.backoff.ms=1", "replica.fetch.max.bytes=5", cluster_default=True)
    data = encode_config_plan(plan)
    assert decode_config_plan(data, "p") == plan
    assert (
        encode_config_plan(bench.plan("log.cleaner.backoff.ms=1", "replica.fetch.max.bytes=5", cluster_default=True))
        == data
    )
    Draft202012Validator.check_schema(schema())
    Draft202012Validator(schema()).validate(json.loads(data))
    assert set(json.loads(data)) == set(schema()["properties"])


@pytest.mark.parametrize("field", ["before", "after", "key", "name"])
def test_a_plan_that_was_changed_by_hand_is_refused(bench: Harness, field: str) -> None:
    body = json.loads(encode_config_plan(bench.plan(f"retention.ms={DAY}", topics="a")))
    body["changes"][0][field] = body["steps"][0]["changes"][0][field] = "b"
    with pytest.raises(InputError, match="its hash does not fit"):
        decode_config_plan(json.dumps(body).encode(), "p")


def test_a_plan_of_another_kind_or_with_a_secret_is_refused(bench: Harness) -> None:
    plan = bench.plan(f"retention.ms={DAY}", topics="a")
    with pytest.raises(InputError, match="is not a Kafka cluster id"):
        decode_config_plan(encode_config_plan(replace(plan, cluster_id="../etc")), "p")
    change = SettingChange(kind=BROKER, name="1", key="node.id", before="1", after="7")
    older = make_plan(
        ResolvedSettings(changes=(), restarts=(change,)),
        bench.configs,
        FindingsChange(),
        created_at=plan.created_at,
        request={},
        size=StepSize.GROW,
        profile=None,
    )
    with pytest.raises(InputError, match=r"holds node\.id, which is never changed on a broker"):
        decode_config_plan(encode_config_plan(older), "p")
    body = json.loads(encode_config_plan(plan))
    body["kafkakit"]["kind"] = "plan"
    with pytest.raises(InputError, match="expected 'config-plan'"):
        decode_config_plan(json.dumps(body).encode(), "p")


def test_waves_of_brokers_grow_by_rack() -> None:
    brokers = [PlanBroker(id=n, rack="ab"[n % 2]) for n in range(1, 6)]
    assert list(broker_waves(brokers, StepSize.GROW)) == [("1",), ("3", "5"), ("2", "4")]
    assert list(broker_waves(brokers, StepSize.RACK)) == [("1", "3", "5"), ("2", "4")]
    assert list(broker_waves(brokers, StepSize.ALL)) == [("1", "2", "3", "4", "5")]
    assert list(broker_waves(brokers[:1], StepSize.GROW)) == [("1",)]
    flat = [PlanBroker(id=n) for n in (1, 2, 3)]
    assert list(broker_waves(flat, StepSize.GROW)) == [("1",), ("2", "3")]


@pytest.mark.parametrize(
    ("text", "total", "sizes"),
    [
        ("1,10%,rest", 100, [1, 9, 90]),
        ("1,10%,rest", 15, [1, 1, 13]),
        ("1,10%,rest", 5, [1, 4]),  # a tenth of five is one, which has the change already
        ("1,10%,rest", 1, [1]),
        ("2,5,rest", 3, [2, 1]),
        ("rest", 3, [3]),
        ("100%", 3, [3]),
        ("1, 2 ,100%", 3, [1, 1, 1]),
        ("0.5%,50%,rest", 1000, [5, 495, 500]),
        ("33.3333%,66.6666%,rest", 3, [1, 1, 1]),
        ("50%,5,rest", 8, [4, 1, 3]),
    ],
)
def test_steps_say_how_many_have_the_change_after_each(text: str, total: int, sizes: list[int]) -> None:
    steps = parse_steps(text)
    assert isinstance(steps, StepShares)
    names = [str(n) for n in range(total)]
    waves = steps.waves(names)
    assert [len(wave) for wave in waves] == sizes
    assert [name for wave in waves for name in wave] == names
    assert parse_steps(steps.value) == steps


@pytest.mark.parametrize("word", list(StepSize))
def test_words_of_steps_stay_words(word: StepSize) -> None:
    assert parse_steps(word.value) is word


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,10%", "ends with 10%, not with all"),
        ("5", "ends with 5, not with all"),
        ("1,1", "1 is not more than 1"),
        ("5,2,rest", "2 is not more than 5"),
        ("10%,5%,rest", "5% is not more than 10%"),
        ("10%,10%,rest", "10% is not more than 10%"),
        ("0,rest", "0 is an empty step"),
        ("0%,rest", "0% is an empty step"),
        ("1,101%", "101% is more than all"),
        ("rest,rest", "rest is not more than rest"),
        ("rest,1", "nothing is left after all"),
        ("100%,2,rest", "rest is not more than 100%"),
        ("", "is none of grow, each, rack, all"),
        ("1,,rest", "is none of grow"),
        ("1,rest,", "is none of grow"),
        ("-1,rest", "is none of grow"),
        ("1.5,rest", "is none of grow"),
        ("1,10 %,rest", "is none of grow"),
        ("1e3,rest", "is none of grow"),
        ("Grow", "is none of grow"),
        ("1,ten,rest", "is none of grow"),
        ("99999999999,rest", "is none of grow"),
    ],
)
def test_steps_that_are_empty_do_not_grow_or_do_not_cover_all_are_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_steps(text)


def test_shares_of_brokers_go_rack_by_rack() -> None:
    brokers = [PlanBroker(id=n, rack="ab"[n % 2]) for n in range(1, 6)]
    assert list(broker_waves(brokers, parse_steps("1,40%,rest"))) == [("1",), ("3",), ("5", "2", "4")]
    assert list(broker_waves([], parse_steps("1,rest"))) == []


def test_shares_are_steps_of_topics_brokers_and_a_trial_of_the_default(bench: Harness) -> None:
    for name in ("d", "e", "f"):
        bench.cluster.add_topic(name, {0: (1, 2, 3)}, size_bytes=1)
    shares = parse_steps("1,50%,rest")
    topics = bench.plan("retention.ms=5", topics="where partitions >= 1", size=shares)
    assert [s.name for s in topics.steps] == ["topic a", "topics b, c", "topics d, e, f"]
    assert topics.request["steps"] == "1,50%,rest"
    brokers = bench.plan("log.cleaner.backoff.ms=20000", all_brokers=True, size=shares)
    assert [s.name for s in brokers.steps] == ["broker 1", "broker 2", "broker 3"]
    default = bench.plan("log.cleaner.backoff.ms=20000", cluster_default=True, size=shares)
    assert [s.name for s in default.steps] == ["for a trial broker 1", "for a trial broker 2", "cluster default"]


KEYS = ("log.retention.ms", "log.cleaner.backoff.ms", "replica.fetch.max.bytes", "min.insync.replicas")
WANTED = st.builds(
    WantedSetting,
    kind=st.just(BROKER),
    name=st.sampled_from(["1", "2", "3", "*", CLUSTER_DEFAULT]),
    key=st.sampled_from(KEYS),
    value=st.sampled_from(["1", "2", None]),
) | st.builds(
    WantedSetting,
    kind=st.just(TOPIC),
    name=st.sampled_from(["a", "b", "c"]),
    key=st.just("retention.ms"),
    value=st.sampled_from(["1", "2", None]),
)  # fmt: skip


def world() -> ClusterConfigs:
    usual = {"replica.fetch.max.bytes": LayeredValue("2", ConfigLayer.STATIC)}
    return ClusterConfigs(
        cluster_id="c",
        version="4.3",
        brokers=(PlanBroker(id=1, rack="a"), PlanBroker(id=2, rack="a"), PlanBroker(id=3, rack="b")),
        topics={"a": {"retention.ms": "2"}, "b": {}, "c": {}},
        shapes={},
        default={"log.retention.ms": "2"},
        own={1: {"log.cleaner.backoff.ms": "1"}, 2: {}, 3: {}},
        in_force={1: usual, 2: {}, 3: {}},
    )


@settings(max_examples=150)
@given(st.lists(WANTED, max_size=8), st.sampled_from([*StepSize, *map(parse_steps, ("rest", "1,rest", "1,67%,rest"))]))
def test_steps_lead_from_what_is_set_to_what_is_wanted_and_nothing_else(
    wanted: list[WantedSetting], size: StepChoice
) -> None:
    configs = world()
    try:
        resolved = resolve(wanted, configs)
    except UsageError:
        return
    steps = plan_steps(resolved.changes, resolved.restarts, configs, size)
    live: dict[tuple[ResourceKind, str, str], str | None] = {}

    def now(change: SettingChange) -> str | None:
        key = (change.kind, change.name, change.key)
        return live.get(key, configs.value(change.kind, change.name, change.key))

    for step in steps:
        places = [(c.kind, c.name, c.key) for c in step.changes]
        assert len(places) == len(set(places))
        assert not step.restart or len({c.name for c in step.changes}) == 1
        for change in step.changes:
            assert now(change) == change.before
            live[change.kind, change.name, change.key] = change.after
    expected = {(c.kind, c.name, c.key): c.after for c in (*resolved.changes, *resolved.restarts)}
    for place, value in live.items():
        assert value == expected.get(place, configs.value(*place))
    assert expected.keys() <= live.keys()
    assert hash_of("f", steps) == hash_of("f", plan_steps(resolved.changes, resolved.restarts, configs, size))


def test_a_brokers_own_value_is_no_trial_of_the_default(bench: Harness) -> None:
    """Each broker has its value from its own step, and keeps it; the last wave is not tried."""
    wanted = [WantedSetting(kind=BROKER, name=name, key="log.retention.ms", value=value)
              for name, value in (("1", "7"), (CLUSTER_DEFAULT, "5"))]  # fmt: skip
    configs = bench.configs
    resolved = resolve(wanted, configs)
    steps = plan_steps(resolved.changes, resolved.restarts, configs, StepSize.GROW)
    assert [(c.name, c.before, c.after) for s in steps for c in s.changes] == [
        ("1", None, "7"), ("2", None, "5"), (CLUSTER_DEFAULT, None, "5"), ("2", "5", None)
    ]  # fmt: skip


def test_topics_and_brokers_are_named_as_everywhere(bench: Harness) -> None:
    def wheres(**scope: Any) -> list[str]:
        word = "segment.ms=600000" if "topics" in scope else "log.retention.ms=5"
        return [row[0] for row in rows(bench.plan(word, **scope))]

    assert wheres(topics="where partitions = 3 and name != b") == ["topic a", "topic c"]
    assert wheres(topics="[ab]") == ["topic a", "topic b"]
    assert wheres(brokers=("where rack = b",)) == ["broker 2"]
    assert wheres(brokers=("-2",)) == ["broker 1", "broker 2", "broker 3"]
    assert wheres(brokers=("1,3", "3")) == ["broker 1", "broker 3"]
    for scope in ({"topics": "where name = x"}, {"brokers": ("where rack = x",)}):
        with pytest.raises(UsageError, match="matches 'where"):
            wheres(**scope)
    with pytest.raises(TryLaterError, match="tags are away"):
        wheres(brokers=("where disk = nvme",))


def test_what_a_cluster_default_runs_with_is_what_all_brokers_run_with(bench: Harness) -> None:
    for broker in (1, 2, 3):
        bench.cluster.own_static[broker] = {"log.retention.ms": "9"}
    (change,) = bench.plan("log.retention.ms=5", cluster_default=True).changes
    assert (change.before, change.in_force) == (None, "9")
    bench.cluster.own_static[2]["log.retention.ms"] = "8"
    (change,) = bench.plan("log.retention.ms=5", cluster_default=True).changes
    assert change.in_force is None


def test_a_brokers_own_value_is_not_what_the_cluster_default_runs_with(bench: Harness) -> None:
    bench.cluster.brokers[2].configs["log.retention.ms"] = "7200000"
    (change,) = bench.plan("log.retention.ms=86400000", cluster_default=True).changes
    assert change.in_force is None
    bench.cluster.static_settings["log.retention.hours"] = "168"
    (change,) = bench.plan("log.retention.ms=86400000", cluster_default=True).changes
    assert change.in_force == "604800000"
    bench.cluster.static_settings["log.retention.minutes"] = "2"
    (change,) = bench.plan("retention.ms=86400000", topics="a").changes
    assert change.in_force is None  # broker 2 keeps it for two hours, the others for two minutes
    del bench.cluster.brokers[2].configs["log.retention.ms"]
    (change,) = bench.plan("retention.ms=86400000", topics="a").changes
    assert change.in_force == "120000"
    bench.cluster.dynamic_default["log.retention.ms"] = "9"
    (change,) = bench.plan("log.retention.ms=86400000", cluster_default=True).changes
    assert (change.before, change.in_force) == ("9", "9")
