"""What the operator asked `rebalance`, `scale`, `rebuild`, `frontier` and `audit` for, validated; and a run's budget.

A budget says which partitions of a plain request are served now, and which wait for another run. A request is made of
changes, one for each partition. They are served in the order of their rank while they fit; one that does not fit is
passed over, so that a large partition does not hold up the small ones behind it. A change is served whole or not at
all. What is left is not a failure: when the request is made again, it continues with it.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from math import isfinite
from typing import TypeVar

from kafkakit.core.errors import TryLaterError, UsageError
from kafkakit.core.model import ClusterSnapshot, PartitionMap, TopicPartition
from kafkakit.core.plan import StorageFacts
from kafkakit.core.quantities import counted, format_bytes, parse_percent, parse_size
from kafkakit.core.selection import MAX_BROKER_ID, BrokerList
from kafkakit.core.text import OptionValue, ShellCommand, shell_command, some
from kafkakit.placement.group_rule import refuse_both_rules
from kafkakit.placement.problem import BrokerChange, Minimize, OptimizeFor, PlaceBy
from kafkakit.topicmappr.decide.scope import NO_CONSTRAINTS, TagConstraints, TopicScope
from kafkakit.topicmappr.decide.storage import storage_of

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What loads should look like in the end; without any of these kafka-kit's thresholds and tolerance rule.

    `band` is a part of each broker's share, `free_range_bytes` the largest difference of free bytes between two
    brokers, `count_band` a part of each broker's share of replicas. The budgets limit the plan; alone they ask
    for the smallest range they can buy. `within_racks` a broker's share is of what its rack holds now; with
    `best_effort` a goal that cannot be reached is approached.
    """

    band: Fraction | None = None
    free_range_bytes: int | None = None
    count_band: Fraction | None = None
    max_moved_bytes: int | None = None
    max_moves: int | None = None
    within_racks: bool = False
    best_effort: bool = False

    @property
    def given(self) -> bool:
        """True when the request names a goal of its own."""
        return any(
            value is not None
            for value in (self.band, self.free_range_bytes, self.count_band, self.max_moved_bytes, self.max_moves)
        )


MAX_REPLICAS, MAX_LEADERS, MAX_TOPIC_LEADERS = "--max-replicas", "--max-leaders", "--max-topic-leaders"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """The most replicas and leaders that a broker may end with, of all topics, and leaders of one; None: any number."""

    max_replicas: int | None = None
    max_leaders: int | None = None
    max_topic_leaders: int | None = None

    @property
    def on_leaders(self) -> bool:
        """True where leaders are limited."""
        return self.max_leaders is not None or self.max_topic_leaders is not None

    @property
    def words(self) -> str:
        """The limits as options; empty without any."""
        given = (
            (MAX_REPLICAS, self.max_replicas),
            (MAX_LEADERS, self.max_leaders),
            (MAX_TOPIC_LEADERS, self.max_topic_leaders),
        )
        return " and ".join(f"{flag} {most}" for flag, most in given if most is not None)

    @property
    def leader_words(self) -> str:
        """The limits on leaders as options."""
        return replace(self, max_replicas=None).words


