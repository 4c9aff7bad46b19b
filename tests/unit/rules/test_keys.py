"""Every configuration key that a rule names exists in some version of Kafka, or is known to be another program's."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkakit.rules.config_defs import MINORS, config_table
from tests.places import ROOT

FAMILIES = sorted(
    path
    for path in (ROOT / "kafkakit/rules/families").glob("*.py")
    if path.stem != "agent" and not path.stem.startswith("connectors")  # keys of other programs
)
KEY = re.compile(r"[a-z]+(?:\.[a-z0-9]+)+")
KNOWN = frozenset(
    name for minor in MINORS for keys in (config_table(minor).topic, config_table(minor).broker) for name in keys
)
# Keys of clients, authorizers and features, which no broker's table holds.
OTHERS = frozenset(
    {
        "allow.everyone.if.no.acl.found",
        "super.users",
        "eligible.leader.replicas.version",
        "metadata.version",
        "delivery.timeout.ms",
        "fetch.max.bytes",
        "max.partition.fetch.bytes",
        "receive.message.max.bytes",
    }
)


def named_keys(path: Path) -> Iterator[str]:
    """The texts of a module that are keys as a whole; docstrings are none."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and KEY.fullmatch(node.value):
            yield node.value


def exists(key: str) -> bool:
    """True for a key, or the end of one: rules put the ends of group settings together."""
    return key in KNOWN | OTHERS or key.startswith("rlmm.config.") or any(name.endswith(f".{key}") for name in KNOWN)


@pytest.mark.parametrize("path", FAMILIES, ids=lambda path: path.stem)
def test_keys_exist(path: Path) -> None:
    assert [key for key in named_keys(path) if not exists(key)] == []
