"""Settings on a cluster, read and written: each change is compared with what is set, journaled, made, and read back.

Partitions are read to watch them. A rollout has one journal file below the state folder. The operator's own command
changes a broker's file and restarts the broker.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from glob import escape
from itertools import groupby
from operator import not_
from pathlib import Path

from kafkakit.core.cluster_facts import (
    CLUSTER_DEFAULT,
    ConfigChange,
    ConfigLayer,
    ItemError,
    LayeredValue,
    ResourceKind,
)
from kafkakit.core.errors import InputError, KafkakitError, LeaseLostError, RefusedError, TryLaterError, UsageError
from kafkakit.core.findings import min_isr_of, stops_above_replicas
from kafkakit.core.journal_lines import RecordKind
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.quantities import epoch_ms
from kafkakit.core.text import few_of, shell_command
from kafkakit.execution.act.journal_files import DiskFile, LineFile, LineJournal
from kafkakit.execution.act.retrier import (
    SHOW_TIMEOUT_S,
    ConfigChanges,
    ConfigValues,
    ConfigWriter,
    NoteErrors,
    Retrier,
    WriteOutcome,
    read_usual_min_isr,
    wait_until_shown,
)
from kafkakit.execution.decide.journal import ConfigKey, change_of
from kafkakit.lint.api import Pieces
from kafkakit.lint.api_act import live_pieces
from kafkakit.ports.acting import Clock, look_until, wait_until
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import GroupAdmin, LogReader
from kafkakit.ports.services import Processes
from kafkakit.rollout.decide.plan import ConfigPlan, show_value
from kafkakit.rollout.decide.rollout import (
    GONE,
    GRAMMAR,
    HealthLook,
    HealthVerdict,
    PartitionView,
    ReadBack,
    RolloutEnd,
    RolloutState,
    RolloutWord,
    TouchedSetting,
    WatchSettings,
    baseline_of,
    change_data,
    describe_differences,
    fold,
    lag_look,
    look_between,
    not_ours,
    opening_data,
)
from kafkakit.rollout.decide.settings import ClusterConfigs, PlannedStep, SettingChange, configs_of, is_same, where_of

RestartBroker = Callable[[int, Mapping[str, str | None]], str]
"""Puts settings into a broker's file (None takes one out) and restarts it; returns what went wrong, if anything."""


def key_of(change: SettingChange) -> ConfigKey:
    """The setting that a change is about."""
    return ConfigKey(change.kind, change.name, change.key)


class RolloutJournal(LineJournal[RolloutWord, RolloutState | None]):
    """One rollout's journal, open for writing."""

    def __init__(self, file: LineFile, clock: Clock) -> None:
        super().__init__(file, clock, GRAMMAR, fold, None)

    @property
    def rollout(self) -> RolloutState:
        """What the lines mean; the journal has begun."""
        if self.state is None:
            raise InputError(self.name, "holds no rollout: it was stopped before its first line was written")
        return self.state

    @property
    def run(self) -> str:
        """What the rollout is called."""
        return Path(self.name).stem

    def salvage(self) -> str:
        """Record that lines are lost, and return why; whatever the plan sets counts as set from then on."""
        if damage := self.damage:
            self.check(RolloutWord.SALVAGED, {"problem": damage})
        return damage

    def begin(
        self, plan: ConfigPlan, watch: WatchSettings, by: str, rehearsal_of: str, hiding: Iterable[tuple[int, str]]
    ) -> None:
        """Record the plan, and which brokers hide the cluster default; the first line."""
        self.check(RolloutWord.OPEN, opening_data(plan, watch, by, rehearsal_of, hiding))

    def intend(self, word: RolloutWord, changes: Iterable[SettingChange]) -> int:
        """Record what is about to be written; returns the number that `answered` refers to."""
        return self.intent(word, {"changes": [change_data(c) for c in changes]})

    def answered(self, intent: int, word: RolloutWord, errors: Sequence[str]) -> None:
        """Record what came of it."""
        self._write(RecordKind.EFFECT, word, {"errors": list(errors)}, intent)

    def usual(self, looks: Sequence[HealthLook]) -> None:
        """Record what was usual before the first step."""
        values = {signal.value: list(series) for signal, series in baseline_of(looks).items()}
        self.check(RolloutWord.BASELINE, {"values": values})

    def passed(self, step: int, verdict: HealthVerdict) -> None:
        """Record that a step was watched and found good."""
        rows = [[r.signal.value, r.seen, r.usual, r.limit] for r in verdict.rows]
        self.check(RolloutWord.PASSED, {"step": step, "looks": verdict.looks, "signals": rows})

    def turn_back(self, reasons: Sequence[str]) -> None:
        """Record that from now on values are taken back, and why."""
        self.check(RolloutWord.BACK, {"reasons": list(reasons)})

    def ended(self, end: RolloutEnd, left: Sequence[str] = ()) -> None:
        """Record how it ended."""
        self.check(RolloutWord.END, {"end": end.value, "left": list(left)})


