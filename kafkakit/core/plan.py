"""The plan: what a planner decided, the proof that goes with it, and how to undo it.

A `Plan` is self-contained: `reassign apply` needs the plan file and a cluster, nothing else.

The proof says what the plan costs, what no plan can cost less than, and how to check that. Most bounds are prices. Give
every broker a price per unit of load (bytes, replicas or leaders), positive where load is unwanted and negative where
it is wanted. Whatever a plan does, each partition pays at least its cheapest legal set of brokers: for each broker of
the set the price, plus one per unit copied to a broker that has no copy now. Summed over all partitions, less what the
brokers' limits are worth at those prices, this is a lower bound for every plan that respects the limits (weak duality),
and anybody can add it up again:

    bound = sum over partitions of  min over legal sets of  sum over brokers in the set of
                (load * price, plus cost if the broker holds no copy now)
            + sum over brokers of  price * fixed load
            - sum over brokers of  (price * ceiling if price > 0, price * floor if price < 0)

Load is what limits count of one replica (its bytes, or 1), cost what the objective counts of one new copy (its bytes,
or 1). Where the number of replicas is limited beside the load, brokers have a price per replica, too: it is added for
each broker of a set, and to what the limits are worth. A plan of leaders chooses one replica of each partition, at a
cost of 1 unless it leads now. Limits on the sum of a group of brokers are priced alike. `placement.price_bound` adds
all this up.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import filterfalse
from operator import attrgetter

from kafkakit.core.model import PartitionMap, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """Replica and leader counts of one broker within the plan's scope; bytes only where all sizes are known.

    `used_bytes`, `free_bytes` and `capacity_bytes` are of the whole broker, other topics too; None when unknown.
    """

    broker: int
    rack: str | None
    replicas: int
    leaders: int
    bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    capacity_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementStats:
    """The scope's placement, before or after: per broker, sorted by id."""

    brokers: tuple[BrokerLoad, ...]
    replicas_min: int
    replicas_max: int
    leaders_min: int
    leaders_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One partition whose replica list changes; `bytes_moved` is None when its size is unknown.

    `dirs` names the log dir for new copies where the plan chose one, keyed by broker.
    """

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int | None = None
    bytes_moved: int | None = None
    topic_id: str | None = None
    dirs: Mapping[int, str] = field(default_factory=dict)

    @property
    def key(self) -> TopicPartition:
        """The partition's name."""
        return TopicPartition(self.topic, self.partition)

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a copy, in target order."""
        return tuple(filterfalse(self.before.__contains__, self.after))

    @property
    def removing(self) -> tuple[int, ...]:
        """Brokers that lose their copy, in the old order."""
        return tuple(filterfalse(self.after.__contains__, self.before))


@dataclass(frozen=True, slots=True, kw_only=True)
class DirMove:
    """One copy that changes its log dir inside a broker; `size_bytes` is None when unknown."""

    topic: str
    partition: int
    broker: int
    source_dir: str
    target_dir: str
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDir:
    """A log dir of a broker that has several: what its known copies take before and after the plan.

    `is_open` says that it takes new copies (not cordoned, not broken, its size known).
    """

    broker: int
    path: str
    capacity_bytes: int | None
    used_before_bytes: int
    used_after_bytes: int
    is_open: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFacts:
    """Where the sizes and free bytes behind a plan come from: `source` in words, and when they were taken.

    `age_s` is their age in seconds when the plan was made.
    """

    source: str
    taken_at: datetime
    age_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeEntry:
    """A partition the plan looked at, with its replica list at plan time (the fingerprint covers all)."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    topic_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBroker:
    """A broker the plan relies on: the targets, with their racks at plan time."""

    id: int
    rack: str | None = None


