"""What the parts of one run share: its plan, ports and journal, and the readers and writers that are built on them."""

from kafkakit.core.plan import Plan
from kafkakit.execution.act.log_dir_moves import LogDirs
from kafkakit.execution.act.retrier import ClusterReader, Retrier
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.act.throttles import Throttles
from kafkakit.execution.decide.outcome import Request
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.reporter import Reporter
from kafkakit.reassign.act.moves import Moves
from kafkakit.reassign.act.plan_state import PlanReader


class RunParts:
    """The parts of one run; `problems` collects what went wrong with single partitions."""

    def __init__(
        self, plan: Plan, admin: ClusterAdmin, clock: Clock, journal: RunJournal, reporter: Reporter, request: Request
    ) -> None:
        self.plan, self.admin, self.clock, self.journal = plan, admin, clock, journal
        self.reporter, self.request = reporter, request
        self.retrier = Retrier(clock, reporter, request.retry_limit_s)
        self.reader = ClusterReader(admin, clock, self.retrier)
        self.throttles = Throttles(admin, clock, journal, reporter, self.retrier)
        self.moves = Moves(admin, clock, journal, self.retrier, self.reader)
        self.dirs = LogDirs(admin, journal, reporter, self.retrier)
        self.plan_reader = PlanReader(plan, clock, self.reader, self.dirs, journal)
        self.problems: list[str] = []
