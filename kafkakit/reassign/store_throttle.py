"""The throttles that a run keeps on the cluster: each is journaled, set, seen to be set, and given back."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from kafkakit.errors import KafkakitError, OperationFailedError
from kafkakit.ports import Clock, ClusterAdmin, ConfigChange, ItemError, ResourceKind
from kafkakit.reassign.goals import Goal
from kafkakit.reassign.journal import What
from kafkakit.reassign.journal_state import ConfigKey, change_to_data
from kafkakit.reassign.outcome import Voice
from kafkakit.reassign.precheck import Live, listed
from kafkakit.reassign.service import Patient
from kafkakit.reassign.store_journal import Journal
from kafkakit.reassign.throttle import (
    WILDCARD,
    Configs,
    empty_list_changes,
    entries_of,
    entry_changes,
    rate_changes,
    rate_keys,
    removal_changes,
    restore_changes,
    shows,
    split_list,
)

CALL_SIZE = 200
SHOW_TIMEOUT_S = 20.0
SILENCE_S = 20.0  # by then a broker that hangs has lost its session
Answers = Mapping[ConfigChange, ItemError | None]


class Throttles:
    """Sets and lifts this run's throttles; what is ours is always known from the journal."""

    def __init__(self, admin: ClusterAdmin, clock: Clock, journal: Journal, voice: Voice, patient: Patient) -> None:
        self._admin, self._clock, self._journal, self._voice = admin, clock, journal, voice
        self._patient = patient
        self._looked: set[ConfigKey] = set()

    def impose(self, goals: Sequence[Goal], rate: int, live: Live) -> None:
        """Throttle exactly the goals' copies, and return once the brokers show it.

        Raises `OperationFailedError` when a living broker or a topic refuses, or a broker stays silent.
        """
        alive = {b for b in live.brokers if live.is_alive(b)}
        deadline = self._clock.monotonic() + SILENCE_S
        while silent := self._impose_rates(goals, rate, alive):
            if self._clock.monotonic() >= deadline:
                raise OperationFailedError(
                    f"broker {', '.join(map(str, silent))} does not answer, its throttle cannot be set"
                )
            self._clock.sleep(1.0)
            alive = self._alive()
        changes = entry_changes(goals, self._topics({g.key.topic for g in goals}))
        refused = self._write(What.THROTTLE, [(c, None) for c in changes])
        present = self._topics({c.name for c in refused})
        for change, error in refused.items():
            if change.name in present:
                raise OperationFailedError(f"topic {change.name} does not take the throttle: {error}")

    def impose_rates(self, goals: Sequence[Goal], rate: int, live: Live) -> None:
        """Set the rate on the brokers involved that are alive and answer; others get it on a later call."""
        self._impose_rates(goals, rate, {b for b in live.brokers if live.is_alive(b)})

    def _impose_rates(self, goals: Sequence[Goal], rate: int, alive: Collection[int]) -> list[int]:
        """Set the rates; returns the brokers that did not tell theirs."""
        keys = {k for k in rate_keys(goals) if int(k.name) in alive} - self._looked
        if not keys:
            return []
        now = self._brokers({k.name for k in keys})
        # A rate that could not be read is not unset: giving it back would delete what somebody else set there.
        silent = {k for k in keys if k.name not in now}
        keys -= silent
        refused = self._write(What.THROTTLE, rate_changes(keys, rate, now))
        still = self._alive() if refused else set()
        for change, error in refused.items():
            if int(change.name) in still:
                raise OperationFailedError(f"broker {change.name} does not take the throttle: {error}")
        self._looked |= keys - {ConfigKey(c.kind, c.name, c.key) for c in refused}
        return sorted({int(k.name) for k in silent})

    def _alive(self) -> set[int]:
        return {b.id for b in self._patient.call("reading brokers", self._admin.cluster).brokers if b.is_alive}

    def lift_entries(self, goals: Sequence[Goal] | None = None) -> None:
        """Take our list entries away: those of the goals' partitions, or all of them."""
        held = self._journal.state.entries
        wanted = dict(held) if goals is None else entries_of(goals, held)
        if not wanted:
            return
        topics = self._topics({k.name for k in wanted})
        self._write(What.RESTORE, [(c, None) for c in removal_changes(wanted, topics)])
        # A run that was cut may have emptied a list without writing that down: what is there now decides.
        topics = self._topics({k.name for k in wanted})
        self._write(What.RESTORE, [(c, None) for c in empty_list_changes(list(wanted), topics)])
        self._release_lists(topics, [k for k in wanted if k in self._journal.state.entries])

    def lift(self, live: Live) -> tuple[str, ...]:
        """Take away every throttle of ours; returns what could not be removed, in words (empty = all gone).

        Rates go back to their earlier values. Nothing is raised for one part that fails: the rest is tried.
        """
        owed: list[str] = []
        try:
            self.lift_entries()
        except KafkakitError as error:
            owed.append(error.message)
        try:
            self._lift_rates(live)
        except KafkakitError as error:
            owed.append(error.message)
        state = self._journal.state
        self._looked.clear()
        if not state.throttled:
            return ()
        rates = sorted({int(k.name) for k in state.rates})
        dead = [b for b in rates if not live.is_alive(b)]
        if dead:
            names = ", ".join(str(b) for b in dead)
            owed.append(
                f"the replication rate on broker {names}, which is not alive, can only be removed once it is back"
            )
        stuck = [str(b) for b in rates if b not in dead]
        if stuck:
            owed.append(f"the replication rate on broker {', '.join(stuck)}")
        if state.entries:
            owed.append(f"throttle lists of topics {listed(sorted({k.name for k in state.entries}))}")
        self._journal.check(What.OWED, {"keys": [_key_data(k) for k in sorted([*state.rates, *state.entries])]})
        return tuple(owed)

    def _lift_rates(self, live: Live) -> None:
        held = {k: v for k, v in self._journal.state.rates.items() if live.is_alive(int(k.name))}
        if not held:
            return
        now = self._brokers({k.name for k in held})
        changes, settled, foreign = restore_changes(held, now)
        self._write(What.RESTORE, [(c, None) for c in changes])
        for key in foreign:
            self._voice.warn(f"broker {key.name}: somebody else changed {key.key} meanwhile; left as it is")
        self._release([*settled, *foreign])

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

    def _write(self, what: What, changes: Sequence[tuple[ConfigChange, str | None]]) -> dict[ConfigChange, ItemError]:
        """Journal and make the changes, wait until they show; returns those refused."""
        refused: dict[ConfigChange, ItemError] = {}
        for call in _calls(changes):
            seq = self._journal.intent(what, {"changes": [change_to_data(c, earlier) for c, earlier in call]})
            only = [c for c, _ in call]
            answers = self._alter(only)
            errors = {i: answers.get(c) for i, c in enumerate(only) if answers.get(c) is not None}
            self._journal.effect(seq, {"refused": sorted(errors), "errors": [str(e) for e in errors.values()]})
            refused |= {only[i]: e for i, e in errors.items() if e is not None}
        self._await([c for c, _ in changes if c not in refused])
        return refused

    def _alter(self, changes: list[ConfigChange]) -> Answers:
        return self._patient.call("changing throttles", lambda: self._admin.alter_configs(changes))

    def _await(self, changes: Sequence[ConfigChange]) -> None:
        """Poll until a read shows the changes; a topic or broker that is gone by now has nothing to show."""
        deadline = self._clock.monotonic() + SHOW_TIMEOUT_S
        pending = list(changes)
        while pending:
            brokers = self._brokers({c.name for c in pending if c.kind is ResourceKind.BROKER})
            topics = self._topics({c.name for c in pending if c.kind is ResourceKind.TOPIC})
            found = {ResourceKind.BROKER: brokers, ResourceKind.TOPIC: topics}
            pending = [c for c in pending if c.name in found[c.kind] and not shows(c, found[c.kind])]
            if pending and self._clock.monotonic() > deadline:
                names = listed([f"{c.kind} {c.name} {c.key}" for c in pending])
                raise OperationFailedError(f"a throttle change was accepted but does not show: {names}")
            if pending:
                self._clock.sleep(0.2)

    def _topics(self, names: set[str]) -> Configs:
        return self._configs(ResourceKind.TOPIC, names)

    def _brokers(self, names: set[str]) -> Configs:
        return self._configs(ResourceKind.BROKER, names)

    def _configs(self, kind: ResourceKind, names: set[str]) -> Configs:
        if not names:
            return {}
        return self._patient.call("reading throttles", lambda: self._admin.dynamic_configs(kind, sorted(names)))


def _calls(
    changes: Sequence[tuple[ConfigChange, str | None]],
) -> Iterator[list[tuple[ConfigChange, str | None]]]:
    """Cut changes into calls; one key of one resource appears once in a call (Kafka refuses duplicates)."""
    call: list[tuple[ConfigChange, str | None]] = []
    keys: set[ConfigKey] = set()
    for change, earlier in changes:
        key = ConfigKey(change.kind, change.name, change.key)
        if call and (key in keys or len(call) >= CALL_SIZE):
            yield call
            call, keys = [], set()
        call.append((change, earlier))
        keys.add(key)
    if call:
        yield call


def _key_data(key: ConfigKey) -> dict[str, str]:
    return {"kind": key.kind.value, "name": key.name, "key": key.key}
