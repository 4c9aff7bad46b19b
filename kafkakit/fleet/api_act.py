"""What other tools may use of fleets where they act: collecting clusters into a store."""

from kafkakit.fleet.act import CollectSource, collect_fleet, invocation_of
from kafkakit.fleet.decide import LIMIT_BYTES, FleetCluster, read_fleet
from kafkakit.fleet.report import OutcomeStatus
from kafkakit.fleet.requests import CollectRequest, FleetLimits
