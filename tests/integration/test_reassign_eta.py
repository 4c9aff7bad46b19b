"""Sixty moves on real brokers under a throttle: forecast first, told at the end by how much that was missed."""

import json
import re
from contextlib import closing
from pathlib import Path

import pytest

from kafkakit.execution.decide.journal import decode_journal, replay
from tests.clusters.plans import make_plan
from tests.integration.conftest import SandboxCluster
from tests.integration.test_reassign import MB, alive, journal, kit, make_topic, replicas, save, throttles
from tests.integration.writers import traffic
from tests.invariants.journal import verify_journal
from tests.rigs.waiting import becomes, until

pytestmark = pytest.mark.kafka

MOVES = 60
# A broker takes up to 1 MB of each partition in flight before it looks at its rate again, averaged over 3 s here: five
# at a time pass 1.7 MB/s whatever the throttle. A forecast can hold only above that.
SIZE, RATE = 5 * MB, "2500kB"


def test_sixty_moves_under_a_throttle_foretell_their_end_and_leave_nothing(
    cluster6: SandboxCluster, tmp_path: Path
) -> None:
    ids = cluster6.broker_ids
    before = {n: (ids[n % 6], ids[(n + 1) % 6]) for n in range(MOVES)}
    after = {n: (ids[(n + 2) % 6], ids[(n + 1) % 6]) for n in range(MOVES)}
    with closing(cluster6.open_admin()) as admin:
        until(lambda: len(alive(admin)) == 6)
        make_topic(cluster6, admin, "sixty", before, SIZE)
        clean = throttles(admin, "sixty")
        plan = make_plan(admin, {("sixty", n): r for n, r in after.items()})
        with traffic(cluster6, "sixty", MOVES, gap_s=0.1) as flow:
            options = ("--yes", "--throttle", RATE, "--ingest-sample", "5s", "-o", "json")
            done = kit(cluster6, "apply", save(plan, tmp_path), *options)
            assert done.returncode == 0, done.stderr
            becomes(lambda: replicas(admin, "sixty"), after)
            becomes(lambda: throttles(admin, "sixty"), clean)
            assert clean == {}
            listed = kit(cluster6, "list")
            assert (listed.returncode, listed.stdout) == (0, "")
        told = re.search(
            r"^ETA (.+?)(?: \(.+ is the theoretical minimum\))?, bottleneck broker \d+ ", done.stderr, re.MULTILINE
        )
        assert told is not None
        assert told.start() < done.stderr.index(f"apply: {MOVES} steps")  # before the first byte
        result = json.loads(done.stdout)
        assert result["moves_sent"] == MOVES
        assert result["bytes_copied"] >= MOVES * SIZE
        missed = 100 * (result["seconds"] / result["promised_seconds"] - 1)
        assert result["eta_error_percent"] == pytest.approx(missed, abs=0.1)
        print(f"ETA error {result['eta_error_percent']} % of {result['promised_seconds']} s")
        data = journal(cluster6, plan)
        state = replay(decode_journal(data, "journal").records, "journal")
        assert not state.unsettled
        assert not state.throttled
        assert verify_journal(data)[-1]["what"] == "end"
        assert flow.check() > 100
        assert admin.delete_topic("sixty") is None
