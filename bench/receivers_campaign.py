"""Plan random small clusters with closed brokers by every command, and judge each plan by trying every set of brokers.

Run: python bench/receivers_campaign.py [--clusters N] [--seed N] [--processes N]. Brokers may be dead, missing, being
emptied, cordoned by dirs or a mark, without space or excluded; rules keep topics to brokers or off them. A copy on a
closed broker, an empty list, a short one that is not told, a refusal of what a set of brokers would serve, a bound
above the fewest copies and a plan that needs more are counted, and end with exit code 1. The judge shares no code with
the planner. Prints JSON with the machine's shape.
"""

import argparse
import collections
import json
import math
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from itertools import combinations, product
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from kafkakit.core.errors import InfeasibleError, KafkakitError, UsageError
from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, LogDir, Partition, Topic
from kafkakit.core.selection import BrokerList
from kafkakit.placement.problem import PlaceBy
from kafkakit.topicmappr.decide.drain import decide_drain, decide_repair
from kafkakit.topicmappr.decide.fix_racks import decide_fix_racks
from kafkakit.topicmappr.decide.place import decide_place
from kafkakit.topicmappr.decide.plain_requests import (
    DrainRequest,
    FixRacksRequest,
    PlaceRequest,
    RepairRequest,
    ReplicationRequest,
)
from kafkakit.topicmappr.decide.rebuild import decide_rebuild, decide_set_replication
from kafkakit.topicmappr.decide.request_fields import Ceilings
from kafkakit.topicmappr.decide.requests import RebuildRequest
from kafkakit.topicmappr.decide.scope import TagConstraints, parse_broker_set, parse_topic_rules

MIB = 1 << 20
DISK = 1000 * MIB
MOST_PLANS = 20_000  # of a case whose every plan is looked at
COMMANDS = ("rebuild", "forced", "stored", "forced-stored", "set-replication", "drain", "fix-racks", "repair", "place")
Key = tuple[str, int]
Set = frozenset[int]


