"""What other tools may use of fleets where they act: collecting clusters into a store."""

from kafkakit.fleet.act import CollectRequest, CollectSource, FleetLimits, collect_fleet
from kafkakit.fleet.decide import FleetCluster
from kafkakit.fleet.report import OutcomeStatus
