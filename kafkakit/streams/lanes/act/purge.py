"""Deleting rejected records for good: the beginning of the DLQ lane's partitions, and references."""

from collections.abc import Callable

from kafkakit.core.cluster_facts import ItemError
from kafkakit.ports.clock import Clock
from kafkakit.streams.lanes.act.letters import LetterReader
from kafkakit.streams.lanes.act.reject_ledger import RejectLedger
from kafkakit.streams.lanes.act.stream_clusters import StreamClusters
from kafkakit.streams.lanes.decide.dead_letters import DeadLetter
from kafkakit.streams.lanes.decide.purge_plan import PurgeOutcome, PurgePlan, plan_purge
from kafkakit.streams.model.route import Route


class Purger:
    """Plans and carries out purges of one stream."""

    def __init__(self, clusters: StreamClusters, clock: Clock, *, wait_s: float) -> None:
        self._clusters, self._clock, self._wait_s = clusters, clock, wait_s

    def plan(self, route: Route, matches: Callable[[DeadLetter], bool]) -> PurgePlan:
        """What a purge of what matches would delete now; reads all rejected records."""
        reader = LetterReader(self._clusters, self._clock, wait_s=self._wait_s)
        return plan_purge((letter, matches(letter)) for letter in reader.matching(route, lambda letter: True))

    def carry_out(self, route: Route, plan: PurgePlan) -> PurgeOutcome:
        """Delete what the plan names and nothing that came later; brokers answer for each partition."""
        errors: dict[str, ItemError] = {}
        for cluster_id, profile in sorted(route.clusters.items()):
            ports = self._clusters.of(profile, cluster_id)
            cuts = {cut.place: cut.offset for cut in plan.cuts if cut.cluster_id == cluster_id and cut.records}
            if cuts:
                answers = ports.admin.delete_records(cuts)
                errors |= {f"{key} on {cluster_id}": error for key, error in answers.items() if error is not None}
            RejectLedger(ports, self._clock, wait_s=self._wait_s).remove(plan.references.get(cluster_id, ()))
        return PurgeOutcome(plan=plan, errors=errors)
