"""`topicmappr set-replication` as a pure function: the rebuild of these topics on their own cluster, with a factor."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafkakit.errors import UsageError
from kafkakit.model import ClusterSnapshot
from kafkakit.quantities import counted
from kafkakit.topicmappr.broker_list import BrokerList
from kafkakit.topicmappr.planned.change import PlannedChange
from kafkakit.topicmappr.rebuild.decide import Rebuild, decide_rebuild
from kafkakit.topicmappr.rebuild.request import MAX_REPLICATION, RebuildRequest
from kafkakit.topicmappr.refill.fleet import fleet_of
from kafkakit.topicmappr.refill.words import some


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationRequest:
    """Bring every partition of the topics to `replication` copies; `words` are the flags as given."""

    replication: int
    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...] = ()
    min_rack_ids: int = 0
    words: Mapping[str, str]

    def __post_init__(self) -> None:
        if not 1 <= self.replication <= MAX_REPLICATION:
            raise UsageError(f"the replication factor {self.replication} is not between 1 and {MAX_REPLICATION}")


def decide_set_replication(snapshot: ClusterSnapshot, request: ReplicationRequest) -> PlannedChange:
    """Decide who gets the added copies, or whose copy goes.

    Added copies follow the rack rule and even the counts out. Where the factor shrinks the leader stays, rack
    repeats go first, then copies out of sync, then those of the fullest brokers. Copies on brokers that are
    not alive are replaced, or are the first to go. See `place_minimal` for the proof and the cost.
    """
    rebuild = decide_rebuild(
        snapshot,
        RebuildRequest(
            brokers=BrokerList(ids=(), everything=True),
            topics=request.topics,
            topics_exclude=request.topics_exclude,
            replication=request.replication,
            min_rack_ids=request.min_rack_ids,
            words=request.words,
        ),
    )
    extra = (*_min_isr_warnings(snapshot, rebuild, request.replication), *_closed_warnings(snapshot, rebuild))
    plan = replace(rebuild.plan, warnings=tuple(sorted((*rebuild.plan.warnings, *extra))))
    selection = rebuild.scope.selection
    return PlannedChange(
        title=f"Set the replication factor to {request.replication}",
        topics=selection.selected,
        topics_excluded=selection.excluded,
        plan=plan,
        reasons=rebuild.shortages,
        left_alone=sum(1 for n in rebuild.unplaced if n),
    )


def _min_isr_warnings(snapshot: ClusterSnapshot, rebuild: Rebuild, replication: int) -> list[str]:
    """Topics that would need more copies in sync than they have; Kafka then refuses writes with acks=all."""
    chosen = set(rebuild.scope.selection.selected)
    short = [
        f"{t.name} ({value})"
        for t in snapshot.topics
        if t.name in chosen
        and (value := t.configs.get("min.insync.replicas", "")).isdigit()
        and int(value) > replication
    ]
    if not short:
        return []
    return [f"min.insync.replicas is above {replication} for {some(short)}: producers with acks=all would be refused"]


def _closed_warnings(snapshot: ClusterSnapshot, rebuild: Rebuild) -> list[str]:
    closed = fleet_of(snapshot).closed
    taking = sorted({b for m in rebuild.plan.moves for b in m.adding if b in closed})
    if not taking:
        return []
    return [f"{counted(len(taking), 'broker')} take new copies with all log dirs cordoned or broken: {some(taking)}"]
