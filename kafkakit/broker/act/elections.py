"""Preferred leaderships given in groups, each of which has to have happened before the next is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkakit.core.lists_in_words import some
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import counted
from kafkakit.execution.act.cluster_access import ClusterAccess, OpenAccess
from kafkakit.execution.act.retrier import Retrier
from kafkakit.execution.decide.verdict import wants_election
from kafkakit.ports.reporter import Reporter

SETTLE_S = 15.0
LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How many leaderships pass at once, and how long is waited between such groups."""

    group: int = 50
    pause_s: float = 1.0


class Elections:
    """Lets first replicas lead; safe to repeat, so it needs no journal."""

    def __init__(self, open_access: OpenAccess, reporter: Reporter, pace: Pace, retry_limit_s: float) -> None:
        self._open_access, self._reporter, self._pace, self._retry_limit_s = open_access, reporter, pace, retry_limit_s

    def give(self, keys: Sequence[TopicPartition]) -> tuple[str, ...]:
        """Elect the first replica of each partition; returns what did not come about, in words.

        Stops at the first group that has trouble: what hinders one hinders the others. `TryLaterError` when somebody
        else is changing the cluster.
        """
        if not keys:
            return ()
        with (
            self._open_access() as access,
            self._reporter.progress(f"electing {counted(len(keys), 'preferred leader')}") as bar,
        ):
            retrier = Retrier(access.clock, self._reporter, self._retry_limit_s)
            for start in range(0, len(keys), self._pace.group):
                if start:
                    access.clock.sleep(self._pace.pause_s)
                if problems := self._elect(access, retrier, keys[start : start + self._pace.group]):
                    return problems
                bar.update(min(start + self._pace.group, len(keys)), len(keys))
        return ()

    def _elect(self, access: ClusterAccess, retrier: Retrier, keys: Sequence[TopicPartition]) -> tuple[str, ...]:
        answers = retrier.call("electing leaders", lambda: access.admin.elect_preferred_leaders(keys))
        errors = {k: e for k, e in answers.items() if e is not None}
        topics = {k.topic for k in keys}
        deadline = access.clock.monotonic() + SETTLE_S
        while True:
            states = retrier.call("reading topics", lambda: access.admin.partition_states(topics))
            open_ = [k for k in keys if k in states and wants_election(states[k])]
            if not open_:
                return ()
            if errors or access.clock.monotonic() > deadline:
                break
            access.clock.sleep(LOOK_EVERY_S)
        refused = [f"{k} ({errors[k]})" if k in errors else f"{k} (led by {states[k].leader})" for k in open_]
        return (f"{counted(len(open_), 'leadership')} did not pass: {some(refused)}",)