class Case:
    """A cluster and a request: brokers (rack, state, dirs as space or None if closed), lists, a rule, exclusions."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(f"receivers/{seed}")
        racks = draw.choice(["a", "ab", "abc", "abc", "abcd"])
        ids = draw.sample(range(1, 30), draw.randint(2, 6))
        self.racks = {b: None if draw.random() < 0.08 else draw.choice(racks) for b in ids}
        states = ["alive"] * 8 + ["fenced", "missing", "draining"]
        self.states = {b: draw.choice(states) for b in ids}
        self.tight = draw.random() < 0.3
        space = [DISK, 60 * MIB, 5 * MIB] if self.tight else [DISK]
        self.dirs = {b: [draw.choice([*space, *space, None]) for _ in range(draw.choice([1, 1, 2]))] for b in ids}
        self.command = draw.choice(COMMANDS)
        self.minimum = draw.choice([0, 0, 0, 1, 2])
        factor = draw.randint(1, min(3, len(ids)))
        self.lists: dict[Key, list[int]] = {
            (topic, p): draw.sample(ids, draw.choice([factor, factor, draw.randint(1, min(3, len(ids)))]))
            for topic in ("t0", "t1")
            for p in range(draw.randint(1, 4))
        }
        self.sizes = {key: draw.choice([10, 50]) * MIB if self.tight else MIB for key in self.lists}
        self.excluded = frozenset(draw.sample(ids, 1)) if draw.random() < 0.25 else frozenset()
        self.rule = draw.choice(["", "", "affinity", "anti-affinity", "set"])
        self.named = frozenset(draw.sample(ids, draw.randint(1, len(ids))))
        self.listed = frozenset(draw.sample(ids, draw.randint(1, len(ids)))) if draw.random() < 0.6 else None
        self.wanted = draw.randint(1, min(4, len(ids))) if self.command in ("set-replication", "place") else 0
        self.leaving = frozenset(draw.sample(ids, draw.randint(1, max(1, len(ids) - 1))))

        draw = random.Random(f"ceilings/{seed}")
        self.most = {}
        if draw.random() < 0.25:
            self.most = {draw.choice(["max_replicas", "max_replicas", "max_leaders"]): draw.randint(1, 8)}

        draw = random.Random(f"cordons/{seed}")
        self.marked = frozenset(draw.sample(ids, 1)) if draw.random() < 0.25 else frozenset()

    def snapshot(self, shuffled: random.Random | None = None) -> ClusterSnapshot:
        """The cluster; `shuffled` puts its brokers, topics and partitions into another order."""
        brokers = [
            Broker(
                id=b,
                rack=rack,
                state=BrokerState(self.states[b]),
                log_dirs=tuple(
                    LogDir(path=f"/d{n}", total_bytes=DISK, usable_bytes=s or DISK, cordoned=s is None)
                    for n, s in enumerate(self.dirs[b])
                ),
            )
            for b, rack in sorted(self.racks.items())
        ]
        topics = []
        for name in ("t0", "t1"):
            rows = [
                Partition(partition=p, replicas=tuple(row), isr=tuple(row), leader=row[0], size_bytes=self.sizes[t, p])
                for (t, p), row in sorted(self.lists.items())
                if t == name
            ]
            if shuffled is not None:
                shuffled.shuffle(rows)
            topics.append(Topic(name=name, partitions=tuple(rows)))
        if shuffled is not None:
            shuffled.shuffle(brokers)
            shuffled.shuffle(topics)
        return ClusterSnapshot(
            cluster_id="campaign",
            taken_at=datetime(2026, 1, 1, tzinfo=UTC),
            source="bench",
            sizes_taken=True,
            cordoned=dict.fromkeys(sorted(self.marked), "disk swap"),
            brokers=tuple(brokers),
            topics=tuple(topics),
        )

    def constraints(self) -> TagConstraints:
        """The rule on topic t0."""
        brokers = ", ".join(map(str, sorted(self.named)))
        if self.rule == "set":
            return TagConstraints(sets=(parse_broker_set(f"t0: {brokers.replace(' ', '')}"),))
        if self.rule:
            text = f"topics where name = t0: brokers where id in ({brokers})"
            return TagConstraints(affinity=parse_topic_rules(text, f"--{self.rule}"))
        return TagConstraints()

    def planned(self, snapshot: ClusterSnapshot) -> Any:
        """What the command decides; raises what it raises."""
        every = {
            "min_rack_ids": self.minimum,
            "constraints": self.constraints(),
            "exclude_receivers": BrokerList(ids=tuple(sorted(self.excluded))) if self.excluded else None,
        }
        words = {"words": {"command": f"topicmappr {self.command}"}, "ceilings": Ceilings(**self.most)}
        listed = BrokerList(ids=tuple(sorted(self.listed or ())), everything=self.listed is None)
        if self.command == "place":
            brokers = None if self.listed is None else listed
            return decide_place(
                snapshot, PlaceRequest(topic="new", partitions=3, replication=self.wanted, brokers=brokers, **every)
            )
        if self.command == "drain":
            leaving = BrokerList(ids=tuple(sorted(self.leaving)))
            return decide_drain(snapshot, DrainRequest(leaving=leaving, topics=(".*",), **every, **words))
        if self.command == "repair":
            return decide_repair(snapshot, RepairRequest(topics=(".*",), **every, **words))
        if self.command == "fix-racks":
            return decide_fix_racks(snapshot, FixRacksRequest(topics=(".*",), **every, **words))
        if self.command == "set-replication":
            wanted = ReplicationRequest(replication=self.wanted, topics=(".*",), **every, **words)
            return decide_set_replication(snapshot, wanted)
        request = RebuildRequest(
            brokers=listed,
            topics=(".*",),
            force_rebuild="forced" in self.command,
            placement=PlaceBy.STORAGE if "stored" in self.command else PlaceBy.COUNT,
            **every,
            **words,
        )
        return decide_rebuild(snapshot, request)

    # The judge: what may be where, in its own words.

    def may_be(self, topic: str, broker: int) -> bool:
        """True where the rule lets a topic's copies be."""
        if self.rule == "set":
            return (broker in self.named) == (topic == "t0")
        if topic == "t0" and self.rule:
            return (broker in self.named) == (self.rule == "affinity")
        return True

    def able(self) -> Set:
        """Live brokers that an operation does not empty."""
        return frozenset(b for b, state in self.states.items() if state == "alive")

    def targets(self) -> Set:
        """Brokers that may hold copies in the end, in commands that list them."""
        up = frozenset(b for b, state in self.states.items() if state in ("alive", "draining"))
        if self.command in ("rebuild", "forced", "stored", "forced-stored", "place") and self.listed is not None:
            return up & self.listed
        return self.able()

    def takers(self, key: Key) -> Set:
        """Brokers that may get a new copy of a partition."""
        named = self.targets()
        if self.command == "drain":
            named -= self.leaving
        size = self.sizes.get(key, 0)
        return frozenset(
            b
            for b in named - self.excluded - self.marked
            if self.may_be(key[0], b)
            and any(s is not None and (not size or s - DISK // 20 >= size) for s in self.dirs[b])
        )

    def obeys(self, row: Any) -> bool:
        """The rack rule."""
        racks = [self.racks[b] for b in row if self.racks[b]]
        return len(set(racks)) == len(racks) or 0 < self.minimum <= len(set(racks))

    def stays(self, key: Key) -> Set:
        """The copies that a command leaves where they are."""
        row = self.lists[key]
        if self.command == "drain":
            return frozenset(row) - self.leaving
        if self.command == "repair":
            return frozenset(b for b in row if self.states[b] in ("alive", "draining"))
        return frozenset(b for b in row if b in self.targets() and self.may_be(key[0], b))

    def fewest(self, key: Key) -> int | None:
        """The fewest new copies that serve a partition for itself; None where no set of brokers does."""
        sets = self.sets(key)
        if sets is None:
            return -1
        return min((len(found - {*self.lists[key]}) for found in sets), default=None)

    def sets(self, key: Key) -> list[Set] | None:
        """The sets of brokers that a partition may end on; None where that is not judged.

        That is what a command makes of copies that break the rule together.
        """
        row, takers = self.lists[key], self.takers(key)
        wanted = self.wanted or len(row)
        kept = self.stays(key)
        if self.command == "fix-racks":
            if self.obeys(row) and all(self.may_be(key[0], b) for b in row):
                return [frozenset(row)]
            kept = frozenset()
        if kept and not self.obeys(kept):
            return None
        if len(kept) > wanted:
            return [frozenset(found) for found in combinations(sorted(kept), wanted)]
        held = [b for b in row if self.may_be(key[0], b)] if self.command == "fix-racks" else []
        found = combinations(sorted({*takers, *held} - kept), wanted - len(kept))
        return [kept.union(extra) for extra in found if self.obeys([*kept, *extra])]

    def limited(self) -> Set:
        """The brokers that a ceiling is about."""
        up = frozenset(b for b, state in self.states.items() if state in ("alive", "draining"))
        if self.command in ("drain", "repair", "fix-racks"):
            return up - (self.leaving if self.command == "drain" else frozenset())
        return self.targets()

    def lies_within(self, counts: dict[int, int]) -> bool:
        """True where no broker holds more replicas than the ceiling."""
        return all(counts.get(b, 0) <= self.most["max_replicas"] for b in self.limited())


def lists_of(case: Case, found: Any) -> tuple[dict[Key, tuple[int, ...]], dict[Key, tuple[int, ...]], list[str]]:
    """Lists before and after a plan, and all that it says in warnings."""
    if case.command == "place":
        after = {("new", n): row for n, row in found.numbered}
        return dict.fromkeys(after, ()), after, []
    plan = found.plan
    before = {(e.topic, e.partition): e.replicas for e in plan.scope}
    after = before | {(m.topic, m.partition): m.after for m in plan.moves}
    return before, after, [*plan.warnings]


def faults(case: Case) -> tuple[str, list[str]]:
    """How the request ended, and what is wrong with that."""
    try:
        found = case.planned(case.snapshot())
    except UsageError as error:
        return "usage", [] if error.message else ["no words"]
    except InfeasibleError as error:
        return "refused", _false_refusal(case, error)
    except KafkakitError as error:
        return type(error).__name__, []
    before, after, warnings = lists_of(case, found)
    wrong = []
    for key, row in sorted(after.items()):
        names = (f"{key[0]} p{key[1]}", f"{key[0]}-{key[1]}")
        told = any(name in w for w in warnings for name in names)
        new = set(row) - set(before[key])
        if not row:
            wrong.append(f"{key} is empty")
        if new and not new <= case.takers(key):
            wrong.append(f"{key}: {sorted(new - case.takers(key))} are closed to it")
        if case.command == "place":
            continue
        if len(row) < (case.wanted or len(before[key])) and not told:
            wrong.append(f"{key}: {row} is short and not told")
        if told and _served_by_some_set(case, key) and "left where it is" not in str(warnings):
            wrong.append(f"{key}: not served, though a set of brokers would do: {warnings}")
    if case.command != "place":
        wrong += _of_ceilings(case, after)
        wrong += _of_the_bound(case, found.plan.certificate, before, after)
    return "planned", wrong


def _served_by_some_set(case: Case, key: Key) -> bool:
    fewest = None if case.tight or case.command.startswith("forced") else case.fewest(key)
    return fewest is not None and fewest >= 0


def _of_ceilings(case: Case, after: dict[Key, tuple[int, ...]]) -> list[str]:
    held = collections.Counter(b for row in after.values() for b in row)
    led = collections.Counter(row[0] for row in after.values())
    if "max_replicas" in case.most and not case.lies_within(held):
        return [f"above {case.most}: {held}"]
    if any(led[b] > case.most["max_leaders"] for b in case.limited() if "max_leaders" in case.most):
        return [f"above {case.most}: {led}"]
    return []


def _kept_by_some_plan(case: Case) -> bool:
    """True where a plan with the fewest copies keeps the ceiling on replicas."""
    rows = []
    for key, row in sorted(case.lists.items()):
        sets, fewest = case.sets(key), case.fewest(key)
        if not sets:
            return False
        rows.append([found for found in sets if len(found - {*row}) == fewest])
    if math.prod(map(len, rows)) > MOST_PLANS:
        return False
    return any(case.lies_within(collections.Counter(b for found in plan for b in found)) for plan in product(*rows))


def _false_refusal(case: Case, error: InfeasibleError) -> list[str]:
    if error.message.startswith("--max-replicas") and not case.tight and _kept_by_some_plan(case):
        return [f"a plan within the ceiling exists, and it says {error.message}"]
    if case.command == "place" and not case.tight:
        racked = [c for c in combinations(sorted(case.takers(("new", 0))), case.wanted) if case.obeys(c)]
        return [f"a place exists: {racked[0]}, and it says {error.message}"] if racked else []
    return []


def _of_the_bound(case: Case, certificate: Any, before: Any, after: Any) -> list[str]:
    wrong = []
    if certificate.lower_bound > certificate.objective:
        wrong.append("the bound is above the plan")
    if certificate.unit != "replicas" or case.command == "forced":
        return wrong
    least = 0
    for key, row in after.items():
        if row == before[key]:
            continue
        fewest = case.fewest(key)
        if fewest is None or fewest < 0 or len(row) < (case.wanted or len(before[key])):
            return wrong
        least += fewest
    if certificate.lower_bound > least:
        wrong.append(f"the bound is {certificate.lower_bound}, and {least} copies are enough")
    if certificate.objective > least and not case.tight:
        wrong.append(f"{certificate.objective} copies, and {least} are enough")
    return wrong


def tried(seed: int) -> tuple[int, str, str, list[str], float]:
    """One cluster: its seed, command, end and faults, and seconds of CPU to plan it."""
    case, began_s = Case(seed), time.process_time()
    end, wrong = faults(case)
    return seed, case.command, end, wrong, time.process_time() - began_s


def main() -> int:
    from machine import shape

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    words = parser.parse_args()
    with ProcessPoolExecutor(words.processes) as pool:
        rows = list(pool.map(tried, range(words.seed, words.seed + words.clusters), chunksize=8))
    ends = collections.Counter(f"{command}: {end}" for _, command, end, _, _ in rows)
    wrong = {seed: [command, *found] for seed, command, _, found, _ in rows if found}
    print(
        json.dumps(
            {
                "machine": shape(),
                "clusters": len(rows),
                "ends": dict(sorted(ends.items())),
                "cpu_s_most": round(max(cpu_s for *_, cpu_s in rows), 2),
                "wrong": wrong,
            },
            indent=2,
        )
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
