"""Looking at an operation from outside: the route, the journal and the clusters, without the right to change any."""

from collections.abc import Callable

from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import KafkakitError
from kafkakit.core.log_reads import LogSpan
from kafkakit.streams.failover.act.closing import newest
from kafkakit.streams.failover.act.run import RunParts
from kafkakit.streams.failover.decide.evidence import Evidence
from kafkakit.streams.failover.decide.live import LiveHistory, LiveLook, LiveView
from kafkakit.streams.failover.decide.operation import Step
from kafkakit.streams.failover.decide.standing import standing
from kafkakit.streams.failover.decide.steps import next_step
from kafkakit.streams.model.route import Route, Segment, partitions_of
from kafkakit.streams.routes.api_act import OpenCluster


class OperationWatcher:
    """One watcher of one stream. It decides as a run would and does nothing of it; the window is its own.

    A look costs what a look of a run costs, and a request to each cluster of the route for the ends of its logs.
    `holder` tells which process has the stream's lease.
    """

    def __init__(self, stream: str, parts: RunParts, open_cluster: OpenCluster, holder: Callable[[], str]) -> None:
        self._stream, self._parts, self._open, self._holder = stream, parts, open_cluster, holder
        self._history = LiveHistory()

    def look(self) -> LiveView:
        """One look; raises `TryLaterError` while the control store is away."""
        parts = self._parts
        route = parts.routes.existing(self._stream).route
        record = newest(parts.journals, route) if route.operation is not None else None
        step = None if record is None else standing(record.operation, route)
        evidence, action = None, None
        if record is not None and step is not None:
            evidence = parts.observer.look(record, route, retiring=True)
            action = next_step(record, evidence, Step.RETIRED)
        ends, problems = self._ends(route, evidence)
        return self._history.view(
            LiveLook(
                at_s=parts.clock.monotonic(),
                at_ms=epoch_ms(parts.clock.now()),
                route=route,
                record=record,
                step=step,
                evidence=evidence,
                ends=ends,
                problems=problems,
                action=action,
                holder=self._holder(),
            )
        )

    def _ends(self, route: Route, evidence: Evidence | None) -> tuple[dict[int, int], dict[int, str]]:
        """The ends of all segments; a cluster that this look has found away is not asked again."""
        ends, problems, by_cluster = dict[int, int](), dict[int, str](), dict[str, list[Segment]]()
        away: dict[str, str] = {}
        for _, segment in route.segments():
            facts = None if evidence is None else evidence.old.get(segment.id)
            if facts is not None and facts.problem:
                problems[segment.id] = facts.problem
                if not facts.is_reachable:
                    away[segment.cluster] = facts.problem
            elif facts is not None and facts.whole_spans is not None:
                ends[segment.id] = sum(span.end for span in facts.whole_spans.values())
            else:
                by_cluster.setdefault(segment.cluster, []).append(segment)
        for cluster, segments in by_cluster.items():
            if cluster in away:
                problems |= dict.fromkeys((segment.id for segment in segments), away[cluster])
                continue
            try:
                spans = self._open(cluster).log.spans([key for each in segments for key in partitions_of(each)])
            except KafkakitError as error:
                problems |= dict.fromkeys((segment.id for segment in segments), error.message)
                continue
            for segment in segments:
                found = [span for key in partitions_of(segment) if isinstance(span := spans.get(key), LogSpan)]
                if len(found) == segment.partitions:
                    ends[segment.id] = sum(span.end for span in found)
                else:
                    problems[segment.id] = "not every leader answers"
        return ends, problems
