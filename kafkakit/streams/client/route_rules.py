"""The lane of each record by the rules of the stream's route."""

import logging

from kafkakit.core.deliveries import OutgoingRecord
from kafkakit.core.errors import UsageError
from kafkakit.streams.client.route_follower import RouteFollower
from kafkakit.streams.model.route import LaneChooser

_LOG = logging.getLogger("kafkakit.streams.client")


class RouteRules:
    """Follows the rules of the route. Rules that cannot be read leave the ones before in use; without any, `live`."""

    def __init__(self, follower: RouteFollower) -> None:
        self._follower = follower
        self._epoch, self._chooser = 0, LaneChooser((), ())

    def __call__(self, record: OutgoingRecord, now_ms: int) -> str:
        """The lane's name."""
        route = self._follower.current()
        if route.epoch > self._epoch:
            self._epoch = route.epoch
            try:
                self._chooser = LaneChooser(route.rules, [lane.name for lane in route.lanes])
            except UsageError as error:
                _LOG.warning("stream %s: the rules of epoch %d are not used: %s", route.stream, route.epoch, error)
        return self._chooser.choose(record, now_ms)
