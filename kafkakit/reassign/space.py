"""Is there room for the copies a run will make?"""

from collections.abc import Mapping, Sequence

from kafkakit.errors import RefusedError
from kafkakit.ports import BrokerLogDirs
from kafkakit.quantities import format_bytes
from kafkakit.reassign.goals import Goal


def require_space(goals: Sequence[Goal], dirs: Mapping[int, BrokerLogDirs]) -> None:
    """Raise `RefusedError` when a destination has no usable log dir, or less room than its new copies need.

    A full disk takes a whole log dir offline, so this is checked before anything is sent. Goals that
    already run are left out: part of their copy is on the disk. Unknown sizes count as 0, a broker that
    does not tell its room is not judged. The dirs' room is added up, which is the most there can be.
    """
    need: dict[int, int] = {}
    for goal in goals:
        if not goal.running:
            for broker in goal.adding:
                need[broker] = need.get(broker, 0) + (goal.size_bytes or 0)
    for broker, wanted in sorted(need.items()):
        answer = dirs.get(broker)
        if answer is None or answer.error or not answer.log_dirs:
            continue
        healthy = [d for d in answer.log_dirs if not d.error and not d.cordoned]
        if not healthy:
            raise RefusedError(
                f"broker {broker} has no usable log dir", hint="repair it, or make a new plan without it"
            )
        if any(d.usable_bytes is None for d in healthy):
            continue
        room = sum(d.usable_bytes or 0 for d in healthy)
        if wanted > room:
            raise RefusedError(
                f"broker {broker} has room for {format_bytes(room)}, the plan brings {format_bytes(wanted)}",
                hint="free space, or make a new plan",
            )
