"""Preferred leaderships given in groups, each of which has to have happened before the next is asked for."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from kafkakit.core.lists_in_words import some
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import counted
from kafkakit.execution.act.retrier import Patient
from kafkakit.execution.decide.verdict import wants_election
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.reporter import Reporter

SETTLE_S = 15.0
LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The cluster while this process alone may change it."""

    admin: ClusterAdmin
    clock: Clock


Claim = Callable[[], AbstractContextManager[Held]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How many leaderships pass at once, and how long is waited between such groups."""

    group: int = 50
    pause_s: float = 1.0


class Elections:
    """Lets first replicas lead; safe to repeat, so it needs no journal."""

    def __init__(self, claim: Claim, voice: Reporter, pace: Pace, patience_s: float) -> None:
        self._claim, self._voice, self._pace, self._patience_s = claim, voice, pace, patience_s

    def give(self, keys: Sequence[TopicPartition]) -> tuple[str, ...]:
        """Elect the first replica of each partition; returns what did not come about, in words.

        Stops at the first group that has trouble: what hinders one hinders the others. `TryLaterError` when somebody
        else is changing the cluster.
        """
        if not keys:
            return ()
        with (
            self._claim() as held,
            self._voice.progress(f"electing {counted(len(keys), 'preferred leader')}") as bar,
        ):
            patient = Patient(held.clock, self._voice, self._patience_s)
            for start in range(0, len(keys), self._pace.group):
                if start:
                    held.clock.sleep(self._pace.pause_s)
                if problems := self._elect(held, patient, keys[start : start + self._pace.group]):
                    return problems
                bar.update(min(start + self._pace.group, len(keys)), len(keys))
        return ()

    def _elect(self, held: Held, patient: Patient, keys: Sequence[TopicPartition]) -> tuple[str, ...]:
        answers = patient.call("electing leaders", lambda: held.admin.elect_preferred_leaders(keys))
        errors = {k: e for k, e in answers.items() if e is not None}
        topics = {k.topic for k in keys}
        deadline = held.clock.monotonic() + SETTLE_S
        while True:
            states = patient.call("reading topics", lambda: held.admin.partition_states(topics))
            open_ = [k for k in keys if k in states and wants_election(states[k])]
            if not open_:
                return ()
            if errors or held.clock.monotonic() > deadline:
                break
            held.clock.sleep(LOOK_EVERY_S)
        refused = [f"{k} ({errors[k]})" if k in errors else f"{k} (led by {states[k].leader})" for k in open_]
        return (f"{counted(len(open_), 'leadership')} did not pass: {some(refused)}",)
