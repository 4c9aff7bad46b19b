"""What other tools use of `streams routes`: the routes in a control store, and topics of streams on live clusters."""

from kafkakit.streams.routes.act.clusters import OpenCluster, find_topics
from kafkakit.streams.routes.act.quotas import set_quotas
from kafkakit.streams.routes.act.store import RouteStore
from kafkakit.streams.routes.act.topics import create_topics, own_settings, plan_on
