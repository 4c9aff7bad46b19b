"""The runbook of streams, run as it stands against a real cluster: from the first topic until nothing is left."""

import re
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.conftest import SandboxCluster
from tests.integration.runbooks import blocks, run_blocks

pytestmark = pytest.mark.kafka

SEEN = (
    r"101 records written, the last one to walked\.live\.3",
    r"^slow  1 +25 ",
    r"^live  none +76 ",
    r"written to walked\.slow\.4",
    r"101 records handled, 1 rejected",
    r"^walked\.slow\.4 .* kkm1 +0 +0 +0 ",
    r"^walkers +walked +12 +ok +0 ",
    r"^no findings$",
    r"^stream walked: 1 rejected record$",
    r"^ +error +RejectError: invalid literal",
    r"^replayed 1$",
    r"^1 records handled, 0 rejected$",
    r"^stream walked: 0 rejected records$",
)
"""In this order; what is committed for a lane has nothing done above it, and the group has no lag."""


def test_create_a_stream_write_it_read_it(cluster: SandboxCluster, tmp_path: Path) -> None:
    names = {"KAFKAKIT_PROFILE": cluster.name, "STREAM": "walked", "GROUP": "walkers"}
    env = {**cluster.env, "KAFKAKIT_CONTROL_STORE": "kafka", **names}
    steps, undo = blocks("streams.md", undo=False), blocks("streams.md", undo=True)
    assert (len(steps), len(undo)) == (9, 1)
    # The stream was there once: topics have other names then.
    before = run_blocks([*steps[:2], *undo], tmp_path, env)
    assert before.returncode == 0, before.stdout + before.stderr
    done = run_blocks([*steps, *undo], tmp_path, env)
    assert done.returncode == 0, done.stdout + done.stderr
    at = 0
    for pattern in SEEN:
        found = re.compile(pattern, re.MULTILINE).search(done.stdout, at)
        assert found, f"{pattern}\n{done.stdout}"
        at = found.end()
    with closing(cluster.open_admin()) as admin:
        assert not [topic for topic in admin.topic_operations() if topic.startswith("walked.")]
    assert not list(tmp_path.iterdir())
