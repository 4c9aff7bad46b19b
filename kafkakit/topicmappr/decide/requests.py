"""What the operator asked `rebalance`, `scale`, `add-brokers`, `rebuild`, `frontier` and `audit` for, validated."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from math import isfinite
from typing import TypeVar

from kafkakit.core.errors import UsageError
from kafkakit.core.model import PartitionMap, TopicPartition
from kafkakit.core.options import Completion, not_typed, option, options_given, parsed_option
from kafkakit.core.quantities import parse_percent, parse_size
from kafkakit.core.selection import MAX_BROKER_ID, BrokerList, parse_broker_list
from kafkakit.core.text import OptionValue, ShellCommand, shell_command
from kafkakit.placement.group_rule import refuse_both_rules
from kafkakit.placement.problem import BrokerChange, Minimize, OptimizeFor, PlaceBy
from kafkakit.topicmappr.decide.request_fields import (
    MAX_REPLICATION,
    MOST_BAND,
    RACKS_HELP,
    LoadGoal,
    RuledRequest,
    all_brokers,
    band_option,
    brokers_option,
    disk_use_option,
    head_room_option,
    minimize_option,
    optimize_leadership_option,
    percent_option,
    pin_option,
    placement_option,
    required_topics,
    size_option,
    spread_option,
    target_brokers,
    topics_option,
    word_of,
)
from kafkakit.topicmappr.decide.scope import NO_CONSTRAINTS, TagConstraints, TopicScope

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceRequest(RuledRequest):
    """A balance of bytes: which partitions, over which brokers, to which goal, under which rules.

    Thresholds, tolerance and limits are kafka-kit's; None where the flag was not given, since kafka-kit's
    defaults hold only without a goal. With `balance_dirs` log dirs inside
    brokers are balanced to that band. `pinned` are topics or topic/partition that stay as they are. `spread` is
    the even spread over racks, in place of `min_rack_ids`. At most
    `max_rack_violations` sets may break the rack rule in the end (None: those that do may stay so). `scale` demands
    new brokers. Brokers in `exclude_receivers` get no copies, those in `exclude_givers` lose none.
    `words` are the flags as given, for the plan's record.
    """

    brokers: BrokerList = target_brokers()
    topics: tuple[str, ...] = required_topics()
    scale: bool = not_typed(False)
    goal: LoadGoal = LoadGoal()
    minimize: Minimize = minimize_option(Minimize.BYTES)
    storage_threshold: float | None = option(
        None,
        "--storage-threshold",
        metavar="FRACTION",
        help="Offload brokers this far below the harmonic mean of free space: 0.20 when no goal is given, 0 all.",
        recorded=word_of,
    )
    storage_threshold_gb: float | None = option(
        None,
        "--storage-threshold-gb",
        metavar="GIB",
        help="Offload brokers with less free space than this; overrides --storage-threshold.",
        recorded=word_of,
    )
    tolerance: float = option(
        0.0,
        "--tolerance",
        metavar="FRACTION",
        help="How far sources and destinations may end from the mean; 0: chosen by the search.",
        recorded=True,
    )
    partition_limit: int = option(
        30,
        "--partition-limit",
        min=1,
        metavar="N",
        help="Accepted for kafka-kit's scripts; every partition is considered.",
    )
    partition_size_threshold_mib: int | None = option(
        None,
        "--partition-size-threshold",
        min=0,
        metavar="MIB",
        help="Do not move partitions smaller than this: 512 when no goal is given, else 0.",
        recorded=word_of,
    )
    locality_scoped: bool = option(
        False, "--locality-scoped", help="Move replicas only within their rack.", recorded=True
    )
    spread: bool = spread_option()
    max_rack_violations: int | None = option(
        None,
        "--max-rack-violations",
        min=0,
        metavar="N",
        help="Repair replica sets until no more than this break the rack rule; if not given, they may stay.",
        recorded=word_of,
    )
    exclude_givers: BrokerList | None = brokers_option("--exclude-givers", "Brokers whose replicas stay.")
    max_disk_use: Fraction = disk_use_option()
    head_room_bytes: int = head_room_option()
    balance_dirs: Fraction | None = percent_option(
        "--balance-dirs", "Also balance the log dirs of each broker to within this percentage of their shares (10%)."
    )
    pinned: tuple[str, ...] = pin_option()
    optimize_leadership: bool = optimize_leadership_option()

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
        return self.command("topicmappr drain", brokers=_list_ids(brokers), to=_list_ids(to))

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
        return replace(made, options=(*made.options, *self.constraints.given))

    @property
    def smallest_bytes(self) -> int:
        """Partitions smaller than this stay: kafka-kit's 512 MiB, nothing where a goal is given."""
        if self.partition_size_threshold_mib is not None:
            return self.partition_size_threshold_mib * MIB
        return 0 if self.goal.given else 512 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRequest(RebalanceRequest):
    """A balance in which all brokers that are not new give."""

    scale: bool = not_typed(True)
    storage_threshold: float | None = not_typed(None)
    storage_threshold_gb: float | None = not_typed(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGoal(LoadGoal):
    """The balance that new brokers are brought to."""

    band: Fraction | None = band_option(
        "Bring every broker within this percentage of its share of used space, by capacity.", "10%"
    )
    free_range_bytes: int | None = not_typed(None)
    count_band: Fraction | None = not_typed(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest(ScaleRequest):
    """Brokers that join, which may hold replicas already: a band is the only goal."""

    brokers: BrokerList = target_brokers("Brokers to add; they must be live.")
    topics: tuple[str, ...] = topics_option()
    scale: bool = not_typed(False)
    goal: JoinGoal = JoinGoal()
    tolerance: float = not_typed(0.0)
    partition_limit: int = not_typed(30)
    balance_dirs: Fraction | None = not_typed(None)


MAX_FACTOR = 1000


def parse_factor(value: float) -> Fraction:
    """The exact fraction that a decimal number stands for; `UsageError` for infinity and for what is no number."""
    if not isfinite(value):
        raise UsageError(f"--partition-size-factor: {value:g} is not a number to multiply sizes with")
    return Fraction(str(value))


def read_map_string(text: str) -> PartitionMap | None:
    """Read `--map-string`, None for none; raises `InputError` with kafka-kit's words in front."""
    if not text:
        return None
    from kafkakit.core.documents import decode_partition_map
    from kafkakit.core.plan_rules import check_partition_map

    source = "Error parsing partition map"
    partition_map = decode_partition_map(text.encode("utf-8", "surrogatepass"), source)
    check_partition_map(partition_map, source)
    return partition_map


def _evacuated_ids(text: str) -> tuple[int, ...]:
    """The ids of `--leader-evac-brokers`; `UsageError` for -1 and -2."""
    if not text:
        return ()
    parsed = parse_broker_list(text, "--leader-evac-brokers")
    if parsed.where is not None:
        raise UsageError("--leader-evac-brokers: queries are not taken here", hint="give ids")
    if parsed.existing or parsed.everything:
        raise UsageError("--leader-evac-brokers: name the brokers, -1 and -2 mean all of them")
    return parsed.ids


def _by_storage(given: Mapping[str, object]) -> bool:
    return given["placement"] is PlaceBy.STORAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildRequest(RuledRequest):
    """A rebuild: which partitions, onto which brokers, under which rules.

    `map` replaces topic lookup when given; `replication` 0 leaves the factor alone. `leader_evac_brokers` must
    not lead `leader_evac_topics` (patterns) afterwards. `chunk_step` brokers change at a time (0: all at once).
    Without `use_meta` racks and liveness of brokers are not looked at. `optimize` and `partition_size_factor` (what
    a new copy reserves, against its size) are for placement by storage, which spends bytes. `untouched` partitions
    keep their lists, and count where counts come out even. Brokers in `exclude_receivers` take no new copies;
    with a ceiling on replicas, counts of all topics come out even. `words` are the flags as given, for the record.
    """

    brokers: BrokerList = target_brokers()
    topics: tuple[str, ...] = topics_option("")
    map: PartitionMap | None = parsed_option(
        "",
        "--map-string",
        parse=read_map_string,
        help="Partition map as JSON, used instead of --topics.",
        recorded=True,
    )
    replication: int = option(
        0, "--replication", help="Set every replication factor to this; 0 leaves it.", recorded=True
    )
    force_rebuild: bool = option(
        False, "--force-rebuild", help="Spread replicas evenly over all targets, with the fewest moves.", recorded=True
    )
    sub_affinity: bool = option(
        False, "--sub-affinity", help="Replace each outgoing broker by one specific new broker.", recorded=True
    )
    minimize: Minimize = minimize_option()
    optimize_leadership: bool = optimize_leadership_option()
    leader_evac_brokers: tuple[int, ...] = parsed_option(
        "",
        "--leader-evac-brokers",
        parse=_evacuated_ids,
        completion=Completion.BROKERS,
        metavar="ID,...",
        help="Brokers that must not lead.",
        recorded=True,
    )
    leader_evac_topics: tuple[str, ...] = topics_option(
        "", "--leader-evac-topics", "Topics that --leader-evac-brokers must not lead."
    )
    phased: bool = option(
        False,
        "--phased-reassignment",
        help="Write a first map that keeps the current leaders, then the final one.",
        recorded=True,
    )
    chunk_step: int = option(
        0,
        "--chunk-step-size",
        help="Write a series of maps, this many brokers at a time; 0: one map.",
        recorded=True,
    )
    skip_no_ops: bool = option(
        False, "--skip-no-ops", help="Leave unchanged partitions out of the map files.", recorded=True
    )
    placement: PlaceBy = placement_option()
    optimize: OptimizeFor = option(
        OptimizeFor.DISTRIBUTION,
        "--optimize",
        help="With storage placement: only free bytes (storage), or free bytes and then leaders (distribution).",
        recorded=True,
        recorded_when=_by_storage,
    )
    partition_size_factor: Fraction = parsed_option(
        1.0,
        "--partition-size-factor",
        parse=parse_factor,
        typed=float,
        help="With storage placement: what a new copy reserves, as a multiple of its size.",
        recorded=True,
        recorded_when=_by_storage,
    )
    use_meta: bool = option(
        True,
        "--use-meta/--no-use-meta",
        help="Use the racks and the state of brokers.",
        recorded=lambda used: "" if used else "false",
    )
    untouched: frozenset[TopicPartition] = not_typed(frozenset())

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


def _list_ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(brokers)))


