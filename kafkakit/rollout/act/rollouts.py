"""Rollouts on one cluster: begun from plans, continued, taken back, rehearsed elsewhere first."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from kafkakit.core.errors import OperationFailedError, RefusedError, TryLaterError, UsageError
from kafkakit.core.lists_in_words import some
from kafkakit.execution.act.cluster_access import ClusterAccess, OpenAccess, access_or_busy
from kafkakit.execution.act.control_requests import ControlRequests
from kafkakit.execution.act.lease_reader import held_lease
from kafkakit.execution.act.received_requests import ReceivedRequests
from kafkakit.execution.act.retrier import Retrier
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore
from kafkakit.ports.metrics import SampleQueries
from kafkakit.ports.reporter import Reporter
from kafkakit.rollout.act.journals import PROGRAM, RolloutJournal, RolloutJournals
from kafkakit.rollout.act.reading import PartitionWatch, read_configs
from kafkakit.rollout.act.run import RolloutRun, abort_check
from kafkakit.rollout.act.watching import HealthWatch
from kafkakit.rollout.act.writing import RestartBroker, SettingsWriter
from kafkakit.rollout.decide.journal import RolloutEnd, RolloutState, WatchSettings, with_lost_lines
from kafkakit.rollout.decide.mirror import Rehearsal, rehearsal_of
from kafkakit.rollout.decide.plan import ConfigPlan, changed_since, live_value, without_restarts
from kafkakit.rollout.decide.queries import HealthQueries
from kafkakit.rollout.decide.settings import ClusterConfigs, is_same
from kafkakit.rollout.decide.undoing import Undoing, undoing

RETRY_LIMIT_S = 60.0
COMMANDS = "config "
"""How the commands of rollouts begin, as a lease names its holder."""
MakeRestart = Callable[[Clock, WatchSettings], RestartBroker | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPorts:
    """What rollouts on one cluster work with; `service` None: the brokers alone are watched."""

    state_dir: Path
    reporter: Reporter
    by: str
    make_restart: MakeRestart
    service: tuple[SampleQueries, HealthQueries] | None = None
    program: str = PROGRAM


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedState:
    """A rollout by the name of its journal."""

    name: str
    state: RolloutState


class Rollouts:
    """The rollouts of the cluster that `access` may change."""

    def __init__(self, access: ClusterAccess, ports: RolloutPorts) -> None:
        self._access, self._ports = access, ports
        self.journals = RolloutJournals(ports.state_dir, access.cluster_id, access.clock, ports.program)

    def apply(
        self, plan: ConfigPlan, watch: WatchSettings, confirm: Callable[[], bool], rehearsed: str = ""
    ) -> NamedState | None:
        """Roll a plan out, or continue where it was cut; None where everything is set, or it is not confirmed.

        Raises `RefusedError` for a plan of another cluster, or of other values than are set now.
        """
        require_cluster(plan, self._access.cluster_id)
        journal = self.journals.of_plan(plan)
        if journal.is_empty:
            live = read_configs(self._access.admin, self._access.clock)
            if is_applied(plan, live):
                return None
            require_fresh(plan, live)
            if not confirm():
                return None
            journal.begin(plan, watch, self._ports.by, rehearsed)
        return self.proceed(journal)

    def check(self, plan: ConfigPlan) -> str:
        """What `apply` would do with a plan, in words; raises where it would refuse."""
        require_cluster(plan, self._access.cluster_id)
        journal = self.journals.of_plan(plan)
        if not journal.is_empty:
            return f"rollout {journal.run} is {journal.rollout.words}; config apply continues it"
        live = read_configs(self._access.admin, self._access.clock)
        if is_applied(plan, live):
            return "every value is set already"
        require_fresh(plan, live)
        return "nothing is done"

    def proceed(self, journal: RolloutJournal) -> NamedState:
        """Continue an open rollout in its direction."""
        self._salvage(journal)
        state = journal.rollout
        source = self._ports.service[0].source if self._ports.service is not None else ""
        if state.watch.source != source and not state.is_back:
            raise UsageError(
                f"the rollout is watched with {state.watch.source or 'the brokers alone'}",
                hint="give the same --metrics options, or take it back: kafkakit config abort",
            )
        return NamedState(name=journal.run, state=self._run(journal).forward())

    def take_back(self, journal: RolloutJournal, reason: str) -> NamedState:
        """Take the values of a rollout back, open or applied."""
        self._salvage(journal)
        state = journal.rollout
        if state.end is RolloutEnd.TAKEN_BACK:
            return NamedState(name=journal.run, state=state)
        return NamedState(name=journal.run, state=self._run(journal).back([reason]))

    def undoing(self, journal: RolloutJournal) -> Undoing:
        """What taking a rollout back would do now."""
        state = with_lost_lines(journal.rollout) if journal.damage else journal.rollout
        return undoing(state.touched, read_configs(self._access.admin, self._access.clock))

    def take_back_open(self, name: str | None, reason: str) -> NamedState:
        """Take the open rollout back, or the one of that name."""
        return self.take_back(self.journals.to_abort(name), reason)

    def abort_lines(self, name: str | None) -> tuple[str, ...]:
        """What an abort would do, for people."""
        if name is None and all(state.end is not None for _, state in self.journals.states()):
            return ("no rollout is open on this host; a process on another host is asked",)
        return self.undoing(self.journals.to_abort(name)).lines

    def _salvage(self, journal: RolloutJournal) -> None:
        if damage := journal.salvage():
            self._ports.reporter.warn(f"{damage}; what the plan sets counts as set, the damaged file is kept beside it")

    def _run(self, journal: RolloutJournal) -> RolloutRun:
        access, ports, settings = self._access, self._ports, journal.rollout.watch
        retrier = Retrier(access.clock, ports.reporter, RETRY_LIMIT_S)
        store = access.control
        requests = None if store is None else ControlRequests(store, access.clock, access.cluster_id)
        received = ReceivedRequests(requests, access.token, ports.reporter)
        watch = HealthWatch(
            retrier.call("reading topics", lambda: PartitionWatch(access.admin, access.clock)),
            ports.service,
            access.clock,
            settings,
            ports.reporter,
            lambda: abort_check(received),
        )
        restart = ports.make_restart(access.clock, settings)
        writer = SettingsWriter(access.admin, access.clock, journal, retrier, restart, settings.settle_s)
        return RolloutRun(journal, writer, watch, ports.reporter)


def require_cluster(plan: ConfigPlan, cluster_id: str) -> None:
    """Raise `RefusedError` for a plan of another cluster."""
    if plan.cluster_id != cluster_id:
        raise RefusedError(f"the plan is for cluster {plan.cluster_id}, this is {cluster_id}", hint="choose a profile")


def require_mirror(cluster_id: str, mirror_id: str, profile: str) -> None:
    """Raise `RefusedError` where the mirrored cluster is the one that is to be changed."""
    if mirror_id == cluster_id:
        raise RefusedError(f"profile {profile} is the cluster that is to be changed", hint="rehearse on another one")


def require_fresh(plan: ConfigPlan, live: ClusterConfigs) -> None:
    """Raise `RefusedError` where something is set otherwise than the plan relies on."""
    stale = changed_since(plan, live)
    if stale:
        raise RefusedError(f"the cluster changed since the plan: {some(stale)}", hint="kafkakit config plan, again")


def is_applied(plan: ConfigPlan, live: ClusterConfigs) -> bool:
    """True where every value is set already."""
    return all(is_same(live_value(live, c), c.after) for c in plan.all_changes)


def usable_plan(plan: ConfigPlan, *, leave_restarts: bool, can_restart: bool) -> ConfigPlan:
    """The plan as it can be carried out; `RefusedError` where brokers must restart and nothing is said about that."""
    if leave_restarts and plan.restarts:
        if not plan.changes:
            raise RefusedError(
                "every change of the plan needs a restart, so --leave-restarts leaves nothing to do",
                hint="give --restart-with COMMAND",
            )
        plan = without_restarts(plan)
    if plan.restarts and not can_restart:
        brokers = sorted({int(c.name) for c in plan.restarts})
        keys = sorted({c.key for c in plan.restarts})
        raise RefusedError(
            f"{'brokers' if len(brokers) > 1 else 'broker'} {some(brokers)} must restart for {some(keys)}",
            hint="give --restart-with COMMAND, or --leave-restarts to change the rest",
        )
    return plan


def rehearse(
    plan: ConfigPlan,
    here: ClusterConfigs,
    mirror: Rollouts,
    mirrored: ClusterAccess,
    watch: WatchSettings,
    *,
    profile: str,
    accept_unlike: bool,
) -> NamedState | None:
    """Roll the plan out on the mirrored cluster, or continue there; None where everything is set there already.

    Raises `RefusedError` for one that is unlike unless that is accepted, and `OperationFailedError` where the rehearsal
    was taken back.
    """
    mark = f"{plan.cluster_id}/{plan.run_id}"
    begun = [path for path, s in mirror.journals.states() if s.end is None and s.rehearsal_of == mark]
    if begun:
        return _passed(mirror.proceed(mirror.journals.named(begun[0].stem)), profile)
    made = rehearsal_on(mirrored, plan, here, profile=profile, accept_unlike=accept_unlike)
    if made.plan is None:
        return None
    done = mirror.apply(made.plan, replace(watch, source=""), lambda: True, mark)
    return None if done is None else _passed(done, profile)


def rehearsal_on(
    mirrored: ClusterAccess, plan: ConfigPlan, here: ClusterConfigs, *, profile: str, accept_unlike: bool
) -> Rehearsal:
    """The rehearsal of a plan on a mirrored cluster; `RefusedError` for one that is unlike unless that is accepted."""
    there = read_configs(mirrored.admin, mirrored.clock)
    made = rehearsal_of(plan, here, there, created_at=mirrored.clock.now(), profile=profile)
    if made.unlike and not accept_unlike:
        raise RefusedError(
            f"cluster {mirrored.cluster_id} (profile {profile}) is unlike: {some(made.unlike)}",
            hint="make it alike, or --accept-unlike",
        )
    return made


def _passed(done: NamedState, profile: str) -> NamedState:
    if done.state.end is not RolloutEnd.APPLIED:
        why = done.state.reasons[0] if done.state.reasons else done.state.words
        raise OperationFailedError(
            f"the rehearsal on profile {profile} was {done.state.words}: {why}; nothing was changed here"
        )
    return done


def abort_or_request(
    open_access: OpenAccess,
    store: Callable[[], ControlStore],
    clock: Clock,
    cluster_id: str,
    take_back: Callable[[ClusterAccess], NamedState],
    by: str,
    wait_s: float,
) -> NamedState | str:
    """Take the open rollout back; where a process works on it, request that, and return the holder in words.

    Raises the error that names the holder where it works on something else, and `TryLaterError` without an answer.
    """
    with ExitStack() as stack:
        access = access_or_busy(stack, open_access)
        if isinstance(access, ClusterAccess):
            return take_back(access)
        lease = held_lease(store(), cluster_id)
        if lease is None or lease.holder is None or not lease.holder.command.startswith(COMMANDS):
            raise access
        requests = ControlRequests(store(), clock, cluster_id)
        version = requests.request(lease.token, by, abort=True)
        if requests.wait_for_answer(lease.token, version, wait_s) is None:
            raise TryLaterError(f"{lease.holder} did not answer within {wait_s:g} s", hint="it answers between looks")
        return str(lease.holder)
