"""Asking a metrics service for the traffic of brokers."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from kafkakit.autothrottle.decide.datadog import HostQueriesAsked, HostTags, hosts_of, measured_by_host, read_tags
from kafkakit.autothrottle.decide.metrics import TrafficQueries, measured_of
from kafkakit.autothrottle.decide.observed import Observed
from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import KafkakitError, TryLaterError
from kafkakit.core.metric_sample import Sample
from kafkakit.ports.clock import Clock
from kafkakit.ports.metrics import HostQueries, Patience, SampleQueries

ASKED_ONCE = Patience(timeout_s=5.0, attempts=1)
"""What a tick waits for one answer: the next tick asks again, and the lead over other pacers runs on meanwhile."""
LOOK_UP_S = 20.0
"""How long one look may ask for tags; the rest is asked for at the next one."""
MAX_HOSTS = 2000


def measure_with(service: SampleQueries, clock: Clock, queries: TrafficQueries) -> Callable[[], Observed]:
    """A look at the service; a query that fails is among `problems`, and the law decides without its values."""

    def measure() -> Observed:
        at = clock.now()
        answers, problems = _ask(service, queries.texts(), at)
        return measured_of(answers, queries, epoch_ms(at), queries.window_s, problems)

    return measure


def measure_hosts(
    service: HostQueries, clock: Clock, asked: HostQueriesAsked, *, with_type: bool
) -> Callable[[], Observed]:
    """A look at a service with a series for each host; complete tags are looked up once, one request a host.

    `with_type`: instance types are needed, so that a host without one is asked for again.
    """
    kept: dict[str, HostTags] = {}

    def measure() -> Observed:
        at = clock.now()
        answers, problems = _ask(service, asked.texts(), at)
        hosts, now, end_s = hosts_of(answers)[:MAX_HOSTS], dict(kept), clock.monotonic() + LOOK_UP_S
        for position, host in enumerate(unknown := [h for h in hosts if h not in kept]):
            try:
                if clock.monotonic() >= end_s:
                    raise TryLaterError(f"not asked for within {LOOK_UP_S:g} s")
                now[host] = read_tags(service.host_tags(host), asked)
            except KafkakitError as error:
                rest = len(unknown) - position - 1 if isinstance(error, TryLaterError) else 0
                others = f" and {rest} more" if rest else ""
                problems = (*problems, f"tags of host {host}{others}: {error.message}")
                if rest:
                    break  # a service that is away is not asked for each host
        kept.update({h: tags for h, tags in now.items() if tags.is_complete(with_type=with_type)})
        found = measured_by_host(answers, now, asked, at)
        return replace(found, problems=(*problems, *found.problems))

    return measure


def _ask(
    service: SampleQueries, texts: Mapping[str, str], at: datetime
) -> tuple[dict[str, tuple[Sample, ...]], tuple[str, ...]]:
    """What the service answers, and which queries failed."""
    answers: dict[str, tuple[Sample, ...]] = {}
    problems: list[str] = []
    late = 0
    for name, text in texts.items():
        try:
            answers[name] = service.query(text, at)
        except KafkakitError as error:
            problems.append(f"{name}: {error.message}")
            late += isinstance(error, TryLaterError)
            if late > min(1, len(answers)):
                break  # a service that is away, or that went away, is not asked six times
    return answers, tuple(problems)
