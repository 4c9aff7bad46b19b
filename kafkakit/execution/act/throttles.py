"""The throttles that a run keeps on the cluster: each is journaled, set, seen to be set, changed, and given back.

* Of the throttle lists of topics only our entries are appended and subtracted; others' stay.
* If the journal does not tell all, the cluster is searched for what runs of a plan left on it.
* Throttles that runs of other plans, or a pacer, left must go before a new run sets its own. Otherwise the new run
  would take the old run's rate for the value to restore.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from kafkakit.core.cluster_facts import ConfigChange, ItemError, ResourceKind
from kafkakit.core.errors import KafkakitError, LeaseLostError, OperationFailedError, RefusedError
from kafkakit.core.model import TopicPartition
from kafkakit.core.plan import Plan
from kafkakit.core.quantities import count_of
from kafkakit.core.text import shell_command
from kafkakit.execution.act.journal_files import DiskFile, LineFile
from kafkakit.execution.act.moves import LogDirs
from kafkakit.execution.act.retrier import ConfigChanges, ConfigWriter, NoteErrors, Retrier
from kafkakit.execution.act.run_journal import RunJournal, existing_journal, plan_of
from kafkakit.execution.decide.journal import ConfigKey, JournalSubject, RateHold, RunState, change_to_data, key_of
from kafkakit.execution.decide.plan_state import LiveState, MoveGoal, list_items
from kafkakit.execution.decide.runs import (
    Commands,
    Direction,
    RecoveredThrottles,
    moves_sent,
    moves_under,
    plan_entries,
    recover,
    topics_held,
)
from kafkakit.execution.decide.schedule.work import BrokerRates, is_unlimited
from kafkakit.execution.decide.throttle import (
    LIST_KEYS,
    RATE_KEYS,
    WILDCARD,
    Configs,
    ListCapacity,
    empty_list_changes,
    entries_of,
    entry_changes,
    inside_rates,
    list_capacity_for,
    owed_words,
    rate_changes,
    removal_changes,
    restore_changes,
    split_list,
    surplus_entries,
    wanted_entries,
    wanted_rates,
)
from kafkakit.ports.acting import Clock, Reporter, repeat_every
from kafkakit.ports.admin import ClusterAdmin

SILENCE_S = 20.0  # by then a broker that hangs has lost its session


class Throttles:
    """Sets, changes and lifts this run's throttles; what is ours is always known from the journal."""

    def __init__(
        self, admin: ClusterAdmin, clock: Clock, journal: RunJournal, reporter: Reporter, retrier: Retrier
    ) -> None:
        self._admin, self._clock, self._journal, self._reporter = admin, clock, journal, reporter
        self._retrier = retrier
        self._configs = ThrottleWriter(admin, clock, journal, retrier)
        self._lists = ThrottleLists(self._configs, journal, reporter)
        self._set: dict[ConfigKey, int] = {}
        self._told: set[ConfigKey] = set()
        self._goals: dict[TopicPartition, MoveGoal] = {}
        self._entered: set[TopicPartition] = set()
        self._inside: set[int] = set()
        self._reasons: dict[ConfigKey, str] = {}
        self._under: Mapping[ConfigKey, RateHold] = {}

    def set_over(self, held: Mapping[ConfigKey, RateHold]) -> None:
        """Set rates over a pacer's: what stood before its rates comes back, and the pacer sets its own anew."""
        self._under = held

    def impose(self, goals: Sequence[MoveGoal], rates: BrokerRates, live: LiveState) -> None:
        """Throttle exactly the goals' copies, and return once the brokers show it.

        Raises `OperationFailedError` when a living broker or a topic refuses, or a broker stays silent.
        """
        self._goals |= {g.key: g for g in goals}
        self._insist(wanted_rates(goals, rates), live)
        self._append(goals, rates)

    def impose_rates(self, goals: Sequence[MoveGoal], rates: BrokerRates, live: LiveState) -> None:
        """Keep moves in flight throttled: brokers that came back get their rate, moves without entries get theirs.

        Costs no request where nothing is missing. Moves whose entries do not fit continue unthrottled, which is said.
        """
        self._goals |= {g.key: g for g in goals}
        self._set_rates(wanted_rates(goals, rates), _alive_in(live))
        if fresh := [g for g in goals if g.key not in self._entered]:
            for words in self._append_fitting(fresh, rates):
                self._reporter.warn(words)

    def impose_inside(self, brokers: Collection[int], rates: BrokerRates, live: LiveState) -> None:
        """Limit the copying between log dirs on these brokers, before their copies are told to change dirs.

        Raises as `impose` does.
        """
        self._inside |= set(brokers)
        self._insist(inside_rates(brokers, rates), live)

    def foreign_rates(self, wanted: Collection[ConfigKey], known: Collection[ConfigKey]) -> tuple[str, ...]:
        """Which of the wanted rates another process has set already, in words; `known` ones are not meant."""
        asked = [k for k in sorted(wanted) if k not in known and k not in self._journal.state.rates]
        now = self._configs.brokers({k.name for k in asked}) if asked else {}
        found = {k: now.get(k.name, {}).get(k.key) for k in asked}
        return tuple(f"{k.key} on broker {k.name} is {value}" for k, value in found.items() if value is not None)

    def list_capacity(self, goals: Sequence[MoveGoal], rates: BrokerRates) -> ListCapacity:
        """Which goals' entries fit into their topics' lists now; one request for each 500 topics."""
        return self._lists.list_capacity(goals, rates)

    def change(
        self, rates: BrokerRates, live: LiveState, goals: Sequence[MoveGoal] = (), inside: Collection[int] = ()
    ) -> tuple[str, ...]:
        """Go over to other rates while moves run; returns what could not be done, in words.

        It is for all that was imposed and not lifted yet, and for the goals and brokers (`inside`: their copies change
        dirs) given here. New rates are set first, then entries come and go, and last the rates that are not wanted any
        more go back to their earlier values. Every value of ours is in the journal before, so a run that is cut here
        restores as any other. A broker averages over about 10 s: a higher rate lets a burst through, a lower one stops
        copying for a while.
        """
        self._goals |= {g.key: g for g in goals}
        self._inside |= set(inside)
        self._reasons.clear()
        known = list(self._goals.values())
        wanted = wanted_rates(known, rates) | inside_rates(sorted(self._inside), rates)
        silent, refused = self._try_rates(wanted, _alive_in(live))
        words = [*_refusals(refused), *self._append_fitting(known, rates)]
        held = self._journal.state.entries
        if is_unlimited(rates):
            self._note(self._lists.remove(held))
        else:
            self._note(self._lists.remove(surplus_entries(entries_of(known, held), wanted_entries(known, rates))))
        self._lift_rates(live, keep=wanted)
        return (*words, *self._undone(wanted, silent, live))

    def _undone(self, wanted: Mapping[ConfigKey, int], silent: Collection[int], live: LiveState) -> tuple[str, ...]:
        state = self._journal.state
        dead = sorted({int(k.name) for k in wanted if not live.is_alive(int(k.name))})
        words = [f"broker {b} is not alive and keeps the rate that it has" for b in dead]
        words += [f"broker {b} does not answer and keeps the rate that it has" for b in sorted(silent)]
        theirs = sorted(self._told & set(wanted))
        words += [f"broker {k.name}: {k.key} was changed by another process and stays" for k in theirs]
        surplus = {k: h for k, h in state.rates.items() if k not in wanted}
        gone = {int(k.name) for k in surplus if not live.is_alive(int(k.name))}
        lists = [k for k in state.entries if k in self._reasons]
        return (*words, *owed_words(surplus, lists, gone, self._reasons))

    def lift_entries(self, goals: Sequence[MoveGoal] | None = None) -> None:
        """Take our list entries away: those of the goals' partitions, or all of them."""
        held = self._journal.state.entries
        wanted = dict(held) if goals is None else entries_of(goals, held)
        gone = set(self._goals) if goals is None else {g.key for g in goals}
        self._goals = {k: g for k, g in self._goals.items() if k not in gone}
        self._entered -= gone
        self._note(self._lists.remove(wanted))

    def lift(self, live: LiveState) -> tuple[str, ...]:
        """Take away every throttle of ours; returns what could not be removed, in words (empty = all gone).

        Rates go back to their earlier values. Nothing is raised for one part that fails, the rest is tried; only
        `LeaseLostError` is, for then nothing more may be done.
        """
        owed: list[str] = []
        self._reasons.clear()
        try:
            self.lift_entries()
        except LeaseLostError:
            raise
        except KafkakitError as error:
            owed.append(error.message)
        try:
            self._lift_rates(live)
        except LeaseLostError:
            raise
        except KafkakitError as error:
            owed.append(error.message)
        self._inside.clear()
        state = self._journal.state
        self._set.clear()
        if not state.throttled:
            return ()
        dead = {int(k.name) for k in state.rates if not live.is_alive(int(k.name))}
        owed += owed_words(state.rates, state.entries, dead, self._reasons)
        self._journal.check(
            JournalSubject.OWED, {"keys": [k.as_data() for k in sorted([*state.rates, *state.entries])]}
        )
        return tuple(owed)

    def _insist(self, wanted: Mapping[ConfigKey, int], live: LiveState) -> None:
        """Set rates, and wait a while for brokers that do not tell theirs."""
        for number, _ in enumerate(repeat_every(self._clock, 1.0, SILENCE_S)):
            silent = self._set_rates(wanted, self._alive() if number else _alive_in(live))
            if not silent:
                return
        raise OperationFailedError(f"broker {', '.join(map(str, silent))} does not answer, its throttle cannot be set")

    def _set_rates(self, wanted: Mapping[ConfigKey, int], alive: Collection[int]) -> list[int]:
        """Set the rates; returns the brokers that did not tell theirs, raises when one refuses."""
        silent, refused = self._try_rates(wanted, alive)
        for words in _refusals(refused):
            raise OperationFailedError(words)
        return silent

    def _try_rates(
        self, wanted: Mapping[ConfigKey, int], alive: Collection[int]
    ) -> tuple[list[int], dict[ConfigChange, ItemError]]:
        """Set the rates; returns brokers that did not tell theirs, and what living brokers refuse."""
        todo = {k: r for k, r in wanted.items() if int(k.name) in alive and self._set.get(k) != r}
        if not todo:
            return [], {}
        now = self._configs.brokers({k.name for k in todo})
        # A rate that could not be read is not unset: giving it back would delete what another process set there.
        silent = {k for k in todo if k.name not in now}
        todo = {k: r for k, r in todo.items() if k not in silent}
        changes, foreign = rate_changes(todo, self._journal.state.rates, now, self._under)
        for key in [k for k in foreign if k not in self._told]:
            self._reporter.warn(f"broker {key.name}: another process changed {key.key} meanwhile; left as it is")
            self._told.add(key)
        refused = self._configs.write(JournalSubject.THROTTLE, changes, now)
        failed = {key_of(c) for c in refused}
        self._set |= {k: r for k, r in todo.items() if k not in failed}
        still = self._alive() if refused else set()
        return sorted({int(k.name) for k in silent}), {c: e for c, e in refused.items() if int(c.name) in still}

    def _append(self, goals: Sequence[MoveGoal], rates: BrokerRates) -> None:
        """Add entries; raises `OperationFailedError` when a topic refuses."""
        for change, error in self._lists.append(goals, rates).items():
            raise OperationFailedError(f"topic {change.name} does not take the throttle: {error}")
        self._entered |= {g.key for g in goals}

    def _append_fitting(self, goals: Sequence[MoveGoal], rates: BrokerRates) -> list[str]:
        """Add what the lists have space for, since moves in flight cannot wait; returns what is missing, in words."""
        capacity = self.list_capacity(goals, rates)
        fits = {g.key for g in capacity.fits}
        refused = self._lists.append(capacity.fits, rates)
        self._entered |= {g.key for g in goals}
        without = [str(g.key) for g in goals if g.key not in fits]
        words = [f"without a throttle, as the lists of their topics are full: {list_items(without)}"] if without else []
        return [*words, *(f"topic {c.name} does not take the throttle: {e}" for c, e in refused.items())]

    def _alive(self) -> set[int]:
        return {b.id for b in self._retrier.call("reading brokers", self._admin.cluster).brokers if b.is_alive}

    def _lift_rates(self, live: LiveState, *, keep: Collection[ConfigKey] = ()) -> None:
        """Give rates back to their earlier values, on living brokers."""
        rates = self._journal.state.rates
        held = {k: v for k, v in rates.items() if k not in keep and live.is_alive(int(k.name))}
        if not held:
            return
        now = self._configs.brokers({k.name for k in held})
        changes, settled, foreign = restore_changes(held, now)
        self._note(self._configs.write(JournalSubject.RESTORE, dict.fromkeys(changes), now))
        for key in [k for k in foreign if k not in self._told]:
            self._reporter.warn(f"broker {key.name}: another process changed {key.key} meanwhile; left as it is")
        self._release([*settled, *foreign])
        self._told -= set(held)
        self._set = {k: r for k, r in self._set.items() if k in self._journal.state.rates or k in keep}

    def _release(self, keys: Sequence[ConfigKey]) -> None:
        if keys:
            self._journal.check(JournalSubject.RELEASED, {"keys": [k.as_data() for k in keys]})

    def _note(self, refused: Mapping[ConfigChange, ItemError]) -> None:
        self._reasons |= {key_of(c): str(e) for c, e in refused.items()}


