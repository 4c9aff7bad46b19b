"""The moves on the cluster: sending, cancelling and electing, each journaled before and after."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.retrier import ClusterReader, Retrier
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.decide.goals import Goal
from kafkakit.execution.decide.journal import What
from kafkakit.execution.decide.precheck import listed
from kafkakit.execution.decide.rates import rates_to_data
from kafkakit.execution.decide.schedule.work import Rates
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock

SUBMIT_TRIES = 5
CALL_SIZE = 5_000  # half of what Kafka takes in one request
CANCEL_TIMEOUT_S = 60.0
A = TypeVar("A")
R = TypeVar("R")
Answers = Mapping[TopicPartition, ItemError | None]


class Moves:
    """Changes replica lists and leaders; every call waits out short troubles and is safe to repeat."""

    def __init__(
        self, admin: ClusterAdmin, clock: Clock, journal: RunJournal, retrier: Retrier, reader: ClusterReader
    ) -> None:
        self._admin, self._clock, self._journal = admin, clock, journal
        self._retrier, self._reader = retrier, reader

    def submit(self, goals: Sequence[Goal]) -> dict[TopicPartition, ItemError]:
        """Send the goals' targets; returns those refused for good (a refusal for the moment is tried again)."""
        targets = {g.key: g.target for g in goals}
        refused: dict[TopicPartition, ItemError] = {}
        for attempt in range(1, SUBMIT_TRIES + 1):
            errors = self._send(targets)
            there = self._reader.live({k.topic for k in errors}).states if errors else {}
            final = {k for k, e in errors.items() if not e.retriable or k not in there or attempt == SUBMIT_TRIES}
            refused |= {k: errors[k] for k in final}
            targets = {k: targets[k] for k in errors if k not in final}
            if not targets:
                break
            self._clock.sleep(1.0)
        return refused

    def cancel(self, keys: Collection[TopicPartition]) -> dict[TopicPartition, ItemError]:
        """Cancel running moves and wait until none of them runs; returns those that Kafka refuses to cancel.

        It does where nothing but the new copies is left alive. Raises `OperationFailedError` if one does not stop.
        """
        if not keys:
            return {}
        errors = self._act(What.CANCEL, sorted(keys), self._admin.cancel)
        there = self._reader.live({k.topic for k in keys})
        refused = {k: e for k, e in sorted(errors.items()) if k in there.states}
        waited = sorted(k for k in keys if k not in refused)
        deadline = self._clock.monotonic() + CANCEL_TIMEOUT_S
        while running := [k for k in waited if k in there.running]:
            if self._clock.monotonic() > deadline:
                raise OperationFailedError(f"cancelled moves still run: {listed([str(k) for k in running])}")
            self._clock.sleep(0.5)
            there = self._reader.live({k.topic for k in keys})
        return refused

    def elect(self, keys: Sequence[TopicPartition]) -> dict[TopicPartition, ItemError]:
        """Make first replicas leaders; returns those refused."""
        return self._act(What.ELECT, list(keys), self._admin.elect_preferred_leaders) if keys else {}

    def note_pause(self, *, paused: bool, by: str) -> None:
        """Record that the run starts nothing more, or continues."""
        self._journal.check(What.PAUSE if paused else What.CONTINUE, {"by": by})

    def note_rates(self, rates: Rates) -> None:
        """Record the rates that hold from now on."""
        self._journal.check(What.RATES, {"rates": rates_to_data(rates)})

    def _send(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> dict[TopicPartition, ItemError]:
        errors: dict[TopicPartition, ItemError] = {}
        keys = list(targets)
        for start in range(0, len(keys), CALL_SIZE):
            part = {k: targets[k] for k in keys[start : start + CALL_SIZE]}
            seq = self._journal.intent(
                What.REASSIGN, {"targets": [[k.topic, k.partition, list(t)] for k, t in part.items()]}
            )
            answers = self._retrier.call("sending moves", _bound(self._admin.reassign, part))
            errors |= self._note(seq, answers)
        return errors

    def _act(
        self,
        what: What,
        keys: Sequence[TopicPartition],
        call: Callable[[Collection[TopicPartition]], Answers],
    ) -> dict[TopicPartition, ItemError]:
        errors: dict[TopicPartition, ItemError] = {}
        for start in range(0, len(keys), CALL_SIZE):
            part = tuple(keys[start : start + CALL_SIZE])
            seq = self._journal.intent(what, {"partitions": [[k.topic, k.partition] for k in part]})
            errors |= self._note(seq, self._retrier.call(f"{what}", _bound(call, part)))
        return errors

    def _note(self, seq: int, answers: Answers) -> dict[TopicPartition, ItemError]:
        errors = {k: e for k, e in answers.items() if e is not None}
        self._journal.effect(seq, {"refused": [[k.topic, k.partition, str(e)] for k, e in sorted(errors.items())]})
        return errors


def _bound(call: Callable[[A], R], argument: A) -> Callable[[], R]:
    return lambda: call(argument)
