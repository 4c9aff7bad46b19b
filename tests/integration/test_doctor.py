"""Doctor, profile check and topic completion against real brokers, plain and secured."""

import json
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kafkakit.core.model import ClusterSnapshot
from tests.integration.conftest import SandboxCluster, StartCluster
from tests.rigs.waiting import becomes, until
from tests.unit.doctor.test_doctor import make_certificate

pytestmark = pytest.mark.kafka

KAFKAKIT = Path(sys.executable).parent / "kafkakit"
QUICK = ("-X", "request_timeout=2s")
"""For clusters that do not answer to wrong settings; a busy machine may not answer in time to right ones, either."""

COMPLETION = (
    "import sys; from kafkakit.__main__ import main; from kafkakit.cli import completion; "
    "completion.LIMIT_S, sys.argv = 60.0, ['kafkakit']; sys.exit(main())"
)
"""The program with more time for a completion than the second that an operator waits."""


def run(
    cluster: SandboxCluster, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [KAFKAKIT, *arguments],
        capture_output=True,
        text=True,
        env=cluster.env | (env or {}),
        timeout=400,
        check=False,
    )


def doctor(cluster: SandboxCluster, *arguments: str, env: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    ran = run(cluster, "doctor", "--profile", cluster.name, "-o", "json", *arguments, env=env)
    checks = json.loads(ran.stdout)["checks"]
    return ran.returncode, {check["check"]: check for check in checks}


def shows(cluster: SandboxCluster, check: str, field: str, words: str, *arguments: str) -> bool:
    """True when the doctor fails and has these words in a field of a check."""
    code, checks = doctor(cluster, *arguments)
    return code == 1 and words in checks[check][field]


def failed(checks: dict[str, Any]) -> list[str]:
    return [name for name, check in checks.items() if check["status"] == "fail"]


def test_a_plain_cluster_is_healthy_and_a_wrong_protocol_is_told(cluster: SandboxCluster) -> None:
    code, checks = doctor(cluster)
    assert (code, failed(checks)) == (0, []), checks
    assert cluster.cluster_id in checks["admin client"]["found"]
    assert checks["data client"]["found"] == "sees 3 brokers"
    assert checks["rights"]["status"] == "ok"
    ssl = (*QUICK, "-X", "security.protocol=SSL")
    until(lambda: shows(cluster, "protocol", "found", "speaks PLAINTEXT, the settings say SSL", *ssl))
    code, checks = doctor(cluster, "-X", "cluster_id=another")
    assert (code, failed(checks)) == (1, ["cluster id"])


def test_a_broker_that_hangs_fails_the_doctor_and_holds_no_command_beyond_its_time_limit(
    cluster: SandboxCluster,
) -> None:
    broker = cluster.broker_ids[1]
    with cluster.hung(broker):
        code, checks = doctor(cluster)
        assert (code, failed(checks)) == (1, [f"broker {broker}"]), checks
        assert checks[f"broker {broker}"]["found"].endswith("does not answer: it hangs")
        for words in ("topicmappr check", "streams lag check"):
            patient = ("-X", "request_timeout=1h")
            ran = run(cluster, *words.split(), "--profile", cluster.name, *patient, "--timeout", "4s")
            assert ran.returncode in (0, 1, 75), ran.stderr
    with closing(cluster.open_admin()) as admin:
        until(lambda: _all_in_sync(admin.snapshot(now=datetime.now(UTC), sizes=False)))


def _all_in_sync(snapshot: ClusterSnapshot) -> bool:
    partitions = [p for topic in snapshot.topics for p in topic.partitions]
    return all(b.is_alive for b in snapshot.brokers) and all(set(p.isr or ()) == set(p.replicas) for p in partitions)


def test_profile_check_knows_the_cluster(cluster: SandboxCluster) -> None:
    ran = run(cluster, "profile", "check", cluster.name, "-o", "json")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout)["cluster_id"] == cluster.cluster_id
    other = run(cluster, "profile", "check", cluster.name, "-X", "cluster_id=another")
    assert (other.returncode, other.stdout) == (2, "")
    assert f"pins cluster another, but the address answers as cluster {cluster.cluster_id}" in other.stderr


def test_topics_are_completed_from_the_live_cluster(cluster: SandboxCluster) -> None:
    admin = cluster.open_admin()
    try:
        for name in ("complete-me-1", "complete-me-2"):
            assert admin.create_topic(name, {0: (cluster.broker_ids[0],)}, {}) is None
        line = f"kafkakit --profile {cluster.name} topicmappr rebuild --topics complete-"
        env = {"_KAFKAKIT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": "6"}
        env["XDG_CACHE_HOME"] = str(cluster.home.folder / "cache-of-completion")
        requested = subprocess.run(
            [sys.executable, "-c", COMPLETION], capture_output=True, text=True, env=cluster.env | env, check=False
        )
        assert requested.stderr == ""
        assert requested.stdout.split() == ["complete-me-1", "complete-me-2"]
    finally:
        for name in ("complete-me-1", "complete-me-2"):
            admin.delete_topic(name)
        admin.close()


@pytest.mark.parametrize("secure", ["tls", "scram-tls"])
def test_a_secured_cluster_is_healthy_and_each_mistake_is_told_apart(
    sandbox_cluster: StartCluster, secure: str, tmp_path: Path
) -> None:
    cluster = sandbox_cluster(brokers=1, racks=1, log_dirs=(1,), secure=secure)
    try:
        code, checks = doctor(cluster)
        assert (code, failed(checks)) == (0, []), checks
        seen = json.loads(run(cluster, "snapshot", "--profile", cluster.name, "-o", "json").stdout)
        assert seen["topics"] == [], "a visit must not make the cluster create its internal topics"
        code, checks = doctor(cluster, *QUICK, "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN")
        assert code == 1
        other_ca = (*QUICK, "-X", f"security.tls.ca_file={make_certificate(tmp_path)[0]}")
        until(lambda: shows(cluster, "protocol", "found", "is not trusted", *other_ca))
        if secure == "scram-tls":
            wrong = tmp_path / "wrong"
            wrong.write_text("not the password")
            wrong.chmod(0o600)
            mistaken = (*QUICK, "-X", f"security.sasl.password_file={wrong}")
            refused = "login refused (SCRAM-SHA-256, user admin)"
            until(lambda: shows(cluster, "admin client", "found", refused, *mistaken))
            until(lambda: shows(cluster, "data client", "found", refused, *mistaken))
            becomes(lambda: doctor(cluster, *mistaken)[1]["protocol"]["status"], "ok")
    finally:
        cluster.down()