def _alive_in(live: LiveState) -> set[int]:
    return {b for b in live.brokers if live.is_alive(b)}


def _refusals(refused: Mapping[ConfigChange, ItemError]) -> list[str]:
    return [f"broker {c.name} does not take the throttle: {e}" for c, e in refused.items()]


class ThrottleWriter:
    """Reads and changes throttles; every change stands in the run's journal before it is made."""

    def __init__(self, admin: ClusterAdmin, clock: Clock, journal: RunJournal, retrier: Retrier) -> None:
        self._journal, self._writer = journal, ConfigWriter(admin, clock, retrier, "throttles")

    def topics(self, names: Collection[str]) -> Configs:
        """What is set on the topics that exist."""
        return self._writer.configs(ResourceKind.TOPIC, names)

    def brokers(self, names: Collection[str]) -> Configs:
        """What is set on the brokers that answer."""
        return self._writer.configs(ResourceKind.BROKER, names)

    def write(
        self, what: JournalSubject, changes: ConfigChanges, seen: Configs | None = None
    ) -> dict[ConfigChange, ItemError]:
        """Make changes and wait until they show; returns those refused.

        `changes` have the earlier values that the journal gets. The values that they replace are in `seen`, what was
        read before; without it they are the earlier ones. A topic or broker that is gone by now has nothing to show,
        and is not waited for. Raises `OperationFailedError` when an accepted change does not show.
        """

        def intend(call: ConfigChanges) -> NoteErrors:
            seq = self._journal.intent(what, {"changes": [change_to_data(c, changes[c]) for c in call]})
            return lambda errors: self._journal.effect(
                seq,
                {
                    "refused": [i for i, c in enumerate(call) if c in errors],
                    "errors": [str(e) for e in errors.values()],
                },
            )

        replaced = changes if seen is None else {c: seen.get(c.name, {}).get(c.key) for c in changes}
        outcome = self._writer.write(replaced, intend)
        if outcome.unshown:
            names = list_items([f"{c.kind} {c.name} {c.key}" for c in outcome.unshown])
            raise OperationFailedError(f"a throttle change was accepted but does not show: {names}")
        return dict(outcome.refused)


