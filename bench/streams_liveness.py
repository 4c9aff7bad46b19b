"""Histories of keys, bad records and outages on a real broker: is everything handled or rejected within the bound?

Run: python bench/streams_liveness.py [--histories 200] [--seed 1] [--beside 8]

The histories are made as those of the model check (`tests/property/test_streams_client.py`), with an outage of up to
3 s in most, and good records that keep coming. Each has a topic and a consumer of its own, several run at once. What
is late, lost, or good and rejected during the outage is a problem. Prints one JSON object.
"""

import argparse
import json
import random
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from machine import shape
from sandboxes import new_home, start_cluster

sys.path.insert(0, str(Path(__file__).parent.parent))

from kafkakit.streams.client.dead_letters import ConsumerHooks, RejectedRecord
from kafkakit.streams.client.decide.work_rules import Mode, RetryRule, WorkRules
from kafkakit.streams.client.workers import StreamRecord
from tests.integration.conftest import SandboxCluster
from tests.integration.stream_rig import StreamRig

GOAL = {"problems": 0, "longest_of_bound": 1.0}
RETRY = RetryRule(first_ms=50, max_ms=400, max_tries=3)
SLACK_S = 5.0
"""For two cores: threads that wait for their turn, polls and commits of eight consumers."""


@dataclass(kw_only=True)
class History:
    """What befalls one consumer, and what it did: times of `time.monotonic`."""

    number: int
    mode: Mode
    keys: int
    records: int
    bad: frozenset[int]
    outage_s: tuple[float, float] | None
    begun_s: float = 0.0
    handled: dict[int, float] = field(default_factory=dict)
    rejected: dict[int, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_down(self) -> bool:
        """True during the outage."""
        passed = time.monotonic() - self.begun_s
        return self.outage_s is not None and self.outage_s[0] <= passed < self.outage_s[1]

    def handle(self, record: StreamRecord) -> None:
        """What the application does with a record."""
        number = int(record.value or b"0")
        if number in self.bad or self.is_down():
            raise ValueError("no")
        with self.lock:
            self.handled.setdefault(number, time.monotonic())

    def reject(self, rejected: RejectedRecord) -> None:
        """Note a dead letter."""
        with self.lock:
            self.rejected.setdefault(int(rejected.record.value or b"0"), time.monotonic())


def random_history(number: int, chosen: random.Random) -> History:
    """A history of up to 120 records; keys, share of bad ones, mode and outage at random."""
    records, share = chosen.choice((5, 30, 120)), chosen.choice((0.01, 0.1, 0.5, 0.9))
    start = chosen.choice((0.0, 0.5, 1.5))
    return History(
        number=number,
        mode=chosen.choice(list(Mode)),
        keys=chosen.choice((1, 3, 20)),
        records=records,
        bad=frozenset(one for one in range(records) if chosen.random() < share),
        outage_s=(start, start + chosen.uniform(0.2, 3.0)) if chosen.random() < 0.7 else None,
    )


def live(cluster: SandboxCluster, history: History) -> tuple[float, float, list[str]]:
    """The time from the outage's end (or the beginning) to the last of the first records, its bound, and problems."""
    rig = StreamRig(cluster, f"life-{history.number}", partitions=1)
    (segment,) = rig.segments["live"]
    rig.write_keyed(segment, [(one, one % history.keys) for one in range(history.records)])
    rules = WorkRules(mode=history.mode, retry=RETRY)
    run = longest_run(history)
    bound_s = rules.longest_wait_ms(run=run, waiting=history.records, gap_ms=1_000) / 1000
    history.begun_s = time.monotonic()
    up_s = history.begun_s + (history.outage_s[1] if history.outage_s else 0.0)
    first, more = set(range(history.records)), history.records
    with rig.member("lives", handler=history.handle, work=rules, hooks=ConsumerHooks(reject=history.reject)):
        next_s = up_s
        while not first <= {*history.handled, *history.rejected} and time.monotonic() < up_s + bound_s + SLACK_S:
            if time.monotonic() >= next_s:
                rig.write_keyed(segment, [(more, 1_000)])
                more, next_s = more + 1, next_s + 1.0
            time.sleep(0.05)
    left = sorted(first - {*history.handled, *history.rejected})
    problems = [f"{history.number}: {left} are left after {bound_s:.0f} s"] if left else []
    ends = {**history.handled, **history.rejected}
    took_s = max((ends[one] for one in first if one in ends), default=up_s) - up_s
    wrong = set(history.rejected) - history.bad
    if history.outage_s:
        since_s = history.begun_s + history.outage_s[0] + 1
        down = [one for one in wrong if since_s < history.rejected[one] < up_s]
        problems += [f"{history.number}: {down} are good and were rejected during the outage"] if down else []
    if wrong and (history.mode is Mode.UNORDERED or not history.outage_s):
        problems.append(f"{history.number}: {sorted(wrong)} are good and were rejected")
    return max(0.0, took_s), bound_s, problems


def longest_run(history: History) -> int:
    """Bad records in a row of one key, or of the partition."""
    longest = 0
    for key in range(history.keys if history.mode is not Mode.PARTITION else 1):
        run = 0
        for one in range(history.records):
            if history.mode is Mode.PARTITION or one % history.keys == key:
                run = run + 1 if one in history.bad else 0
                longest = max(longest, run)
    return longest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--beside", type=int, default=8)
    asked = parser.parse_args()
    chosen = random.Random(asked.seed)
    histories = [random_history(number, chosen) for number in range(asked.histories)]
    counts, problems, shares, times = Counter[str](), list[str](), list[float](), list[float]()
    with ExitStack() as stack:
        cluster = start_cluster(new_home("streams-liveness-"), "lives")
        stack.callback(cluster.down)
        pool = stack.enter_context(ThreadPoolExecutor(asked.beside))
        for history, (took_s, bound_s, wrong) in zip(
            histories, pool.map(lambda one: live(cluster, one), histories), strict=True
        ):
            counts[history.mode] += 1
            counts["handled"] += len(history.handled)
            counts["rejected"] += len(history.rejected)
            counts["good_rejected"] += len(set(history.rejected) - history.bad)
            shares.append(took_s / (bound_s + SLACK_S))
            times.append(took_s)
            problems += wrong
            if wrong:
                print(wrong, file=sys.stderr, flush=True)
    result = {
        "seed": asked.seed, "histories": asked.histories, **counts, "longest_s": round(max(times), 1),
        "median_s": round(sorted(times)[len(times) // 2], 1), "longest_of_bound": round(max(shares), 3),
        "problems": problems, "goal": GOAL, "machine": shape(),
    }  # fmt: skip
    print(json.dumps(result, indent=2))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
