"""No rule raises, whatever its subjects hold: examples of all rules, mixed and with strange values."""

import random
from functools import cache
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.rule import Limits
from tests.rigs.lint_examples import EXAMPLE_FILE, files_of, outcome_of, page_parts

STRANGE = (
    "", "-1", "0", "-2", "9" * 19, "9" * 40, "x", "1e5", "NaN", "inf", "true", "  7 ", "a,b,,a", "${file:/a:b}", ".5",
    "-9223372036854775808", "2147483648", "é", "[hidden]", "PLAINTEXT://", "://:::", "1@", "@:", "SSL:SSL", "User:*;",
)  # fmt: skip


@cache
def examples() -> tuple[dict[str, Any], ...]:
    parts = [page_parts(rule.page) for rule in all_rules()]
    texts = [files_of(part[title]).get(EXAMPLE_FILE, "") for part in parts for title in ("Bad", "Good")]
    return tuple(document for text in texts for document in yaml.safe_load_all(text) if document)


@cache
def keys(of: str) -> tuple[str, ...]:
    items = [item for document in examples() for item in document.get(of, ())]
    return tuple(sorted({key for item in items for key in item.get("config") or {}}))


def changed(node: Any, source: random.Random) -> Any:
    if isinstance(node, dict):
        return {key: changed(value, source) for key, value in node.items() if source.random() > 0.03}
    if isinstance(node, list):
        return [changed(value, source) for value in node if source.random() > 0.03]
    return source.choice(STRANGE) if source.random() < 0.12 else node


@given(st.randoms(use_true_random=False), st.sampled_from(("3.9", "4.0", "4.3", "4.4")), st.booleans())
@settings(max_examples=120, deadline=None)
def test_no_rule_raises(source: random.Random, version: str, strict: bool) -> None:
    first, second = source.choice(examples()), source.choice(examples())
    document = changed({**second, **first}, source)
    for of in ("topics", "brokers"):
        for item in document.get(of, ()):
            if isinstance(item, dict) and isinstance(item.get("config", {}), dict):
                item.setdefault("config", {})[source.choice(keys(of))] = source.choice(STRANGE)
    text = yaml.safe_dump({"kafkakit": "cluster", **document, "version": version, "target_version": "4.4"})
    outcome_of({"a.yaml": text}, limits=Limits(strict=strict))