class ThrottleLists:
    """Our entries in topics' lists; which are ours is known from the journal."""

    def __init__(self, configs: ThrottleWriter, journal: RunJournal, reporter: Reporter) -> None:
        self._configs, self._journal, self._reporter = configs, journal, reporter

    def list_capacity(self, goals: Sequence[MoveGoal], rates: BrokerRates) -> ListCapacity:
        """Which goals' entries fit now; one request for each 500 topics."""
        if is_unlimited(rates) or not goals:
            return ListCapacity(fits=tuple(goals))
        topics = self._configs.topics({g.key.topic for g in goals})
        return list_capacity_for(goals, rates, topics, self._journal.state.entries)

    def append(self, goals: Sequence[MoveGoal], rates: BrokerRates) -> dict[ConfigChange, ItemError]:
        """Add the goals' entries; returns what topics that still exist refuse."""
        wanted = wanted_entries(goals, rates)
        changes = entry_changes(wanted, self._configs.topics({k.name for k in wanted}))
        refused = self._configs.write(JournalSubject.THROTTLE, dict.fromkeys(changes))
        present = self._configs.topics({c.name for c in refused})
        return {c: e for c, e in refused.items() if c.name in present}

    def remove(self, wanted: Mapping[ConfigKey, Sequence[str]]) -> dict[ConfigChange, ItemError]:
        """Subtract entries of ours, and delete lists that this leaves empty; returns what was refused.

        A list with other entries of ours by the journal is not deleted, even if a read shows it empty.
        """
        if not wanted:
            return {}
        held = self._journal.state.entries
        whole = [k for k, entries in wanted.items() if set(held.get(k, ())) <= set(entries)]
        topics = self._configs.topics({k.name for k in wanted})
        refused = self._configs.write(JournalSubject.RESTORE, dict.fromkeys(removal_changes(wanted, topics)))
        # A run that was cut may have emptied a list without writing that down: what is there now decides.
        topics = self._configs.topics({k.name for k in wanted})
        emptied = dict.fromkeys(empty_list_changes(whole, topics))
        refused |= self._configs.write(JournalSubject.RESTORE, emptied, topics)
        self._release(topics, [k for k in wanted if k in self._journal.state.entries])
        return refused

    def _release(self, topics: Configs, keys: Sequence[ConfigKey]) -> None:
        """Forget lists that hold nothing of ours any more: the topic is gone, or only others' entries are left."""
        released = []
        for key in keys:
            there = set(split_list(topics.get(key.name, {}).get(key.key)))
            ours = set(self._journal.state.entries[key])
            if WILDCARD in there and ours:
                self._reporter.warn(f"topic {key.name}: {key.key} was set to * meanwhile; left as it is")
            if not ours & there and topics.get(key.name, {}).get(key.key) != "":
                released.append(key)
        if released:
            self._journal.check(JournalSubject.RELEASED, {"keys": [k.as_data() for k in released]})


