"""A group of a stream with 9,990 partitions on a real broker: joining, a second member, one that leaves, and the end.

Run: python bench/streams_wide.py [--partitions 9990] [--limit-s 900]

Two records in each partition; a member handles them all, a second one joins, two more are written in each and
handled by both, the first leaves, and the second handles two more in each. What is not handled, was never written, or
is not committed at the end is a problem, and so is a record that is handled twice: handlers are quick, and members
that leave commit first. Prints one JSON object with the seconds of each step, processor time and memory of this process
(both members and the producer).
"""

import argparse
import json
import resource
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from machine import shape
from sandboxes import new_home, start_cluster

sys.path.insert(0, str(Path(__file__).parent.parent))

from kafkakit.streams.client.consumer import StreamConsumer
from kafkakit.streams.client.workers import StreamRecord
from tests.integration.conftest import SandboxCluster
from tests.integration.stream_rig import StreamRig

EACH = 2


class Ledger:
    """What was handled, by the number in the value."""

    def __init__(self, limit_s: float) -> None:
        self.seen: Counter[int] = Counter()
        self._lock, self._limit_s = threading.Lock(), limit_s

    def handle(self, record: StreamRecord) -> None:
        """Note a record."""
        with self._lock:
            self.seen[int(record.value or b"-1")] += 1

    def wait_for(self, count: int, members: list[StreamConsumer]) -> float:
        """The seconds until so many records were handled and nothing lags; raises after the limit."""
        began = time.monotonic()
        while not (len(self.seen) >= count and self._is_committed(members)):
            if time.monotonic() - began > self._limit_s:
                raise TimeoutError(f"{len(self.seen)} of {count} records handled in {self._limit_s:.0f} s")
            time.sleep(0.2)
        return round(time.monotonic() - began, 1)

    @staticmethod
    def _is_committed(members: list[StreamConsumer]) -> bool:
        found = [figures for member in members for figures in member.figures().partitions]
        return bool(found) and all(one.lag == 0 and one.waiting == 0 for one in found)


def run(cluster: SandboxCluster, partitions: int, limit_s: float) -> dict[str, object]:
    """The steps, with their seconds, and the problems at the end."""
    steps: dict[str, float] = {}

    def timed(name: str, began: float) -> None:
        steps[name] = round(time.monotonic() - began, 1)

    began = time.monotonic()
    rig = StreamRig(cluster, "wide", partitions=partitions)
    timed("create_s", began)
    (segment,) = rig.segments["live"]
    written = 0

    def write() -> None:
        nonlocal written
        numbers = range(written, written + EACH * partitions)
        rig.write_keyed(segment, [(number, number) for number in numbers])
        written = numbers.stop

    began = time.monotonic()
    write()
    timed("write_s", began)
    ledger = Ledger(limit_s)
    with ExitStack() as stack:
        first = stack.enter_context(rig.member("wide", handler=ledger.handle))
        steps["first_member_s"] = ledger.wait_for(written, [first])
        second = stack.enter_context(rig.member("wide", handler=ledger.handle))
        began = time.monotonic()
        while not second.figures().partitions:
            if time.monotonic() - began > limit_s:
                raise TimeoutError("the second member was given no partition")
            time.sleep(0.2)
        timed("second_joins_s", began)
        write()
        steps["both_s"] = ledger.wait_for(written, [first, second])
        shares = [len(member.figures().partitions) for member in (first, second)]
        began = time.monotonic()
        first.close()
        timed("first_leaves_s", began)
        write()
        steps["second_alone_s"] = ledger.wait_for(written, [second])
        problems = [*second.figures().problems]
    behind = [number for number, state in rig.committed("wide", segment).items() if state.base < 3 * EACH]
    problems += [f"{len(behind)} partitions are committed below their end"] if behind else []
    lost = set(range(written)) - ledger.seen.keys()
    problems += [f"{len(lost)} records were not handled"] if lost else []
    twice = sum(count > 1 for count in ledger.seen.values())
    problems += [f"{twice} records were handled twice"] if twice else []
    return {"partitions": partitions, "records": written, "shares": shares, **steps, "problems": problems}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=9_990)
    parser.add_argument("--limit-s", type=float, default=900)
    asked = parser.parse_args()
    with ExitStack() as stack:
        cluster = start_cluster(new_home("streams-wide-"), "wide")
        stack.callback(cluster.down)
        cpu_s = time.process_time()
        result = run(cluster, asked.partitions, asked.limit_s)
    used = resource.getrusage(resource.RUSAGE_SELF)
    result |= {"cpu_s": round(time.process_time() - cpu_s, 1), "rss_mb": used.ru_maxrss // 1024, "machine": shape()}
    print(json.dumps(result, indent=2))
    sys.exit(bool(result["problems"]))


if __name__ == "__main__":
    main()
