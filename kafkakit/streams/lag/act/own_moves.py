"""Reading from the journals of this host what kafkakit moves on the clusters of a look."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from kafkakit.core.cluster_id import cluster_id_problem
from kafkakit.execution.act.known_runs import KnownRuns
from kafkakit.streams.lag.decide.looks import Look
from kafkakit.streams.lag.decide.views.own_moves import moved_topics


def moves_of_look(
    look: Look, state_dir: Path, now: datetime, limit_s: float, warn: Callable[[str], None]
) -> dict[tuple[str, str], str]:
    """The runs that move topics, by cluster name and topic; a journal that cannot be read silences nothing."""
    found: dict[tuple[str, str], str] = {}
    for condition in look.conditions:
        if cluster_id_problem(condition.cluster_id) is None:
            runs = KnownRuns(state_dir, condition.cluster_id)
            states = [run.state for run in runs.read()]
            found |= moved_topics(condition.cluster, states, now, limit_s)
            for problem in runs.damaged:
                warn(f"{condition.cluster}: the moves of a run are not known: {problem}")
    return found
