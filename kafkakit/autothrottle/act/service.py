"""The pacer as a service: one of several instances leads, the others wait for it to end.

Over HTTP it has kafka-kit's admin API, health and metrics, behind a token; events about ticks are sent. Status reads
what is set on a cluster, and by which process. Laws can be played against a scenario, with the progress shown.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from hmac import compare_digest
from pathlib import Path
from threading import Event

from kafkakit.autothrottle.act.pacer import OverrideStore, Pacer, open_journal, read_saved
from kafkakit.autothrottle.decide.law import Law
from kafkakit.autothrottle.decide.pacer import (
    Override,
    Overrides,
    PacerStatus,
    Refusal,
    Tick,
    events_of,
    is_api,
    perform,
    read_call,
    refusal_page,
)
from kafkakit.autothrottle.decide.scenario import Scenario
from kafkakit.autothrottle.decide.simulate import SimulationResult, simulate
from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.errors import (
    InputError,
    KafkakitError,
    LeaseLostError,
    TryLaterError,
    ended_by_stop,
)
from kafkakit.core.lease import pacer_lease
from kafkakit.core.rpc import HttpPage, HttpRequest, Pages, plain_page
from kafkakit.execution.act.control_requests import EventQueue
from kafkakit.execution.act.leases import Lease, lease_path, read_lease
from kafkakit.execution.act.run_journal import journal_files, read_run_state
from kafkakit.execution.decide.journal import ConfigKey
from kafkakit.execution.decide.schedule.work import BrokerRates
from kafkakit.execution.decide.throttle import LIST_KEYS, RATE_KEYS
from kafkakit.ports.acting import Clock, Reporter, repeat_every
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.stores import ControlStore

LEAD_TTL_S = 10.0
"""A leader that is silent for so long is replaced."""
POLL_S = 1.0
LOOK_EVERY_S = 5.0
"""How often overrides and the list of moves are read between ticks."""
RETRY_S = 15.0


class BothOverrides:
    """kafka-kit's znodes beside the control store, whose overrides win: both are read, changes go to the znodes."""

    def __init__(self, znodes: OverrideStore, control: OverrideStore) -> None:
        self._znodes, self._control = znodes, control

    def read(self) -> Overrides:
        """See `OverrideStore`; a rate in both is the control store's."""
        below, above = self._znodes.read(), self._control.read()
        return Overrides(every=above.every or below.every, of=dict(sorted({**below.of, **above.of}.items())))

    def put(self, broker: int | None, override: Override | None) -> None:
        """See `OverrideStore`; nothing of it stays in the control store."""
        self._znodes.put(broker, override)
        self._control.put(broker, None)

    def settle(self) -> None:
        self._znodes.settle()
        self._control.settle()


