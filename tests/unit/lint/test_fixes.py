"""Fixes; repeated keys with one value lose all but one, in every format, and the files stay what they are."""

import json
from dataclasses import replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.lint.decide.decision import fix_of
from kafkakit.lint.decide.fixes import FixedRun, fix_all, lint_for_fixes
from kafkakit.lint.decide.pieces import AssemblyOptions
from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.rule import Fix, Limits, LintRule, Subject
from tests.rigs.lint_examples import files_of, page_parts
from tests.rigs.lint_runs import linted, read, request


def fixed(text: str, *, unsafe: bool = True, path: str = "a.yaml") -> str:
    run = fix_all(read({path: text}), (), request(), None, unsafe=unsafe)
    return run.changed[0].after.text if run.changed else text


KEYS = ("retention.ms", "segment.ms", "cleanup.policy", "x")
HEAD = "kafkakit: cluster\ntopics:\n"
CASES = {
    "a flow mapping stays one": (
        '- {name: a, config: {retention.ms: "5", cleanup.policy: delete}}\n',
        '- {name: a, config: {retention.ms: "5", segment.ms: "86400000", cleanup.policy: delete}}\n',
    ),
    "a value is replaced with the quotes it had": (
        "- name: a\n  config:\n    retention.ms: 5\n    segment.ms: 172800000  # two days\n",
        "- name: a\n  config:\n    retention.ms: 5\n    segment.ms: 86400000  # two days\n",
    ),
    "line ends stay": (
        "- name: a\r\n  config:\r\n    retention.ms: 5\r\n",
        "- name: a\r\n  config:\r\n    retention.ms: 5\r\n    segment.ms: 86400000\r\n",
    ),
    "a file without an end of line gets none": (
        "- name: a\n  config:\n    retention.ms: 5",
        "- name: a\n  config:\n    retention.ms: 5\n    segment.ms: 86400000",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_only_the_named_entries_change(case: str) -> None:
    before, after = CASES[case]
    assert fixed(HEAD + before) == HEAD + after


def test_safe_fixes_alone_leave_the_others() -> None:
    text = HEAD + "- name: a\n  config:\n    retention.ms: '0'\n    cleanup.policy: delete\n"
    assert fixed(text, unsafe=False) == HEAD + "- name: a\n  config:\n    cleanup.policy: delete\n"


def test_fixing_twice_changes_nothing_more() -> None:
    text = HEAD + "".join(f"- name: t{n}\n  config: {{retention.ms: '{n}', x: y}}\n" for n in range(4))
    once = fixed(text)
    assert once != text
    assert fixed(once) == once


def test_a_diff_names_the_file_and_shows_only_changed_lines() -> None:
    text = HEAD + "- name: a\n  config:\n    retention.ms: 5\n"
    run = fix_all(read({"dir/a.yaml": text}), (), request(), None, unsafe=True)
    assert run.diff.startswith("--- a/dir/a.yaml\n+++ b/dir/a.yaml\n")
    assert [line for line in run.diff.splitlines() if line.startswith(("+ ", "- "))] == ["+    segment.ms: 86400000"]
    assert run.fixed == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["retention.ms", "segment.ms", "cleanup.policy", "x"]),
            st.sampled_from(["0", "5", "90000000"]),
        ),
        unique_by=lambda pair: pair[0],
        min_size=1,
    ),
    st.sampled_from(["", "'", '"']),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_is_fixed_is_not_found_again(pairs: list[tuple[str, str]], quote: str, flow: bool, end: str) -> None:
    if flow:
        body = ["  config: {" + ", ".join(f"{key}: {quote}{value}{quote}" for key, value in pairs) + "}"]
    else:
        body = ["  config:", *(f"    {key}: {quote}{value}{quote}  # {key}" for key, value in pairs)]
    text = end.join([*HEAD.splitlines(), "- name: a", *body, "  partitions: 3", ""])
    after = fixed(text)
    kept = [line for line in after.splitlines() if line in text.splitlines()]
    assert [line for line in text.splitlines() if line in kept] == kept
    left = [c for c in linted(after).result.checked if c.edits]
    assert all(c.rule.code == "KKT001" for c in left)
    assert (end == "\r\n") == ("\r\n" in after)


# Rules whose bad example is fixed by no edit of its own: the fix takes another example, or a plan.
UNFIXED_EXAMPLES = frozenset({"KKD109", "KKV011"})
FIXABLE = [rule for rule in all_rules() if rule.fix is not Fix.NONE and rule.code not in UNFIXED_EXAMPLES]


