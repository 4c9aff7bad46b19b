"""The runbook of failovers as it stands on two real clusters under load, and rehearsals that are ended early."""

import re
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kafkakit.adapters.control_file import FileControl
from kafkakit.streams.client.connect import connect
from kafkakit.streams.failover.decide.history import shadow_of
from kafkakit.wiring import write_file
from tests.integration.conftest import LeaseClusters
from tests.integration.runbooks import blocks, run_blocks
from tests.integration.test_stream_failover import LIMIT_S, Clusters, Traffic
from tests.rigs.cluster_pool import SINGLE
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka

SEEN = (
    r"basis acknowledged",
    r"readiness \d+ of 100, done",
    r"certificate verified",
    r"^ +retired +\d",
    r"^Rehearsals:$",
    r"nothing removed",
    r"^Traffic:$",
    r"^done: .* is retired$",
    r"^verified: certificate",
    r"^Commands:$",
    r"streams failover rehearse",
    r"streams failover run",
    r"^ +guided\.live\.\d +deleted$",
)


@pytest.fixture(scope="module")
def clusters(lease: LeaseClusters) -> Iterator[Clusters]:
    old, new = lease(SINGLE, SINGLE)
    with pytest.MonkeyPatch.context() as patched:
        for name, value in old.env.items():
            patched.setenv(name, value)
        yield Clusters(old, new)


def left(clusters: Clusters, stream: str) -> list[str]:
    """What is there of a shadow: topics, groups and documents."""
    shadow = shadow_of(stream)
    found = []
    for cluster in (clusters.old, clusters.new):
        with closing(cluster.open_admin()) as admin:
            found += [name for name in admin.topic_operations() if name.startswith(f"{shadow}.")]
        client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})  # answers come while it is referenced
        listed = client.list_consumer_groups().result(LIMIT_S).valid
        found += [group.group_id for group in listed if group.group_id == shadow]
    return found + list(control(clusters).children(f"streams/{shadow}"))


def control(clusters: Clusters) -> FileControl:
    return FileControl(clusters.old.home.state_dir / "control", write_file)


def test_the_runbook(clusters: Clusters, tmp_path: Path) -> None:
    clusters.make("guided")
    names = {
        "KAFKAKIT_PROFILE": clusters.new.name, "STREAM": "guided", "TO": clusters.new.name, "SPARE": clusters.old.name,
        "GRACE": "0",
    }  # fmt: skip
    with connect(clusters.new.name) as client, Traffic(client, "guided") as traffic:
        until(lambda: len(traffic.handled) > 50, "records flow")
        done = run_blocks(blocks("fail-over-a-stream.md", undo=False), tmp_path, {**clusters.old.env, **names})
        assert done.returncode == 0, done.stdout + done.stderr
        before = len(traffic.acknowledged)
        until(lambda: len(traffic.acknowledged) > before + 50, "records flow to the spare cluster")
    assert traffic.missing() == set()
    at = 0
    for pattern in SEEN:
        found = re.compile(pattern, re.MULTILINE).search(done.stdout, at)
        assert found, f"{pattern}\n{done.stdout}\n{done.stderr}"
        at = found.end()
    until(lambda: left(clusters, "guided") == [], "nothing is left")
    assert not list(tmp_path.iterdir())
    status = clusters.run("failover", "status", "guided")
    assert status["step"] in ("retired", "drained", "sealed", "routed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_ended_rehearsal_leaves_nothing(clusters: Clusters, number: signal.Signals) -> None:
    """The signal comes when the new topics are open: the shadow is on both clusters."""
    stream = f"shadowed-{number.name.lower()}"
    clusters.make(stream)
    words = ("failover", "rehearse", stream, "--to", clusters.new.name)
    said = clusters.die(
        "after", "open", *words, "--rate", "200", "--yes", number=number, code=130 * (number is signal.SIGINT)
    )
    if number is signal.SIGKILL:
        assert left(clusters, stream), said
        assert clusters.run(*words, "--only-remove", "--yes")["removed"]
    until(lambda: left(clusters, stream) == [], f"nothing is left: {said}")
    (kept,) = clusters.run("failover", "history", stream, "--rehearsals")["rehearsals"]
    assert (kept["score"], kept["rehearsal"]["outcome"]["result"]) == (0, "failed")