def unaccounted_topics(admin: ClusterAdmin, retrier: Retrier, plan: Plan, state: RunState) -> tuple[str, ...]:
    """Topics whose throttle lists limit replicas of the plan and are not the journal's; a request for 500 topics."""
    entries = _entries(admin, retrier, plan, state)
    names = sorted({e.partition(":")[2] for held in entries.values() for e in held})
    if not names:
        return ()
    brokers = retrier.call("reading throttles", lambda: admin.dynamic_configs(ResourceKind.BROKER, names))
    return topics_held(entries, brokers)


def read_baseline(
    admin: ClusterAdmin, retrier: Retrier, plan: Plan, live: LiveState, *, throttled: bool
) -> list[tuple[str, str, str, str]]:
    """The throttles that stand before a run: lists of the plan's topics, and rates where the run is `throttled`."""
    names = sorted({m.topic for m in plan.moves})
    ids = sorted({str(b) for m in plan.moves for b in {*m.before, *m.after} if live.is_alive(b)}) if throttled else []
    found: list[tuple[str, str, str, str]] = []
    for kind, wanted, keys in ((ResourceKind.TOPIC, names, LIST_KEYS), (ResourceKind.BROKER, ids, RATE_KEYS)):
        if wanted:
            configs = retrier.call("reading throttles", partial(admin.dynamic_configs, kind, wanted))
            found += [(kind.value, n, k, v[k]) for n, v in sorted(configs.items()) for k in keys if k in v]
    return found


