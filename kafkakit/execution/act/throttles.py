"""The throttles that a run keeps on the cluster: each is journaled, set, seen to be set, changed, and given back."""

from collections.abc import Collection, Mapping, Sequence

from kafkakit.core.cluster_facts import ConfigChange, ItemError
from kafkakit.core.errors import KafkakitError, LeaseLostError, OperationFailedError
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.config_changes import ConfigWriter
from kafkakit.execution.act.retrier import Retrier
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.act.throttle_lists import ThrottleLists
from kafkakit.execution.decide.goals import Goal
from kafkakit.execution.decide.journal import What
from kafkakit.execution.decide.journal_state import ConfigKey, RateHold
from kafkakit.execution.decide.precheck import Live, listed
from kafkakit.execution.decide.rates import is_unlimited
from kafkakit.execution.decide.schedule.work import Rates
from kafkakit.execution.decide.throttle import (
    ListCapacity,
    entries_of,
    inside_rates,
    owed_words,
    rate_changes,
    restore_changes,
    surplus_entries,
    wanted_entries,
    wanted_rates,
)
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.reporter import Reporter

SILENCE_S = 20.0  # by then a broker that hangs has lost its session


class Throttles:
    """Sets, changes and lifts this run's throttles; what is ours is always known from the journal."""

    def __init__(
        self, admin: ClusterAdmin, clock: Clock, journal: RunJournal, reporter: Reporter, retrier: Retrier
    ) -> None:
        self._admin, self._clock, self._journal, self._reporter = admin, clock, journal, reporter
        self._retrier = retrier
        self._configs = ConfigWriter(admin, clock, journal, retrier)
        self._lists = ThrottleLists(self._configs, journal, reporter)
        self._set: dict[ConfigKey, int] = {}
        self._told: set[ConfigKey] = set()
        self._goals: dict[TopicPartition, Goal] = {}
        self._entered: set[TopicPartition] = set()
        self._inside: set[int] = set()
        self._reasons: dict[ConfigKey, str] = {}
        self._under: Mapping[ConfigKey, RateHold] = {}

    def set_over(self, held: Mapping[ConfigKey, RateHold]) -> None:
        """Set rates over a pacer's: what stood before its rates comes back, and the pacer sets its own anew."""
        self._under = held

    def impose(self, goals: Sequence[Goal], rates: Rates, live: Live) -> None:
        """Throttle exactly the goals' copies, and return once the brokers show it.

        Raises `OperationFailedError` when a living broker or a topic refuses, or a broker stays silent.
        """
        self._goals |= {g.key: g for g in goals}
        self._insist(wanted_rates(goals, rates), live)
        self._append(goals, rates)

    def impose_rates(self, goals: Sequence[Goal], rates: Rates, live: Live) -> None:
        """Keep moves in flight throttled: brokers that came back get their rate, moves without entries get theirs.

        Costs no request where nothing is missing. Moves whose entries do not fit continue unthrottled, which is said.
        """
        self._goals |= {g.key: g for g in goals}
        self._set_rates(wanted_rates(goals, rates), _alive_in(live))
        if fresh := [g for g in goals if g.key not in self._entered]:
            for words in self._append_fitting(fresh, rates):
                self._reporter.warn(words)

    def impose_inside(self, brokers: Collection[int], rates: Rates, live: Live) -> None:
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

    def list_capacity(self, goals: Sequence[Goal], rates: Rates) -> ListCapacity:
        """Which goals' entries fit into their topics' lists now; one request for each 500 topics."""
        return self._lists.list_capacity(goals, rates)

    def change(
        self, rates: Rates, live: Live, goals: Sequence[Goal] = (), inside: Collection[int] = ()
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

    def _undone(self, wanted: Mapping[ConfigKey, int], silent: Collection[int], live: Live) -> tuple[str, ...]:
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

    def lift_entries(self, goals: Sequence[Goal] | None = None) -> None:
        """Take our list entries away: those of the goals' partitions, or all of them."""
        held = self._journal.state.entries
        wanted = dict(held) if goals is None else entries_of(goals, held)
        gone = set(self._goals) if goals is None else {g.key for g in goals}
        self._goals = {k: g for k, g in self._goals.items() if k not in gone}
        self._entered -= gone
        self._note(self._lists.remove(wanted))

    def lift(self, live: Live) -> tuple[str, ...]:
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
        self._journal.check(What.OWED, {"keys": [k.as_data() for k in sorted([*state.rates, *state.entries])]})
        return tuple(owed)

    def _insist(self, wanted: Mapping[ConfigKey, int], live: Live) -> None:
        """Set rates, and wait a while for brokers that do not tell theirs."""
        alive: Collection[int] = _alive_in(live)
        deadline = self._clock.monotonic() + SILENCE_S
        while silent := self._set_rates(wanted, alive):
            if self._clock.monotonic() >= deadline:
                raise OperationFailedError(
                    f"broker {', '.join(map(str, silent))} does not answer, its throttle cannot be set"
                )
            self._clock.sleep(1.0)
            alive = self._alive()

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
        refused = self._configs.write(What.THROTTLE, changes)
        failed = {ConfigKey(c.kind, c.name, c.key) for c in refused}
        self._set |= {k: r for k, r in todo.items() if k not in failed}
        still = self._alive() if refused else set()
        return sorted({int(k.name) for k in silent}), {c: e for c, e in refused.items() if int(c.name) in still}

    def _append(self, goals: Sequence[Goal], rates: Rates) -> None:
        """Add entries; raises `OperationFailedError` when a topic refuses."""
        for change, error in self._lists.append(goals, rates).items():
            raise OperationFailedError(f"topic {change.name} does not take the throttle: {error}")
        self._entered |= {g.key for g in goals}

    def _append_fitting(self, goals: Sequence[Goal], rates: Rates) -> list[str]:
        """Add what the lists have space for, since moves in flight cannot wait; returns what is missing, in words."""
        capacity = self.list_capacity(goals, rates)
        fits = {g.key for g in capacity.fits}
        refused = self._lists.append(capacity.fits, rates)
        self._entered |= {g.key for g in goals}
        without = [str(g.key) for g in goals if g.key not in fits]
        words = [f"without a throttle, as the lists of their topics are full: {listed(without)}"] if without else []
        return [*words, *(f"topic {c.name} does not take the throttle: {e}" for c, e in refused.items())]

    def _alive(self) -> set[int]:
        return {b.id for b in self._retrier.call("reading brokers", self._admin.cluster).brokers if b.is_alive}

    def _lift_rates(self, live: Live, *, keep: Collection[ConfigKey] = ()) -> None:
        """Give rates back to their earlier values, on living brokers."""
        rates = self._journal.state.rates
        held = {k: v for k, v in rates.items() if k not in keep and live.is_alive(int(k.name))}
        if not held:
            return
        now = self._configs.brokers({k.name for k in held})
        changes, settled, foreign = restore_changes(held, now)
        self._note(self._configs.write(What.RESTORE, [(c, None) for c in changes]))
        for key in [k for k in foreign if k not in self._told]:
            self._reporter.warn(f"broker {key.name}: another process changed {key.key} meanwhile; left as it is")
        self._release([*settled, *foreign])
        self._told -= set(held)
        self._set = {k: r for k, r in self._set.items() if k in self._journal.state.rates or k in keep}

    def _release(self, keys: Sequence[ConfigKey]) -> None:
        if keys:
            self._journal.check(What.RELEASED, {"keys": [k.as_data() for k in keys]})

    def _note(self, refused: Mapping[ConfigChange, ItemError]) -> None:
        self._reasons |= {ConfigKey(c.kind, c.name, c.key): str(e) for c, e in refused.items()}


def _alive_in(live: Live) -> set[int]:
    return {b for b in live.brokers if live.is_alive(b)}


def _refusals(refused: Mapping[ConfigChange, ItemError]) -> list[str]:
    return [f"broker {c.name} does not take the throttle: {e}" for c, e in refused.items()]
