"""One life of one process that runs the failover: its calls are counted, events and faults come at chosen calls."""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkakit.core.errors import KafkakitError, LeaseLostError, TryLaterError
from kafkakit.streams.failover.act.closing import abort, newest_certificate, reclaim
from kafkakit.streams.failover.act.letters import OldRecords
from kafkakit.streams.failover.act.observing import ClientWatch, OperationObserver
from kafkakit.streams.failover.act.operations import Planner
from kafkakit.streams.failover.act.run import Effects, FailoverParts, OperationJournals, OperationRun
from kafkakit.streams.failover.decide.operation import FailoverRequest, Step
from kafkakit.streams.routes.api_act import RouteStore
from tests.rigs.failover import STREAM
from tests.rigs.routes import Killed
from tests.rigs.stream_model.checker import Checker
from tests.rigs.stream_model.world import World, happen, shape_of_record

WRITES = frozenset(
    {"cas", "delete", "create_topic", "delete_topic", "delete_topic_by_id", "create_acls", "delete_acls"}
    | {"alter_configs", "commit", "forget"}
)
CONCERNS: Mapping[str, tuple[str, ...]] = {
    "spans": ("log",), "fetch": ("log",), "places": ("log", "meta"), "describe_acls": ("acl",),
    "create_acls": ("acl",), "delete_acls": ("acl",), "describe_producers": ("tx",), "list_transactions": ("tx",),
    "alter_configs": ("config", "log"), "groups": ("groups",), "describe": ("groups",), "committed": ("groups",),
    "committed_by": ("groups",),
    "commit": ("groups",), "partition_states": ("meta",), "snapshot": ("meta",), "dynamic_configs": ("config",),
    "create_topic": ("meta", "log"), "delete_topic_by_id": ("meta", "log"), "cluster": ("meta",),
}  # fmt: skip
"""What a call reads or changes: an event that concerns nothing of it may as well come later."""
HANG_S = 30.0


class Pruned(BaseException):
    """From here on everything was explored already."""


@dataclass(frozen=True, slots=True)
class Point:
    """A call at which something may happen."""

    number: int
    concerns: frozenset[str]
    is_write: bool
    name: str


@dataclass(kw_only=True)
class LifeEnd:
    """How a life ended: the kind of its run's end or the error's name, and why."""

    word: str
    reason: str = ""


class Silent:
    """A reporter that keeps nothing."""

    def say(self, line: str) -> None:
        """See `Reporter`."""

    warn = say

    def progress(self, label: str) -> Any:
        raise NotImplementedError(label)


