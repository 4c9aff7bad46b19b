"""How an edit came out, partition by partition."""

from dataclasses import dataclass

from kafkakit.core.model import TopicPartition
from kafkakit.streams.commits.decide.editing.journal import CommitStanding, Verdict
from kafkakit.streams.commits.decide.editing.plan import EditPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """What stands for one partition now; `problem` is empty where it is what the plan said."""

    partition: TopicPartition
    standing: CommitStanding | None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditOutcome:
    """A plan carried out; `journal` is None where there was nothing to do, or where it was not confirmed.

    `group_problem` says why a group that was to be deleted is still there, "" where it is gone.
    """

    plan: EditPlan
    results: tuple[PartitionResult, ...] = ()
    journal: str | None = None
    verdict: Verdict = Verdict.NOTHING
    declined: bool = False
    group_problem: str = ""

    @property
    def failed(self) -> tuple[PartitionResult, ...]:
        """The partitions whose commit is not what the plan said."""
        return tuple(result for result in self.results if result.problem)
