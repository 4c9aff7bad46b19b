"""Two commits, or two saved looks at a group, side by side."""

import re

from kafkakit.core.errors import InputError, UsageError
from kafkakit.streams.commits.decide.document import ShownDocument, state_of
from kafkakit.streams.commits.show.change_text import StateChange
from kafkakit.streams.model.commit import CommitState
from kafkakit.streams.model.dialects.registry import read_metadata

_STRING = re.compile(r"([0-9]{1,19}):(.*)", re.DOTALL)


def split_argument(text: str) -> tuple[int, str] | None:
    """`OFFSET:STRING` in its two parts; None for anything else, which is then a file's name."""
    match = _STRING.fullmatch(text)
    return None if match is None else (int(match[1]), match[2])


def compare_strings(before: str, after: str) -> tuple[StateChange, ...] | None:
    """Two commits given as `OFFSET:STRING`; None for two names of files, `UsageError` for one of each."""
    old, new = split_argument(before), split_argument(after)
    if (old is None) != (new is None):
        raise UsageError(
            "a string is compared with a string, a file with a file", hint="write strings as OFFSET:STRING"
        )
    if old is None or new is None:
        return None
    return compare_states(_usable_state(before, *old), _usable_state(after, *new))


def _usable_state(argument: str, offset: int, metadata: str) -> CommitState:
    """The state in a string; a payload that cannot be used is refused, since all in it would look forgotten."""
    reading = read_metadata(metadata, offset)
    if reading.problem is not None:
        reason = f" ({reading.reason})" if reading.reason else ""
        raise InputError(
            f"{argument:.60}",
            f"the {reading.dialect} payload cannot be used: {reading.problem.value}{reason}",
            hint=f"look at it with: kafkakit streams commits decode {metadata:.60} --offset {offset}",
        )
    return reading.state


def compare_states(before: CommitState, after: CommitState) -> tuple[StateChange, ...]:
    """Two states of one commit."""
    return (StateChange(where="", before=before, after=after),)


def compare_shown(before: ShownDocument, after: ShownDocument) -> tuple[StateChange, ...]:
    """Two looks at one group, partition by partition, in order; `UsageError` for two groups or clusters."""
    if (before.group, before.cluster_id) != (after.group, after.cluster_id):
        raise UsageError(
            f"the files are of group {before.group} in cluster {before.cluster_id} and of group {after.group} in "
            f"cluster {after.cluster_id}",
            hint="give two looks at the same group",
        )
    states = _states(before), _states(after)
    keys = sorted(states[0].keys() | states[1].keys())
    return tuple(
        StateChange(where=f"{topic}-{partition}", before=states[0].get(key), after=states[1].get(key))
        for key in keys
        for topic, partition in (key,)
    )


def _states(shown: ShownDocument) -> dict[tuple[str, int], CommitState]:
    return {
        (commit.topic or "", commit.partition or 0): state_of(commit, f"{commit.topic}-{commit.partition}")
        for commit in shown.commits
    }
