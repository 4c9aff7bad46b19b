"""What other tools may use of fleets where they act: collecting clusters into a store."""

from kafkakit.fleet.act import CollectSource, collect_fleet
from kafkakit.fleet.decide import FleetCluster
from kafkakit.fleet.report import OutcomeStatus
from kafkakit.fleet.requests import CollectRequest, FleetLimits
