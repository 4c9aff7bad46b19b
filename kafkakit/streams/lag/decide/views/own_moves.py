"""Which topics the runs of kafkakit move now, so that the lag that this causes can be silenced."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from kafkakit.execution.decide.journal_state import RunState


def moved_topics(cluster: str, states: Iterable[RunState], now: datetime, limit_s: float) -> dict[tuple[str, str], str]:
    """The topics of which unfinished runs sent moves, with the cluster's name, and the id of the run.

    A run counts for `limit_s` after it began, a journal that does not tell when not at all. Where two runs moved a
    topic, the one that began last is named.
    """
    limit = timedelta(seconds=limit_s)
    active = [(s.began_at, s) for s in states if s.unsettled and s.began_at is not None and now < s.began_at + limit]
    found: dict[tuple[str, str], str] = {}
    for _, state in sorted(active, key=lambda one: one[0]):
        topics = {key.topic for key in state.trail} | {key.topic for key in state.dirs_sent}
        found |= {(cluster, topic): state.run_id for topic in topics}
    return found
