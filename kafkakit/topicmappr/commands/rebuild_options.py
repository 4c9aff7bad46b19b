"""The options of `rebuild`, and the request that they make."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkakit.cli.cluster_words import TOPIC_CHOICE
from kafkakit.cli.option_groups import RECORDED, option, recorded_words
from kafkakit.core.broker_list import parse_broker_list
from kafkakit.core.errors import UsageError
from kafkakit.core.topic_selection import parse_patterns
from kafkakit.placement.problem import Minimize, OptimizeFor, PlaceBy
from kafkakit.topicmappr.act.places import PlanDestination
from kafkakit.topicmappr.commands import options as shared

if TYPE_CHECKING:
    from kafkakit.topicmappr.decide.rebuild.request import RebuildRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildOptions:
    """What is rebuilt, and how."""

    brokers: shared.Brokers = field(metadata=RECORDED)
    topics: shared.Topics = field(default="", metadata=RECORDED)
    topics_exclude: shared.TopicsExclude = field(default="", metadata=RECORDED)
    map_string: str = option("", help="Partition map as JSON, used instead of --topics.", recorded=True)
    replication: int = option(0, help="Set every replication factor to this; 0 leaves it.", recorded=True)
    force_rebuild: bool = option(
        False, "--force-rebuild", help="Spread replicas evenly over all targets, with the fewest moves.", recorded=True
    )
    sub_affinity: bool = option(
        False, "--sub-affinity", help="Replace each outgoing broker by one specific new broker.", recorded=True
    )
    min_rack_ids: shared.MinRackIds = field(default=0, metadata=RECORDED)
    minimize: shared.MinimizeBy = field(default=Minimize.MOVES, metadata=RECORDED)
    optimize_leadership: shared.OptimizeLeadership = field(default=False, metadata=RECORDED)
    leader_evac_brokers: shared.EvacuatedBrokers = field(default="", metadata=RECORDED)
    leader_evac_topics: str = option(
        "", **TOPIC_CHOICE, help="Topics that --leader-evac-brokers must not lead.", recorded=True
    )
    phased_reassignment: bool = option(
        False,
        "--phased-reassignment",
        help="Write a first map that keeps the current leaders, then the final one.",
        recorded=True,
    )
    chunk_step_size: int = option(
        0, help="Write a series of maps, this many brokers at a time; 0: one map.", recorded=True
    )
    skip_no_ops: bool = option(
        False, "--skip-no-ops", help="Leave unchanged partitions out of the map files.", recorded=True
    )

    @property
    def evacuated(self) -> tuple[int, ...]:
        """The ids of `--leader-evac-brokers`; `UsageError` for -1 and -2."""
        if not self.leader_evac_brokers:
            return ()
        parsed = parse_broker_list(self.leader_evac_brokers, "--leader-evac-brokers")
        if parsed.where is not None:
            raise UsageError("--leader-evac-brokers: queries are not taken here", hint="give ids")
        if parsed.existing or parsed.everything:
            raise UsageError("--leader-evac-brokers: name the brokers, -1 and -2 mean all of them")
        return parsed.ids


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOptions:
    """What is evened out; recorded where it is bytes."""

    placement: shared.Placement = field(default=PlaceBy.COUNT, metadata=RECORDED)
    optimize: OptimizeFor = option(
        OptimizeFor.DISTRIBUTION,
        help="With storage placement: only free bytes (storage), or free bytes and then leaders (distribution).",
        recorded=True,
    )
    partition_size_factor: float = option(
        1.0, help="With storage placement: what a new copy reserves, as a multiple of its size.", recorded=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataOptions:
    """What is known of brokers."""

    use_meta: bool = option(
        True,
        "--use-meta/--no-use-meta",
        help="Use the racks and the state of brokers.",
        recorded=lambda used: "" if used else "false",
    )


def rebuild_request(
    requested: RebuildOptions,
    storage: StorageOptions,
    metadata: MetadataOptions,
    tags: shared.ConstraintOptions,
    output: PlanDestination,
) -> "RebuildRequest":
    """Read the options; `UsageError` for those that cannot be read or contradict each other."""
    from kafkakit.topicmappr.decide.map_files import read_map_string
    from kafkakit.topicmappr.decide.rebuild.request import RebuildRequest, parse_factor

    by_storage = (storage,) if storage.placement is PlaceBy.STORAGE else ()
    return RebuildRequest(
        brokers=parse_broker_list(requested.brokers),
        topics=parse_patterns(requested.topics),
        topics_exclude=parse_patterns(requested.topics_exclude),
        map=read_map_string(requested.map_string) if requested.map_string else None,
        replication=requested.replication,
        force_rebuild=requested.force_rebuild,
        sub_affinity=requested.sub_affinity,
        min_rack_ids=requested.min_rack_ids,
        skip_no_ops=requested.skip_no_ops,
        optimize_leadership=requested.optimize_leadership,
        phased=requested.phased_reassignment,
        leader_evac_brokers=requested.evacuated,
        leader_evac_topics=parse_patterns(requested.leader_evac_topics),
        chunk_step=requested.chunk_step_size,
        use_meta=metadata.use_meta,
        minimize=requested.minimize,
        placement=storage.placement,
        optimize=storage.optimize,
        partition_size_factor=parse_factor(storage.partition_size_factor),
        constraints=tags.constraints,
        words=recorded_words("topicmappr rebuild", requested, output, *by_storage, metadata, tags),
    )
