"""The runbook of fleet audits, run as it stands against a real cluster and a standalone cluster of Spark."""

import json
from pathlib import Path

import pytest

from kafkakit.audit.decide.launch import SHORT_RUN_JAVA
from tests.integration.conftest import SandboxCluster, StartCluster
from tests.integration.runbooks import blocks, load_topics, run_blocks
from tests.rigs.spark_cluster import standalone

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1800)]


def log_dirs(cluster: SandboxCluster, broker: int) -> str:
    record = cluster.state.broker(broker)
    assert record is not None
    return " ".join(record.node.log_dirs)


def test_audit_a_fleet(sandbox_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = sandbox_cluster(brokers=4, racks=3)
    load_topics(cluster)
    env = {
        **cluster.env,
        "PROFILES": cluster.name,
        "CLUSTER": cluster.name,
        "LOG_DIRS": log_dirs(cluster, 1001),
        "STORE": str(tmp_path / "store"),
        "RESULTS": str(tmp_path / "results"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": SHORT_RUN_JAVA,
    }
    (spark_logs := tmp_path / "spark").mkdir()
    with standalone(spark_logs, memory="2g") as spark:
        env["ENGINE"] = f"--backend spark-submit --master {spark.master} --conf spark.driver.host=127.0.0.1"
        # A tiny fleet: what takes time is to plan and to compile.
        env["ENGINE"] += " --conf spark.sql.shuffle.partitions=2 --conf spark.sql.codegen.wholeStage=false"
        done = run_blocks(blocks("audit-a-fleet.md", undo=False), tmp_path, env, limit_s=1600)
    cluster.down()
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (tmp_path / "results").glob("all-*/summary.json")
    jobs = {job["job"]: job for job in json.loads(run.read_text(encoding="utf-8"))["jobs"]}
    assert {"drift", "retention", "segments"} <= {*jobs}
    assert {job["error"] for job in jobs.values()} == {""}
    assert (tmp_path / "audits.html").stat().st_size > 1000
    assert "fleet collect" in done.stdout  # the line for cron
