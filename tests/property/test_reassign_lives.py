"""Many lives of one plan: run, cut, turned round, told to pause or end, and at last finished; nothing may be left."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.core.errors import KafkakitError, TryLaterError
from kafkakit.core.plan import DirMove, Plan
from kafkakit.execution.act.control_requests import ControlRequests, ReceivedRequests
from kafkakit.execution.decide.journal import What
from kafkakit.execution.decide.schedule.work import Limits, Rates
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, LEADER_RATE
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster
from tests.fakes.control import FakeControlStore
from tests.invariants.journal import verify_journal
from tests.rigs.reassign import Bench, Killed

MB = 1_000_000
BROKERS = range(1, 7)
SLOW_DISK = 3 * MB  # bytes a second between log dirs
OPTIONS: tuple[dict[str, Any], ...] = (
    {"limits": Limits(into_each=1, out_each=1)},
    {"limits": Limits(into_each=1, out_each=1, one_replica_at_a_time=True)},
    {"limits": Limits(into_each=2, out_each=2), "rate": 3 * MB},
    {"rate": 4 * MB},
)


def a_cluster(dice: Random) -> FakeCluster:
    """Three topics, and perhaps throttles of another process."""
    cluster = FakeCluster(
        {b: f"r{b % 3}" for b in BROKERS},
        line_rate=10 * MB,
        dirs_per_broker=dice.choice((1, 2)),
        fenced_visible=dice.random() < 0.5,
    )
    for name in "tuv":
        lists = {n: tuple(dice.sample(BROKERS, 3)) for n in range(3)}
        cluster.add_topic(name, lists, size_bytes=dice.choice((5, 20, 40)) * MB)
    if dice.random() < 0.5:
        cluster.brokers[3].configs[LEADER_RATE] = "777777"
        cluster.topics["t"].configs[FOLLOWER_LIST] = "0:9,7:5"
    return cluster


def a_plan(cluster: FakeCluster, dice: Random) -> Plan:
    """Other lists for most partitions, and other log dirs for some copies that stay."""
    keys = [(n, p) for n in "tuv" for p in range(3)]
    targets = {k: tuple(dice.sample(BROKERS, dice.choice((2, 3, 3)))) for k in keys if dice.random() < 0.8}
    plan = make_plan(cluster, targets, topics=list("tuv"))
    inside = []
    for name, number in keys if cluster.dirs_per_broker > 1 else ():
        partition = cluster.topics[name].partitions[number]
        for broker in sorted(set(partition.replicas).intersection(targets.get((name, number), partition.replicas))):
            if dice.random() < 0.4:
                here = partition.dirs[broker]
                there = next(d for d in cluster.brokers[broker].dirs if d != here)
                size = partition.size
                inside.append(
                    DirMove(
                        topic=name,
                        partition=number,
                        broker=broker,
                        source_dir=here,
                        target_dir=there,
                        size_bytes=size,
                    )
                )
    return replace(plan, dir_moves=tuple(inside))


class World:
    """One plan on one cluster, whose log dirs are slow, and whose copies are counted at every moment."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        cluster = a_cluster(dice)
        self.bench = Bench(cluster, a_plan(cluster, dice))
        self.before, self.configs = self.bench.lists(), self.bench.configs()
        self.after = {**self.before, **{(m.topic, m.partition): m.after for m in self.bench.plan.moves}}
        self._left: dict[object, float] = {}
        self._tokens = count(1)
        self.bench.clock.on_sleep[:] = [self._pass_time, self._count_copies]
        cluster.before_call.append(lambda *_: self._count_copies(0))

    def _pass_time(self, seconds: float) -> None:
        replication = self.bench.cluster.replication
        replication.advance(seconds)
        for key, partition in replication.partitions():
            for broker, path in list(partition.future_dirs.items()):
                left = self._left.get((key, broker, path), partition.size) - seconds * SLOW_DISK
                self._left[key, broker, path] = left
                if left <= 0:
                    partition.dirs[broker] = partition.future_dirs.pop(broker)
                    del self._left[key, broker, path]

    def _count_copies(self, _: float) -> None:
        for key, partition in self.bench.cluster.replication.partitions():
            name = (key.topic, key.partition)
            full = [b for b in partition.replicas if partition.copied.get(b, 0) >= partition.size]
            assert len(full) >= min(len(self.before[name]), len(self.after[name])), f"{key} has full copies on {full}"

    def live_once(self) -> None:
        """One command, which something may happen to."""
        bench, dice = self.bench, self.dice
        token = next(self._tokens)
        requests = ControlRequests(FakeControlStore(), bench.clock, bench.plan.cluster_id)
        hooks, calls = list(bench.clock.on_sleep), list(bench.cluster.before_call)
        self._threaten(lambda **request: requests.request(token, "ann", **request))
        run = bench.run(orders=ReceivedRequests(requests, token, bench.reporter), **dice.choice(OPTIONS))
        with suppress(Killed, KafkakitError):
            dice.choice((run.apply, run.apply, run.rollback, run.abort, run.resume))()
        bench.clock.on_sleep[:], bench.cluster.before_call[:] = hooks, calls
        bench.cluster._failures.clear()
        bench.clock.sleep(dice.choice((0.0, 0.0, 10.0)))

    def _threaten(self, ask: Callable[..., object]) -> None:
        """Something that will happen to the run, or nothing."""
        when = self.dice.uniform(0.1, 25)
        faults: tuple[BaseException, ...] = (Killed(), KeyboardInterrupt(), TryLaterError("the cluster is away"))
        fault = self.dice.choice(faults)
        match self.dice.randrange(6):
            case 0:
                self._at(when, fault)
            case 1:
                self._at(when, lambda: ask(abort=True))
            case 2:
                self._at(when, lambda: ask(paused=True))
                self._at(when + 5, fault)
            case 3:
                self._at(when, lambda: ask(rates=Rates(into=6 * MB, out=6 * MB)))
                self._at(when + 4, fault)
            case 4:
                self._cut_call(self.dice.randint(0, 12), lost_answer=self.dice.random() < 0.5)

    def _at(self, seconds: float, what: BaseException | Callable[[], object]) -> None:
        due = self.bench.clock.elapsed + seconds

        def check(_: float) -> None:
            if self.bench.clock.elapsed > due:
                self.bench.clock.on_sleep.remove(check)
                if isinstance(what, BaseException):
                    raise what
                what()

        self.bench.clock.on_sleep.append(check)

    def _cut_call(self, number: int, *, lost_answer: bool) -> None:
        seen = count()

        def hook(name: str, _: object) -> None:
            if next(seen) == number:
                if not lost_answer:
                    raise Killed
                self.bench.cluster.fail_next(name, Killed(), after_effect=True)

        self.bench.cluster.before_call.append(hook)

    def finish(self) -> None:
        """Bring the plan to one of its ends, and hold everything against what has to be there."""
        bench = self.bench
        state = bench.journal().state
        if state.paused and state.unsettled:
            bench.journal().check(What.CONTINUE, {"by": "nobody"})
        onward = self.dice.random() < 0.5
        outcome = bench.apply() if onward else bench.rollback()
        assert outcome.ok, outcome.problems
        assert bench.lists() == (self.after if onward else self.before)
        assert bench.configs() == self.configs
        assert not bench.cluster.reassignments()
        for move in bench.plan.dir_moves:
            partition = bench.cluster.topics[move.topic].partitions[move.partition]
            assert not partition.future_dirs
            assert partition.dirs[move.broker] == (move.target_dir if onward else move.source_dir)
        verify_journal(bench.file.data)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_however_often_a_plan_is_cut_and_turned_round_it_ends_well_and_leaves_nothing(seed: int) -> None:
    dice = Random(seed)
    world = World(dice)
    for _ in range(dice.randint(2, 6)):
        world.live_once()
    world.finish()