class SolverStatus(StrEnum):
    """How sure the plan is: `optimal` is said only when objective and lower bound are equal."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"


class ProofKind(StrEnum):
    """How the bound is shown.

    `counting`: replicas that must leave or be added, counted. `prices`: see the module's words.
    `search`: all placements were searched. `none`: the bound is 0 because nothing was proven.
    """

    COUNTING = "counting"
    PRICES = "prices"
    SEARCH = "search"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimit:
    """What a broker's load must end within, and its price in the bound.

    `fixed` is load that the plan cannot touch (other topics, pinned partitions). `floor` and `ceiling`
    include it; None: no limit. `price` is a numerator over the proof's `price_unit`. Where the proof slides,
    `slides` says whether this limit shifts with the others or stays (a full disk does not shift).
    """

    broker: int
    fixed: int = 0
    floor: int | None = None
    ceiling: int | None = None
    price: int = 0
    slides: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimit:
    """What the load of several brokers together must end within; its price adds to that of each of them."""

    brokers: tuple[int, ...]
    floor: int | None = None
    ceiling: int | None = None
    price: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a checker needs to add the bound up again.

    `load` says what floors and ceilings count: `bytes`, `replicas` or `leaders`. With `slides` the floors
    and ceilings of limits that slide may shift together by any amount (a range goal), so their prices must sum to
    zero. A broker
    without a limit has the price 0. `counts` limit the number of replicas beside the load, at prices per replica.
    """

    kind: ProofKind
    load: str = "replicas"
    price_unit: int = 1
    slides: bool = False
    limits: tuple[BrokerLimit, ...] = ()
    groups: tuple[GroupLimit, ...] = ()
    counts: tuple[BrokerLimit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What the plan costs and why no plan can cost less.

    `objective` and `lower_bound` count `unit` (`replicas`, `bytes` or `leaders`); `gap` is
    (objective - lower_bound) / objective, 0.0 when both are 0. `argument` is the bound's reason in
    words that a person can check against the snapshot; `proof` is what a program checks.
    """

    unit: str
    objective: int
    lower_bound: int
    gap: float
    status: SolverStatus
    argument: str
    proof: Proof | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRules:
    """The hard rules that a plan was made under.

    With `spread_over` the rack rule is even spread: a partition's replicas in each of those racks differ by at most
    one (see `placement.SpreadRule`). Else it is `min_rack_ids`.
    `receivers` may get new copies, `givers` may lose them (None: every broker). `pinned` partitions keep their
    brokers, as do those smaller than `smallest_bytes`. With `locality_scoped` a copy stays in its rack. Partitions
    `under_way` were moving when the plan was made: they keep their target, and their copies count on both sides.
    Partitions `later` wait for another run, since a budget had no room for them: they keep their list.
    """

    min_rack_ids: int = 0
    spread_over: tuple[str, ...] = ()
    receivers: tuple[int, ...] = ()
    givers: tuple[int, ...] | None = None
    pinned: tuple[TopicPartition, ...] = ()
    smallest_bytes: int = 0
    locality_scoped: bool = False
    under_way: tuple[TopicPartition, ...] = ()
    later: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TagConstraint:
    """A constraint by tags, as it was read on the cluster that the plan was made for.

    `text` is as given. New copies of `topics` go onto the brokers `only` (None: any), and on none of `never`. With
    `values`, the tag's by broker, it holds for all topics: no value gets more replicas of a partition than the
    replicas over the number of values, rounded up, unless it had more already.
    """

    text: str
    topics: tuple[str, ...] = ()
    only: tuple[int, ...] | None = None
    never: tuple[int, ...] = ()
    values: Mapping[int, str] = field(default_factory=dict)

    def share(self, replicas: int) -> int:
        """The most replicas that one value may get of a partition with so many."""
        return -(-replicas // max(1, len(set(self.values.values()))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A decided change of placement, with certificate, statistics, map and rollback map.

    `profile` is the one that was in use when the plan was written. `request` holds the operator's words (flag ->
    value) for the record. `moves` are the partitions whose list changes, sorted; `dir_moves` stay inside a broker,
    `dirs` are the log dirs of brokers that have several, where these are known. `scope` are all partitions considered;
    with `brokers` and `cluster_id` they give `fingerprint` (see `fingerprint_of`). `constraints` by tags bind
    new copies.
    """

    cluster_id: str
    profile: str | None = None
    created_at: datetime
    snapshot_taken_at: datetime
    snapshot_source: str
    fingerprint: str
    request: Mapping[str, str]
    certificate: Certificate
    before: PlacementStats
    after: PlacementStats
    brokers: tuple[PlanBroker, ...]
    scope: tuple[ScopeEntry, ...]
    moves: tuple[Move, ...]
    reassignment: PartitionMap
    rollback: PartitionMap
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    rules: PlacementRules | None = None
    storage: StorageFacts | None = None
    dir_moves: tuple[DirMove, ...] = ()
    dirs: tuple[PlanDir, ...] = ()
    constraints: tuple[TagConstraint, ...] = ()


def fingerprint_of(cluster_id: str, brokers: Iterable[PlanBroker], scope: Iterable[ScopeEntry]) -> str:
    """Hash what a plan relies on: cluster id, target brokers with racks, every scope partition's list.

    SHA-256 over compact JSON, hex, prefixed `sha256:`; sizes, leaders and ISR are left out because
    they change by themselves. O(partitions), 0.2 s for 200,000.
    """
    head = [cluster_id, sorted((b.id, b.rack or "") for b in brokers)]
    rows = [json.dumps(head, separators=(",", ":"))]
    named: tuple[str, str | None] | None = None
    start = ""
    for entry in sorted(scope, key=attrgetter("topic", "partition")):
        if named != (entry.topic, entry.topic_id):  # names repeat, and encoding them is what costs
            named = (entry.topic, entry.topic_id)
            start = json.dumps([entry.topic, entry.topic_id or ""], separators=(",", ":"))[:-1]
        rows.append(f"{start},{entry.partition},[{','.join(map(str, entry.replicas))}]]")
    return f"sha256:{hashlib.sha256(''.join(rows).encode()).hexdigest()}"


def identity_of(plan: Plan) -> str:
    """Hash a plan's fingerprint and moves, hex, prefixed `sha256:`; what a run of it is remembered under.

    Two plans made from one snapshot have the same fingerprint and different identities. O(moves).
    """
    rows = [plan.fingerprint, *(f"{m.topic} {m.partition} {','.join(map(str, m.after))}" for m in plan.moves)]
    rows += [f"{m.topic} {m.partition} {b} {path}" for m in plan.moves for b, path in sorted(m.dirs.items())]
    rows += [f"{m.topic} {m.partition} {m.broker} {m.source_dir} {m.target_dir}" for m in plan.dir_moves]
    text = "\n".join(rows)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


UNPROVEN = "nothing is proven: the bound that was worked out is above what the plan itself does, and is left out"


def certificate(unit: str, objective: int, lower_bound: int, argument: str, proof: Proof | None = None) -> Certificate:
    """A certificate with gap and status worked out; a bound above the objective is false and is left out."""
    if lower_bound > objective:
        lower_bound, argument, proof = 0, UNPROVEN, Proof(kind=ProofKind.NONE)
    return Certificate(
        unit=unit,
        objective=objective,
        lower_bound=lower_bound,
        gap=(objective - lower_bound) / objective if objective else 0.0,
        status=SolverStatus.OPTIMAL if objective == lower_bound else SolverStatus.FEASIBLE,
        argument=argument,
        proof=proof,
    )