@pytest.mark.parametrize("rule", FIXABLE, ids=lambda rule: rule.code)
def test_a_fix_removes_the_finding_of_the_bad_example(rule: LintRule) -> None:
    texts = files_of(page_parts(rule.page)["Bad"])
    rules = all_rules() if rule.subject is Subject.FILE else (rule,)
    wanted = replace(request(), rules=rules, known=all_rules(), limits=Limits(strict=True))
    run = fix_all(read(texts), (), wanted, None, unsafe=rule.fix is Fix.UNSAFE)
    assert run.changed
    assert not [c.finding.message for c in run.linted.result.checked if c.edits and c.rule is rule]


def test_a_key_is_not_put_where_configuration_does_not_stand() -> None:
    rules = tuple(rule for rule in all_rules() if rule.code in ("KKP612", "KKM401"))
    wanted = replace(request(), rules=rules, known=all_rules())
    bare = "brokers:\n  - id: 1\n    rack: a\n    config: {}\n  - id: 2\n    rack: b\n    config: {}\n"
    inherited = 'config:\n  message.max.bytes: "900000000"\nbrokers:\n  - id: 1\ntopics:\n  - name: t\n'
    for text in (bare, inherited):
        run = fix_all(read({"a.yaml": text}), (), wanted, None, unsafe=True)
        assert run.linted.result.checked
        assert not run.changed


def test_a_key_that_holds_a_block_is_deleted_with_it() -> None:
    head = "instances:\n  - kafka_connect_str: [a:1, b:1]\n    monitor_unlisted_consumer_groups: true\n"
    tail = "    tags: [x]\n"
    wanted = replace(request(), rules=all_rules(), known=all_rules())
    for groups in (
        "    consumer_groups:\n      # why\n      g:\n        t:\n          - 0  # first\n",
        "    consumer_groups:\n      g:\n        t: [0, 1]  # first\n",
        "    consumer_groups: {g: {t: [0,\n      # second\n      1,\n    ]}}\n",
    ):
        run = fix_all(read({"kafka_consumer.d/conf.yaml": head + groups + tail}), (), wanted, None, unsafe=False)
        assert run.changed[0].after.text == head + tail


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# kafkakit: ignore[KKD101] reason=x\ncluster: a\n", "cluster: a\n"),
        ("cluster: a  # kafkakit: ignore[KKD101] reason=x\nenv: dev\n", "cluster: a\nenv: dev\n"),
        ("cluster: a\r\n# kafkakit: file-ignore[KKD101] reason=x\r\n", "cluster: a\r\n"),
        ("cluster: a\n# kafkakit: ignore[KKD101] reason=x", "cluster: a\n"),
        ("cluster: a # kafkakit: ignore[KKD101, KKD102] reason=x\n", "cluster: a\n"),
        ("cluster: a # see above # kafkakit: ignore[KKD101] reason=x\n", None),
        ("cluster: a # kafkakit: ignore[KKD101] reason=x # and why\n", None),
    ],
)
def test_unused_suppressions_go(before: str, after: str | None) -> None:
    wanted = replace(request(), rules=all_rules(), known=all_rules())
    run = fix_all(read({"a.yaml": before}), (), wanted, None, unsafe=False)
    assert (run.changed[0].after.text if run.changed else None) == after


def test_a_suppression_keeps_the_selectors_that_are_used() -> None:
    text = (
        "topics:\n  # kafkakit: ignore[KKD102, KKD101] reason=x\n  - {name: t, replication_factor: 1, config: {%s}}\n"
    )
    text %= 'min.insync.replicas: "2"'
    rules = tuple(rule for rule in all_rules() if rule.code in ("KKD101", "KKD102", "KKL001"))
    run = fix_all(read({"a.yaml": text}), (), replace(request(), rules=rules, known=all_rules()), None, unsafe=False)
    assert run.changed[0].after.text == text.replace("KKD102, KKD101", "KKD101")


DUPLICATES = tuple(rule for rule in all_rules() if rule.code == "KKV011")


def fixed_fixes_of_duplicates(path: str, text: str) -> str:
    run = fix_all(read({path: text}), (), request(rules=DUPLICATES, known=all_rules()), None, unsafe=False)
    return run.changed[0].after.text if run.changed else text