class PacerService:
    """Ticks every `interval_s` while this instance leads, and soon after overrides or moves changed.

    `report` gets lines of what else happens, `told` every tick.
    """

    def __init__(
        self,
        pacer: Pacer,
        lead: Lease,
        overrides: OverrideStore,
        clock: Clock,
        *,
        interval_s: float,
        report: Callable[[str], None],
        told: Callable[[Tick], None],
    ) -> None:
        self._pacer, self._lead, self._overrides, self._clock = pacer, lead, overrides, clock
        self._interval_s, self._report, self._told = interval_s, report, told
        self._due_s = self._look_s = 0.0
        self._known: Overrides | None = None
        self._is_waiting = False
        self._woken = Event()
        self.last: Tick | None = None
        self.failure = ""

    @property
    def is_leader(self) -> bool:
        """Whether this instance certainly leads; for any thread."""
        return self._lead.is_held()

    def wake(self) -> None:
        """Tick at the next step; for any thread."""
        self._woken.set()

    def say(self, line: str) -> None:
        """Report a line."""
        self._report(line)

    def step(self) -> None:
        """What is due now; to be called about every second by one thread."""
        if not self._leads():
            return
        now_s = self._clock.monotonic()
        if now_s < self._due_s and not self._woken.is_set() and not self._has_changed(now_s):
            return
        self._woken.clear()
        try:
            tick = self._pacer.tick()
            self._known = tick.overrides
        except LeaseLostError as lost:
            self._report(f"stopping: {lost.message}")
            self._due_s = 0.0
        except KafkakitError as error:
            self.failure = error.message
            self._report(f"this tick failed, throttles stay as they are: {error.message}")
            self._due_s = now_s + min(RETRY_S, self._interval_s)
        else:
            self.last, self.failure = tick, ""
            self._due_s = now_s + self._interval_s
            self._told(tick)

    def _leads(self) -> bool:
        try:
            was_ours = self._lead.is_held()
            is_ours = self._lead.hold_or_attempt(LEAD_TTL_S)
        except KafkakitError as error:
            self._tell_waiting(f"not the leader: {error.message}")
            return False
        if is_ours and not was_ours:
            self._is_waiting, self._due_s = False, 0.0
            self._report("became leader")
        elif not is_ours:
            self._tell_waiting("waiting: another instance is the leader")
        return is_ours

    def _tell_waiting(self, line: str) -> None:
        if not self._is_waiting:
            self._report(line)
        self._is_waiting = True

    def _has_changed(self, now_s: float) -> bool:
        if self._known is None or now_s < self._look_s:
            return False
        self._look_s = now_s + LOOK_EVERY_S
        with suppress(KafkakitError):
            return self._overrides.read() != self._known or self._pacer.has_other_moves()
        return False


def run_service(
    service: PacerService,
    pacer: Pacer,
    lead: Lease,
    clock: Clock,
    notify: Callable[..., bool],
    *,
    require_listening: Callable[[], None],
    remove_on_exit: bool,
) -> None:
    """Run until a stop is requested; raises `ServiceStoppedError` for SIGTERM and Ctrl-C.

    `require_listening` is called each second, and raises if the API is not served any more.

    Rates stay set at the end while moves run under them: they slow copies down and stop nothing, and the next instance
    takes them over from the journal. `remove_on_exit` takes them away.
    """

    def end() -> str:
        if not (remove_on_exit and service.is_leader):
            return "throttles of running moves stay set"
        for line in (owed := pacer.remove_all()):
            service.say(line)
        return f"{'all others' if owed else 'all'} of the pacer's throttles are removed"

    notify("READY=1")
    with ExitStack() as ends, ended_by_stop(end, notify):
        ends.callback(lead.release)
        for _ in repeat_every(clock, POLL_S):
            service.step()
            require_listening()
            notify("WATCHDOG=1")


