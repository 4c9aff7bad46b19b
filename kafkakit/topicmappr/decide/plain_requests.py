"""What the operator asked the planning commands of one step for: drain, repair, racks, factor, leaders, dirs, topics.

These are the options of their commands: see `kafkakit.core.options`. They load no planner, for help does not need one.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from kafkakit.core.errors import UsageError
from kafkakit.core.options import (
    REPEATED,
    not_typed,
    option,
    parsed_option,
    required_argument,
    texts,
)
from kafkakit.core.quantities import parse_percent, parse_size
from kafkakit.core.selection import BrokerList
from kafkakit.core.text import ShellCommand, shell_command
from kafkakit.placement.group_rule import refuse_both_rules
from kafkakit.placement.problem import Minimize, PlaceBy
from kafkakit.topicmappr.decide.request_fields import (
    MAX_REPLICATION,
    NO_BUDGET,
    RACKS_HELP,
    PlanBudget,
    RuledRequest,
    TopicsRequest,
    all_brokers,
    brokers_option,
    disk_use_option,
    head_room_option,
    minimize_option,
    pin_option,
    placement_option,
    required_topics,
    spread_option,
    target_brokers,
    topics_option,
    word_of,
)
from kafkakit.topicmappr.decide.scope import NO_CONSTRAINTS, TagConstraints

if TYPE_CHECKING:
    from kafkakit.placement.log_dirs_balance import DirRules

MAX_PARTITIONS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRequest(RuledRequest):
    """A request that makes copies, as many as the budget of one run lets it; `pinned` partitions stay as they are."""

    pinned: tuple[str, ...] = pin_option()
    budget: PlanBudget = NO_BUDGET


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadRequest(CopyRequest):
    """A request that takes the even spread over racks, in place of `min_rack_ids`."""

    spread: bool = spread_option()

    def __post_init__(self) -> None:
        if self.min_rack_ids < 0:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is below 0")
        refuse_both_rules(self.min_rack_ids, self.spread)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceRequest(SpreadRequest):
    """A request that replaces replicas: `placement` says what comes out even, counts of replicas or free bytes."""

    placement: PlaceBy = placement_option()

    @property
    def needs_sizes(self) -> bool:
        """True where sizes and disks have to be read."""
        return self.placement is PlaceBy.STORAGE or bool(self.budget.max_moved_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequest(ReplaceRequest):
    """Empty the brokers `leaving` of the chosen topics; `receiving` may take the replicas (None: all others).

    With `log_dirs` only these dirs of the brokers are emptied, as far as possible into their other ones. Raises
    `UsageError` for contradictions.
    """

    leaving: BrokerList = target_brokers("Brokers to empty; they may be dead.")
    receiving: BrokerList | None = brokers_option(
        "--to", "Brokers that may take the replicas; all other live ones if not given."
    )
    log_dirs: tuple[str, ...] = parsed_option(
        None,
        "--log-dir",
        parse=texts,
        typed=REPEATED,
        metavar="PATH",
        help="Empty only this log dir of the brokers, as far as possible into their other ones; may be repeated.",
        recorded=lambda paths: ",".join(paths or ()),
    )

    def repair(self, broker: int) -> ShellCommand:
        """The command that replaces what is offline on a broker, of the same topics under the same rules."""
        topics, excluded = self.words.get("topics", ""), self.words.get("topics-exclude", "")
        made = shell_command(
            "topicmappr repair",
            brokers=broker,
            topics=topics,
            topics_exclude=excluded,
            min_rack_ids=self.min_rack_ids or None,
            spread=self.spread,
        )
        return replace(made, options=(*made.options, *self.constraints.given))

    def __post_init__(self) -> None:
        for flag, listed in (("--brokers", self.leaving), ("--to", self.receiving)):
            if listed is not None and (listed.existing or listed.everything):
                raise UsageError(f"{flag}: name the brokers, -1 and -2 mean all of them")
        if self.receiving is not None:
            both = sorted({*self.leaving.ids} & {*self.receiving.ids})
            if both:
                raise UsageError(f"broker {both[0]} cannot be drained and receive (--to) at once")
        SpreadRequest.__post_init__(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRequest(ReplaceRequest):
    """Replace the offline replicas of the chosen topics, those of `brokers` only where they are named."""

    brokers: BrokerList | None = brokers_option(
        "--brokers", "Replace only offline replicas of these brokers. Default: offline replicas of all brokers."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FixRacksRequest(SpreadRequest):
    """Repair the rack rule for the chosen topics, and with it the constraints by tags."""

    minimize: Minimize = minimize_option()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationRequest(CopyRequest):
    """Bring every partition of the topics to `replication` copies."""

    replication: int = required_argument(metavar="N", help="Replicas that each partition will have.", recorded=True)
    topics: tuple[str, ...] = required_topics()

    def __post_init__(self) -> None:
        if not 1 <= self.replication <= MAX_REPLICATION:
            raise UsageError(f"the replication factor {self.replication} is not between 1 and {MAX_REPLICATION}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderBudget(PlanBudget):
    """At most so many partitions; no data moves."""

    max_moves: int | None = option(
        None,
        "--max-moves",
        min=0,
        metavar="N",
        help="Change at most this many partitions in one run; the same command continues.",
        recorded=word_of,
    )
    max_moved_bytes: int | None = not_typed(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadersRequest(TopicsRequest):
    """Even out preferred leaders of the chosen topics.

    `brokers` may lead (None: every live broker), `evacuated` may not; `budget` is how many partitions one run may
    change. Raises `UsageError` for contradictions.
    """

    brokers: BrokerList | None = brokers_option("--brokers", "Brokers that may lead; all live ones if not given.")
    evacuated: BrokerList | None = brokers_option(
        "--leader-evac-brokers", "Brokers that must not lead.", metavar="ID,..."
    )
    pinned: tuple[str, ...] = pin_option()
    budget: LeaderBudget = LeaderBudget()

    def __post_init__(self) -> None:
        if self.evacuated is None:
            return
        if self.evacuated.existing or self.evacuated.everything:
            raise UsageError("--leader-evac-brokers: name the brokers, -1 and -2 mean all of them")
        both = sorted({*self.evacuated.ids} & {*(self.brokers.ids if self.brokers else ())})
        if both:
            raise UsageError(f"broker {both[0]} is named by both --brokers and --leader-evac-brokers")


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceDirsRequest(TopicsRequest):
    """Balance the log dirs of the chosen brokers with copies of the chosen topics; no replica changes brokers."""

    brokers: BrokerList = all_brokers("Brokers whose log dirs are balanced.")
    band: Fraction = parsed_option(
        "10%",
        "--band",
        parse=lambda text: parse_percent(text, "--band"),
        metavar="PERCENT",
        help="Bring every log dir within this percentage of its share of its broker's use.",
        recorded=True,
    )
    max_disk_use: Fraction = disk_use_option()
    head_room_bytes: int = head_room_option()
    pinned: tuple[str, ...] = pin_option()

    @property
    def rules(self) -> "DirRules":
        """How full dirs may become, and how even."""
        from kafkakit.placement.log_dirs_balance import DirRules

        return DirRules(max_use=self.max_disk_use, head_room=self.head_room_bytes, band=self.band)

    def __post_init__(self) -> None:
        if not self.topics:
            raise UsageError("must specify --topics")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRequest:
    """A new topic, or more partitions for one that is there: `partitions` are those that it has in the end.

    What is None is taken from the topics `like`, and `brokers` None means all live ones. Those in `exclude_receivers`
    get none of it.

    `partition_bytes` is the expected size of one partition: then the cluster is levelled by bytes, not by counts.
    """

    topic: str = required_argument(
        metavar="TOPIC", help="Name of the topic; if it exists, the brokers of added partitions are chosen."
    )
    partitions: int | None = option(None, "--partitions", help="How many partitions the topic has in the end.")
    replication: int | None = option(None, "--replication", help="How many replicas each partition has.")
    brokers: BrokerList | None = brokers_option(
        "--brokers", "Brokers that may hold the topic; all live ones if not given."
    )
    exclude_receivers: BrokerList | None = brokers_option("--exclude-receivers", "Brokers that get no copies.")
    like: tuple[str, ...] = topics_option(
        "", "--topics-like", "Take partitions, replication and size from these topics unless they are given."
    )
    partition_bytes: int | None = parsed_option(
        "",
        "--partition-bytes",
        parse=lambda text: parse_size(text) if text else None,
        metavar="SIZE",
        help="Expected size of a partition (5GiB): balance brokers by bytes, not by counts.",
    )
    min_rack_ids: int = option(0, "--min-rack-ids", help=RACKS_HELP)
    constraints: TagConstraints = NO_CONSTRAINTS

    def set_replication(self) -> ShellCommand:
        """The command that gives the partitions that the topic has as many replicas as the new ones are to get."""
        racks = self.min_rack_ids or None
        made = shell_command("topicmappr set-replication", str(self.replication), topics=self.topic, min_rack_ids=racks)
        return replace(made, options=(*made.options, *self.constraints.given))

    def __post_init__(self) -> None:
        from kafkakit.core.plan_rules import topic_problem

        problem = topic_problem(self.topic)
        if problem:
            raise UsageError(f"{self.topic!r:.80} is {problem}", hint="letters, digits, '.', '_' and '-', at most 249")
        for flag, value, most in (
            ("--partitions", self.partitions, MAX_PARTITIONS),
            ("--replication", self.replication, MAX_REPLICATION),
        ):
            if value is not None and not 1 <= value <= most:
                raise UsageError(f"{flag}: {value} is not between 1 and {most}")
        if self.partition_bytes is not None and self.partition_bytes < 1:
            raise UsageError("--partition-bytes must be at least 1 byte")
        if self.min_rack_ids < 0:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is below 0")
