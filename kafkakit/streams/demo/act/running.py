"""The phases of the demo, one after the other; both clusters are removed at the end."""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace

from kafkakit.core.durations import epoch_ms
from kafkakit.ports.control import ControlStore
from kafkakit.ports.reporter import Screen
from kafkakit.sandbox.api_act import DemoTools, removed_at_the_end
from kafkakit.streams.client.api_act import StreamClient
from kafkakit.streams.demo.act.traffic import Traffic
from kafkakit.streams.demo.decide import RULE, STREAM, DemoPlan, DemoSummary, PhaseFigures, moved, summary_of
from kafkakit.streams.demo.show import phase_line, phase_text
from kafkakit.streams.model.route import Route
from kafkakit.streams.routes.api_act import RouteStore

_LOOK_S = 0.25
_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSession:
    """What the demo opens once its first cluster is up; with `in_place` the screen replaces what it showed."""

    open_client: Callable[[], StreamClient]
    open_control: Callable[[], ControlStore]
    open_screen: Callable[[], AbstractContextManager[Screen]]
    in_place: bool


def run_streams_demo(plan: DemoPlan, tools: DemoTools, session: DemoSession) -> DemoSummary:
    """Start two clusters, let everything go wrong in turn, and count the records; raises what a command raises."""
    began_s = tools.clock.monotonic()
    with removed_at_the_end((plan.home, plan.other), tools, "11. Take both clusters down"):
        tools.title("1. Two clusters of one broker, and a stream with lanes")
        for name in (plan.home, plan.other):
            tools.run(["sandbox", "up", "--brokers", "1", "--name", name])
        for words in plan.making():
            tools.run(words)
        with closing(session.open_control()) as store:
            change = _RouteChanges(RouteStore(store), tools)
            change(lambda route: replace(route, rules=(RULE,)), "a rule for the lane slow")
            with session.open_client() as client, Traffic(client, tools.clock, plan.rate) as traffic:
                summary = _Phases(plan, tools, session, traffic, change).run()
    return replace(summary, seconds=tools.clock.monotonic() - began_s)


class _RouteChanges:
    def __init__(self, routes: RouteStore, tools: DemoTools) -> None:
        self._routes, self._tools = routes, tools

    def __call__(self, edit: Callable[[Route], Route], what: str) -> Route:
        at_ms = epoch_ms(self._tools.clock.now())
        return self._routes.change(STREAM, edit, by="kafkakit streams demo", what=what, at_ms=at_ms)


class _Phases:
    def __init__(
        self, plan: DemoPlan, tools: DemoTools, session: DemoSession, traffic: Traffic, change: _RouteChanges
    ) -> None:
        self._plan, self._tools, self._session, self._traffic, self._change = plan, tools, session, traffic, change
        self._done: list[PhaseFigures] = []
        self._epoch, self._other_id = 0, ""

    def run(self) -> DemoSummary:
        traffic, run = self._traffic, self._tools.run

        def is_rejected() -> bool:
            return traffic.figures().rejected >= 1

        self._phase("2. Producers write, consumers handle")
        self._phase("3. A poison pill", traffic.send_poison, is_rejected)
        self._phase("4. A batch of 64 MiB in a few kB", self._bomb, is_rejected)
        run(self._plan.rejected())
        self._phase("5. The database is down", traffic.database_up.clear, lambda: traffic.figures().deferred > 0)
        waiting = traffic.open_numbers()
        self._phase("6. The database is back", traffic.database_up.set, lambda: not waiting & traffic.open_numbers())
        self._phase("7. A burst on the lane slow", lambda: traffic.send_burst(self._plan.burst))
        self._tools.title("8. Topics on the second cluster, which consumers read and producers do not write yet")
        for words in self._plan.opening():
            run(words)
        self._phase("9. The route changes to them, under load", self._move, self._is_moved)
        self._phase("10. No more writes; the rest is handled", traffic.end_writing, traffic.is_drained, at_least_s=0)
        return summary_of(traffic.events(self._other_id), self._done)

    def _bomb(self) -> None:
        self._traffic.send_bomb(_LIMIT_S)

    def _move(self) -> None:
        what = f"move to {self._plan.other}"
        route = self._change(lambda route: moved(route, self._plan.other), what)
        self._epoch = route.epoch
        self._other_id = next(key for key, profile in route.clusters.items() if profile == self._plan.other)

    def _is_moved(self) -> bool:
        """A phase's records are on the other cluster, and each consumer has the new route."""
        wanted = self._plan.rate * self._plan.phase_s / 2
        return self._traffic.written_on(self._other_id) >= wanted and self._traffic.epoch >= self._epoch

    def _phase(
        self,
        title: str,
        begin: Callable[[], object] | None = None,
        until: Callable[[], bool] = lambda: True,
        *,
        at_least_s: float | None = None,
    ) -> None:
        """Do something, then wait for the time of a phase and until the condition holds, within a limit."""
        clock, traffic = self._tools.clock, self._traffic
        self._tools.title(title)
        traffic.begin(title)
        with self._session.open_screen() as screen:
            began_s = clock.monotonic()
            if begin is not None:
                begin()
            end_s = began_s + (self._plan.phase_s if at_least_s is None else at_least_s)
            while (now_s := clock.monotonic()) < end_s or (now_s < end_s + _LIMIT_S and not until()):
                if self._session.in_place:
                    screen.show(phase_text(traffic.figures()), "")
                clock.sleep(_LOOK_S)
        self._done.append(traffic.figures())
        self._tools.reporter.say(phase_line(self._done[-1]))
