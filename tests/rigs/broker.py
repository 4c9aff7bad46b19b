"""A bench for operations on brokers: a fake cluster, records on disk, journals in memory, a machine that may die."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafkakit.broker.act.move_off import MoveOff, Rejoin
from kafkakit.broker.act.operation_files import Elections, Records, Unregister
from kafkakit.broker.decide.operation import (
    BrokerOperation,
    BrokerOperationKind,
    ElectionPace,
    OperationGoal,
    OperationPlan,
)
from kafkakit.broker.decide.plans import MoveRequest, RejoinRequest
from kafkakit.broker.report import BrokerOutcome
from kafkakit.core.documents import decode_plan
from kafkakit.core.plan import Plan, identity_of
from kafkakit.core.plan_rules import check_plan
from kafkakit.execution.act.leases import ClusterAccess
from kafkakit.execution.act.run_journal import RunJournal, read_run_state
from kafkakit.execution.act.throttles import OtherRuns
from kafkakit.execution.decide.run_rules import RunRules
from kafkakit.execution.decide.runs import Commands, Direction, Request, RunOutcome
from kafkakit.execution.decide.schedule.work import RateRequest
from kafkakit.reassign.act.run import Run
from tests.fakes.admin import FakeClock, FakeCluster
from tests.rigs.reassign import Killed, MemoryFile, Recorder

MUTATING = ("reassign", "cancel", "alter_configs", "elect_preferred_leaders", "move_log_dirs", "unregister_broker")
MB = 1_000_000


class CrashPoint:
    """Counts what leaves a trace; the machine dies at the one whose number is `die_at`."""

    def __init__(self) -> None:
        self.count = 0
        self.die_at: int | None = None

    def tick(self) -> None:
        self.count += 1
        if self.die_at is not None and self.count > self.die_at:
            raise Killed


class MortalAdmin:
    """A cluster's admin that counts before and after each change."""

    def __init__(self, cluster: FakeCluster, crash: CrashPoint) -> None:
        self._cluster, self._crash = cluster, crash
        self.reads: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._cluster, name)
        if name not in MUTATING:
            self.reads[name] += 1
            return method

        def call(*arguments: Any) -> Any:
            self._crash.tick()
            answer = method(*arguments)
            self._crash.tick()
            return answer

        return call


class MortalFile(MemoryFile):
    """Journal lines that count."""

    def __init__(self, crash: CrashPoint) -> None:
        super().__init__()
        self._crash = crash

    def append(self, line: bytes) -> None:
        self._crash.tick()
        super().append(line)
        self._crash.tick()


