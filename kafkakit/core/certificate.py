"""The proof beside a plan: what it costs, what no plan can cost less than, and how to check that.

Most bounds here are prices. Give every broker a price per unit of load (bytes, replicas or leaders), positive
where load is unwanted and negative where it is wanted. Whatever a plan does, each partition pays at least its
cheapest legal set of brokers: for each broker of the set the price, plus one per unit copied to a broker that
has no copy now. Summed over all partitions, less what the brokers' limits are worth at those prices, this is a
lower bound for every plan that respects the limits (weak duality), and anybody can add it up again:

    bound = sum over partitions of  min over legal sets of  sum over brokers in the set of
                (load * price, plus cost if the broker holds no copy now)
            + sum over brokers of  price * fixed load
            - sum over brokers of  (price * ceiling if price > 0, price * floor if price < 0)

Load is what limits count of one replica (its bytes, or 1), cost what the objective counts of one new copy (its
bytes, or 1). A plan of leaders chooses one replica of each partition, at a cost of 1 unless it leads now. Limits
on the sum of a group of brokers are priced alike. `placement/price_bound.py` adds all this up.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kafkakit.core.model import TopicPartition


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
    without a limit has the price 0.
    """

    kind: ProofKind
    load: str = "replicas"
    price_unit: int = 1
    slides: bool = False
    limits: tuple[BrokerLimit, ...] = ()
    groups: tuple[GroupLimit, ...] = ()


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
    one (see `placement.GroupRule`). Else it is `min_rack_ids`.
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
