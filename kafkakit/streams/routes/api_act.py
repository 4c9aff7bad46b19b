"""What other tools use of `streams routes`: the routes in a control store."""

from kafkakit.streams.routes.act.store import RouteStore, VersionedRoute

__all__ = ["RouteStore", "VersionedRoute"]
