"""The final judgement: does every planned partition stand as it should, complete and in order?"""

from dataclasses import dataclass

from kafkakit.core.cluster_facts import PartitionState
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.precheck import DROPPED, Assessment, Live, MoveState, ids, listed

NOT_ALIVE = "(not alive)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerdict:
    """One planned partition: where it is, and what is missing from its ISR."""

    key: TopicPartition
    state: MoveState
    wanted: tuple[int, ...]
    replicas: tuple[int, ...]
    leader: int | None
    out_of_sync: tuple[int, ...] = ()

    @property
    def complete(self) -> bool:
        """At the wanted list, in order, with every copy in sync."""
        return self.replicas == self.wanted and self.state in _SETTLED and not self.out_of_sync

    @property
    def word(self) -> str:
        """The state in the words that `verify` prints; a finished partition may still lack copies in sync."""
        return (
            "out of sync"
            if self.state in _SETTLED and self.replicas == self.wanted and self.out_of_sync
            else str(self.state)
        )


_SETTLED = frozenset({MoveState.AT_AFTER, MoveState.AT_BEFORE})


def judge(assessment: Assessment, *, undone: bool = False) -> tuple[PartitionVerdict, ...]:
    """Judge each planned partition against the plan's `after`, or against `before` when it was `undone`."""
    found: list[PartitionVerdict] = []
    for status in assessment.statuses:
        live = status.live
        wanted = status.move.before if undone else status.move.after
        replicas = live.replicas if live else ()
        in_sync = live.isr if live else ()
        found.append(
            PartitionVerdict(
                key=status.move.key,
                state=status.state,
                wanted=wanted,
                replicas=replicas,
                leader=live.leader if live else None,
                out_of_sync=tuple(b for b in replicas if b not in in_sync),
            )
        )
    return tuple(found)


def to_elect(assessment: Assessment, *, undone: bool = False) -> tuple[TopicPartition, ...]:
    """Partitions at their target whose first replica is in sync but does not lead."""
    settled = MoveState.AT_BEFORE if undone else MoveState.AT_AFTER
    return tuple(s.move.key for s in assessment.having(settled) if s.live and wants_election(s.live))


def wants_election(live: PartitionState) -> bool:
    """True when the first replica is in sync but does not lead."""
    first = live.replicas[0]
    return live.leader != first and first in live.isr


def lacking(assessment: Assessment, *, undone: bool = False) -> tuple[PartitionVerdict, ...]:
    """The verdicts that are not complete; a topic that is gone has nothing to undo."""
    verdicts = judge(assessment, undone=undone)
    return tuple(v for v in verdicts if not v.complete and not (undone and v.state in DROPPED))


def shortcomings(verdicts: tuple[PartitionVerdict, ...], live: Live) -> tuple[str, ...]:
    """What keeps the whole from being complete, one sentence a kind, with the first few partitions."""
    problems: list[str] = []
    groups: dict[str, list[PartitionVerdict]] = {}
    for verdict in verdicts:
        if not verdict.complete:
            groups.setdefault(verdict.word, []).append(verdict)
    for word, members in sorted(groups.items()):
        problems.append(
            f"{len(members)} {'partition is' if len(members) == 1 else 'partitions are'} {word}: "
            f"{listed([_explained(m, live) for m in members])}"
        )
    return tuple(problems)


def _explained(verdict: PartitionVerdict, live: Live) -> str:
    if not verdict.replicas:
        return str(verdict.key)
    if verdict.replicas == verdict.wanted:
        late = ", ".join(f"{b}{'' if live.is_alive(b) else f' {NOT_ALIVE}'}" for b in verdict.out_of_sync)
        return f"{verdict.key} lacks {late}"
    return f"{verdict.key} is {ids(verdict.replicas)}, wanted {ids(verdict.wanted)}"
