"""The options that only one of the plain requests has."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.cluster_words import BROKER_CHOICE, TOPIC_CHOICE
from kafkakit.cli.option_groups import RECORDED, option, recorded_as
from kafkakit.core.broker_list import BrokerList, parse_broker_list
from kafkakit.core.quantities import parse_size
from kafkakit.core.topic_selection import parse_patterns
from kafkakit.placement.problem import Minimize, PlaceBy
from kafkakit.topicmappr.commands import options as shared
from kafkakit.topicmappr.decide.budget import Budget

if TYPE_CHECKING:
    from kafkakit.topicmappr.decide.constraints import TagConstraints
    from kafkakit.topicmappr.decide.place import PlaceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOptions:
    """Which brokers are emptied, and onto which."""

    brokers: Annotated[str, typer.Option(**BROKER_CHOICE, help="Brokers to empty; they may be dead.")] = field(
        metadata=RECORDED
    )
    to: str = option(
        "", **BROKER_CHOICE, help="Brokers that may take the replicas; all other live ones if not given.", recorded=True
    )
    exclude_receivers: shared.ExcludeReceivers = field(default="", metadata=RECORDED)

    @property
    def leaving(self) -> BrokerList:
        """The brokers to empty."""
        return parse_broker_list(self.brokers)

    @property
    def receiving(self) -> BrokerList | None:
        """The brokers that may take replicas; None: every other live one."""
        return shared.brokers_given(self.to)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementOptions:
    """What is evened out; recorded where it is bytes."""

    placement: shared.Placement = field(
        default=PlaceBy.COUNT, metadata=recorded_as(lambda chosen: chosen if chosen is PlaceBy.STORAGE else "")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RackRepairOptions(shared.RackOptions):
    """The rack rule, and what repairing it spends least of."""

    minimize: shared.MinimizeBy = field(default=Minimize.MOVES, metadata=RECORDED)
    exclude_receivers: shared.ExcludeReceivers = field(default="", metadata=RECORDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationOptions:
    """The factor wanted, under the rack rule."""

    replication: Annotated[int, typer.Argument(metavar="N", help="Replicas that each partition will have.")] = field(
        metadata=RECORDED
    )
    min_rack_ids: shared.MinRackIds = field(default=0, metadata=RECORDED)
    exclude_receivers: shared.ExcludeReceivers = field(default="", metadata=RECORDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderOptions:
    """Which brokers may lead."""

    brokers: str = option("", **BROKER_CHOICE, help="Brokers that may lead; all live ones if not given.", recorded=True)
    leader_evac_brokers: shared.EvacuatedBrokers = field(default="", metadata=RECORDED)

    @property
    def listed(self) -> BrokerList | None:
        """The brokers that may lead; None: all live ones."""
        return shared.brokers_given(self.brokers)

    @property
    def evacuated(self) -> BrokerList | None:
        """The brokers that must not lead."""
        return shared.brokers_given(self.leader_evac_brokers, "--leader-evac-brokers")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderLimits:
    """What one run leaves alone, and how many leaderships it passes on."""

    pin: shared.Pin = field(default=None, metadata=recorded_as(shared.pin_word))
    max_moves: int | None = option(
        None,
        min=0,
        metavar="N",
        help="Change no more partitions in one run; the same command continues.",
        recorded=shared.word_of,
    )

    @property
    def pinned(self) -> tuple[str, ...]:
        """The patterns of `--pin`."""
        return shared.patterns_of(self.pin)

    @property
    def budget(self) -> Budget:
        """The limit."""
        return Budget(max_moves=self.max_moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirOptions:
    """On which brokers log dirs are levelled, and how far."""

    brokers: str = option(
        "-1",
        **BROKER_CHOICE,
        help="Brokers whose log dirs are balanced.",
        recorded=True,
    )
    band: str = option(
        "10%",
        metavar="PERCENT",
        help="Bring every log dir within this percentage of its share of its broker's use.",
        recorded=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DirLimits:
    """How full dirs may become, and what stays."""

    max_disk_use: shared.MaxDiskUse = field(default="90%", metadata=RECORDED)
    head_room: shared.HeadRoom = field(default="0", metadata=RECORDED)
    pin: shared.Pin = field(default=None, metadata=recorded_as(shared.pin_word))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopicOptions:
    """A new topic, and where it may go."""

    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the new topic; it must not exist.")]
    partitions: int | None = option(None, help="How many partitions.")
    replication: int | None = option(None, help="How many replicas each partition has.")
    brokers: str = option("", **BROKER_CHOICE, help="Brokers that may hold the topic; all live ones if not given.")
    exclude_receivers: shared.ExcludeReceivers = ""
    topics_like: str = option(
        "",
        **TOPIC_CHOICE,
        help="Take partitions, replication and size, where not given, from these topics.",
    )
    partition_bytes: str = option(
        "", metavar="SIZE", help="Expected size of a partition (5GiB): balance brokers by bytes, not by counts."
    )
    min_rack_ids: shared.MinRackIds = 0

    def request(self, constraints: "TagConstraints") -> "PlaceRequest":
        """What is asked for; `UsageError` for options that cannot be read."""
        from kafkakit.topicmappr.decide.place import PlaceRequest

        return PlaceRequest(
            topic=self.topic,
            partitions=self.partitions,
            replication=self.replication,
            partition_bytes=parse_size(self.partition_bytes) if self.partition_bytes else None,
            like=parse_patterns(self.topics_like),
            brokers=shared.brokers_given(self.brokers),
            exclude_receivers=shared.brokers_given(self.exclude_receivers, "--exclude-receivers"),
            min_rack_ids=self.min_rack_ids,
            constraints=constraints,
        )
