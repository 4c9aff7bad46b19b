"""The throttles that a run keeps on the cluster: each is journaled, set, seen to be set, changed, and given back."""

from collections.abc import Collection, Mapping, Sequence

from kafkakit.errors import KafkakitError, OperationFailedError
from kafkakit.model import TopicPartition
from kafkakit.ports import Clock, ClusterAdmin, ConfigChange, ItemError
from kafkakit.reassign.goals import Goal
from kafkakit.reassign.journal import What
from kafkakit.reassign.journal_state import ConfigKey
from kafkakit.reassign.outcome import Voice
from kafkakit.reassign.precheck import Live
from kafkakit.reassign.rates import is_unlimited
from kafkakit.reassign.schedule.work import Rates
from kafkakit.reassign.service import Patient
from kafkakit.reassign.store_configs import ConfigWriter
from kafkakit.reassign.store_journal import Journal
from kafkakit.reassign.throttle import (
    WILDCARD,
    Configs,
    Room,
    empty_list_changes,
    entries_of,
    entry_changes,
    inside_rates,
    owed_words,
    rate_changes,
    removal_changes,
    restore_changes,
    room_for,
    split_list,
    surplus_entries,
    wanted_entries,
    wanted_rates,
)

SILENCE_S = 20.0  # by then a broker that hangs has lost its session


