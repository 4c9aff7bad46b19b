"""The watch over a cluster: looks at its brokers and at a metrics service, and a verdict on each window."""

from collections.abc import Callable
from datetime import datetime, timedelta

from kafkakit.core.durations import format_duration
from kafkakit.core.errors import KafkakitError, TryLaterError
from kafkakit.core.metric_sample import Sample
from kafkakit.ports.clock import Clock
from kafkakit.ports.metrics import SampleQueries
from kafkakit.ports.reporter import Reporter
from kafkakit.rollout.act.reading import PartitionWatch
from kafkakit.rollout.decide.health import GAUGES, HealthLook, Signal, joined, looks_in
from kafkakit.rollout.decide.journal import WatchSettings
from kafkakit.rollout.decide.queries import HealthQueries, look_of
from kafkakit.rollout.decide.verdict import Baseline, Health, HealthVerdict, baseline_of, judge

MOST_PAST = 60
"""How many moments of the past a metrics service is asked for."""


class HealthWatch:
    """Takes looks; `service` None: the brokers tell everything. `stop` is called before each look and may raise."""

    def __init__(
        self,
        partitions: PartitionWatch,
        service: tuple[SampleQueries, HealthQueries] | None,
        clock: Clock,
        settings: WatchSettings,
        reporter: Reporter,
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._partitions, self._service, self._clock = partitions, service, clock
        self._settings, self._reporter, self._stop = settings, reporter, stop
        self._problem = ""

    @property
    def window(self) -> int:
        """Looks in a window."""
        return looks_in(self._settings.window_s, self._settings.every_s)

    def past(self) -> tuple[HealthLook, ...]:
        """What is usual: looks of the baseline's time before now.

        A metrics service tells the past at once, up to 60 moments of it, and the brokers how partitions stand. With the
        brokers alone this takes as long as the baseline is.
        """
        settings = self._settings
        count = looks_in(settings.baseline_s, settings.every_s)
        if self._service is None:
            with self._reporter.progress(f"what is usual, {format_duration(settings.baseline_s)}") as bar:
                looks = []
                for number in range(count + 1):
                    looks.append(self._next(is_first=number == 0))
                    bar.update(number, count)
            return tuple(looks)
        step = max(1, count // MOST_PAST)
        now = self._clock.now()
        moments = [now - timedelta(seconds=settings.every_s * n) for n in range(count, 0, -step)]
        found = [self._asked(moment) for moment in moments]
        self._problem = next((f.problem for f in reversed(found) if f is not None and f.problem), "")
        first = [self._next(is_first=True), self._next()]
        gauges = {s: max(look.values.get(s, 0.0) for look in first) for s in GAUGES}
        return tuple(
            HealthLook(at_ms=f.at_ms, values={**gauges, **f.values}, problem=f.problem) for f in found if f is not None
        )

    def problem_of(self, baseline: Baseline) -> str:
        """Why nothing can be judged with that past, empty where it can; a signal that is not told is warned of."""
        asked = () if self._service is None else tuple(self._service[1].texts)
        lacking = [signal.value for signal in asked if signal not in baseline]
        if not baseline or (asked and len(lacking) == len(asked)):
            why = self._problem or f"no {', '.join(lacking) or 'look at the cluster'}"
            return f"nothing tells what is usual: {why}"
        for signal in lacking:
            self._reporter.warn(f"not watched, no series: {signal}")
        return ""

    def window_after(self, baseline: Baseline, what: str, *, restarted: bool = False) -> HealthVerdict:
        """Watch one window, as long as it takes to know; min ISR is read again before, and after two looks.

        A broker may answer before it has heard of the step. What happened while one was `restarted` does not count.
        """
        self._partitions.renew(forget=restarted)
        looks = [self._next(is_first=True)]
        verdict = judge(baseline, looks, self.window)
        with self._reporter.progress(f"watching {what}") as bar:
            while verdict.health is Health.OPEN:
                if len(looks) == 2:
                    self._partitions.renew()
                looks.append(self._next())
                verdict = judge(baseline, looks, self.window)
                bar.update(len(looks), self.window, "; ".join(f"{r.signal.value} {r.seen:g}" for r in verdict.rows[:3]))
        return verdict

    def _next(self, *, is_first: bool = False) -> HealthLook:
        """One look, a period after the last one."""
        self._stop()
        if not is_first:
            self._clock.sleep(self._settings.every_s)
        return joined(self._partitions.look(), self._asked(self._clock.now()))

    def _asked(self, at: datetime) -> HealthLook | None:
        """What the metrics service tells of a moment; queries that fail are named."""
        if self._service is None:
            return None
        service, queries = self._service
        answers: dict[Signal, tuple[Sample, ...]] = {}
        problems: list[str] = []
        for signal, text in queries.texts.items():
            try:
                answers[signal] = service.query(text, at)
            except KafkakitError as error:
                problems.append(f"{signal.value}: {error.message}")
                if not answers:
                    break  # a service that is away is not asked five times
        return look_of(answers, queries, at, tuple(problems))


def watch_windows(watch: HealthWatch, count: int) -> tuple[HealthVerdict, ...]:
    """Watch what is usual, then so many windows; `TryLaterError` where nothing tells what is usual."""
    baseline = baseline_of(watch.past())
    if problem := watch.problem_of(baseline):
        raise TryLaterError(problem)
    return tuple(watch.window_after(baseline, f"window {n} of {count}") for n in range(1, count + 1))
