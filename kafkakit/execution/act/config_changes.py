"""Configurations on the cluster, changed for throttles: each change journaled before, made, and seen to be there."""

from collections.abc import Iterator, Mapping, Sequence

from kafkakit.core.cluster_facts import ConfigChange, ItemError, ResourceKind
from kafkakit.core.errors import OperationFailedError
from kafkakit.execution.act.retrier import Retrier
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.decide.journal import What
from kafkakit.execution.decide.journal_state import ConfigKey, change_to_data
from kafkakit.execution.decide.precheck import listed
from kafkakit.execution.decide.throttle import Configs, shows
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock

CALL_SIZE = 200
"""Changes a call: far below the 10,000 that Kafka takes, so that a journal line stays readable."""
SHOW_TIMEOUT_S = 20.0
Change = tuple[ConfigChange, str | None]
Answers = Mapping[ConfigChange, ItemError | None]


class ConfigWriter:
    """Reads and changes configurations; every change stands in the journal before it is made."""

    def __init__(self, admin: ClusterAdmin, clock: Clock, journal: RunJournal, retrier: Retrier) -> None:
        self._admin, self._clock, self._journal, self._retrier = admin, clock, journal, retrier

    def topics(self, names: set[str]) -> Configs:
        """What is set on the topics that exist."""
        return self._configs(ResourceKind.TOPIC, names)

    def brokers(self, names: set[str]) -> Configs:
        """What is set on the brokers that answer."""
        return self._configs(ResourceKind.BROKER, names)

    def write(self, what: What, changes: Sequence[Change]) -> dict[ConfigChange, ItemError]:
        """Journal and make the changes (each with the value it replaces), wait until they show; returns those refused.

        Raises `OperationFailedError` when an accepted change does not show.
        """
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
        return self._retrier.call("changing throttles", lambda: self._admin.alter_configs(changes))

    def _await(self, changes: Sequence[ConfigChange]) -> None:
        """Poll until a read shows the changes; a topic or broker that is gone by now has nothing to show."""
        deadline = self._clock.monotonic() + SHOW_TIMEOUT_S
        pending = list(changes)
        while pending:
            brokers = self.brokers({c.name for c in pending if c.kind is ResourceKind.BROKER})
            topics = self.topics({c.name for c in pending if c.kind is ResourceKind.TOPIC})
            found = {ResourceKind.BROKER: brokers, ResourceKind.TOPIC: topics}
            pending = [c for c in pending if c.name in found[c.kind] and not shows(c, found[c.kind])]
            if pending and self._clock.monotonic() > deadline:
                names = listed([f"{c.kind} {c.name} {c.key}" for c in pending])
                raise OperationFailedError(f"a throttle change was accepted but does not show: {names}")
            if pending:
                self._clock.sleep(0.2)

    def _configs(self, kind: ResourceKind, names: set[str]) -> Configs:
        if not names:
            return {}
        return self._retrier.call("reading throttles", lambda: self._admin.dynamic_configs(kind, sorted(names)))


def _calls(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Cut changes into calls; one key of one resource appears once in a call (Kafka refuses duplicates)."""
    call: list[Change] = []
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
