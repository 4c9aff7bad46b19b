"""Lint of a live cluster: values with the layer they were set in, and the cluster against the files of a repository."""

import json
from contextlib import closing
from typing import Any

import pytest

from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ResourceKind
from tests.integration.conftest import SandboxCluster
from tests.rigs.command_line import Home
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka

TOPIC = "lint-live"
FILES = """kafkakit: cluster
cluster: anywhere
topics:
- {name: lint-live, partitions: 2, replication_factor: 3, config: {retention.ms: '3600000', segment.ms: '600000'}}
- {name: lint-missing, partitions: 2, replication_factor: 3}
"""


@pytest.fixture(scope="module")
def linted(cluster: SandboxCluster) -> SandboxCluster:
    a, b, c = cluster.broker_ids
    with closing(cluster.open_admin()) as admin:
        settings = {"retention.ms": "7200000", "segment.ms": "600000"}
        assert admin.create_topic(TOPIC, {0: (a, b, c), 1: (b, c, a)}, settings) is None
    return cluster


def lint(cluster: SandboxCluster, *words: str) -> list[dict[str, Any]]:
    home = Home(cluster.home.folder)
    ran = home.run("--profile", cluster.name, "lint", "--live", "-o", "json", "--fail-on", "never", *words)
    assert ran.code == 0, ran.stderr
    found = json.loads(ran.stdout)["findings"]
    assert isinstance(found, list)
    return found


def test_values_come_with_the_layer_they_were_set_in(linted: SandboxCluster) -> None:
    broker = str(linted.broker_ids[0])
    change = ConfigChange(
        kind=ResourceKind.BROKER, name=broker, key="log.retention.ms", op=ConfigOp.SET, value="86400000"
    )
    with closing(linted.open_admin()) as admin:

        def is_set() -> bool:
            return change.key in admin.dynamic_configs(change.kind, [broker])[broker]

        def differing() -> bool:
            """Of the value that is set here; each broker is asked for its own, and others may differ in other keys."""
            found[:] = lint(linted, "--select", "KKX003,KKS801")
            return [f["path"] for f in found if f["rule"] == "KKX003" and f["key"] == change.key] == [None]

        found: list[Any] = []
        try:
            assert admin.alter_configs([change]) == {change: None}
            until(is_set)
            until(differing, f"one finding of {change.key}", seen=lambda: found)
        finally:
            undo = ConfigChange(kind=change.kind, name=broker, key=change.key, op=ConfigOp.DELETE)
            assert admin.alter_configs([undo]) == {undo: None}
            until(lambda: not is_set())
        until(lambda: not differing(), "none is left", seen=lambda: found)
    # Sandboxes listen on loopback alone, which the brokers' files say.
    assert not [f for f in found if f["rule"] == "KKS801"]


def test_a_cluster_against_a_repository_shows_what_each_has_that_the_other_has_not(
    linted: SandboxCluster, tmp_path: Any
) -> None:
    (tmp_path / "topics.yaml").write_text(FILES)
    found = lint(linted, "--against", str(tmp_path), "--select", "KKX001,KKX006")
    drift = [f for f in found if f["rule"] == "KKX001"]
    assert [(f["key"], f["line"]) for f in drift] == [("retention.ms", 4)]
    missing = [f["where"] for f in found if f["rule"] == "KKX006" and f["severity"] == "warning"]
    assert missing == ["topic lint-missing of anywhere"]
    assert all(f["severity"] == "note" for f in found if f["rule"] == "KKX006" and f["where"] not in missing)
