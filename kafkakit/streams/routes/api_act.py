"""What other tools use of `streams routes`: the routes in a control store."""

from kafkakit.streams.routes.act.store import KeptChange, RouteStore, VersionedRoute

__all__ = ["KeptChange", "RouteStore", "VersionedRoute"]
