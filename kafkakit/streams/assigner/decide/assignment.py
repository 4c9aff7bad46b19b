"""What each worker is granted, from one look to the next: a partition has one owner, and the next one a greater epoch.

A partition goes from one living worker to another in two steps: it is left out of the first one's grant, and granted to
the second once the first wrote that it keeps to that grant. What a dead worker had is free once its document is
removed, since it cannot renew it any more. An Assigner that begins writes every grant again under its own token before
anything else: what an earlier one still sends finds another version and is refused. As it does not know what was left
out of grants and is still held, it grants nothing that is in no grant before all workers of a group keep to theirs.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple

from kafkakit.core.control_paths import VALUE_LIMIT_BYTES
from kafkakit.streams.assigner.decide.placing import place
from kafkakit.streams.assigner.decide.pools import Facts, Pool, pools_of, problem_of
from kafkakit.streams.client.api import (
    GRANT_DOCUMENT,
    ROUND_BITS,
    GrantDocument,
    GrantedPartition,
    GrantedTopic,
    PartitionKey,
    WorkerDocument,
    epoch_of,
)
from kafkakit.streams.model.route import Route

PLAIN_LEASES = 200
"""So many leases fit into a grant document, however long their names are."""


class _Lease(NamedTuple):
    topic_id: str
    epoch: int


@dataclass(slots=True, kw_only=True)
class _Grant:
    """What a slot's document says; `worker` is its id, `round` that of the document that was written last."""

    worker: str
    round: int
    leases: dict[PartitionKey, _Lease]


class _Releasing(NamedTuple):
    slot: str
    round: int


@dataclass(slots=True, kw_only=True)
class _SolvedPool:
    """What a pool's answer depended on; `waiting` partitions are still to be granted."""

    signature: object
    waiting: int = 0
    unserved: int = 0
    is_balanced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentStep:
    """What is to be written, by slot, and figures of the placement behind it.

    `orphans` had no worker that could keep them, `moves` were made for balance; `unserved` have no worker that may take
    them, and `waiting` are still held by their last one. `full` are slots whose document has no space for more.
    """

    documents: Mapping[str, GrantDocument]
    orphans: int = 0
    moves: int = 0
    unserved: int = 0
    waiting: int = 0
    full: tuple[str, ...] = ()


