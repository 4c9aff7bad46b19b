"""The options of `rebuild`, and the request that they make."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.option_groups import RECORDED, recorded_as, recorded_words
from kafkakit.core.broker_list import parse_broker_list
from kafkakit.core.errors import UsageError
from kafkakit.core.topic_selection import parse_patterns
from kafkakit.placement.choices import OptimizeFor, PlaceBy
from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.act.places import PlanDestination
from kafkakit.topicmappr.commands.options import (
    Brokers,
    EvacuatedBrokers,
    MinimizeBy,
    MinRackIds,
    OptimizeLeadership,
    Placement,
    Topics,
    TopicsExclude,
)

if TYPE_CHECKING:
    from kafkakit.topicmappr.decide.rebuild.request import RebuildRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildOptions:
    """What is rebuilt, and how."""

    brokers: Brokers = field(metadata=RECORDED)
    topics: Topics = field(default="", metadata=RECORDED)
    topics_exclude: TopicsExclude = field(default="", metadata=RECORDED)
    map_string: Annotated[str, typer.Option(help="Partition map as JSON, used instead of --topics.")] = field(
        default="", metadata=RECORDED
    )
    replication: Annotated[int, typer.Option(help="Set every replication factor to this; 0 leaves it.")] = field(
        default=0, metadata=RECORDED
    )
    force_rebuild: Annotated[
        bool,
        typer.Option("--force-rebuild", help="Spread replicas evenly over all targets, with the fewest moves."),
    ] = field(default=False, metadata=RECORDED)
    sub_affinity: Annotated[
        bool, typer.Option("--sub-affinity", help="Replace each outgoing broker by one specific new broker.")
    ] = field(default=False, metadata=RECORDED)
    min_rack_ids: MinRackIds = field(default=0, metadata=RECORDED)
    minimize: MinimizeBy = field(default=Minimize.MOVES, metadata=RECORDED)
    optimize_leadership: OptimizeLeadership = field(default=False, metadata=RECORDED)
    leader_evac_brokers: EvacuatedBrokers = field(default="", metadata=RECORDED)
    leader_evac_topics: Annotated[str, typer.Option(help="Topics that --leader-evac-brokers must not lead.")] = field(
        default="", metadata=RECORDED
    )
    phased_reassignment: Annotated[
        bool,
        typer.Option(
            "--phased-reassignment", help="Write a first map that keeps the current leaders, then the final one."
        ),
    ] = field(default=False, metadata=RECORDED)
    chunk_step_size: Annotated[
        int, typer.Option(help="Write a series of maps, this many brokers at a time; 0: one map.")
    ] = field(default=0, metadata=RECORDED)
    skip_no_ops: Annotated[
        bool, typer.Option("--skip-no-ops", help="Leave unchanged partitions out of the map files.")
    ] = field(default=False, metadata=RECORDED)

    @property
    def evacuated(self) -> tuple[int, ...]:
        """The ids of `--leader-evac-brokers`; `UsageError` for -1 and -2."""
        if not self.leader_evac_brokers:
            return ()
        parsed = parse_broker_list(self.leader_evac_brokers, "--leader-evac-brokers")
        if parsed.existing or parsed.everything:
            raise UsageError("--leader-evac-brokers: name the brokers, -1 and -2 mean all of them")
        return parsed.ids


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOptions:
    """What is evened out; recorded where it is bytes."""

    placement: Placement = field(default=PlaceBy.COUNT, metadata=RECORDED)
    optimize: Annotated[
        OptimizeFor,
        typer.Option(
            help="With storage placement: only free bytes (storage), or free bytes and then leaders (distribution)."
        ),
    ] = field(default=OptimizeFor.DISTRIBUTION, metadata=RECORDED)
    partition_size_factor: Annotated[
        float,
        typer.Option(help="With storage placement: what a new copy reserves, as a multiple of its size."),
    ] = field(default=1.0, metadata=RECORDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataOptions:
    """What is known of brokers."""

    use_meta: Annotated[
        bool, typer.Option("--use-meta/--no-use-meta", help="Use the racks and the state of brokers.")
    ] = field(default=True, metadata=recorded_as(lambda used: "" if used else "false"))


def rebuild_request(
    requested: RebuildOptions, storage: StorageOptions, metadata: MetadataOptions, output: PlanDestination
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
        words=recorded_words("topicmappr rebuild", requested, output, *by_storage, metadata),
    )