class Throttles:
    """Sets, changes and lifts this run's throttles; what is ours is always known from the journal."""

    def __init__(self, admin: ClusterAdmin, clock: Clock, journal: Journal, voice: Voice, patient: Patient) -> None:
        self._admin, self._clock, self._journal, self._voice = admin, clock, journal, voice
        self._patient = patient
        self._configs = ConfigWriter(admin, clock, journal, patient)
        self._set: dict[ConfigKey, int] = {}
        self._told: set[ConfigKey] = set()
        self._goals: dict[TopicPartition, Goal] = {}
        self._inside: set[int] = set()
        self._reasons: dict[ConfigKey, str] = {}

    def impose(self, goals: Sequence[Goal], rates: Rates | int, live: Live) -> None:
        """Throttle exactly the goals' copies, and return once the brokers show it.

        Raises `OperationFailedError` when a living broker or a topic refuses, or a broker stays silent.
        """
        rates = _as_rates(rates)
        self._goals |= {g.key: g for g in goals}
        self._insist(wanted_rates(goals, rates), live)
        self._append(goals, rates)

    def impose_rates(self, goals: Sequence[Goal], rates: Rates | int, live: Live) -> None:
        """Set the rates on the brokers involved that are alive and answer; others get theirs on a later call.

        Costs no request where all have theirs.
        """
        self._goals |= {g.key: g for g in goals}
        self._set_rates(wanted_rates(goals, _as_rates(rates)), _alive_in(live))

    def impose_inside(self, brokers: Collection[int], rates: Rates, live: Live) -> None:
        """Limit the copying between log dirs on these brokers, before their copies are told to change dirs.

        Raises as `impose` does.
        """
        self._inside |= set(brokers)
        self._insist(inside_rates(brokers, rates), live)

    def room(self, goals: Sequence[Goal], rates: Rates) -> Room:
        """Which goals' entries fit into their topics' lists now; one request for each 500 topics."""
        if is_unlimited(rates) or not goals:
            return Room(fits=tuple(goals))
        topics = self._configs.topics({g.key.topic for g in goals})
        return room_for(goals, rates, topics, self._journal.state.entries)

    def change(self, rates: Rates, live: Live) -> None:
        """Go over to other rates while moves run, for all that was imposed and not lifted yet.

        New rates are set first, then entries come and go, and last the rates that are not wanted any more go back to
        their earlier values. Every value of ours is in the journal, so a run that is cut here restores as any other.
        A broker averages over about 10 s: a higher rate lets a burst through, a lower one stops copying for a while.
        """
        goals = list(self._goals.values())
        wanted = wanted_rates(goals, rates) | inside_rates(sorted(self._inside), rates)
        self._set_rates(wanted, _alive_in(live))
        self._append(goals, rates)
        held = self._journal.state.entries
        if is_unlimited(rates):
            self._remove(held)
        else:
            self._remove(surplus_entries(entries_of(goals, held), wanted_entries(goals, rates)))
        self._lift_rates(live, keep=wanted)

    def lift_entries(self, goals: Sequence[Goal] | None = None) -> None:
        """Take our list entries away: those of the goals' partitions, or all of them."""
        held = self._journal.state.entries
        wanted = dict(held) if goals is None else entries_of(goals, held)
        gone = set(self._goals) if goals is None else {g.key for g in goals}
        self._goals = {k: g for k, g in self._goals.items() if k not in gone}
        self._remove(wanted)

    def lift(self, live: Live) -> tuple[str, ...]:
        """Take away every throttle of ours; returns what could not be removed, in words (empty = all gone).

        Rates go back to their earlier values. Nothing is raised for one part that fails: the rest is tried.
        """
        owed: list[str] = []
        self._reasons.clear()
        try:
            self.lift_entries()
        except KafkakitError as error:
            owed.append(error.message)
        try:
            self._lift_rates(live)
        except KafkakitError as error:
            owed.append(error.message)
        self._inside.clear()
        state = self._journal.state
        self._set.clear()
        if not state.throttled:
            return ()
        dead = {int(k.name) for k in state.rates if not live.is_alive(int(k.name))}
        owed += owed_words(state.rates, state.entries, dead, self._reasons)
        self._journal.check(What.OWED, {"keys": [_key_data(k) for k in sorted([*state.rates, *state.entries])]})
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
        """Set the rates; returns the brokers that did not tell theirs."""
        todo = {k: r for k, r in wanted.items() if int(k.name) in alive and self._set.get(k) != r}
        if not todo:
            return []
        now = self._configs.brokers({k.name for k in todo})
        # A rate that could not be read is not unset: giving it back would delete what somebody else set there.
        silent = {k for k in todo if k.name not in now}
        todo = {k: r for k, r in todo.items() if k not in silent}
        changes, foreign = rate_changes(todo, self._journal.state.rates, now)
        for key in [k for k in foreign if k not in self._told]:
            self._voice.warn(f"broker {key.name}: somebody else changed {key.key} meanwhile; left as it is")
            self._told.add(key)
        refused = self._configs.write(What.THROTTLE, changes)
        still = self._alive() if refused else set()
        for change, error in refused.items():
            if int(change.name) in still:
                raise OperationFailedError(f"broker {change.name} does not take the throttle: {error}")
        failed = {ConfigKey(c.kind, c.name, c.key) for c in refused}
        self._set |= {k: r for k, r in todo.items() if k not in failed}
        return sorted({int(k.name) for k in silent})

    def _append(self, goals: Sequence[Goal], rates: Rates) -> None:
        wanted = wanted_entries(goals, rates)
        changes = entry_changes(wanted, self._configs.topics({k.name for k in wanted}))
        refused = self._configs.write(What.THROTTLE, [(c, None) for c in changes])
        present = self._configs.topics({c.name for c in refused})
        for change, error in refused.items():
            if change.name in present:
                raise OperationFailedError(f"topic {change.name} does not take the throttle: {error}")

    def _remove(self, wanted: Mapping[ConfigKey, Sequence[str]]) -> None:
        """Subtract entries of ours, and delete lists that this leaves empty."""
        if not wanted:
            return
        topics = self._configs.topics({k.name for k in wanted})
        self._note(self._configs.write(What.RESTORE, [(c, None) for c in removal_changes(wanted, topics)]))
        # A run that was cut may have emptied a list without writing that down: what is there now decides.
        topics = self._configs.topics({k.name for k in wanted})
        self._note(self._configs.write(What.RESTORE, [(c, None) for c in empty_list_changes(list(wanted), topics)]))
        self._release_lists(topics, [k for k in wanted if k in self._journal.state.entries])

    def _alive(self) -> set[int]:
        return {b.id for b in self._patient.call("reading brokers", self._admin.cluster).brokers if b.is_alive}

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
            self._voice.warn(f"broker {key.name}: somebody else changed {key.key} meanwhile; left as it is")
        self._release([*settled, *foreign])
        self._told -= set(held)
        self._set = {k: r for k, r in self._set.items() if k in self._journal.state.rates or k in keep}

    def _release_lists(self, topics: Configs, keys: Sequence[ConfigKey]) -> None:
        """Forget lists that hold nothing of ours any more: the topic is gone, or only others' entries are left."""
        released = []
        for key in keys:
            there = set(split_list(topics.get(key.name, {}).get(key.key)))
            ours = set(self._journal.state.entries[key])
            if WILDCARD in there and ours:
                self._voice.warn(f"topic {key.name}: {key.key} was set to * meanwhile; left as it is")
            if not ours & there and topics.get(key.name, {}).get(key.key) != "":
                released.append(key)
        self._release(released)

    def _release(self, keys: Sequence[ConfigKey]) -> None:
        if keys:
            self._journal.check(What.RELEASED, {"keys": [_key_data(k) for k in keys]})

    def _note(self, refused: Mapping[ConfigChange, ItemError]) -> None:
        self._reasons |= {ConfigKey(c.kind, c.name, c.key): str(e) for c, e in refused.items()}


def _as_rates(rates: Rates | int) -> Rates:
    return rates if isinstance(rates, Rates) else Rates(into=rates, out=rates)


def _alive_in(live: Live) -> set[int]:
    return {b for b in live.brokers if live.is_alive(b)}


def _key_data(key: ConfigKey) -> dict[str, str]:
    return {"kind": key.kind.value, "name": key.name, "key": key.key}
