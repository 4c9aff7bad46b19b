"""The runbook of streams, run as it stands against a real cluster: from the first topic until nothing is left."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.conftest import SandboxCluster
from tests.integration.runbooks import blocks, run_blocks

pytestmark = pytest.mark.kafka


def test_create_a_stream_write_it_read_it(cluster: SandboxCluster, tmp_path: Path) -> None:
    env = {
        **cluster.env,
        "KAFKAKIT_PROFILE": cluster.name,
        "KAFKAKIT_CONTROL_STORE": "kafka",
        "STREAM": "walked",
        "GROUP": "walkers",
    }
    steps, undo = (blocks("streams.md", undo=kind) for kind in (False, True))
    assert (len(steps), len(undo)) == (8, 1)
    done = run_blocks(steps, tmp_path, env)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
