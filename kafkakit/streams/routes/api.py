"""What other tools use of `streams routes`: the model and its documents."""

from kafkakit.streams.routes.decide.document import (
    check_lane,
    check_stream,
    decode_route,
    encode_route,
    history_path,
    lane_client_id,
    route_path,
    topic_name,
)
from kafkakit.streams.routes.decide.history import KeptChange, RouteChange
from kafkakit.streams.routes.decide.route import (
    DEFAULT_LANES,
    DLQ,
    LIVE,
    RETRY,
    SLOW,
    GroupRule,
    Lane,
    LaneRule,
    Route,
    Segment,
    SegmentState,
)

__all__ = [
    "DEFAULT_LANES",
    "DLQ",
    "LIVE",
    "RETRY",
    "SLOW",
    "GroupRule",
    "KeptChange",
    "Lane",
    "LaneRule",
    "Route",
    "RouteChange",
    "Segment",
    "SegmentState",
    "check_lane",
    "check_stream",
    "decode_route",
    "encode_route",
    "history_path",
    "lane_client_id",
    "route_path",
    "topic_name",
]