@dataclass(kw_only=True)
class Life:
    """`deviations` are by the number of the call. `on_turn` is called before each turn of a run, where a life can be
    kept and taken up again; `on_written` after each change."""

    world: World
    name: str
    command: str
    checker: Checker
    deviations: Mapping[int, str] = field(default_factory=dict)
    on_turn: Callable[[], None] | None = None
    on_written: Callable[[str], None] | None = None
    points: list[Point] = field(default_factory=list)
    number: int = 0
    run: OperationRun | None = None
    parts: FailoverParts | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "on_turn": None, "on_written": None, "points": [], "deviations": {}}

    def kept(self) -> bytes:
        return pickle.dumps(self, protocol=5)

    def execute(self) -> LifeEnd:
        """Run the command as a new process until it ends or is ended; one that was kept goes on."""
        try:
            if self.run is None:
                self.world.holder = self.name
                self.checker.begin(self.name)
                end = self._begin()
                if end is not None:
                    return end
            return self._turns()
        except Killed:
            return LifeEnd(word="killed")
        except KafkakitError as error:
            return LifeEnd(word=type(error).__name__, reason=error.message)

    def _begin(self) -> LifeEnd | None:
        """What comes before the first turn; the end of a command that has none."""
        parts = self.parts = self.make_parts()
        planner = Planner(parts, self.open_cluster, self._new_id)
        if self.command == "abort":
            abort(parts, self.open_cluster, STREAM)
            return LifeEnd(word="aborted")
        if self.command == "reclaim":
            name = newest_certificate(parts.journals)[0].operation
            closing = reclaim(parts, self.open_cluster, name, grace_s=0, keep=False)
            return LifeEnd(word="reclaimed" if closing.results else "kept", reason=str(closing.results))
        scenario = self.world.scenario
        request = FailoverRequest(
            stream=STREAM, to="q", fence=scenario.fence, quiet_s=scenario.quiet_s, is_emergency=scenario.is_emergency,
            groups=self.world.required, is_open_by_default=True if scenario.has_authorizer else None,
        )  # fmt: skip
        route = parts.routes.existing(STREAM).route
        run = planner.resume(request, route)
        if run is None and planner.finished(request, route) is not None:
            return LifeEnd(word="done")
        if run is None:
            plan = planner.plan(request)
            if plan.refused:
                return LifeEnd(word="plan-refused", reason=",".join(verdict.check for verdict in plan.refused))
            run = planner.begin(plan)
        self.run = run
        return None

    def _turns(self) -> LifeEnd:
        assert self.run is not None
        until = {"route": Step.ROUTED, "drain": Step.DRAINED}.get(self.command, Step.RETIRED)
        while True:
            if self.on_turn is not None:
                self.on_turn()
            end = self.run.turn(until, self.world.scenario.wait_s)
            if end is not None:
                return LifeEnd(word=end.kind.value, reason=end.reason)

    def _new_id(self) -> str:
        """Different for every operation, and the same in states that are the same."""
        folder = f"streams/{STREAM}/operations/"
        known = {path.split("/")[3] for path in self.world.store.documents() if path.startswith(folder)}
        number = max((int(name[-7:], 16) + 1 for name in known), default=0)  # the store may have lost one between
        return f"{'f' if self.name.startswith('other') else '0'}{number:07x}"

    def make_parts(self) -> FailoverParts:
        clock = Tapped(self, "clock", "", self.world.clock)
        store: Any = Tapped(self, "store", "", self.world.store)
        clients = ClientWatch(self.registrations, clock)
        return FailoverParts(
            routes=RouteStore(store),
            journals=OperationJournals(store, clock, STREAM),
            observer=OperationObserver(self.open_cluster, clients, clock, no_references),
            effects=Effects(self.open_cluster, clock, self.require_held, Silent()),
            records=OldRecords(self.open_cluster, clock, self.require_held, a_second),
            clock=clock,
            reporter=Silent(),
            require_held=self.require_held,
            operator="operator",
            version="1",
        )

    def registrations(self) -> Any:
        return self.call("clients", "", "registrations", lambda: [each.registration() for each in self.world.clients])

    def open_cluster(self, profile: str) -> Any:
        return TappedCluster(self, profile)

    def require_held(self) -> None:
        self.point("guard", frozenset({"lease"}), is_write=False)
        if self.world.holder != self.name:
            raise LeaseLostError("the lease was taken over")

    # -- calls --------------------------------------------------------------------------------------

    def point(self, name: str, concerns: frozenset[str], *, is_write: bool) -> str:
        """Count a call; what is to happen at it, happens. Returns the fault that the call itself has."""
        number, self.number = self.number, self.number + 1
        self.points.append(Point(number, concerns, is_write, name))
        fault = ""
        for what in filter(None, self.deviations.get(number, "").split("+")):
            if what in ("crash", "lost", "refused"):
                fault = what
                self.world.happened.append(f"{what}:{name}")
            elif what.startswith("other:"):
                self.other(what.partition(":")[2])
            else:
                happen(self.world, what)
        return fault

    def other(self, command: str) -> None:
        """Another process takes the lease over and works, while this one stands still."""
        self.world.lives += 1
        self.world.happened.append(f"other:{command}")
        Life(world=self.world, name=f"other-{self.world.lives}", command=command, checker=self.checker).execute()

    def call(self, port: str, cluster: str, name: str, do: Any, *args: Any, **more: Any) -> Any:
        is_write = name in WRITES
        concerns = {f"{each}:{cluster}" for each in CONCERNS.get(name, ())} | {port}
        if is_write:
            concerns |= {"write", "lease"}
        if is_write and port == "store" and ("/journal/" in args[0] or "/certificate/" in args[0]):
            concerns.add("journal")
        fault = self.point(name, frozenset(concerns), is_write=is_write)
        where = cluster or port
        if where in self.world.hung:
            self.world.clock.advance(HANG_S)
        if fault == "refused" or where in self.world.away:
            raise TryLaterError(f"{port} {cluster} does not answer")
        before = self.checker.before(self, port, cluster, name, args) if is_write else None
        result = do(*args, **more)
        if port in ("log", "groups", "admin"):
            self.checker.read(self.name, cluster, name, args, result)
        if is_write:
            self.checker.after(self, before, port, cluster, name, args, result)
            if self.on_written is not None and not fault:
                self.on_written(name)
        if fault == "crash":
            raise Killed
        if fault == "lost":
            raise TryLaterError(f"{port} {cluster} did not answer")
        return result

    def key(self) -> int:
        """A number for the world, and for everything that the process has in memory before a turn."""
        assert self.parts is not None
        assert self.run is not None
        observer, now_s, progress = self.parts.observer, self.world.clock.elapsed, self.run._progress
        quiet, clients = observer._quiet, observer._clients._seen
        beats = {client.id: client.beat for client in self.world.clients}

        def ago(at_s: float | None) -> float | None:
            return None if at_s is None else round(now_s - at_s, 3)

        memory = (
            None if quiet is None else (quiet.basis, quiet.ends, ago(quiet.since_s), ago(quiet.seen_s)),
            observer._writers,
            ago(observer._routed_s),
            sorted((name, beats.get(name) == beat, ago(since)) for name, (beat, since) in clients.items()),
            progress.conflicts,
            progress.tried,
            None if progress.mark is None else ago(progress.idle_since_s),
            self.run._problems,
            shape_of_record(self.run.record),
            self.run._journal._file._tail_version,  # type: ignore[attr-defined]
            self.world.holder == self.name,
            self.checker.lives[self.name].writes_after_loss,
        )
        return hash((self.command, self.world.key(), repr(memory)))


def a_second(_: str) -> float:
    """How long requests to a cluster may take."""
    return 1.0


def no_references(_: Any) -> dict[int, list[tuple[int, int]]]:
    """Nothing is rejected by reference in this model."""
    return {}


class Tapped:
    """A port whose calls are counted."""

    def __init__(self, life: Life, port: str, cluster: str, inner: Any) -> None:
        self._life, self._port, self._cluster, self._inner = life, port, cluster, inner

    def __getstate__(self) -> dict[str, Any]:
        return vars(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        do = getattr(self._inner, name)
        if not callable(do) or name in ("now", "monotonic"):
            return do
        life = self._life
        if name == "sleep":
            return lambda seconds: life.call("clock", "", name, life.world.sleep, seconds)
        return lambda *args, **more: life.call(self._port, self._cluster, name, do, *args, **more)


class TappedCluster:
    """The ports of one cluster."""

    def __init__(self, life: Life, profile: str) -> None:
        cluster = life.world.clusters[profile]
        self.admin, self.groups, self.log = (
            Tapped(life, port, profile, inner)
            for port, inner in (("admin", cluster.admin), ("groups", cluster.groups), ("log", cluster.log))
        )
