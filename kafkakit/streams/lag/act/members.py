"""Reading the members of the groups that a view shows."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import KafkakitError
from kafkakit.core.group_facts import GroupDescription
from kafkakit.ports.groups import GroupAdmin
from kafkakit.streams.lag.decide.views.members import Readers, readers_of

GROUPS_AT_ONCE = 500


def read_members(open_groups: Mapping[str, Callable[[], GroupAdmin]], wanted: Mapping[str, Sequence[str]]) -> Readers:
    """Describe the wanted groups of each cluster, 500 at once; what cannot be described becomes a note."""
    found: dict[tuple[str, str], GroupDescription | ItemError] = {}
    for cluster, groups in wanted.items():
        try:
            with closing(open_groups[cluster]()) as admin:
                for first in range(0, len(groups), GROUPS_AT_ONCE):
                    answers = admin.describe(groups[first : first + GROUPS_AT_ONCE])
                    found |= {(cluster, group): answer for group, answer in answers.items()}
        except KafkakitError as error:
            missing = ItemError(name=error.message)
            found |= {(cluster, group): missing for group in groups if (cluster, group) not in found}
    return readers_of(found)