def brokers_hint(request: RebalanceRequest, change: BrokerChange, *, may_leave: bool) -> str:
    """What to do where brokers that hold the topics are dead or not listed, or listed ones are dead.

    `may_leave`: a broker that is not listed may be meant to lose what it holds.
    """
    if dead := {*change.old_missing, *change.previous_missing}:
        return f"empty the dead ones first, and list only live ones: {request.drain(dead)}"
    live = _list_ids({*change.targets, *change.replace})
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


def parse_bands(text: str) -> tuple[Fraction, ...]:
    """Read `20%,10%,5%`; empty for the usual ones."""
    if not text.strip():
        return ()
    return tuple(
        _require_few([parse_percent(part, "--bands", most=MOST_BAND) for part in _parts(text, "--bands")], "--bands")
    )


def parse_ranges(text: str) -> tuple[int, ...]:
    """Read `500GiB,100GiB` as bytes."""
    if not text:
        return ()
    return tuple(
        _require_few([parse_size(part, "--free-ranges") for part in _parts(text, "--free-ranges")], "--free-ranges")
    )


def _parts(text: str, flag: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UsageError(f"{flag}: {text[:60]!r} has an empty entry")
    return parts


def _require_few(points: Sequence[T], flag: str) -> Sequence[T]:
    if len(points) > MAX_POINTS:
        raise UsageError(f"{flag}: {len(points)} points are more than {MAX_POINTS}")
    return points


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierBase(RebalanceRequest):
    """What may move, and the rules that every plan of a frontier keeps; `given` are its options."""

    brokers: BrokerList = all_brokers()
    topics: tuple[str, ...] = topics_option(".*", "--topics", "Topics that may move.")
    goal: LoadGoal = not_typed(LoadGoal())
    minimize: Minimize = not_typed(Minimize.BYTES)
    storage_threshold: float | None = not_typed(None)
    storage_threshold_gb: float | None = not_typed(None)
    tolerance: float = not_typed(0.0)
    partition_limit: int = not_typed(30)
    partition_size_threshold_mib: int | None = not_typed(None)
    max_rack_violations: int | None = not_typed(None)
    balance_dirs: Fraction | None = not_typed(None)
    optimize_leadership: bool = not_typed(False)
    given: tuple[tuple[str, str | None], ...] = options_given()

    def rebalance_options(self) -> tuple[tuple[str, str | None], ...]:
        """The options of a rebalance with the same selection and rules; it wants brokers and topics named."""
        named = tuple((f"--{name}", self.words[name]) for name in ("brokers", "topics"))
        return (*named, *(pair for pair in self.given if pair[0] not in ("--brokers", "--topics")))


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierRequest:
    """The points to work out: `bands`, or for the other metric `free_ranges` in bytes (empty: parts of today's).

    `base` holds selection and rules; its goal names the metric.
    """

    base: FrontierBase
    metric: Metric | None = option(
        None, "--metric", help="What to tighten: the band of used space, or the range of free bytes."
    )
    bands: tuple[Fraction, ...] = parsed_option(
        "",
        "--bands",
        parse=parse_bands,
        metavar="5%,3%,...",
        help="Bands to compute; eight from 20% to 1% if not given.",
    )
    free_ranges: tuple[int, ...] = parsed_option(
        "",
        "--free-ranges",
        parse=parse_ranges,
        metavar="SIZE,...",
        help="Ranges to compute; eight fractions of the present range if not given.",
    )

    def __post_init__(self) -> None:
        if self.bands and self.free_ranges:
            raise UsageError("--bands and --free-ranges contradict each other", hint="give one of them")
        if self.metric is not None and (self.bands if self.metric is Metric.FREE_RANGE else self.free_ranges):
            raise UsageError(f"--metric {self.metric.value} contradicts the points given", hint="leave one of them out")

    @property
    def tightened(self) -> Metric:
        """What comes out tighter from point to point."""
        return self.metric or (Metric.FREE_RANGE if self.free_ranges else Metric.BAND)


def goal_of(metric: Metric) -> LoadGoal:
    """A goal of the metric's balance; how tight it is does not matter."""
    return LoadGoal(band=Fraction(1)) if metric is Metric.BAND else LoadGoal(free_range_bytes=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapAuditRequest:
    """How to judge a map.

    `brokers` are those whose loads should be even (None: the live ones that hold the topics afterwards), `topics`
    what another plan might move instead (empty: the topics of the map). `spread` is the even spread over racks, in
    place of `min_rack_ids`. `band` or `free_range_bytes` is the balance that was wanted; without them a map
    is held against the range of free bytes that it reaches. Without `compared` no other plan is made to hold the map
    against. `program` is how kafkakit is called, `map_file` the file of the map (empty: none that can be named).
    """

    brokers: BrokerList | None = brokers_option(
        "--brokers", "Brokers to balance; those that hold the topics if not given."
    )
    topics: tuple[str, ...] = topics_option(
        "", "--topics", "Topics that another plan might move instead; the topics of the map if not given."
    )
    min_rack_ids: int = option(0, "--min-rack-ids", help=RACKS_HELP)
    spread: bool = spread_option()
    max_disk_use: Fraction = disk_use_option()
    band: Fraction | None = band_option("The band of used space to compare with.")
    free_range_bytes: int | None = size_option("--free-range", "The range of free bytes to compare with.")
    constraints: TagConstraints = NO_CONSTRAINTS
    compared: bool = not_typed(True)
    program: str = not_typed("kafkakit")
    map_file: str = not_typed("")

    def __post_init__(self) -> None:
        if not 0 <= self.min_rack_ids <= MAX_REPLICATION:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is not between 0 and {MAX_REPLICATION}")
        refuse_both_rules(self.min_rack_ids, self.spread)
        if self.band is not None and self.free_range_bytes is not None:
            raise UsageError("--band and --free-range contradict each other", hint="give one of them")
