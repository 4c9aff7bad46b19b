"""One life of one process that runs the failover: its calls are counted, events and faults come at chosen calls."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from kafkakit.core.errors import KafkakitError, LeaseLostError, TryLaterError
from kafkakit.streams.failover.act import run as run_module
from kafkakit.streams.failover.act.clients import ClientWatch
from kafkakit.streams.failover.act.closing import abort, newest_certificate, reclaim
from kafkakit.streams.failover.act.effects import Effects
from kafkakit.streams.failover.act.journals import OperationJournals
from kafkakit.streams.failover.act.observer import OperationObserver
from kafkakit.streams.failover.act.planning import Planner
from kafkakit.streams.failover.act.run import OperationRun, RunParts
from kafkakit.streams.failover.decide.operation import FailoverRequest, Step
from kafkakit.streams.routes.api_act import RouteStore
from tests.rigs.failover import STREAM, Voice
from tests.rigs.routes import Killed
from tests.rigs.stream_model.checker import Checker
from tests.rigs.stream_model.world import ROUTE_PATH, World, happen

WRITES = frozenset(
    {"cas", "delete", "create_topic", "delete_topic", "delete_topic_by_id", "create_acls", "delete_acls"}
    | {"alter_configs", "commit", "forget"}
)
CONCERNS: Mapping[str, tuple[str, ...]] = {
    "spans": ("log",), "fetch": ("log",), "places": ("log", "meta"), "describe_acls": ("acl",),
    "create_acls": ("acl",), "delete_acls": ("acl",), "describe_producers": ("tx",), "list_transactions": ("tx",),
    "alter_configs": ("config", "log"), "groups": ("groups",), "describe": ("groups",), "committed": ("groups",),
    "commit": ("groups",), "partition_states": ("meta",), "snapshot": ("meta",), "dynamic_configs": ("config",),
    "create_topic": ("meta", "log"), "delete_topic_by_id": ("meta", "log"), "cluster": ("meta",),
}  # fmt: skip
"""What a call reads or changes: an event that concerns nothing of it may as well come later."""
WAIT_S = 20.0
RUN_FILE = run_module.__file__


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


@dataclass(kw_only=True)
class Life:
    """`deviations` are by the number of the call. `on_loop` is called with a key of the state at each look."""

    world: World
    name: str
    deviations: Mapping[int, str]
    checker: Checker
    on_loop: Any = None
    on_written: Any = None
    points: list[Point] = field(default_factory=list)
    number: int = 0
    run: OperationRun | None = None
    parts: RunParts | None = None
    ended_by: str = ""

    def execute(self, command: str) -> LifeEnd:
        """Run a command as a new process until it ends or is ended."""
        self.world.holder = self.name
        self.checker.begin(self.name)
        try:
            return self._execute(command)
        except Killed:
            return LifeEnd(word="killed")
        except KafkakitError as error:
            return LifeEnd(word=type(error).__name__, reason=error.message)

    def _execute(self, command: str) -> LifeEnd:
        parts = self.parts = self.make_parts()
        planner = Planner(parts, self.open_cluster, lambda: f"{len(self.world.happened):04x}{self.world.lives:04x}")
        if command == "abort":
            abort(parts, self.open_cluster, STREAM)
            return LifeEnd(word="aborted")
        if command == "reclaim":
            name = newest_certificate(parts.journals)[0].operation
            closing = reclaim(parts, self.open_cluster, name, grace_s=0, keep=False)
            return LifeEnd(word="reclaimed" if closing.results else "kept", reason=str(closing.results))
        scenario = self.world.scenario
        request = FailoverRequest(
            stream=STREAM, to="q", fence=scenario.fence, quiet_s=scenario.quiet_s, is_emergency=scenario.is_emergency,
            groups=self.world.required, is_open_by_default=True if scenario.has_authorizer else None,
        )  # fmt: skip
        route = parts.routes.existing(STREAM).route
        self.run = planner.resume(request, route)
        done = None if self.run else planner.finished(request, route)
        if done is not None:
            return LifeEnd(word="done")
        if self.run is None:
            plan = planner.plan(request)
            if plan.refused:
                return LifeEnd(word="plan-refused", reason=",".join(verdict.check for verdict in plan.refused))
            self.run = planner.begin(plan)
        until = Step.ROUTED if command == "route" else Step.DRAINED if command == "drain" else Step.RETIRED
        end = self.run.run(until, WAIT_S)
        return LifeEnd(word=end.kind.value, reason=end.reason)

    def make_parts(self) -> RunParts:
        clock = Tapped(self, "clock", "", self.world.clock)
        store: Any = Tapped(self, "store", "", self.world.store)
        clients = ClientWatch(self.registrations, clock)  # type: ignore[arg-type]
        return RunParts(
            routes=RouteStore(store),
            journals=OperationJournals(store, clock, STREAM),  # type: ignore[arg-type]
            observer=OperationObserver(self.open_cluster, clients, clock, lambda _: 0),  # type: ignore[arg-type]
            effects=Effects(self.open_cluster, clock, self.require_held),  # type: ignore[arg-type]
            clock=clock,  # type: ignore[arg-type]
            reporter=Voice(),
            require_held=self.require_held,
            operator=self.name,
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
        Life(world=self.world, name=f"other-{self.world.lives}", deviations={}, checker=self.checker).execute(command)

    def call(self, port: str, cluster: str, name: str, do: Any, *args: Any, **more: Any) -> Any:
        is_write = name in WRITES
        concerns = {f"{each}:{cluster}" for each in CONCERNS.get(name, ())} | {port}
        if is_write:
            concerns |= {"write", "lease"}
        if port == "store" and name == "get" and args == (ROUTE_PATH,) and self.on_loop is not None:
            self._mark()
        if is_write and port == "store" and ("/journal/" in args[0] or "/certificate/" in args[0]):
            concerns.add("journal")
        fault = self.point(name, frozenset(concerns), is_write=is_write)
        if fault == "refused" or (cluster in self.world.away and port != "clients"):
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

    def _mark(self) -> None:
        """The state at the beginning of a look: the world, and what the process has in memory."""
        frame: FrameType | None = sys._getframe(5)
        if frame is None or frame.f_code.co_name != "run" or frame.f_code.co_filename != RUN_FILE:
            return
        self.on_loop(self.world.key(), self._memory(frame.f_locals), self.world.holder == self.name)

    def _memory(self, local: Mapping[str, Any]) -> str:
        assert self.parts is not None
        observer, now_s = self.parts.observer, self.world.clock.elapsed
        quiet, clients = observer._quiet, observer._clients._seen
        beats = {client.id: client.beat for client in self.world.clients}
        found = (
            None if quiet is None else (quiet.basis, quiet.ends, now_s - quiet.since_s, now_s - quiet.seen_s),
            repr(observer._writers),
            None if observer._routed_s is None else now_s - observer._routed_s,
            sorted((name, beats.get(name) == beat, now_s - since) for name, (beat, since) in clients.items()),
            local.get("conflicts"),
            repr(local.get("tried")),
            None if local.get("before") is None else local["before"][0],
            now_s - local.get("idle_since_s", now_s),
            self.run is not None and repr(self.run._problems),
        )
        return repr(found)


class Tapped:
    """A port whose calls are counted."""

    def __init__(self, life: Life, port: str, cluster: str, inner: Any) -> None:
        self._life, self._port, self._cluster, self._inner = life, port, cluster, inner

    def __getattr__(self, name: str) -> Any:
        do = getattr(self._inner, name)
        if not callable(do) or name in ("now", "monotonic"):
            return do
        life = self._life
        if name == "sleep":
            return lambda seconds: life.call("clock", "", name, lambda s: (do(s), life.world.tick()), seconds)
        return lambda *args, **more: life.call(self._port, self._cluster, name, do, *args, **more)


class TappedCluster:
    """The ports of one cluster."""

    def __init__(self, life: Life, profile: str) -> None:
        cluster = life.world.clusters[profile]
        self.admin, self.groups, self.log = (
            Tapped(life, port, profile, inner)
            for port, inner in (("admin", cluster.admin), ("groups", cluster.groups), ("log", cluster.log))
        )

