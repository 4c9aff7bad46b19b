"""The options of commands that make lanes: the shapes of their topics, and where those go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.cli.cluster_words import BROKER_CHOICE
from kafkakit.cli.option_groups import option

if TYPE_CHECKING:
    from kafkakit.streams.routes.decide.new_topics import LaneShape, PlacementScope


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """What the topics are like, and which brokers hold them."""

    partitions: str = option(
        "6", "--partitions", metavar="N|LANE=N,...", help="Partitions of each topic; 12,dlq=3 differs for one lane."
    )
    retention: str = option(
        "",
        "--retention",
        metavar="DURATION|LANE=DURATION,...",
        help="How long topics keep records (7d,dlq=30d; -1: for ever); the cluster's default when not given.",
    )
    quota: str = option(
        "",
        "--quota",
        metavar="RATE|LANE=RATE,...",
        help="What each broker takes from all producers of a lane together, per second (5MB/s); no limit when not "
        "given.",
    )
    topics_config: list[str] | None = option(
        None,
        "--topics-config",
        metavar="[LANE:]KEY=VALUE",
        help="A configuration of the topics, or of one lane's. Repeatable.",
    )
    replication: int | None = option(
        None,
        "--replication",
        min=1,
        max=100,
        metavar="N",
        help="Replicas of each partition; 3, or as many as there are brokers, when not given.",
    )
    brokers: str = option("", "--brokers", **BROKER_CHOICE, help="Brokers that may hold them.")
    spread_by: list[str] | None = option(
        None, "--spread-by", metavar="KEY,...", help="Spread replicas over the values of each tag, beside racks."
    )

    def shapes(self, lanes: tuple[str, ...]) -> tuple[LaneShape, ...]:
        """The shapes of these lanes; `UsageError` for a text that cannot be read."""
        from kafkakit.streams.routes.decide.new_topics import lane_shapes

        return lane_shapes(lanes, self.partitions, self.retention, self.topics_config or (), self.quota)

    @property
    def scope(self) -> PlacementScope:
        """Where replicas may go."""
        from kafkakit.core.broker_list import parse_broker_list
        from kafkakit.streams.routes.decide.new_topics import PlacementScope
        from kafkakit.topicmappr.api import TagConstraints

        keys = [key.strip() for given in self.spread_by or () for key in given.split(",") if key.strip()]
        return PlacementScope(
            replication=self.replication,
            brokers=parse_broker_list(self.brokers) if self.brokers else None,
            constraints=TagConstraints(spread_by=tuple(dict.fromkeys(keys))),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneNames:
    """The lanes of a new stream."""

    lanes: str = option("live,slow,retry,dlq", "--lanes", metavar="LANE,...", help="The lanes of the stream.")

    @property
    def names(self) -> tuple[str, ...]:
        """The lanes in order; `UsageError` for a bad name, a repeated one, or none that is `live`."""
        from kafkakit.core.errors import UsageError
        from kafkakit.streams.model.route import LIVE, check_lane

        names = tuple(check_lane(name.strip()) for name in self.lanes.split(",") if name.strip())
        if len(set(names)) < len(names):
            raise UsageError("--lanes names a lane twice")
        if LIVE not in names:
            raise UsageError("--lanes lacks live, which takes the records that no rule sends elsewhere")
        return names
