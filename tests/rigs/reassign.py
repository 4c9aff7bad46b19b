"""A bench for runs: a fake cluster, a journal in memory, and a machine that dies where a test says."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from kafkakit.core.plan import Plan
from kafkakit.execution.act.journal_files import LineFile
from kafkakit.execution.act.leases import GuardedAdmin, HeldClock, Lease
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.act.throttles import OtherRuns
from kafkakit.execution.decide.run_rules import RunRules, ScheduleLimits
from kafkakit.execution.decide.runs import Commands, Request, RunOutcome
from kafkakit.execution.decide.schedule.work import RateRequest
from kafkakit.ports.acting import Clock
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.reassign.act.run import Run
from tests.fakes.admin import FakeClock, FakeCluster


class Killed(BaseException):
    """`kill -9`: nothing of the run gets to do anything more."""


class MemoryFile:
    """Journal lines in memory; `die_at` makes the write of that line the last thing, `stop_at` is Ctrl-C after one."""

    name = "memory"

    def __init__(self, data: bytes = b"") -> None:
        self.data = data
        self.writes = 0
        self.die_at: int | None = None
        self.stop_at: int | None = None
        self.torn = False

    def read(self) -> bytes:
        return self.data

    def append(self, line: bytes) -> None:
        if self.die_at is not None and self.writes == self.die_at:
            self.data += line[: len(line) // 2] if self.torn else b""
            raise Killed
        self.writes += 1
        self.data += line
        if self.writes - 1 == self.stop_at:
            raise KeyboardInterrupt

    def cut(self, size: int) -> None:
        self.data = self.data[:size]

    def set_aside(self) -> None:
        """Nothing looks at the damaged copy."""


@dataclass
class Recorder:
    """What was said, and how far the bars went."""

    said: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def say(self, line: str) -> None:
        self.said.append(line)

    def warn(self, line: str) -> None:
        self.warned.append(line)

    @contextmanager
    def progress(self, label: str) -> Iterator["Recorder"]:
        self.said.append(label)
        yield self

    def update(self, done: float, total: float, note: str = "") -> None:
        assert 0 <= done <= total
        self.notes.append(note)


class Harness:
    """Runs on one fake cluster, as one operator on one host would start them one after another."""

    def __init__(self, cluster: FakeCluster, plan: Plan) -> None:
        self.cluster, self.plan = cluster, plan
        self.clock = FakeClock()
        self.clock.on_sleep.append(cluster.advance)
        self.file = MemoryFile()
        self.reporter = Recorder()
        self.others: list[LineFile] = []
        # The operator knows of rates that were there before, and has them set over.
        self.join = any(broker.configs for broker in cluster.brokers.values())

    def journal(self) -> RunJournal:
        return RunJournal(self.file, self.clock, cluster_id=self.plan.cluster_id, fingerprint=self.plan.fingerprint)

    def run(self, **options: Any) -> Run:
        """A run; `rate`, `throttle_off` and `batch_size` are short for the rates and limits that they give."""
        rate, off = options.pop("rate", None), options.pop("throttle_off", False)
        if rate is not None or off:
            options["rates"] = RateRequest(given=True, rate=rate)
        if "batch_size" in options:
            size = options.pop("batch_size")
            options["limits"] = ScheduleLimits(cluster=size, into_each=size, out_each=size)
        rules = {each.name: options.pop(each.name) for each in fields(RunRules) if each.name in options}
        requests = options.pop("orders", None)
        lease: Lease | None = options.pop("lease", None)
        admin: ClusterAdmin = self.cluster if lease is None else GuardedAdmin(self.cluster, lease.require_held)
        clock: Clock = self.clock if lease is None else HeldClock(self.clock, lease, 1.0)
        request = Request(
            **{
                "commands": Commands(program="kafkakit --profile p", plan="p.json"),
                "confirm": lambda: True,
                "plan_path": "/plans/p.json",
                "rules": RunRules(**{"ingest_sample_s": 0.0, "join": self.join, **rules}),
                **options,
            },
        )
        leftovers = OtherRuns(self.others, self.cluster, self.clock, self.reporter, request.commands)
        journal = self.journal()
        return Run(self.plan, admin, clock, journal, self.reporter, request, leftovers, requests)

    def apply(self, **options: Any) -> RunOutcome:
        return self.run(**options).apply()

    def rollback(self, **options: Any) -> RunOutcome:
        return self.run(**options).rollback()

    def lists(self) -> dict[tuple[str, int], tuple[int, ...]]:
        return self.cluster.lists()

    def configs(self) -> dict[str, dict[str, str]]:
        """Everything set on brokers and topics, for comparing before and after."""
        return self.cluster.configs()