class Harness:
    """One operator's host; `rate` is the throttle of its runs."""

    def __init__(self, cluster: FakeCluster, folder: Path, *, rate: int | None = 20 * MB) -> None:
        self.cluster, self.folder, self.rate = cluster, folder, rate
        self.clock = FakeClock()
        self.clock.on_sleep.append(cluster.advance)
        self.crash = CrashPoint()
        self.admin: Any = MortalAdmin(cluster, self.crash)
        self.reporter = Recorder()
        self.journals: dict[str, MortalFile] = {}
        self.records = Records(folder, self.write, self.clock)
        self.answers: list[bool] = []
        self.questions: list[str] = []

    def write(self, path: Path, data: bytes, mode: int) -> None:
        assert mode == 0o600
        self.crash.tick()
        path.write_bytes(data)
        self.crash.tick()

    # -- kafkakit.broker.decide.plans.PlanRunner

    def preview(self, plan: Plan, record: BrokerOperation | None) -> RunOutcome:
        del record
        return self._run(plan, Direction.APPLY, dry_run=True)

    def run(
        self, operation: BrokerOperation, leg: OperationPlan, direction: Direction, *, dry_run: bool = False
    ) -> RunOutcome:
        del operation
        path = self.records.plan_path(leg)
        plan = decode_plan(path.read_bytes(), str(path))
        assert identity_of(plan) == leg.identity
        return self._run(plan, direction, dry_run=dry_run)

    def begun(self, leg: OperationPlan) -> bool:
        file = self.journals.get(leg.identity)
        return file is not None and bool(file.data)

    def ended(self, leg: OperationPlan, direction: Direction) -> bool:
        if not self.begun(leg):
            return False
        state = read_run_state(self.journals[leg.identity])
        return not state.unsettled and (state.direction, state.verdict) == (direction.value, "complete")

    def _run(self, plan: Plan, direction: Direction, *, dry_run: bool) -> RunOutcome:
        check_plan(plan, "plan")
        identity = identity_of(plan)
        file = self.journals.setdefault(identity, MortalFile(self.crash))
        journal = RunJournal(file, self.clock, cluster_id=plan.cluster_id, fingerprint=identity)
        request = Request(
            commands=Commands(program="kafkakit", plan="p.json"),
            plan_path="/p.json",
            confirm=lambda: True,
            rates=RateRequest(given=self.rate is not None, rate=self.rate),
            rules=RunRules(ingest_sample_s=0.0),
            dry_run=dry_run,
        )
        others = [f for name, f in self.journals.items() if name != identity and f.data]
        leftovers = OtherRuns(others, self.admin, self.clock, self.reporter, request.commands)
        run = Run(plan, self.admin, self.clock, journal, self.reporter, request, leftovers)
        return {Direction.APPLY: run.apply, Direction.ROLLBACK: run.rollback, Direction.ABORT: run.abort}[direction]()

    # -- commands

    def confirm(self, question: str) -> bool:
        self.questions.append(question)
        return self.answers.pop(0) if self.answers else True

    @contextmanager
    def claim(self) -> Iterator[ClusterAccess]:
        yield ClusterAccess(cluster_id="c", admin=self.admin, clock=self.clock, token=1)

    def elections(self, pace: ElectionPace | None = None) -> Elections:
        return Elections(self.claim, self.reporter, pace or ElectionPace(), 90.0)

    def move(self, kind: BrokerOperationKind, *brokers: int, **options: Any) -> BrokerOutcome:
        names = (
            "onto",
            "receiving",
            "exclude_receivers",
            "placement",
            "min_rack_ids",
            "replan",
            "ignore_warns",
            "leaders_only",
        )
        goal = {f: options.pop(f) for f in names if f in options}
        request = MoveRequest(
            kind=kind,
            goal=OperationGoal(brokers=brokers, words={"command": f"broker {kind}"}, **goal),
            again=f"kafkakit broker {kind}",
            undo_of=lambda operation: f"kafkakit broker rejoin --restore {operation.name}",
            cleanup="kafkakit reassign cleanup --yes",
            confirm=self.confirm,
            bootstrap="host:9092",
            **options,
        )
        unregister = Unregister(self.claim, self.reporter, 90.0)
        moving = MoveOff(
            self.admin, self.clock, self.reporter, self.records, self, self.elections(), request, unregister=unregister
        )
        return moving.run()

    def drain(self, *brokers: int, **options: Any) -> BrokerOutcome:
        return self.move(BrokerOperationKind.DRAIN, *brokers, **options)

    def drain_leaders(self, *brokers: int, **options: Any) -> BrokerOutcome:
        return self.move(BrokerOperationKind.LEADERS, *brokers, leaders_only=True, **options)

    def rejoin(self, *brokers: int, record: BrokerOperation | None = None, **options: Any) -> BrokerOutcome:
        pace = options.pop("pace", None)
        request = RejoinRequest(
            brokers=brokers, again="kafkakit broker rejoin", confirm=self.confirm, **{"wait_s": 600.0, **options}
        )
        return Rejoin(self.admin, self.clock, self.reporter, self.records, self, self.elections(pace), request).run(
            record
        )

    # -- what came of it

    def lists(self) -> dict[tuple[str, int], tuple[int, ...]]:
        return self.cluster.lists()

    def leaders(self) -> dict[tuple[str, int], int | None]:
        return {
            (name, number): p.leader
            for name, topic in self.cluster.topics.items()
            for number, p in topic.partitions.items()
        }

    def configs(self) -> dict[str, dict[str, str]]:
        return self.cluster.configs()

    def revived(self) -> None:
        """The machine is up again after a kill: what was in memory is gone."""
        self.crash.die_at = None


def make_cluster(**options: Any) -> FakeCluster:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c", 4: "a", 5: "b"}, **{"line_rate": 100 * MB, **options})
    cluster.add_topic("t", {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2), 3: (1, 3, 5)}, size_bytes=20 * MB)
    cluster.add_topic("one", {0: (1,)}, size_bytes=5 * MB)
    cluster.add_topic("other", {0: (2, 3)}, size_bytes=5 * MB)
    return cluster
