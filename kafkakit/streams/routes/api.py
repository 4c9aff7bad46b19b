"""What other tools use of `streams routes`: the model and its documents."""

from kafkakit.streams.routes.decide.document import (
    SHADOW,
    check_lane,
    check_stream,
    decode_route,
    encode_route,
    lane_client_id,
    route_path,
    topic_name,
)
from kafkakit.streams.routes.decide.edits import refuse_open_operation
from kafkakit.streams.routes.decide.new_topics import LaneShape, PlacementScope
from kafkakit.streams.routes.decide.observed import partitions_of, segment_problem
from kafkakit.streams.routes.decide.operation_edits import (
    at_step,
    begun,
    ended,
    opened,
    retired,
    routed,
    sealed,
    stranded,
    unopened,
    unsealed,
)
from kafkakit.streams.routes.decide.route import (
    DEFAULT_LANES,
    DLQ,
    LIVE,
    SLOW,
    GroupRule,
    Lane,
    LaneRule,
    PartitionSeal,
    Route,
    RouteOperation,
    Segment,
    SegmentState,
)