def refused_by_brokers(changes: Sequence[SettingChange], admin: ClusterAdmin) -> tuple[str, ...]:
    """Ask brokers whether they would take changes, which makes none; returns what they would not, in their words."""
    altered = [change_of(key_of(c), c.after) for c in changes]
    answers = admin.check_configs(altered)
    keys: dict[tuple[str, str], list[str]] = {}
    for change, asked in zip(changes, altered, strict=True):
        if (error := answers.get(asked)) is not None:
            keys.setdefault((change.where, str(error)), []).append(change.key)
    places: dict[tuple[str, str], list[str]] = {}
    for (where, words), named in keys.items():
        places.setdefault((", ".join(named), words), []).append(where)
    return tuple(f"{named} of {few_of(wheres)}: refused ({words})" for (named, words), wheres in places.items())


def _refusals(errors: Mapping[ConfigChange, ItemError]) -> list[str]:
    return [f"{where_of(c.kind, c.name)} {c.key}: refused ({error})" for c, error in errors.items()]


def _describe_unshown(outcome: WriteOutcome) -> tuple[str, ...]:
    """The changes that a read did not show in time; what somebody else wrote meanwhile is among them."""
    seen = {c: show_value(c.key, value) for c, value in outcome.unshown.items()} | dict.fromkeys(outcome.gone, "gone")
    return tuple(
        f"{where_of(c.kind, c.name)} {c.key} was set to {show_value(c.key, c.value)} and is {shown}: another process "
        "changed it"
        for c, shown in seen.items()
    )


