"""Throttle lists of topics: our entries are appended and subtracted, others' stay."""

from collections.abc import Mapping, Sequence

from kafkakit.core.cluster_facts import ConfigChange, ItemError
from kafkakit.execution.act.config_changes import ConfigWriter
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.decide.goals import Goal
from kafkakit.execution.decide.journal import What
from kafkakit.execution.decide.journal_state import ConfigKey
from kafkakit.execution.decide.rates import is_unlimited
from kafkakit.execution.decide.schedule.work import Rates
from kafkakit.execution.decide.throttle import (
    WILDCARD,
    Configs,
    ListCapacity,
    empty_list_changes,
    entry_changes,
    list_capacity_for,
    removal_changes,
    split_list,
    wanted_entries,
)
from kafkakit.ports.reporter import Reporter


class ThrottleLists:
    """Our entries in topics' lists; which are ours is known from the journal."""

    def __init__(self, configs: ConfigWriter, journal: RunJournal, reporter: Reporter) -> None:
        self._configs, self._journal, self._reporter = configs, journal, reporter

    def list_capacity(self, goals: Sequence[Goal], rates: Rates) -> ListCapacity:
        """Which goals' entries fit now; one request for each 500 topics."""
        if is_unlimited(rates) or not goals:
            return ListCapacity(fits=tuple(goals))
        topics = self._configs.topics({g.key.topic for g in goals})
        return list_capacity_for(goals, rates, topics, self._journal.state.entries)

    def append(self, goals: Sequence[Goal], rates: Rates) -> dict[ConfigChange, ItemError]:
        """Add the goals' entries; returns what topics that still exist refuse."""
        wanted = wanted_entries(goals, rates)
        changes = entry_changes(wanted, self._configs.topics({k.name for k in wanted}))
        refused = self._configs.write(What.THROTTLE, [(c, None) for c in changes])
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
        refused = self._configs.write(What.RESTORE, [(c, None) for c in removal_changes(wanted, topics)])
        # A run that was cut may have emptied a list without writing that down: what is there now decides.
        topics = self._configs.topics({k.name for k in wanted})
        refused |= self._configs.write(What.RESTORE, [(c, None) for c in empty_list_changes(whole, topics)])
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
            self._journal.check(What.RELEASED, {"keys": [k.as_data() for k in released]})
