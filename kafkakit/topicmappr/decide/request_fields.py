"""Parts of what operators ask planning commands for: goals, budgets, ceilings, rules, and fields that several have.

The dataclasses are groups of options: see `kafkakit.core.options`. They load no planner, for help does not need one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

from kafkakit.core.errors import UsageError
from kafkakit.core.options import (
    REPEATED,
    Completion,
    command_record,
    option,
    parsed_option,
    required_option,
)
from kafkakit.core.quantities import format_bytes, parse_percent, parse_size
from kafkakit.core.selection import BrokerList, parse_broker_list, parse_patterns
from kafkakit.placement.problem import Minimize, PlaceBy
from kafkakit.topicmappr.decide.scope import NO_CONSTRAINTS, TagConstraints

MOST_BAND = 100_000
"""The widest band that can be asked for, in percent: a broker may hold many times its share."""
TOPICS, BROKERS = "TOPICS", "BROKERS"
"""What stands for a list of topics or brokers in help."""
PLACED = "Topics whose replicas are placed."
COPIED_USE = "Highest disk use that copies may cause on a broker; fuller brokers receive none."
RACKS_HELP = "Minimum number of racks per partition before two replicas may share one; 0 means never share."


def topics_option(usual: str = ".*", flag: str = "--topics", about: str = PLACED) -> Any:
    """A field with patterns of topics; empty text is none."""
    return parsed_option(
        usual,
        flag,
        parse=parse_patterns,
        completion=Completion.TOPICS,
        metavar=TOPICS,
        help=about,
        recorded=True,
    )


def required_topics() -> Any:
    """A field with the topics whose replicas are placed, which have to be named."""
    return required_option(
        "--topics", parse=parse_patterns, completion=Completion.TOPICS, metavar=TOPICS, help=PLACED, recorded=True
    )


def brokers_option(flag: str, about: str, metavar: str = BROKERS) -> Any:
    """A field with a list of brokers that may be left out, None then."""
    return parsed_option(
        "",
        flag,
        parse=lambda text: parse_broker_list(text, flag) if text else None,
        completion=Completion.BROKERS,
        metavar=metavar,
        help=about,
        recorded=True,
    )


def disk_use_option(about: str = COPIED_USE, most: str = "90%") -> Any:
    """A field with the part of a disk that may be full."""
    return parsed_option(
        most,
        "--max-disk-use",
        parse=lambda text: parse_percent(text, "--max-disk-use"),
        metavar="PERCENT",
        help=about,
        recorded=True,
    )


def head_room_option() -> Any:
    """A field with the bytes that copies leave free."""
    return parsed_option(
        "0",
        "--head-room",
        parse=lambda text: parse_size(text, "--head-room"),
        metavar="SIZE",
        help="Space that copies must leave free on every broker, in addition to --max-disk-use.",
        recorded=lambda text: "" if text == "0" else text,
    )


def minimize_option(usual: Minimize = Minimize.MOVES) -> Any:
    """A field with what is spent least of."""
    return option(usual, "--minimize", help="What to minimize: moves or bytes.", recorded=True)


PLANNED_BROKERS = "Brokers that should hold the replicas."


def target_brokers(about: str = PLANNED_BROKERS) -> Any:
    """A field with brokers that have to be named."""
    return required_option(
        "--brokers",
        parse=parse_broker_list,
        completion=Completion.BROKERS,
        metavar=BROKERS,
        help=about,
        recorded=True,
    )


def all_brokers(about: str = PLANNED_BROKERS) -> Any:
    """A field with brokers, all of them where none are named."""
    return parsed_option(
        "-1",
        "--brokers",
        parse=parse_broker_list,
        completion=Completion.BROKERS,
        metavar=BROKERS,
        help=about,
        recorded=True,
    )


def placement_option() -> Any:
    """A field with what comes out even, recorded where it is bytes."""
    return option(
        PlaceBy.COUNT,
        "--placement",
        help="What to balance: counts of replicas, or free bytes; as little as possible is copied.",
        recorded=lambda chosen: chosen if chosen is PlaceBy.STORAGE else "",
    )


def pin_option() -> Any:
    """A field with the topics, or topic/partition, that stay as they are."""
    return parsed_option(
        None,
        "--pin",
        parse=_patterns,
        typed=REPEATED,
        metavar="TOPICS|TOPIC/PARTITION",
        help="Topics or partitions that must not move. Repeatable.",
        recorded=lambda given: ",".join(_patterns(given)),
    )


def optimize_leadership_option() -> Any:
    """A field that says whether leaders are evened out."""
    return option(False, "--optimize-leadership", help="Reorder replicas so that brokers lead evenly.", recorded=True)


def spread_option() -> Any:
    """A field with the even spread over racks."""
    return option(
        False, "--spread", help="Replicas of a partition per rack differ by at most one, over all racks.", recorded=True
    )


def _patterns(given: list[str] | None) -> tuple[str, ...]:
    return tuple(pattern for each in given or () for pattern in parse_patterns(each))


def size_option(flag: str, about: str) -> Any:
    """A field with a size that may be left out, None then."""
    return parsed_option(
        "",
        flag,
        parse=lambda text: parse_size(text, flag) if text else None,
        metavar="SIZE",
        help=about,
        recorded=True,
    )


def percent_option(flag: str, about: str, usual: str = "", most: int = 100) -> Any:
    """A field with a part of a whole, None where it is left out and nothing else is usual."""
    return parsed_option(
        usual,
        flag,
        parse=lambda text: parse_percent(text, flag, most=most) if text else None,
        metavar="PERCENT",
        help=about,
        recorded=True,
    )


def band_option(about: str, usual: str = "") -> Any:
    """A field with a part of a share of used space."""
    return percent_option("--band", about, usual, MOST_BAND)


def word_of(value: object) -> str:
    """A value as a recorded word, where zero is not the same as nothing."""
    return "" if value is None else str(value).strip()


class BalanceWithin(StrEnum):
    """Over what bytes are balanced."""

    CLUSTER = "cluster"
    RACKS = "racks"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGoal:
    """What loads should look like in the end; without any of these kafka-kit's thresholds and tolerance rule.

    `band` is a part of each broker's share, `free_range_bytes` the largest difference of free bytes between two
    brokers, `count_band` a part of each broker's share of replicas. The budgets limit the plan; alone they ask
    for the smallest range they can buy. `within_racks` a broker's share is of what its rack holds now; with
    `best_effort` a goal that cannot be reached is approached.
    """

    band: Fraction | None = band_option(
        "Bring every broker within this percentage of its share of used space, by capacity."
    )
    free_range_bytes: int | None = size_option(
        "--free-range", "Largest difference in free space between two brokers (369GiB)."
    )
    count_band: Fraction | None = percent_option(
        "--count-band", "Bring every broker's count of replicas within this percentage of an equal share."
    )
    max_moved_bytes: int | None = size_option(
        "--max-moved-bytes",
        "Copy at most this many bytes; without a goal, reach the smallest range that this allows.",
    )
    max_moves: int | None = option(
        None,
        "--max-moves",
        min=0,
        metavar="N",
        help="Copy at most this many replicas; without a goal, reach the smallest range that this allows.",
        recorded=word_of,
    )
    within_racks: bool = parsed_option(
        BalanceWithin.CLUSTER,
        "--balance-within",
        parse=lambda within: within is BalanceWithin.RACKS,
        typed=BalanceWithin,
        help="A broker's share is of what the cluster holds, or of what its rack holds now.",
        recorded=lambda within: "" if within is BalanceWithin.CLUSTER else str(within),
    )
    best_effort: bool = option(
        False, "--best-effort", help="If the goal cannot be met, use the closest plan found.", recorded=True
    )

    @property
    def given(self) -> bool:
        """True when the request names a goal of its own."""
        return any(
            value is not None
            for value in (self.band, self.free_range_bytes, self.count_band, self.max_moved_bytes, self.max_moves)
        )


MAX_REPLICATION = 32_767
MAX_REPLICAS, MAX_LEADERS, MAX_TOPIC_LEADERS = "--max-replicas", "--max-leaders", "--max-topic-leaders"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """The most replicas and leaders that a broker may end with, of all topics, and leaders of one; None: any number."""

    max_replicas: int | None = option(
        None,
        MAX_REPLICAS,
        min=1,
        metavar="N",
        help="Most replicas that a broker may end with, over all topics.",
        recorded=word_of,
    )
    max_leaders: int | None = option(
        None,
        MAX_LEADERS,
        min=1,
        metavar="N",
        help="Most partitions that a broker may lead in the end, over all topics.",
        recorded=word_of,
    )
    max_topic_leaders: int | None = option(
        None,
        MAX_TOPIC_LEADERS,
        min=1,
        metavar="N",
        help="Most partitions of one topic that a broker may lead in the end.",
        recorded=word_of,
    )

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
class PlanBudget:
    """At most `max_moves` new copies and `max_moved_bytes` in them; None: no limit."""

    max_moves: int | None = option(
        None,
        "--max-moves",
        min=0,
        metavar="N",
        help="Copy at most this many replicas in one run; the same command continues with the rest.",
        recorded=word_of,
    )
    max_moved_bytes: int | None = parsed_option(
        "",
        "--max-moved-bytes",
        parse=lambda text: parse_size(text, "--max-moved-bytes") if text else None,
        metavar="SIZE",
        help="Copy at most this many bytes in one run; the same command continues with the rest.",
        recorded=word_of,
    )

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


NO_BUDGET = PlanBudget()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsRequest:
    """Which topics are planned. `words` are the options of the command as given, for the plan's record."""

    topics: tuple[str, ...] = topics_option()
    topics_exclude: tuple[str, ...] = topics_option("", "--topics-exclude", "Topics to leave out.")
    words: Mapping[str, str] = command_record()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledRequest(TopicsRequest):
    """The rules that lists keep in the end: racks, tags, and what a broker may hold, and who takes no copies."""

    min_rack_ids: int = option(0, "--min-rack-ids", help=RACKS_HELP, recorded=True)
    exclude_receivers: BrokerList | None = brokers_option("--exclude-receivers", "Brokers that get no copies.")
    ceilings: Ceilings = NO_CEILINGS
    constraints: TagConstraints = NO_CONSTRAINTS