NO_CEILINGS = Ceilings()


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceRequest:
    """A balance of bytes: which partitions, over which brokers, to which goal, under which rules.

    Thresholds, tolerance and limits are kafka-kit's; None where the flag was not given, since kafka-kit's
    defaults hold only without a goal. With `balance_dirs` log dirs inside
    brokers are balanced to that band. `pinned` are topics or topic/partition that stay as they are. `spread` is
    the even spread over racks, in place of `min_rack_ids`. At most
    `max_rack_violations` sets may break the rack rule in the end (None: those that do may stay so). `scale` demands
    new brokers. Brokers in `exclude_receivers` get no copies, those in `exclude_givers` lose none.
    `words` are the flags as given, for the plan's record; `constraint_options` go into the commands that hints name.
    """

    brokers: BrokerList
    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...] = ()
    scale: bool = False
    goal: Goal = Goal()
    storage_threshold: float | None = None
    storage_threshold_gb: float | None = None
    tolerance: float = 0.0
    partition_limit: int = 30
    partition_size_threshold_mib: int | None = None
    locality_scoped: bool = False
    min_rack_ids: int = 0
    spread: bool = False
    max_rack_violations: int | None = None
    minimize: Minimize = Minimize.BYTES
    max_disk_use: Fraction = Fraction(9, 10)
    head_room_bytes: int = 0
    balance_dirs: Fraction | None = None
    pinned: tuple[str, ...] = ()
    optimize_leadership: bool = False
    exclude_receivers: BrokerList | None = None
    exclude_givers: BrokerList | None = None
    ceilings: Ceilings = NO_CEILINGS
    constraints: TagConstraints = NO_CONSTRAINTS
    constraint_options: tuple[tuple[str, str | None], ...] = ()
    words: Mapping[str, str]

    def __post_init__(self) -> None:
        if not self.topics:
            raise UsageError("must specify --topics")
        if self.goal.band is not None and self.goal.free_range_bytes is not None:
            raise UsageError("--band and --free-range contradict each other", hint="give one of them")
        if self.goal.within_racks and self.goal.band is None:
            raise UsageError("--balance-within racks needs a --band", hint="for example --band 10%")
        if self.goal.best_effort and self.goal.band is None and self.goal.free_range_bytes is None:
            raise UsageError("--best-effort needs a goal", hint="give --band or --free-range")
        if not 0 <= self.min_rack_ids <= MAX_REPLICATION:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is not between 0 and {MAX_REPLICATION}")
        refuse_both_rules(self.min_rack_ids, self.spread)
        if not 0 <= self.tolerance < 1:
            raise UsageError(f"--tolerance: {self.tolerance} is not between 0 and 1")
        if self.goal.given and self.tolerance:
            raise UsageError("--tolerance has no effect with an explicit goal", hint="leave it out")
        for flag, value in (
            ("--storage-threshold", self.storage_threshold),
            ("--storage-threshold-gb", self.storage_threshold_gb),
        ):
            if value is not None and not 0 <= value < math.inf:
                raise UsageError(f"{flag}: {value} is not a number of at least 0")
        if self.partition_limit < 1:
            raise UsageError(f"--partition-limit: {self.partition_limit} is less than 1")

    def drain(self, brokers: Iterable[int], to: Iterable[int] = ()) -> ShellCommand:
        """The command that moves these topics off brokers, under the rules of the request."""
        return self.command("topicmappr drain", brokers=_listed(brokers), to=_listed(to))

    def command(self, verb: str, **options: OptionValue) -> ShellCommand:
        """A command for these topics under the rack rule and the constraints of the request."""
        topics = self.words.get("topics") or ",".join(self.topics)
        excluded = self.words.get("topics-exclude") or ",".join(self.topics_exclude)
        made = shell_command(
            verb,
            program="kafkakit",
            topics=topics,
            topics_exclude=excluded,
            **options,
            min_rack_ids=self.min_rack_ids or None,
            spread=self.spread,
        )
        return replace(made, options=(*made.options, *self.constraint_options))

    @property
    def smallest_bytes(self) -> int:
        """Partitions smaller than this stay: kafka-kit's 512 MiB, nothing where a goal is given."""
        if self.partition_size_threshold_mib is not None:
            return self.partition_size_threshold_mib * MIB
        return 0 if self.goal.given else 512 * MIB


MAX_REPLICATION = 32_767
MAX_FACTOR = 1000