@pytest.mark.parametrize(
    ("members", "after"),
    [
        ('"k":"5","k":"5"', '"k":"5"'),
        ('"a":"1","k":"5","k":"5"', '"a":"1","k":"5"'),
        ('"k":"5","a":"1","k":"5","z":"2"', '"k":"5","a":"1","z":"2"'),
        ('"k":"5", "k":"5", "z":"2"', '"k":"5", "z":"2"'),
        ('"k":"5","k":"5","k":"5"', '"k":"5"'),
        ('"k":"5",\n "k":"5"\n', '"k":"5"\n'),
        ('"k":"5","k":"6"', '"k":"5","k":"6"'),
    ],
)
def test_in_json_and_flow_mappings(members: str, after: str) -> None:
    for path in ("a.json", "a.yaml"):
        text = f'{{"topics":[{{"name":"t","config":{{{members}}}}}]}}'
        done = fixed_fixes_of_duplicates(path, text)
        assert done == f'{{"topics":[{{"name":"t","config":{{{after}}}}}]}}'
        assert (json.loads if path == "a.json" else yaml.safe_load)(done)


def test_in_blocks_and_properties() -> None:
    text = "topics:\n- name: t\n  config:\n    k: 5  # one\n    # two\n    k: 5\n    z: 1\n"
    assert (
        fixed_fixes_of_duplicates("a.yaml", text)
        == "topics:\n- name: t\n  config:\n    k: 5  # one\n    # two\n    z: 1\n"
    )
    assert (
        fixed_fixes_of_duplicates("s.properties", "broker.id=1\r\nk=5\r\nk=5\r\nz=1\r\n")
        == "broker.id=1\r\nk=5\r\nz=1\r\n"
    )


def test_a_key_that_an_anchor_brings_is_edited_where_it_stands() -> None:
    text = "x-anchors: {c: &c {k: 5, k: 5}}\ntopics:\n- name: t\n  config:\n    <<: *c\n    z: 1\n"
    assert fixed_fixes_of_duplicates("a.yaml", text) == text.replace("{k: 5, k: 5}", "{k: 5}")


def kit(**texts: str) -> FixedRun:
    """The real rules on some texts, with safe fixes only."""
    wanted = replace(request(), rules=all_rules(), known=all_rules())
    return fix_all(
        read({name.replace("__", "."): text for name, text in texts.items()}), (), wanted, None, unsafe=False
    )


def changed(run: FixedRun) -> dict[str, str]:
    return {change.path: change.after.text for change in run.changed}


ZOOKEEPER = "broker.id=1\nlisteners=SSL://:9092\nlog.dirs=/data\nzookeeper.connect=zk1:2181\n"
MIGRATION = (
    "process.roles=controller\nnode.id=3000\nzookeeper.metadata.migration.enable=true\nzookeeper.connect=zk1:2181\n"
    "inter.broker.protocol.version=3.9\ncontroller.quorum.voters=3000@c:9093\ncontroller.listener.names=CTL\n"
)
ANCHORED = """kafkakit: cluster
cluster: c
version: "4.3"
config: {log.retention.hours: "1"}
brokers: [{id: 1}]
topics:
  - name: state
    config: &base {cleanup.policy: compact, retention.ms: "2592000000"}
  - name: orders
    config: {<<: *base, cleanup.policy: delete}
"""


@pytest.mark.parametrize(
    "text",
    [
        ZOOKEEPER,
        MIGRATION,
        "process.roles=broker\nnode.id=1\nzookeeper.session.timeout.ms=6000\n",
        "broker.id=1\nzookeeper.connect=zk:2181\nport=9092\nadvertised.host.name=b1.example.org\nadvertised.port=9092\n",
        "node.id={{ id }}\n{% if big %}\nlog.retention.hours=24\n{% else %}\nlog.retention.hours=24\n{% endif %}\n",
        "node.id=1\n{{- if .Values.a }}\nlog.retention.hours=24\nlog.retention.hours=24\n{{- end }}\n",
        "node.id=1\nlog.retention.ms=${RETENTION_MS}\nlog.retention.hours=24\n",
    ],
)
def test_no_safe_fix_rests_on_an_assumption(text: str) -> None:
    assert changed(kit(server__properties=text)) == {}


def test_keys_that_the_told_version_ignores_are_deleted() -> None:
    wanted = replace(request(assemble=AssemblyOptions(kafka_version="4.0")), rules=all_rules(), known=all_rules())
    run = fix_all(read({"server.properties": ZOOKEEPER}), (), wanted, None, unsafe=False)
    assert changed(run) == {"server.properties": ZOOKEEPER.replace("zookeeper.connect=zk1:2181\n", "")}


