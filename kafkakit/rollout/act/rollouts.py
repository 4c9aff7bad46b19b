"""Rollouts on one cluster: planned, begun, continued, taken back, rehearsed elsewhere first.

A plan is made from what an operator asks for and what the cluster has. A rollout measures a baseline, then goes step
by step; what makes the cluster worse than the baseline is taken back. The watch looks at brokers and at a metrics
service, and gives a verdict on each window.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from kafkakit.core.cluster_facts import MetricSample
from kafkakit.core.errors import KafkakitError, OperationFailedError, RefusedError, TryLaterError, UsageError
from kafkakit.core.model import ClusterSnapshot, TagSet
from kafkakit.core.quantities import format_duration
from kafkakit.core.query import BROKER_KEYS, broker_table, brokers_where, tag_keys, why_none
from kafkakit.core.selection import parse_broker_list
from kafkakit.core.text import few_of
from kafkakit.execution.act.control_requests import AbortRequestedError, ControlRequests, ReceivedRequests
from kafkakit.execution.act.leases import ClusterAccess, OpenAccess, access_or_busy, held_lease
from kafkakit.execution.act.retrier import Retrier
from kafkakit.lint.api import LintRequest, Pieces, lint
from kafkakit.lint.api_act import with_topics
from kafkakit.ports.acting import Clock, Reporter, pause
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.services import SampleQueries
from kafkakit.ports.stores import ControlStore
from kafkakit.rollout.act.writing import (
    PROGRAM,
    ClusterSettings,
    GroupLag,
    PartitionWatch,
    RestartBroker,
    RolloutJournal,
    RolloutJournals,
    SettingsWriter,
    read_configs,
    refused_by_brokers,
)
from kafkakit.rollout.decide.plan import (
    ConfigPlan,
    RehearsalPlan,
    changed_since,
    findings_change,
    live_value,
    make_plan,
    rehearsal_of,
    unanswering_brokers,
    unmet_warnings,
    wanted_of_files,
    wanted_of_findings,
    wanted_of_live,
    wanted_of_words,
    without_restarts,
)
from kafkakit.rollout.decide.rollout import (
    GAUGES,
    Baseline,
    HealthLook,
    HealthQueries,
    HealthVerdict,
    RolloutEnd,
    RolloutState,
    Signal,
    UndoPlan,
    WatchSettings,
    WindowHealth,
    baseline_of,
    hiding_default,
    join_looks,
    judge,
    look_of,
    looks_in,
    passed_alone,
    plan_undo,
    series,
    with_lost_lines,
)
from kafkakit.rollout.decide.settings import (
    ChangeScope,
    ClusterConfigs,
    NamedPlaces,
    StepChoice,
    StepSize,
    WantedSetting,
    asked_of_brokers,
    is_same,
    resolve,
)

RETRY_LIMIT_S = 60.0
COMMANDS = "config "
"""How the commands of rollouts begin, as a lease names its holder."""
MakeRestart = Callable[[Clock, WatchSettings], RestartBroker | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPorts:
    """What rollouts on one cluster work with; `service` None: the brokers alone are watched.

    `open_lag` reads the lag of named groups.
    """

    state_dir: Path
    reporter: Reporter
    by: str
    make_restart: MakeRestart
    service: tuple[SampleQueries, HealthQueries] | None = None
    open_lag: Callable[[Sequence[str]], GroupLag] | None = None
    program: str = PROGRAM


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedState:
    """A rollout by the name of its journal."""

    name: str
    state: RolloutState


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCheck:
    """What was found without a change: notes, and what brokers would refuse, in their words."""

    notes: tuple[str, ...]
    refused: tuple[str, ...] = ()


def refused_change(refused: Sequence[str]) -> OperationFailedError:
    """The error of a plan that brokers would refuse."""
    more = f" and {len(refused) - 3} more" if len(refused) > 3 else ""
    return OperationFailedError(
        f"brokers would refuse the change: {'; '.join(refused[:3])}{more}", hint="choose other values, and plan again"
    )


class HealthWatch:
    """Takes looks; `service` None: the brokers tell everything, `lag` None: no group's lag is watched.

    `stop` is called before each look and may raise.
    """

    def __init__(
        self,
        partitions: PartitionWatch,
        service: tuple[SampleQueries, HealthQueries] | None,
        clock: Clock,
        settings: WatchSettings,
        reporter: Reporter,
        stop: Callable[[], object] = lambda: None,
        lag: GroupLag | None = None,
    ) -> None:
        self._partitions, self._service, self._clock = partitions, service, clock
        self._settings, self._reporter, self._stop, self._lag = settings, reporter, stop, lag
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
            with self._reporter.progress(f"measuring the baseline ({format_duration(settings.baseline_s)})") as bar:
                looks = []
                for number in range(count + 1):
                    looks.append(self._next(is_first=number == 0))
                    bar.update(number, count)
            self._problem = next((look.problem for look in reversed(looks) if look.problem), "")
            return tuple(looks)
        step = max(1, count // MOST_PAST)
        now = self._clock.now()
        moments = [now - timedelta(seconds=settings.every_s * n) for n in range(count, 0, -step)]
        found = [self._asked(moment) for moment in moments]
        self._problem = next((f.problem for f in reversed(found) if f is not None and f.problem), "")
        first = [self._next(is_first=True), self._next()]
        gauges = {s: max(look.values.get(s, 0.0) for look in first) for s in GAUGES}
        gauges |= {Signal.LAG: max(lags)} if (lags := series(first, Signal.LAG)) else {}
        self._problem = self._problem or first[-1].problem
        return tuple(
            HealthLook(at_ms=f.at_ms, values={**gauges, **f.values}, problem=f.problem) for f in found if f is not None
        )

    def problem_of(self, baseline: Baseline) -> str:
        """Why nothing can be judged with that past, empty where it can; a signal that is not told is warned of."""
        if self._lag is not None and Signal.LAG not in baseline:
            return f"no baseline is available: no {Signal.LAG.label}: {self._problem or 'too few readings'}"
        asked = () if self._service is None else tuple(self._service[1].texts)
        lacking = [signal.label for signal in asked if signal not in baseline]
        if not baseline or (asked and len(lacking) == len(asked)):
            why = self._problem or f"no {', '.join(lacking) or 'look at the cluster'}"
            return f"no baseline is available: {why}"
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
            while verdict.health is WindowHealth.OPEN:
                if len(looks) == 2:
                    self._partitions.renew()
                looks.append(self._next())
                verdict = judge(baseline, looks, self.window)
                bar.update(
                    len(looks),
                    self.window,
                    "; ".join(f"{r.signal.label} {r.signal.number(r.seen)}" for r in verdict.rows[:3]),
                )
        return verdict

    def _next(self, *, is_first: bool = False) -> HealthLook:
        """One look, a period after the last one."""
        self._stop()
        if not is_first:
            pause(self._clock, self._settings.every_s)
        lag = None if self._lag is None else self._lag.look()
        return join_looks(self._partitions.look(), lag, self._asked(self._clock.now()))

    def _asked(self, at: datetime) -> HealthLook | None:
        """What the metrics service tells of a moment; queries that fail are named."""
        if self._service is None:
            return None
        service, queries = self._service
        answers: dict[Signal, tuple[MetricSample, ...]] = {}
        problems: list[str] = []
        for signal, text in queries.texts.items():
            try:
                answers[signal] = service.query(text, at)
            except KafkakitError as error:
                problems.append(f"{signal.label}: {error.message}")
                if not answers:
                    break  # a service that is away is not asked five times
        return look_of(answers, queries, at, tuple(problems))


class RolloutRun:
    """One rollout in progress, of a journal that has begun; every part continues where the journal ends."""

    def __init__(
        self,
        journal: RolloutJournal,
        writer: SettingsWriter,
        watch: HealthWatch,
        reporter: Reporter,
    ) -> None:
        self._journal, self._writer, self._watch, self._reporter = journal, writer, watch, reporter

    def forward(self) -> RolloutState:
        """Carry out the steps that are left; a bad verdict, a refusal or a request to abort takes everything back."""
        state = self._journal.rollout
        if state.end is not None:
            return state
        if state.is_back:
            return self.back(state.reasons)
        try:
            if state.baseline is None:
                self._journal.usual(self._watch.past())
                if problem := self._watch.problem_of(self._journal.rollout.baseline or {}):
                    return self.back([problem])
            # Steps of an earlier process passed some time ago, and other processes may have acted since.
            if problems := self._writer.differing(passed_alone(state)):
                return self.back(problems)
            for number in range(len(state.plan.steps)):
                if number not in state.passed and (problems := self._step(number)):
                    return self.back(problems)
        except AbortRequestedError as request:
            return self.back([f"{ABORTED}: {request}"])
        self._journal.ended(RolloutEnd.APPLIED)
        return self._journal.rollout

    def _step(self, number: int) -> tuple[str, ...]:
        """Carry out a step, watch it, and read back what all steps so far have set; returns why it failed."""
        plan = self._journal.rollout.plan
        step = plan.steps[number]
        self._reporter.say(f"step {number + 1} of {len(plan.steps)}: {step.name}")
        if problems := self._writer.carry_out(step):
            return problems
        baseline = self._journal.rollout.baseline or {}
        verdict = self._watch.window_after(baseline, step.name, restarted=step.restart)
        if verdict.is_bad:
            return tuple(f"after {step.name}: {reason}" for reason in verdict.reasons)
        if problems := self._writer.differing(plan.steps[: number + 1]):
            return problems
        self._journal.passed(number, verdict)
        self._reporter.say(f"  {_verdict_text(verdict)}")
        return ()

    def back(self, reasons: Sequence[str]) -> RolloutState:
        """Take back every value that is still of this rollout, and say why."""
        if not self._journal.rollout.is_back or self._journal.rollout.end is not None:
            self._journal.turn_back(reasons)
        for reason in reasons:
            self._reporter.warn(reason)
        self._reporter.say("taking back what was set")
        left = self._writer.take_back(self._journal.rollout.touched)
        self._journal.ended(RolloutEnd.INCOMPLETE if left else RolloutEnd.TAKEN_BACK, left)
        return self._journal.rollout


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
            self.require_accepted(plan, live)
            if not confirm():
                return None
            journal.begin(plan, watch, self._ports.by, rehearsed, hiding_default(plan, live))
        return self.proceed(journal)

    def refusals(self, plan: ConfigPlan, live: ClusterConfigs) -> tuple[str, ...]:
        """What brokers would refuse of a plan, in their words; of what they read at start nothing can be asked."""
        return refused_by_brokers(asked_of_brokers(plan.changes, live), self._access.admin)

    def require_accepted(self, plan: ConfigPlan, live: ClusterConfigs) -> None:
        """Ask the brokers about a plan; `OperationFailedError` in their words where they would refuse it."""
        if refused := self.refusals(plan, live):
            raise refused_change(refused)

    def check(self, plan: ConfigPlan) -> PlanCheck:
        """What `apply` would do with a plan, and what brokers would refuse; raises where it would refuse itself."""
        require_cluster(plan, self._access.cluster_id)
        journal = self.journals.of_plan(plan)
        if not journal.is_empty:
            words = f"rollout {journal.run} is {journal.rollout.words}; config apply continues it"
            return PlanCheck(notes=(words,))
        live = read_configs(self._access.admin, self._access.clock)
        if is_applied(plan, live):
            return PlanCheck(notes=("every value is set already",))
        require_fresh(plan, live)
        keys = sorted({c.key for c in plan.restarts})
        unasked = f"no broker can be asked about {few_of(keys)}: it checks its file when it starts"
        return PlanCheck(notes=(*([unasked] if keys else []), "nothing is done"), refused=self.refusals(plan, live))

    def proceed(self, journal: RolloutJournal) -> NamedState:
        """Continue an open rollout in its direction."""
        self._salvage(journal)
        state = journal.rollout
        source = self._ports.service[0].source if self._ports.service is not None else ""
        if state.watch.source != source and not state.is_back:
            raise UsageError(
                f"the rollout is watched with {state.watch.source or 'the brokers only'}",
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

    def undoing(self, journal: RolloutJournal) -> UndoPlan:
        """What taking a rollout back would do now."""
        state = with_lost_lines(journal.rollout) if journal.damage else journal.rollout
        return plan_undo(state.touched, read_configs(self._access.admin, self._access.clock))

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
            received.read_or_abort,
            None if ports.open_lag is None or not settings.groups else ports.open_lag(settings.groups),
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
    """Raise `RefusedError` where something is set otherwise than the plan relies on.

    Raises `TryLaterError` while a broker of the plan does not answer.
    """
    if silent := unanswering_brokers(plan, live):
        raise TryLaterError(
            f"broker {few_of(silent)} of the plan does not answer", hint="start it, or make the plan again"
        )
    stale = changed_since(plan, live)
    if stale:
        raise RefusedError(
            f"the cluster changed since the plan: {few_of(stale)}",
            hint="make the plan again: `kafkakit config plan` with the same options",
        )


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
            f"{'brokers' if len(brokers) > 1 else 'broker'} {few_of(brokers)} must restart for {few_of(keys)}",
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
        return _require_passed(mirror.proceed(mirror.journals.named(begun[0].stem)), profile)
    made = rehearsal_on(mirrored, plan, here, profile=profile, accept_unlike=accept_unlike)
    if made.plan is None:
        return None
    done = mirror.apply(made.plan, replace(watch, source="", groups=()), lambda: True, mark)
    return None if done is None else _require_passed(done, profile)


def rehearsal_on(
    mirrored: ClusterAccess, plan: ConfigPlan, here: ClusterConfigs, *, profile: str, accept_unlike: bool
) -> RehearsalPlan:
    """The rehearsal of a plan on a mirrored cluster; `RefusedError` for one that is unlike unless that is accepted."""
    there = read_configs(mirrored.admin, mirrored.clock)
    made = rehearsal_of(plan, here, there, created_at=mirrored.clock.now(), profile=profile)
    if made.unlike and not accept_unlike:
        raise RefusedError(
            f"cluster {mirrored.cluster_id} (profile {profile}) is unlike: {few_of(made.unlike)}",
            hint="make it alike, or --accept-unlike",
        )
    return made


def refused_there(
    mirrored: ClusterAccess, plan: ConfigPlan, here: ClusterConfigs, *, profile: str, accept_unlike: bool
) -> tuple[str, ...]:
    """What brokers of a mirrored cluster would refuse of the rehearsal; raises as `rehearsal_on` does."""
    made = rehearsal_on(mirrored, plan, here, profile=profile, accept_unlike=accept_unlike).plan
    if made is None:
        return ()
    asked = asked_of_brokers(made.changes, read_configs(mirrored.admin, mirrored.clock))
    return tuple(f"profile {profile}: {each}" for each in refused_by_brokers(asked, mirrored.admin))


def _require_passed(done: NamedState, profile: str) -> NamedState:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTask:
    """What is asked for: words with their scope, files, findings of the live cluster, or a file of findings.

    `core` are the usual rules, whose findings are compared; `every` are all, among which findings are looked up.
    """

    words: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    places: NamedPlaces = NamedPlaces()
    files: tuple[Pieces, ...] = ()
    cluster_name: str | None = None
    findings: tuple[str, ...] = ()
    findings_file: tuple[str, bytes] | None = None
    size: StepChoice = StepSize.GROW
    request: Mapping[str, str]
    profile: str | None = None
    core: LintRequest
    every: LintRequest


def plan_change(
    task: PlanTask, admin: ClusterAdmin, clock: Clock, read_tags: Callable[[], TagSet] = TagSet
) -> ConfigPlan:
    """Read the cluster and make the plan; nothing is written. Raises `UsageError` for what cannot be asked for.

    Tags are read where a query needs them.
    """
    if not (task.words or task.deleted or task.files or task.findings or task.findings_file):
        raise UsageError("nothing is asked for", hint="give KEY=VALUE with a scope, --file, or --finding")
    read = ClusterSettings(admin, clock)
    live = read.pieces()
    scope = scope_of(task.places, read.snapshot, read_tags)
    wanted: list[WantedSetting] = [*wanted_of_words(task.words, task.deleted, scope, read.configs)]
    wanted += wanted_of_files(task.files, task.cluster_name, read.configs)
    if task.findings_file is not None:
        source, data = task.findings_file
        wanted += wanted_of_findings(data, source, task.findings, task.cluster_name)
    elif task.findings:
        usual, every = (lint((), [live], rules).unaccepted for rules in (task.core, task.every))
        wanted += wanted_of_live(usual, every, task.findings)
    resolved = resolve(wanted, read.configs)
    plan = make_plan(
        resolved,
        read.configs,
        findings_change(live, resolved, read.configs, task.core, task.every),
        created_at=clock.now(),
        request=task.request,
        size=task.size,
        profile=task.profile,
    )
    return _with_warnings(plan, unmet_warnings(task.files, task.cluster_name, read.configs))


def scope_of(places: NamedPlaces, snapshot: ClusterSnapshot, read_tags: Callable[[], TagSet]) -> ChangeScope:
    """The topics and brokers that are meant; `UsageError` where a text means none."""
    if places.topics and not snapshot.topics:
        raise UsageError(
            f"cluster {snapshot.cluster_id} shows no topic: it has none, or this user may not see them",
            hint="it needs DESCRIBE on the topics",
        )
    topics = {t.name for text in places.topics for t in with_topics(snapshot, text, read_tags).topics}
    brokers = {broker for text in places.brokers for broker in _brokers(text, snapshot, read_tags)}
    return ChangeScope(
        topics=tuple(sorted(topics)),
        brokers=tuple(sorted(brokers)),
        all_brokers=places.all_brokers,
        cluster_default=places.cluster_default,
    )


def _brokers(text: str, snapshot: ClusterSnapshot, read_tags: Callable[[], TagSet]) -> Sequence[int]:
    wanted = parse_broker_list(text)
    if wanted.where is None:
        holding = frozenset(b for t in snapshot.topics for p in t.partitions for b in p.replicas)
        return wanted.resolve(holding, frozenset(b.id for b in snapshot.brokers if b.is_alive))
    if tag_keys(wanted.where, BROKER_KEYS):
        snapshot = replace(snapshot, tags=read_tags())
    found = brokers_where(snapshot, wanted.where)
    if not found:
        error = UsageError(f"no broker matches {text!r:.200}")
        error.lines = why_none(wanted.where, broker_table(snapshot))
        raise error
    return found


def _with_warnings(plan: ConfigPlan, warnings: Sequence[str]) -> ConfigPlan:
    return replace(plan, warnings=(*plan.warnings, *warnings)) if warnings else plan


ABORTED = "aborted by an operator"


def _verdict_text(verdict: HealthVerdict) -> str:
    rows = [f"{r.signal.label} {r.signal.number(r.seen)} (limit {r.signal.number(r.limit)})" for r in verdict.rows]
    return f"{verdict.health.value} after {verdict.looks} looks: {', '.join(rows)}"


MOST_PAST = 60
"""How many moments of the past a metrics service is asked for."""


def watch_windows(watch: HealthWatch, count: int) -> tuple[HealthVerdict, ...]:
    """Watch what is usual, then so many windows; `TryLaterError` where nothing tells what is usual."""
    baseline = baseline_of(watch.past())
    if problem := watch.problem_of(baseline):
        raise TryLaterError(problem)
    return tuple(watch.window_after(baseline, f"window {n} of {count}") for n in range(1, count + 1))