class Assignment:
    """The grants of one Assigner under one fencing token. Cost of a step: that of the pools in which anything changed.

    `adopt` comes first; what `adopt` and `step` return is written before the next step, or the Assignment is given up.
    """

    def __init__(self, token: int) -> None:
        self._token, self._count = token, 0
        self._grants: dict[str, _Grant] = {}
        self._granted: dict[PartitionKey, str] = {}
        self._targets: dict[PartitionKey, str] = {}
        self._releasing: dict[PartitionKey, _Releasing] = {}
        self._barrier: dict[str, int] = {}
        self._shape: object = None
        self._pools: tuple[Pool, ...] = ()
        self._solved: dict[tuple[str, ...], _SolvedPool] = {}

    @property
    def owners(self) -> Mapping[PartitionKey, str]:
        """The slot of each partition that is granted."""
        return self._granted

    @property
    def slots(self) -> tuple[str, ...]:
        """The slots with a grant."""
        return tuple(self._grants)

    @property
    def is_used_up(self) -> bool:
        """True where the token has no epoch left: the lease must be taken anew."""
        return self._count >= (1 << ROUND_BITS) - 2

    def adopt(self, documents: Mapping[str, GrantDocument], workers: Iterable[str]) -> dict[str, GrantDocument]:
        """Take over the grants of earlier Assigners, and begin one for each slot of a worker without one."""
        number = self._next_epoch()
        for slot, document in sorted(documents.items()):
            grant = self._grants[slot] = _Grant(worker=document.worker, round=number, leases={})
            self._barrier[slot] = number
            for topic in document.topics:
                for partition, epoch in topic.partitions:
                    key = PartitionKey(topic.stream, topic.group, topic.cluster_id, topic.topic, partition)
                    other = self._granted.get(key)
                    if other is not None:
                        # A fault of the store: of two grants, the later owner is the one that fenced the other.
                        if self._grants[other].leases[key].epoch > epoch:
                            continue
                        del self._grants[other].leases[key]
                    grant.leases[key] = _Lease(topic.topic_id, epoch)
                    self._granted[key] = self._targets[key] = slot
        for slot in sorted(set(workers) - self._grants.keys()):
            self._grants[slot] = _Grant(worker="", round=number, leases={})
            self._barrier[slot] = number
        return {slot: self._document(slot) for slot in self._grants}

    def drop(self, slot: str) -> bool:
        """The worker of a slot is gone for certain, and so is its document; True where the slot had a grant."""
        found = self._grants.pop(slot, None)
        self._barrier.pop(slot, None)
        for key in found.leases if found is not None else ():
            del self._granted[key]
        for key in [key for key, target in self._targets.items() if target == slot]:
            del self._targets[key]
        for key in [key for key, releasing in self._releasing.items() if releasing.slot == slot]:
            del self._releasing[key]
        self._shape = None
        return found is not None

    def step(
        self,
        workers: Mapping[str, WorkerDocument],
        routes: Mapping[str, Route],
        *,
        draining: Set[str] = frozenset(),
        facts: Facts | None = None,
        facts_version: int = 0,
        may_balance: bool = False,
    ) -> AssignmentStep:
        """Decide and note what is written next; `workers` are those that live, and all others were dropped before.

        `draining` are ids of workers; `facts_version` changes with `facts`.
        """
        number = self._next_epoch()
        changed = self._enrol(workers, number)
        self._note_released(workers)
        orphans = moves = 0
        fresh: dict[str, list[PartitionKey]] = {}
        for pool in self._current_pools(workers):
            known = self._solved.get(pool.slots)
            signature = _signature(pool, workers, routes, draining, facts_version)
            is_same = known is not None and known.signature == signature
            if known is not None and is_same and not known.waiting and (known.is_balanced or not may_balance):
                continue
            found = problem_of(pool, routes, workers, draining, self._targets, facts or {})
            answer = place(found.problem, may_balance=may_balance)
            orphans, moves = orphans + answer.orphans, moves + answer.moves
            topic_ids = dict(zip(found.keys, found.topic_ids, strict=True))
            owners = answer.owner.tolist()
            targets = {k: pool.slots[o] for k, o in zip(found.keys, owners, strict=True) if o >= 0}
            self._forget_targets(found.keys, targets)
            self._targets.update(targets)
            changed |= self._revoke(pool, targets, topic_ids, number)
            waiting = self._grant(pool, targets, topic_ids, number, fresh)
            self._solved[pool.slots] = _SolvedPool(
                signature=signature,
                waiting=waiting,
                unserved=len(found.keys) - len(targets),
                is_balanced=may_balance and not answer.moves and not answer.orphans,
            )
        full = [slot for slot, keys in fresh.items() if not self._fits(slot, keys)]
        documents = {}
        for slot in sorted(changed | fresh.keys()):
            self._grants[slot].round = number
            documents[slot] = self._document(slot)
        if not documents:
            self._count -= 1
        return AssignmentStep(
            documents=documents,
            orphans=orphans,
            moves=moves,
            unserved=sum(each.unserved for each in self._solved.values()),
            waiting=sum(each.waiting for each in self._solved.values()),
            full=tuple(sorted(full)),
        )

    def _next_epoch(self) -> int:
        self._count += 1
        return epoch_of(self._token, self._count)

    def _enrol(self, workers: Mapping[str, WorkerDocument], number: int) -> set[str]:
        """A grant for each new worker; one in a slot with another's grant came after that one's end."""
        changed = set()
        for slot, document in workers.items():
            found = self._grants.get(slot)
            if found is None or found.worker != document.id:
                self.drop(slot)
                self._grants[slot] = _Grant(worker=document.id, round=number, leases={})
                changed.add(slot)
        return changed

    def _note_released(self, workers: Mapping[str, WorkerDocument]) -> None:
        for key in [k for k, each in self._releasing.items() if workers[each.slot].round >= each.round]:
            del self._releasing[key]
        for slot in [slot for slot, number in self._barrier.items() if workers[slot].round >= number]:
            del self._barrier[slot]

    def _current_pools(self, workers: Mapping[str, WorkerDocument]) -> tuple[Pool, ...]:
        shape = [
            (slot, [(s.stream, s.group, s.lanes, s.is_grouped) for s in document.subscriptions])
            for slot, document in workers.items()
        ]
        if shape != self._shape:
            self._shape, self._pools = shape, pools_of(workers)
            slots = {pool.slots for pool in self._pools}
            self._solved = {known: each for known, each in self._solved.items() if known in slots}
        return self._pools

    def _forget_targets(self, keys: Iterable[PartitionKey], targets: Mapping[PartitionKey, str]) -> None:
        for key in keys:
            if key not in targets:
                self._targets.pop(key, None)

    def _revoke(
        self, pool: Pool, targets: Mapping[PartitionKey, str], topic_ids: Mapping[PartitionKey, str], number: int
    ) -> set[str]:
        """Leave out of grants what is to go elsewhere, is not read any more, or is another topic of the same name."""
        changed = set()
        for slot in pool.slots:
            leases = self._grants[slot].leases
            gone = [k for k, each in leases.items() if targets.get(k) != slot or topic_ids.get(k) != each.topic_id]
            for key in gone:
                del leases[key], self._granted[key]
                self._releasing[key] = _Releasing(slot, number)
                if key not in targets:
                    self._targets.pop(key, None)
                changed.add(slot)
        return changed

    def _grant(
        self,
        pool: Pool,
        targets: Mapping[PartitionKey, str],
        topic_ids: Mapping[PartitionKey, str],
        number: int,
        fresh: dict[str, list[PartitionKey]],
    ) -> int:
        """Grant what no worker holds; how many must wait."""
        waiting = 0
        is_barred = any(slot in self._barrier for slot in pool.slots)
        for key, slot in targets.items():
            if key in self._granted:
                continue
            if is_barred or key in self._releasing:
                waiting += 1
                continue
            self._grants[slot].leases[key] = _Lease(topic_ids[key], number)
            self._granted[key] = slot
            fresh.setdefault(slot, []).append(key)
        return waiting

    def _fits(self, slot: str, keys: list[PartitionKey]) -> bool:
        """Take back what was granted just now where the document would be larger than the store takes."""
        leases = self._grants[slot].leases
        if len(leases) <= PLAIN_LEASES or len(GRANT_DOCUMENT.encode(self._document(slot))) <= VALUE_LIMIT_BYTES:
            return True
        for key in keys:
            del leases[key], self._granted[key]
            self._targets.pop(key, None)
        return False

    def _document(self, slot: str) -> GrantDocument:
        grant = self._grants[slot]
        topics: dict[tuple[str, str, str, str, str], list[GrantedPartition]] = {}
        for key, lease in sorted(grant.leases.items()):
            topics.setdefault((*key[:4], lease.topic_id), []).append(GrantedPartition(key.partition, lease.epoch))
        return GrantDocument(
            worker=grant.worker,
            token=self._token,
            round=grant.round,
            topics=tuple(
                GrantedTopic(
                    stream=stream,
                    group=group,
                    cluster_id=cluster_id,
                    topic=topic,
                    topic_id=topic_id,
                    partitions=tuple(partitions),
                )
                for (stream, group, cluster_id, topic, topic_id), partitions in topics.items()
            ),
        )


def _signature(
    pool: Pool,
    workers: Mapping[str, WorkerDocument],
    routes: Mapping[str, Route],
    draining: Set[str],
    facts_version: int,
) -> object:
    documents = [workers[slot] for slot in pool.slots]
    return (
        [(each.id, each.capacity, each.zone, each.is_leaving or each.id in draining) for each in documents],
        [(stream, routes[stream].epoch if stream in routes else 0) for stream in pool.streams],
        pool.lanes,
        facts_version,
    )
