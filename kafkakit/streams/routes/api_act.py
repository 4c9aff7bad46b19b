"""What other tools use of `streams routes`: the store of routes, topics on live clusters, and shapes of new topics."""

from kafkakit.streams.routes.act.clusters import (
    OpenCluster,
    create_topics,
    find_topics,
    limit_producers,
    own_settings,
    plan_on,
    set_quotas,
)
from kafkakit.streams.routes.act.store import RouteStore
from kafkakit.streams.routes.decide import LaneShape, PlacementScope