def parse_factor(value: float) -> Fraction:
    """The exact fraction that a decimal number stands for; `UsageError` for infinity and for what is no number."""
    if not isfinite(value):
        raise UsageError(f"--partition-size-factor: {value:g} is not a number to multiply sizes with")
    return Fraction(str(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildRequest:
    """A rebuild: which partitions, onto which brokers, under which rules.

    `map` replaces topic lookup when given; `replication` 0 leaves the factor alone. `leader_evac_brokers` must
    not lead `leader_evac_topics` (patterns) afterwards. `chunk_step` brokers change at a time (0: all at once).
    Without `use_meta` racks and liveness of brokers are not looked at. `optimize` and `partition_size_factor` (what
    a new copy reserves, against its size) are for placement by storage, which spends bytes. `untouched` partitions
    keep their lists, and count where counts come out even. Brokers in `exclude_receivers` take no new copies;
    with a ceiling on replicas, counts of all topics come out even. `words` are the flags as given, for the record.
    """

    brokers: BrokerList
    topics: tuple[str, ...] = ()
    topics_exclude: tuple[str, ...] = ()
    map: PartitionMap | None = None
    replication: int = 0
    force_rebuild: bool = False
    sub_affinity: bool = False
    min_rack_ids: int = 0
    skip_no_ops: bool = False
    optimize_leadership: bool = False
    phased: bool = False
    constraints: TagConstraints = NO_CONSTRAINTS
    leader_evac_brokers: tuple[int, ...] = ()
    leader_evac_topics: tuple[str, ...] = ()
    chunk_step: int = 0
    use_meta: bool = True
    minimize: Minimize = Minimize.MOVES
    placement: PlaceBy = PlaceBy.COUNT
    optimize: OptimizeFor = OptimizeFor.DISTRIBUTION
    partition_size_factor: Fraction = Fraction(1)
    untouched: frozenset[TopicPartition] = frozenset()
    exclude_receivers: BrokerList | None = None
    ceilings: Ceilings = NO_CEILINGS
    words: Mapping[str, str]

    def __post_init__(self) -> None:
        _ = self.scope  # raises where no topics are named
        if self.by_storage and not self.use_meta:
            raise UsageError("--placement=storage requires --use-meta=true")
        if not 0 < self.partition_size_factor <= MAX_FACTOR:
            raise UsageError(
                f"--partition-size-factor: {float(self.partition_size_factor):g} is not above 0 and up to {MAX_FACTOR}"
            )
        if bool(self.leader_evac_brokers) != bool(self.leader_evac_topics):
            raise UsageError(
                "--leader-evac-topics and --leader-evac-brokers must both be specified for leadership evacuation"
            )
        if self.phased and self.chunk_step:
            raise UsageError(
                "--phased-reassignment and --chunk-step-size exclude each other",
                hint="the first phase makes all new copies at once, which is what chunks are to avoid",
            )
        if not 0 <= self.chunk_step <= MAX_BROKER_ID:
            raise UsageError(f"--chunk-step-size: {self.chunk_step} is not a number of brokers")
        if not 0 <= self.replication <= MAX_REPLICATION:
            raise UsageError(f"--replication: {self.replication} is not between 0 and {MAX_REPLICATION}")
        if not 0 <= self.min_rack_ids <= MAX_REPLICATION:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is not between 0 and {MAX_REPLICATION}")

    @property
    def scope(self) -> TopicScope:
        """The topics asked for."""
        return TopicScope(
            topics=self.topics,
            topics_exclude=self.topics_exclude,
            map=self.map,
            replication=self.replication,
            sized=self.minimize is Minimize.BYTES,
        )

    @property
    def by_storage(self) -> bool:
        """True when free bytes are evened out instead of counts."""
        return self.placement is PlaceBy.STORAGE

    @property
    def spends(self) -> Minimize:
        """What the plan's cost is counted in."""
        return Minimize.BYTES if self.by_storage else self.minimize


def _listed(brokers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(brokers)))


def brokers_hint(request: RebalanceRequest, change: BrokerChange, *, may_leave: bool) -> str:
    """What to do where brokers that hold the topics are dead or not listed, or listed ones are dead.

    `may_leave`: a broker that is not listed may be meant to lose what it holds.
    """
    if dead := {*change.old_missing, *change.previous_missing}:
        return f"empty the dead ones first, and list only live ones: {request.drain(dead)}"
    live = _listed({*change.targets, *change.replace})
    if not change.replace:
        return f"start them, or leave them out: --brokers {live}" if live else "start them, or list others"
    hint = f"list every live broker that holds these topics: --brokers {live}"
    if not may_leave or not change.targets:
        return hint
    return f"{hint}; or empty the others first: {request.drain(change.replace, change.targets)}"


DEFAULT_BANDS = tuple(Fraction(n, 100) for n in (20, 15, 10, 7, 5, 3, 2, 1))
MAX_POINTS = 50
T = TypeVar("T")


class Metric(StrEnum):
    """How deviation is measured: part of a broker's share of used space, or the range of free bytes."""

    BAND = "band"
    FREE_RANGE = "free-range"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierRequest:
    """The points to work out: `bands`, or for the other metric `free_ranges` in bytes (empty: parts of today's).

    `base` holds selection and rules; its goal names the metric.
    """

    base: RebalanceRequest
    metric: Metric
    bands: tuple[Fraction, ...] = DEFAULT_BANDS
    free_ranges: tuple[int, ...] = ()


def metric_of(metric: Metric | None, bands: str, free_ranges: str) -> Metric:
    """The metric that the flags mean; raises `UsageError` where they contradict each other."""
    if bands and free_ranges:
        raise UsageError("--bands and --free-ranges contradict each other", hint="give one of them")
    if metric is None:
        return Metric.FREE_RANGE if free_ranges else Metric.BAND
    if (bands and metric is Metric.FREE_RANGE) or (free_ranges and metric is Metric.BAND):
        raise UsageError(f"--metric {metric.value} contradicts the points given", hint="leave one of them out")
    return metric


MOST_BAND = 100_000
"""The widest band that can be asked for, in percent: a broker may hold many times its share."""


def parse_bands(text: str) -> tuple[Fraction, ...]:
    """Read `20%,10%,5%`; the usual ones when empty."""
    if not text.strip():
        return DEFAULT_BANDS
    return tuple(_few([parse_percent(part, "--bands", most=MOST_BAND) for part in _parts(text, "--bands")], "--bands"))


def parse_ranges(text: str) -> tuple[int, ...]:
    """Read `500GiB,100GiB` as bytes."""
    return (
        tuple(_few([parse_size(part, "--free-ranges") for part in _parts(text, "--free-ranges")], "--free-ranges"))
        if text
        else ()
    )


def goal_of(metric: Metric) -> Goal:
    """A goal of the metric's balance; how tight it is does not matter."""
    return Goal(band=Fraction(1)) if metric is Metric.BAND else Goal(free_range_bytes=0)


def _parts(text: str, flag: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UsageError(f"{flag}: {text[:60]!r} has an empty entry")
    return parts


def _few(points: Sequence[T], flag: str) -> Sequence[T]:
    if len(points) > MAX_POINTS:
        raise UsageError(f"{flag}: {len(points)} points are more than {MAX_POINTS}")
    return points


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """How to judge a map.

    `brokers` are those whose loads should be even (None: the live ones that hold the topics afterwards), `topics`
    what another plan might move instead (empty: the topics of the map). `spread` is the even spread over racks, in
    place of `min_rack_ids`. `band` or `free_range_bytes` is the balance that was wanted; without them a map
    is held against the range of free bytes that it reaches. Without `compared` no other plan is made to hold the map
    against. `program` is how kafkakit is called, `map_file` the file of the map (empty: none that can be named), and
    `constraint_options` are as given: they go into the commands that hints name.
    """

    brokers: BrokerList | None = None
    topics: tuple[str, ...] = ()
    constraints: TagConstraints = NO_CONSTRAINTS
    min_rack_ids: int = 0
    spread: bool = False
    max_disk_use: Fraction = Fraction(9, 10)
    band: Fraction | None = None
    free_range_bytes: int | None = None
    compared: bool = True
    program: str = "kafkakit"
    map_file: str = ""
    constraint_options: tuple[tuple[str, str | None], ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.min_rack_ids <= MAX_REPLICATION:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is not between 0 and {MAX_REPLICATION}")
        refuse_both_rules(self.min_rack_ids, self.spread)
        if self.band is not None and self.free_range_bytes is not None:
            raise UsageError("--band and --free-range contradict each other", hint="give one of them")


_UNSIZED = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """At most `max_moves` new copies and `max_moved_bytes` in them; None: no limit."""

    max_moves: int | None = None
    max_moved_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.max_moves is not None and self.max_moves < 0:
            raise UsageError(f"--max-moves: {self.max_moves} is below 0")

    @property
    def given(self) -> bool:
        """True when there is a limit at all."""
        return self.max_moves is not None or self.max_moved_bytes is not None

    @property
    def words(self) -> str:
        """The limits as flags."""
        flags = [f"--max-moves {self.max_moves}"] if self.max_moves is not None else []
        if self.max_moved_bytes is not None:
            flags.append(f"--max-moved-bytes {format_bytes(self.max_moved_bytes)}")
        return " and ".join(flags)

    def allows(self, copies: int, copied_bytes: int) -> bool:
        """True when so much may be spent."""
        if self.max_moves is not None and copies > self.max_moves:
            return False
        return self.max_moved_bytes is None or copied_bytes <= self.max_moved_bytes


NO_BUDGET = Budget()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    """One partition that is to change: `copies` are made of it, each of `size_bytes` (None: unknown).

    `key` is its name, `index` stands for it in the answer. A lower `rank` is served earlier; among equals the
    fewest bytes come first, those of unknown size last, then the name.
    """

    index: int
    key: TopicPartition
    copies: int
    size_bytes: int | None = None
    rank: int = 0

    @property
    def bytes(self) -> int | None:
        """What its copies hold together; 0 where none is made."""
        if not self.copies:
            return 0
        return None if self.size_bytes is None else self.copies * self.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftForLater:
    """What a budget left: how many partitions, the copies they need and the bytes in these (None: unknown).

    `beyond` of them cost more than the whole budget by themselves, so that no run with it will serve them.
    """

    partitions: int = 0
    copies: int = 0
    bytes: int | None = 0
    beyond: int = 0


NOTHING_LEFT = LeftForLater()


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSelection:
    """The indices served now, the names of those left, and what these cost."""

    indices: frozenset[int]
    later: tuple[TopicPartition, ...] = ()
    left: LeftForLater = NOTHING_LEFT


def serve(changes: Collection[PartitionChange], budget: Budget) -> BudgetSelection:
    """Serve changes in the order of their ranks while they fit. O(n log n)."""
    if not budget.given:
        return BudgetSelection(indices=frozenset(w.index for w in changes))
    copies = spent = 0
    taken: set[int] = set()
    left: list[PartitionChange] = []
    for change in sorted(changes, key=_order):
        if budget.allows(copies + change.copies, spent + (change.bytes or 0)):
            taken.add(change.index)
            copies += change.copies
            spent += change.bytes or 0
        else:
            left.append(change)
    sizes = [w.bytes for w in left]
    known = [size for size in sizes if size is not None]
    return BudgetSelection(
        indices=frozenset(taken),
        later=tuple(sorted(w.key for w in left)),
        left=LeftForLater(
            partitions=len(left),
            copies=sum(w.copies for w in left),
            bytes=sum(known) if len(known) == len(sizes) else None,
            beyond=sum(1 for w in left if not budget.allows(w.copies, w.bytes or 0)),
        ),
    )


def _order(change: PartitionChange) -> tuple[int, int, TopicPartition]:
    return change.rank, _UNSIZED if change.bytes is None else change.bytes, change.key


def refuse_unsized(
    snapshot: ClusterSnapshot, budget: Budget, changes: Iterable[PartitionChange], facts: StorageFacts | None = None
) -> None:
    """Stop where bytes are limited and the size of a partition that is to be copied is not known.

    Raises `UsageError` for a snapshot without sizes and `TryLaterError` where brokers reported none.
    """
    if budget.max_moved_bytes is None:
        return
    try:
        storage_of(snapshot, facts, brokers=(), partitions=[w.key for w in changes if w.copies])
    except UsageError as error:
        raise UsageError(f"--max-moved-bytes: {error.message}", hint=error.hint) from None
    except TryLaterError as error:
        raise TryLaterError(
            f"--max-moved-bytes: {error.message}",
            hint="try again when all brokers answer, or leave these topics out with --topics-exclude",
        ) from None


def budget_notes(budget: Budget, served: BudgetSelection) -> tuple[str, ...]:
    """What the operator should know of what was left; nothing when all was served."""
    left = served.left
    if not left.partitions:
        return ()
    cost = ""
    if left.copies:
        size = "of unknown size" if left.bytes is None else f"({format_bytes(left.bytes)})"
        cost = f", {counted(left.copies, 'replica')} to copy {size}"
    verb = "leaves" if None in (budget.max_moves, budget.max_moved_bytes) else "leave"
    notes = [
        f"{budget.words} {verb} {counted(left.partitions, 'partition')} for later{cost}; "
        "carry this plan out and give the same command again to continue"
    ]
    if left.beyond:
        what = "costs" if left.beyond == 1 else "cost"
        notes.append(f"{left.beyond} of them {what} more than the whole budget, so only a larger one can cover them")
    return tuple(notes)


def budget_argument(argument: str, served: BudgetSelection) -> str:
    """The argument of a bound that holds for the partitions served: it names those that were left."""
    if not served.left.partitions:
        return argument
    left = served.left.partitions
    verb = "is" if left == 1 else "are"
    return f"of what the budget takes, {argument}; {counted(left, 'partition')} {verb} left for later"


def left_data(left: LeftForLater) -> dict[str, object]:
    """What was left, for JSON and YAML."""
    return {"partitions": left.partitions, "replicas": left.copies, "bytes": left.bytes, "too_large": left.beyond}


def pinned_note(keys: Sequence[TopicPartition], what: str) -> tuple[str, ...]:
    """A note on pinned partitions that the request would have changed; `what` is what becomes of them."""
    if not keys:
        return ()
    return (f"{counted(len(keys), 'pinned partition')} {what}: {some(keys)}",)