@pytest.mark.parametrize(
    "text",
    [
        ANCHORED,
        # The broker of one file decides what the topic of another one inherits.
        ANCHORED.replace("&base {", "&base {retention.bytes: '5', "),
        'kafkakit: cluster\nversion: "4.3"\ntopics:\n'
        "  - {name: a, config: &c {cleanup.policy: compact, retention.ms: '5'}}\n  - {name: b, config: *c}\n",
        'kafkakit: cluster\nversion: "4.3"\nother: &r {retention.ms: &v "5", cleanup.policy: compact}\n'
        "topics:\n  - name: a\n    config: {<<: *r}\n",
        'kafkakit: cluster\nversion: "4.3"\ntopics:\n'
        "  - {name: a, config: {cleanup.policy: &v 'compact,compact'}}\n"
        "  - {name: b, config: {cleanup.policy: *v}}\n",
        'kafkakit: cluster\nversion: "4.3"\ntopics:\n'
        "  - {name: a, config: {cleanup.policy: compact, retention.ms: &v '5'}}\n"
        "  - {name: b, config: {retention.ms: *v}}\n",
    ],
)
def test_no_safe_fix_reaches_through_an_anchor(text: str) -> None:
    assert changed(kit(a__yaml=text)) == {}


def test_a_default_that_replaces_another_value_stays() -> None:
    text = (
        'kafkakit: cluster\nversion: "4.3"\nconfig: {log.cleaner.enable: "false"}\n'
        "defaults: {log.cleaner.enable: 'true'}\nbrokers: [{id: 1}]\n"
    )
    assert changed(kit(a__yaml=text)) == {}


def test_fixes_that_hold_are_made_beside_one_that_does_not() -> None:
    more = "  - name: other\n    config: {cleanup.policy: compact, retention.ms: '5'}\n"
    after = more.replace(", retention.ms: '5'", "")
    assert changed(kit(a__yaml=ANCHORED + more)) == {"a.yaml": ANCHORED + after}


PLAN = json.dumps(
    {
        "format_version": "1.2",
        "planned_values": {
            "root_module": {
                "resources": [
                    {
                        "type": "kafka_topic",
                        "name": "t",
                        "values": {"name": "t", "config": {"cleanup.policy": "compact", "retention.ms": "86400000"}},
                    }
                ]
            }
        },
    }
)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("plan.json", PLAN, Fix.NONE),
        ("server.properties", ZOOKEEPER + "log.retention.ms=5\nlog.retention.hours=1\n", Fix.SAFE),
        ("a.yaml", ANCHORED, Fix.UNSAFE),
        (
            "server.properties",
            "node.id=1\n{% if a %}\nlog.retention.ms=5\nlog.retention.hours=1\n{% endif %}\n",
            Fix.NONE,
        ),
    ],
)
def test_what_is_offered_is_what_can_be_done(path: str, text: str, expected: Fix) -> None:
    codes = ("KKC301", "KKV008")
    rules = tuple(rule for rule in all_rules() if rule.code in codes)
    wanted = replace(request(), rules=rules, known=all_rules())
    linted = lint_for_fixes(read({path: text}), (), wanted, None)
    assert [fix_of(item) for item in linted.result.checked] == [expected]
    for unsafe in (False, True):
        run = fix_all(read({path: text}), (), wanted, None, unsafe=unsafe)
        assert bool(run.changed) == (expected is Fix.SAFE or (unsafe and expected is Fix.UNSAFE))


IN_TEXTS = {
    "task.json": json.dumps(
        {
            "dockerLabels": {
                "com.datadoghq.ad.checks": json.dumps(
                    {
                        "kafka_consumer": {
                            "instances": [
                                {
                                    "kafka_connect_str": "k:9092",
                                    "monitor_unlisted_consumer_groups": True,
                                    "consumer_groups": {"g": {}},
                                }
                            ]
                        }
                    }
                )
            }
        }
    ),
    "k.yaml": "apiVersion: kafka.banzaicloud.io/v1beta1\nkind: KafkaCluster\nmetadata: {name: k}\nspec:\n"
    "  clusterImage: banzaicloud/kafka:2.13-3.9.1\n  readOnlyConfig: |\n    log.retention.hours=1\n"
    "    log.retention.ms=3600000\n  brokers: [{id: 1}]\n",
}


@pytest.mark.parametrize(("name", "code"), [("task.json", "KKA953"), ("k.yaml", "KKV008")])
def test_nothing_is_fixed_in_a_text_that_stands_in_a_value(name: str, code: str) -> None:
    wanted = replace(request(), rules=all_rules(), known=all_rules())
    text = IN_TEXTS[name]
    run = fix_all(read({name: text}), (), wanted, None, unsafe=True)
    assert run.changed == ()
    (place,) = (item.finding.place for item in run.linted.result.checked if item.rule.code == code)
    assert place is not None
    written = text.splitlines()[place.line - 1][place.column - 1 :]
    assert written.lstrip('"\\').startswith(("consumer_groups", "log.retention.hours"))
