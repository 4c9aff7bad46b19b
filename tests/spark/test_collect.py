"""Collecting as a Spark job: one task a cluster, what each printed in the order of the clusters, nothing of it lost."""

import os
from pathlib import Path
from typing import Any
from unittest import mock

from kafkakit.fleet.report import OutcomeStatus, task_outcome
from tests.rigs.command_line import Home


def test_each_cluster_is_a_task_of_its_own(jvm: Any, tmp_path: Path) -> None:
    from kafkakit_spark.runner import collect_clusters

    home = Home(tmp_path)
    # Workers of Python were perhaps started before this test, so all is said in words.
    config = home.write_config(
        "profiles:\n  b: {bootstrap_server: '127.0.0.1:1'}\n  a: {bootstrap_server: '127.0.0.1:1'}\n"
    )
    words = ["--to", str(tmp_path / "store"), "--date", "2026-11-20", "--config", str(config), "-o", "json"]
    with mock.patch.dict(os.environ, home.environment()):
        rows = collect_clusters(jvm, ["b", "typo", "a"], words)
    outcomes = [task_outcome(row) for row in rows]
    assert [(o.cluster, o.status) for o in outcomes] == [(name, OutcomeStatus.FAILED) for name in ("b", "typo", "a")]
    assert "127.0.0.1:1" in outcomes[0].error
    assert "typo" in outcomes[1].error
    assert [row["code"] for row in rows] == [1, 2, 1]
    found = {path.name for path in (tmp_path / "store" / "manifests").rglob("*.json")}
    assert found == {"cluster=a.json", "cluster=b.json"}


def test_a_task_that_printed_no_result_failed() -> None:
    row = {
        "cluster": "a",
        "code": 1,
        "output": "",
        "errors": "Traceback\nModuleNotFoundError: No module named 'kafka'\n",
    }
    outcome = task_outcome(row)
    assert (outcome.status, outcome.error) == (OutcomeStatus.FAILED, "ModuleNotFoundError: No module named 'kafka'")
    assert task_outcome(row | {"errors": ""}).error == "ended with code 1"