def _entries(admin: ClusterAdmin, retrier: Retrier, plan: Plan, state: RunState) -> dict[ConfigKey, tuple[str, ...]]:
    names = sorted({m.topic for m in plan.moves})
    if not names:
        return {}
    topics = retrier.call("reading throttles", lambda: admin.dynamic_configs(ResourceKind.TOPIC, names))
    return plan_entries(plan, state, topics)


def find_lost(
    admin: ClusterAdmin, clock: Clock, retrier: Retrier, plan: Plan, live: LiveState, state: RunState, *, is_lost: bool
) -> RecoveredThrottles:
    """What a run of the plan left that is not in its journal.

    `is_lost`: lines of the journal are missing for certain; else only throttle entries tell, and nothing more is read
    where there are none. Reads the whole cluster once otherwise.
    """
    if not is_lost and not _entries(admin, retrier, plan, state):
        return RecoveredThrottles()
    snapshot = retrier.call("reading the cluster", lambda: admin.snapshot(now=clock.now(), sizes=False))
    alive = [str(b.id) for b in snapshot.brokers if b.is_alive]
    brokers = retrier.call("reading throttles", lambda: admin.dynamic_configs(ResourceKind.BROKER, alive))
    topics = {t.name: t.configs for t in snapshot.topics}
    return recover(plan, live, state, brokers, topics, named=is_lost)


