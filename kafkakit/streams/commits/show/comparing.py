"""Two commits, or two saved looks at a group, side by side."""

import re

from kafkakit.core.errors import UsageError
from kafkakit.streams.commits.decide.document import ShownDocument, state_of
from kafkakit.streams.commits.show.change_text import Change
from kafkakit.streams.formats.commit import CommitState

_PASTED = re.compile(r"([0-9]{1,19}):(.*)", re.DOTALL)


def split_pasted(text: str) -> tuple[int, str] | None:
    """`OFFSET:STRING` in its two parts; None for anything else, which is then a file's name."""
    match = _PASTED.fullmatch(text)
    return None if match is None else (int(match[1]), match[2])


def compare_states(before: CommitState, after: CommitState) -> tuple[Change, ...]:
    """Two states of one commit."""
    return (Change(where="", before=before, after=after),)


def compare_shown(before: ShownDocument, after: ShownDocument) -> tuple[Change, ...]:
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
        Change(where=f"{topic}-{partition}", before=states[0].get(key), after=states[1].get(key))
        for key in keys
        for topic, partition in (key,)
    )


def _states(shown: ShownDocument) -> dict[tuple[str, int], CommitState]:
    return {
        (commit.topic or "", commit.partition or 0): state_of(commit, f"{commit.topic}-{commit.partition}")
        for commit in shown.commits
    }
