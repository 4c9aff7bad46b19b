"""Asking a metrics service for the traffic of brokers."""

from collections.abc import Callable
from dataclasses import replace

from kafkakit.autothrottle.decide.metrics import TrafficQueries, measured_of
from kafkakit.autothrottle.decide.observed import Observed
from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import KafkakitError
from kafkakit.core.metric_sample import Sample
from kafkakit.ports.clock import Clock
from kafkakit.ports.metrics import SampleQueries


def measure_with(
    service: SampleQueries, clock: Clock, queries: TrafficQueries, capacity: float | None
) -> Callable[[], Observed]:
    """A look at the service; a query that fails is among `problems`, and the law decides without its values."""

    def measure() -> Observed:
        at = clock.now()
        answers: dict[str, tuple[Sample, ...]] = {}
        problems: list[str] = []
        for name, text in queries.texts().items():
            try:
                answers[name] = service.query(text, at)
            except KafkakitError as error:
                problems.append(f"{name}: {error.message}")
                if not answers:
                    break  # a service that is away is not asked six times
        found = measured_of(answers, queries, capacity, epoch_ms(at))
        return replace(found, problems=(*problems, *found.problems))

    return measure