class OtherRuns:
    """The journals of this cluster's other plans, and of its pacer, whose throttles may still be set."""

    def __init__(
        self, files: Sequence[LineFile], admin: ClusterAdmin, clock: Clock, reporter: Reporter, commands: Commands
    ) -> None:
        self._admin, self._clock, self._reporter, self._commands = admin, clock, reporter, commands
        self._all = [existing_journal(file, clock) for file in files]
        self._journals = [j for j in self._all if j.state.throttled or j.state.salvaged]
        self._plans = {
            journal.name: plan_of(file.path, journal.state)
            for file, journal in zip(files, self._all, strict=True)
            if journal.state.salvaged and isinstance(file, DiskFile)
        }

    @property
    def link_bytes_per_s(self) -> float | None:
        """The most that a broker reached in a run of another plan without throttle; None where none was measured."""
        return max((j.state.link_bytes_per_s for j in self._all if j.state.link_bytes_per_s), default=None)

    def rates(self, live: LiveState, retry_limit_s: float) -> frozenset[ConfigKey]:
        """The rates of brokers that runs of other plans still have set, by their journals or by their plans."""
        retrier = Retrier(self._clock, self._reporter, retry_limit_s)
        found = [key for journal in self._journals for key in journal.state.rates]
        for journal in self._journals:
            if (plan := self._plans.get(journal.name)) is not None:
                lost = find_lost(self._admin, self._clock, retrier, plan, live, journal.state, is_lost=True)
                found += lost.rates
        return frozenset(found)

    def kept(self, live: LiveState) -> dict[ConfigKey, RateHold]:
        """The rates under which moves of other processes run: the pacer's, which `lift` leaves as they are."""
        journals = [j for j in self._journals if moves_under(j.state, live)]
        return {key: hold for journal in journals for key, hold in journal.state.rates.items()}

    def unfinished(self, verb: str) -> str:
        """A hint with the commands for unfinished runs of other plans; empty when there are none."""
        states = [j.state for j in self._all if j.state.unsettled]
        lines = [str(shell_command(f"reassign {verb}", program=self._commands.program, run=s.run_id)) for s in states]
        return "\n".join([f"unfinished here: {list_items([s.name for s in states])}:", *lines]) if states else ""

    def require_none_in_flight(self, live: LiveState, direction: Direction, retry_limit_s: float) -> None:
        """Raise `RefusedError` while moves that a run of another plan sent are in flight."""
        for state, running in self._running(self._all, live, retry_limit_s):
            raise RefusedError(
                f"nothing of this plan is in flight, but {count_of(running, 'move')} of {state.name}",
                hint=str(shell_command(f"reassign {direction}", program=self._commands.program, run=state.run_id)),
            )

    def require_idle(self, live: LiveState, retry_limit_s: float) -> None:
        """Raise `RefusedError` while moves of another plan still run under that plan's throttle."""
        for state, running in self._running(self._journals, live, retry_limit_s):
            other = Commands(program=self._commands.program, plan=f"--run {state.run_id}")
            raise RefusedError(
                f"a run of another plan is not finished: {running} moves of {state.plan_path} run under its throttle",
                hint=f"finish it, or undo it:\n{other.line('resume', '--yes')}\n{other.line('rollback', '--yes')}",
            )

    def _running(
        self, journals: Sequence[RunJournal], live: LiveState, retry_limit_s: float
    ) -> Iterator[tuple[RunState, int]]:
        """The runs with moves in flight, and how many."""
        retrier = Retrier(self._clock, self._reporter, retry_limit_s)
        for journal in journals:
            state = journal.state
            running = len(moves_sent(state, live))
            if state.dirs_sent:
                running += len(LogDirs(self._admin, journal, self._reporter, retrier).on_the_way(state.dirs_sent, live))
            if running:
                yield state, running

    def lift(self, live: LiveState, retry_limit_s: float) -> None:
        """Take away what the others left; what cannot be removed now stays in their journals and is warned about.

        Throttles of the pacer stay while moves run under them.
        """
        retrier = Retrier(self._clock, self._reporter, retry_limit_s)
        for journal in self._journals:
            if moves_under(journal.state, live):
                continue
            if (plan := self._plans.get(journal.name)) is not None:
                lost = find_lost(self._admin, self._clock, retrier, plan, live, journal.state, is_lost=True)
                journal.adopt(lost, journal.state.plan_path)
            owed = Throttles(self._admin, self._clock, journal, self._reporter, retrier).lift(live)
            for line in owed:
                self._reporter.warn(f"left by {journal.state.plan_path or journal.state.fingerprint}: {line}")