class PacerApi:
    """Answers requests of any thread. Everything but local reads needs the token, unless there is none (`token` "").

    Without one only local requests are answered, which is what kafka-kit does on its default address. `log` gets
    kafka-kit's line for each request but those for `pages`.
    """

    def __init__(
        self,
        overrides: OverrideStore,
        pages: Pages,
        token: str | None,
        wake: Callable[[], None],
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._overrides, self._pages, self._token, self._wake, self._log = overrides, pages, token, wake, log

    def answer(self, request: HttpRequest) -> HttpPage:
        """The answer to one request; 401 or 403 where it may not be made."""
        if request.path not in self._pages:
            self._log(f"[API] {request.method} {request.uri} {request.remote}")
        if (refused := self._refused(request)) is not None:
            return refused
        if not is_api(request.path):
            page = self._pages.get(request.path)
            if page is None:
                return plain_page(404, "404 page not found")
            return page(request.query) if request.method in ("GET", "HEAD") else plain_page(405, "disallowed method")
        as_json = "application/json" in request.accept
        call = read_call(request)
        if isinstance(call, Refusal):
            return refusal_page(call, as_json=as_json)
        try:
            page_of_call = perform(call, self._overrides.read, self._overrides.put, as_json=as_json)
        except InputError as error:
            return refusal_page(Refusal(text=error.message), as_json=as_json)
        except KafkakitError as error:
            status = 503 if isinstance(error, TryLaterError) else 500
            return refusal_page(Refusal(text=error.message, json_status=status), as_json=as_json)
        if request.method == "POST":
            self._wake()
        return page_of_call

    def _refused(self, request: HttpRequest) -> HttpPage | None:
        if request.is_local and (request.method in ("GET", "HEAD") or self._token == ""):
            return None
        if not self._token:
            return plain_page(403, "needs a token: start the service with --token-file")
        if compare_digest(request.authorization.encode(), f"Bearer {self._token}".encode()):
            return None
        return plain_page(401, "needs the header Authorization: Bearer TOKEN")


class EventSender(EventQueue):
    """Sends what ticks changed."""

    def __init__(
        self, send: Callable[[str, str, Sequence[str]], object], tags: Sequence[str], warn: Callable[[str], None]
    ) -> None:
        super().__init__(send, tags, warn)
        self._before: Tick | None = None

    def see(self, tick: Tick) -> None:
        """Queue the events of a tick; returns at once."""
        self.put(events_of(self._before, tick))
        before = self._before
        # What the pacer set itself stays as it is while a run has the rates.
        self._before = tick if before is None or not tick.requested_from else replace(tick, applied=before.applied)


def read_status(
    admin: ClusterAdmin, store: ControlStore, clock: Clock, cluster_id: str, overrides: OverrideStore
) -> PacerStatus:
    """One look at the cluster and at the control store; reads the metadata of the whole cluster."""
    snapshot = admin.snapshot(now=clock.now(), sizes=False)
    alive = [str(b.id) for b in snapshot.brokers if b.is_alive]
    brokers = admin.dynamic_configs(ResourceKind.BROKER, alive) if alive else {}
    found = {
        ConfigKey(ResourceKind.BROKER, name, key): values[key]
        for name, values in brokers.items()
        for key in RATE_KEYS
        if key in values
    } | {
        ConfigKey(ResourceKind.TOPIC, topic.name, key): topic.configs[key]
        for topic in snapshot.topics
        for key in LIST_KEYS
        if key in topic.configs
    }
    state = open_journal(store, clock, cluster_id).state
    own = {k: v for k, v in found.items() if k in state.entries or (k in state.rates and v in state.rates[k].ours)}
    leader, run = (read_lease(store, path) for path in (pacer_lease(cluster_id), lease_path(cluster_id)))
    return PacerStatus(
        cluster_id=cluster_id,
        moves=sum(bool(r.adding) for r in snapshot.reassignments),
        own=dict(sorted(own.items())),
        others=dict(sorted((k, v) for k, v in found.items() if k not in own)),
        overrides=overrides.read(),
        tick=read_saved(store, cluster_id),
        unreached=tuple(sorted(b.id for b in snapshot.brokers if not b.is_alive or str(b.id) not in brokers)),
        leader="" if leader is None or leader.holder is None else str(leader),
        run="" if run is None or run.holder is None else str(run),
    )


def play_laws(
    scenario: Scenario,
    laws: Sequence[tuple[str, Law]],
    reporter: Reporter,
    *,
    reserve: float,
    tick_s: int,
    window_s: int,
) -> SimulationResult:
    """Each law alone, one after another."""
    with reporter.progress("simulating") as bar:

        def begun() -> Iterator[tuple[str, Law]]:
            for number, (name, law) in enumerate(laws):
                bar.update(number, len(laws), name)
                yield name, law

        return simulate(scenario, begun(), reserve=reserve, tick_s=tick_s, window_s=window_s)


def remove_each(store: OverrideStore, brokers: Iterable[int | None]) -> None:
    """Remove the overrides of these brokers; None is the one for all."""
    for broker in brokers:
        store.put(broker, None)


def rates_of_run(state_dir: Path, cluster_id: str, token: int) -> BrokerRates | None:
    """The rates that the run with this fencing token was asked for, None where it has no journal on this host."""
    states = (read_run_state(file) for file in journal_files(state_dir, cluster_id))
    return next((s.wanted for s in states if s.token == token), None)