class SettingsWriter:
    """Makes the changes of a rollout and takes them back.

    What another process writes in the few milliseconds between our read and our write is in the journal as ours then.
    """

    def __init__(
        self,
        admin: ClusterAdmin,
        clock: Clock,
        journal: RolloutJournal,
        retrier: Retrier,
        restart_broker: RestartBroker | None,
        settle_s: float,
    ) -> None:
        self._admin, self._clock, self._journal, self._retrier = admin, clock, journal, retrier
        self._writer = ConfigWriter(admin, clock, retrier, "settings", is_same, waits_for_gone=True)
        self._restart_broker, self._settle_s = restart_broker, settle_s

    def carry_out(self, step: PlannedStep) -> tuple[str, ...]:
        """Make what is not made yet; returns why the step failed, nothing when it is done."""
        try:
            todo, problems = self._compared(step)
            if problems or not todo:
                return problems or self._settled(step)
            if step.restart:
                return self._restarted(RolloutWord.RESTART, todo) or self._settled(step)
            return self._written(RolloutWord.WRITE, todo)
        except LeaseLostError:
            raise  # the process that has it now may be acting already
        except TryLaterError as error:
            return (f"{step.name}: {error.message}",)

    def take_back(self, touched: Sequence[TouchedSetting]) -> tuple[str, ...]:
        """Restore what every setting had first, the last one first; returns what was left, and why.

        A value that is not ours by now is left alone. All are read back at the end.
        """
        left: list[str] = []
        restored: list[TouchedSetting] = []
        for (restart, kind, name), group in groupby(
            reversed(touched), key=lambda t: (t.restart, t.key.kind, t.key.name)
        ):
            settings = tuple(group)
            where = where_of(kind, name)
            try:
                values = self._awaited([t.key for t in settings], restart=restart)
                left += [
                    not_ours(t, values[t.key]) for t in settings if t.key in values and not t.is_ours(values[t.key])
                ]
                left += [f"{where} {t.key.key}: {GONE}" for t in settings if t.key not in values]
                before = len(left)
                todo = tuple(
                    SettingChange(kind=kind, name=name, key=t.key.key, before=values[t.key], after=t.original)
                    for t in settings
                    if t.key in values and t.is_ours(values[t.key]) and not is_same(values[t.key], t.original)
                )
                if todo and restart:
                    left += self._restarted(RolloutWord.RESTORE, todo) or self._rejoined(int(name))
                elif todo:
                    left += self._written(RolloutWord.RESTORE, todo)
                ours = (t for t in settings if t.key in values and t.is_ours(values[t.key]))
                restored += ours if len(left) == before else ()
            except LeaseLostError:
                raise
            except TryLaterError as error:
                left.append(f"{where}: {error.message}")
        return (*left, *self._not_restored(restored))

    def _not_restored(self, restored: Sequence[TouchedSetting]) -> tuple[str, ...]:
        """What another process changed after it was restored, and what is not known any more."""

        def look() -> tuple[str, ...]:
            values: ConfigValues = {}
            for restart in (False, True):
                keys = [t.key for t in restored if t.restart is restart]
                values |= self.values(keys, restart=restart) if keys else {}
            gone = [f"{where_of(t.key.kind, t.key.name)} {t.key.key}: {GONE}" for t in restored if t.key not in values]
            others = [t for t in restored if t.key in values and not is_same(values[t.key], t.original)]
            return (*gone, *(not_ours(t, values[t.key]) for t in others))

        return self._after_wait(look)

    def differing(self, steps: Sequence[PlannedStep]) -> tuple[str, ...]:
        """Where the cluster has not what these steps set, after a wait for it; what is not known counts as well."""
        state = self._journal.rollout
        changes = [c for step in steps for c in step.changes]
        is_default = any(c.kind is ResourceKind.BROKER and c.name == CLUSTER_DEFAULT for c in changes)
        brokers = [b.id for b in state.plan.brokers] if is_default else []
        return self._after_wait(
            lambda: describe_differences(steps, self._read_back(changes, brokers), brokers, state.hiding)
        )

    def _after_wait(self, look: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        """What `look` finds still, once it finds nothing or the time for a change to show is over."""
        try:
            return look_until(self._clock, SHOW_TIMEOUT_S, look, not_, every_s=1.0)
        except LeaseLostError:
            raise
        except TryLaterError as error:
            return (f"what is set is not known: {error.message}",)

    def _read_back(self, changes: Iterable[SettingChange], brokers: Iterable[int]) -> ReadBack:
        keys = {key_of(c) for c in changes}
        of_brokers = {k for k in keys if k.kind is ResourceKind.BROKER and k.name != CLUSTER_DEFAULT}
        ids = sorted({*brokers, *(int(k.name) for k in of_brokers)})
        own = self.values(sorted(keys - of_brokers))
        running = self._retrier.call("reading settings", lambda: self._admin.broker_configs(ids)) if ids else {}
        return ReadBack(own=own, running=running)

    def values(self, keys: Collection[ConfigKey], *, restart: bool = False) -> ConfigValues:
        """What is set now; with `restart`, in files of brokers."""
        if not restart:
            return self._writer.values(keys)
        found: ConfigValues = {}
        ids = sorted({int(k.name) for k in keys})
        layers = self._retrier.call("reading settings", lambda: self._admin.broker_configs(ids, defaults=True))
        for key in keys:
            if (of_broker := layers.get(int(key.name))) is not None:
                value = of_broker.get(key.key)
                is_set = value is not None and value.layer is ConfigLayer.STATIC
                found[key] = value.value if value is not None and is_set else None
        return found

    def _awaited(self, keys: Collection[ConfigKey], *, restart: bool) -> ConfigValues:
        """As `values`; a broker that restarts, maybe by the command of a process that was killed, is waited for."""

        look = partial(self.values, keys, restart=restart)
        return look_until(self._clock, self._settle_s, look, lambda found: bool(found) or not restart)

    def _compared(self, step: PlannedStep) -> tuple[tuple[SettingChange, ...], tuple[str, ...]]:
        """What is still to be done, and what stands against it."""
        values = self._awaited([key_of(c) for c in step.changes], restart=step.restart)
        todo: list[SettingChange] = []
        problems: list[str] = []
        for change in step.changes:
            key = key_of(change)
            if key not in values:
                problems.append(f"{change.where} {change.key}: {GONE}")
            elif is_same(values[key], change.after):
                continue
            elif is_same(values[key], change.before):
                todo.append(change)
            else:
                problems.append(
                    f"{change.where} {change.key} is {show_value(change.key, values[key])}, and was "
                    f"{show_value(change.key, change.before)}: another process changed it"
                )
        return tuple(todo), tuple(problems)

    def _written(self, word: RolloutWord, changes: Sequence[SettingChange]) -> tuple[str, ...]:
        """Journal and make changes, and wait until they show."""
        planned = {change_of(key_of(c), c.after): c for c in changes}

        def intend(call: ConfigChanges) -> NoteErrors:
            seq = self._journal.intend(word, [planned[c] for c in call])
            return lambda errors: self._journal.answered(seq, word, _refusals(errors))

        outcome = self._writer.write({altered: c.before for altered, c in planned.items()}, intend)
        return (*_refusals(outcome.refused), *_describe_unshown(outcome))

    def _restarted(self, word: RolloutWord, changes: Sequence[SettingChange]) -> tuple[str, ...]:
        """Have the operator's command change a broker's file and restart it, and wait until it runs with that."""
        broker = int(changes[0].name)
        if self._restart_broker is None:
            keys = few_of(c.key for c in changes)
            return (f"broker {broker} must be restarted for {keys}, and no --restart-with is given",)
        seq = self._journal.intend(word, changes)
        problem = self._restart_broker(broker, {c.key: c.after for c in changes})
        errors = (f"restart of broker {broker}: {problem}",) if problem else ()
        self._journal.answered(seq, word, errors)
        return errors or self._back_with(broker, changes)

    def _back_with(self, broker: int, changes: Sequence[SettingChange]) -> tuple[str, ...]:
        def runs() -> bool:
            try:
                info = self._admin.cluster()
            except KafkakitError:
                return False
            return any(b.id == broker and b.is_alive for b in info.brokers)

        if not wait_until(self._clock, self._settle_s, runs):
            return (f"broker {broker} did not come back within {self._settle_s:g} s",)
        wanted, read = [change_of(key_of(c), c.after) for c in changes], partial(self.values, restart=True)
        return _describe_unshown(wait_until_shown(self._clock, wanted, read, is_same, waits_for_gone=True))

    def _settled(self, step: PlannedStep) -> tuple[str, ...]:
        return self._rejoined(int(step.changes[0].name)) if step.restart else ()

    def _rejoined(self, broker: int) -> tuple[str, ...]:
        """Wait until every copy on a restarted broker is in sync."""
        watch = self._retrier.call("reading topics", lambda: PartitionWatch(self._admin, self._clock))
        waiting: tuple[str, ...] = ()

        def all_in_sync() -> bool:
            nonlocal waiting
            try:
                waiting = watch.waits_for(broker)
            except TryLaterError:
                return False
            return not waiting

        if wait_until(self._clock, self._settle_s, all_in_sync):
            return ()
        return (f"broker {broker} is not in sync again after {self._settle_s:g} s: {few_of(waiting)}",)


class GroupLag:
    """Reads the lag of consumer groups: what they committed, one request a group, and the ends of those partitions."""

    def __init__(self, groups: GroupAdmin, log: LogReader, clock: Clock, names: Sequence[str]) -> None:
        self._groups, self._log, self._clock, self._names = groups, log, clock, names

    def look(self) -> HealthLook:
        """The lag of all the groups; without a value, but with the reason, where a part of it is not known."""
        at_ms = epoch_ms(self._clock.now())
        commits: dict[str, dict[TopicPartition, int]] = {}
        problems: list[str] = []
        try:
            for name in self._names:
                found = self._groups.committed(name, stable=False)
                commits[name] = {key: c.offset for key, c in found.items() if not isinstance(c, ItemError)}
                problems += [f"group {name}, {key}: {c}" for key, c in found.items() if isinstance(c, ItemError)][:1]
            spans = self._log.spans(sorted({key for offsets in commits.values() for key in offsets}))
        except LeaseLostError:
            raise
        except KafkakitError as error:
            return HealthLook(at_ms=at_ms, problem=error.message)
        ends = {key: span.end for key, span in spans.items() if not isinstance(span, ItemError)}
        return lag_look(at_ms, commits, ends, problems)


class ClusterSettings:
    """What is set on a cluster, read once: one request for its topics, three for its brokers."""

    def __init__(self, admin: ClusterAdmin, clock: Clock) -> None:
        snapshot = admin.snapshot(now=clock.now(), sizes=False)
        alive = [b.id for b in snapshot.brokers if b.is_alive]
        in_force = admin.broker_configs(alive, defaults=True)
        own = admin.dynamic_configs(ResourceKind.BROKER, [str(b) for b in in_force])
        default = admin.dynamic_configs(ResourceKind.BROKER, [CLUSTER_DEFAULT]).get(CLUSTER_DEFAULT, {})
        self.configs = configs_of(snapshot, default, {n: v for n, v in own.items() if n}, in_force)
        self.snapshot, self._in_force = snapshot, in_force

    def pieces(self) -> Pieces:
        """The cluster as lint sees it."""
        return live_pieces(self.snapshot, {b: _set_values(values) for b, values in self._in_force.items()}, None)


def read_configs(admin: ClusterAdmin, clock: Clock) -> ClusterConfigs:
    """What is set on a cluster; see `ClusterSettings`."""
    return ClusterSettings(admin, clock).configs


class PartitionWatch:
    """Looks at all partitions, one request a look; topics and min ISR are read when it is made, and by `renew`."""

    def __init__(self, admin: ClusterAdmin, clock: Clock) -> None:
        self._admin, self._clock = admin, clock
        self._before: PartitionView | None = None
        self._min_isr: dict[str, int] = {}
        self._stops = False
        self.renew()

    def renew(self, *, forget: bool = False) -> None:
        """Read topics and min ISR again, which a step may have changed; `forget` what was seen before.

        Where no broker answers, they stay as they were: the next looks tell.
        """
        self._before = None if forget else self._before
        try:
            snapshot = self._admin.snapshot(now=self._clock.now(), sizes=False)
            self._min_isr = min_isr_by_topic(snapshot, self._admin)
            self._stops = stops_above_replicas(snapshot.kafka_version)
        except TryLaterError:
            if not self._min_isr:
                raise

    def look(self) -> HealthLook:
        """What the partitions show, and what happened since the last look; without values while no broker answers."""
        begun_s, at_ms = self._clock.monotonic(), epoch_ms(self._clock.now())
        try:
            states = self._admin.partition_states(self._min_isr)
        except TryLaterError as error:
            return HealthLook(at_ms=at_ms, problem=error.message)
        answer_ms = (self._clock.monotonic() - begun_s) * 1000
        now = PartitionView(
            at_ms=at_ms,
            states=states,
            min_isr=self._min_isr,
            answer_ms=answer_ms,
            stops_above_replicas=self._stops,
        )
        found = look_between(self._before, now)
        self._before = now
        return found

    def waits_for(self, broker: int) -> tuple[str, ...]:
        """The partitions that have a copy on the broker which is not in sync, in order."""
        states = self._admin.partition_states(self._min_isr)
        return tuple(str(key) for key, s in states.items() if broker in s.replicas and broker not in s.isr)


def min_isr_by_topic(snapshot: ClusterSnapshot, admin: ClusterAdmin) -> dict[str, int]:
    """How many copies of each topic must be in sync: its own setting, else the largest that a broker runs with."""
    usual = read_usual_min_isr(admin, [b.id for b in snapshot.brokers if b.is_alive])
    return {t.name: min_isr_of(t.configs, usual) for t in snapshot.topics}


def _set_values(values: Mapping[str, LayeredValue]) -> dict[str, LayeredValue]:
    return {key: value for key, value in values.items() if value.layer is not ConfigLayer.DEFAULT}


SUFFIX = ".journal"
HINT = "list them with: kafkakit config history"
PROGRAM = "kafkakit"
LOST_HINT = (
    "what it set is not known any more: look for it with `kafkakit config diff FILE live`, then move the file out of "
    "its folder"
)


class RolloutJournals:
    """The rollouts of one cluster on this host, or of all where `cluster_id` is None, which are only read.

    `program` begins the commands that hints print.
    """

    def __init__(self, state_dir: Path, cluster_id: str | None, clock: Clock, program: str = PROGRAM) -> None:
        self._root, self._cluster_id, self._clock, self._program = (
            state_dir / "config-rollouts", cluster_id, clock, program
        )  # fmt: skip

    def of_plan(self, plan: ConfigPlan) -> RolloutJournal:
        """The journal of a plan's rollout: a new one, or the one that is open.

        Raises `RefusedError` while the rollout of another plan is open. A plan whose rollout ended can be rolled out
        again: its values are compared first.
        """
        for path, state in self.states():
            if state.end is None and state.plan.hash != plan.hash:
                raise self._is_open(path.stem, state)
            if state.end is None:
                return self._open(path)
        number = sum(1 for path in self._paths() if path.stem.startswith(plan.run_id))
        name = plan.run_id if number == 0 else f"{plan.run_id}.{number}"
        return self._open(self._root / (self._cluster_id or plan.cluster_id) / f"{name}{SUFFIX}")

    def named(self, name: str) -> RolloutJournal:
        """The rollout of that id; `UsageError` when there is none."""
        for path in self._paths():
            if path.stem == name:
                return self._open(path)
        where = "any" if self._cluster_id is None else "this"
        raise UsageError(f"there is no rollout {name!r:.60} of {where} cluster on this host", hint=HINT)

    def only_open(self) -> RolloutJournal:
        """The rollout that is open; `UsageError` when there is none."""
        for path, state in self.states():
            if state.end is None:
                return self._open(path)
        raise UsageError("no rollout of this cluster is open on this host", hint=HINT)

    def to_roll_back(self, name: str | None) -> RolloutJournal:
        """The rollout of that id, or the newest whose values are in force; `UsageError` when there is none.

        Raises `RefusedError` while another one is open, as one is whose rollback was cut.
        """
        for path, state in self.states():
            if state.end is None and path.stem != name:
                raise self._is_open(path.stem, state)
        return self.last_applied() if name is None else self.named(name)

    def to_abort(self, name: str | None) -> RolloutJournal:
        """The open rollout, or the one of that id; `RefusedError` for one that was applied."""
        found = self.only_open() if name is None else self.named(name)
        if found.rollout.end in (RolloutEnd.APPLIED, RolloutEnd.INCOMPLETE):
            raise RefusedError(
                f"rollout {found.run} is {found.rollout.words}, not open",
                hint=f"to take it back:\n{shell_command('config rollback', found.run, program=self._program)}",
            )
        return found

    def _is_open(self, name: str, state: RolloutState) -> RefusedError:
        lines = (str(shell_command(f"config {word}", program=self._program, yes=True)) for word in ("resume", "abort"))
        return RefusedError(
            f"rollout {name} is {state.words}", hint="\n".join(("finish it, or take it back, first:", *lines))
        )

    def last_applied(self) -> RolloutJournal:
        """The newest rollout whose values are in force; `UsageError` when there is none."""
        for path, state in reversed(self.states()):
            if state.end in (RolloutEnd.APPLIED, RolloutEnd.INCOMPLETE):
                return self._open(path)
        raise UsageError("no rollout of this cluster can be rolled back", hint=HINT)

    def states(self) -> tuple[tuple[Path, RolloutState], ...]:
        """Every rollout, oldest first; empty journals are left out.

        Of a damaged journal the sound beginning counts. Raises `InputError` where nothing of it is sound.
        """
        found = [(path, self._open(path)) for path in self._paths()]
        for _, journal in found:
            if journal.state is None and journal.damage:
                raise InputError(journal.name, "its first line cannot be read", hint=LOST_HINT)
        begun = [(path, journal.state) for path, journal in found if journal.state is not None]
        return tuple(sorted(begun, key=lambda item: item[1].began_at))

    def damages(self) -> tuple[str, ...]:
        """What is wrong with journals."""
        return tuple(damage for path in self._paths() if (damage := self._open(path).damage))

    def _paths(self) -> list[Path]:
        return sorted(self._root.glob(f"{'*' if self._cluster_id is None else escape(self._cluster_id)}/*{SUFFIX}"))

    def _open(self, path: Path) -> RolloutJournal:
        return RolloutJournal(DiskFile(path), self._clock)


class RestartCommand:
    """Runs `COMMAND BROKER KEY=VALUE...`, where a bare KEY is to be taken out of the file; output goes to `log_file`.

    It must be repeatable: a rollout that was cut runs it again. The clock keeps the lease while it runs.
    """

    def __init__(self, processes: Processes, clock: Clock, command: str, log_file: str, limit_s: float) -> None:
        self._processes, self._clock, self._command = processes, clock, command
        self._log_file, self._limit_s = log_file, limit_s

    def __call__(self, broker: int, values: Mapping[str, str | None]) -> str:
        """Run it; returns what went wrong."""
        words = [key if value is None else f"{key}={value}" for key, value in values.items()]
        try:
            record = self._processes.start([self._command, str(broker), *words], self._log_file, lambda _: None)
        except KafkakitError as error:
            return error.message
        try:
            ended = wait_until(self._clock, self._limit_s, lambda: not self._processes.is_alive(record), every_s=0.1)
        except BaseException:
            self._processes.kill([record])
            raise
        if not ended:
            self._processes.kill([record])
            return f"{self._command} took more than {self._limit_s:g} s"
        status = self._processes.wait(record, 5)
        return "" if status == 0 else f"{self._command} ended with {status}; its output is in {self._log_file}"
