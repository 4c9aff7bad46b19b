"""Fixes; repeated keys with one value lose all but one, in every format, and the files stay what they are."""

import json
from dataclasses import replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.lint.decide.fixes import fix_all
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
