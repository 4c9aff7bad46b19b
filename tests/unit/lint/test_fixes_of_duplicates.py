"""Repeated keys with one value lose all but one, in every format, and the files stay what they are."""

import json

import pytest
import yaml

from kafkakit.lint.decide.fixes import fix_all
from kafkakit.rules.catalogue import all_rules
from tests.rigs.lint_runs import read, request

DUPLICATES = tuple(rule for rule in all_rules() if rule.code == "KKV011")


def fixed(path: str, text: str) -> str:
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
        done = fixed(path, text)
        assert done == f'{{"topics":[{{"name":"t","config":{{{after}}}}}]}}'
        assert (json.loads if path == "a.json" else yaml.safe_load)(done)


def test_in_blocks_and_properties() -> None:
    text = "topics:\n- name: t\n  config:\n    k: 5  # one\n    # two\n    k: 5\n    z: 1\n"
    assert fixed("a.yaml", text) == "topics:\n- name: t\n  config:\n    k: 5  # one\n    # two\n    z: 1\n"
    assert fixed("s.properties", "node.id=1\r\nk=5\r\nk=5\r\nz=1\r\n") == "node.id=1\r\nk=5\r\nz=1\r\n"


def test_a_key_that_an_anchor_brings_is_edited_where_it_stands() -> None:
    text = "x-anchors: {c: &c {k: 5, k: 5}}\ntopics:\n- name: t\n  config:\n    <<: *c\n    z: 1\n"
    assert fixed("a.yaml", text) == text.replace("{k: 5, k: 5}", "{k: 5}")
