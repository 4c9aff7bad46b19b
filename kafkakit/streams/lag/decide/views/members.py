"""Who reads what: the members of the groups in a view, beside its lines."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import UsageError
from kafkakit.core.group_facts import GroupDescription, GroupMember, GroupState, GroupType, holders_of
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import TopicPartition
from kafkakit.streams.lag.decide.views.views import KINDS, LagView, ViewLevel, ViewLine

LEVELS = (ViewLevel.PARTITION, ViewLevel.GROUP_TOPIC, ViewLevel.GROUP)
_LISTED = (GroupType.CLASSIC, GroupType.CONSUMER)
Described = Mapping[tuple[str, str], GroupDescription | ItemError]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReaders:
    """One group, which member holds each of its partitions, and how many members hold none."""

    group: GroupDescription
    holders: Mapping[TopicPartition, GroupMember]
    idle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """The groups of a view by cluster and name; `notes` name those whose members are not known, and why."""

    groups: Mapping[tuple[str, str], GroupReaders]
    notes: tuple[str, ...] = ()

    def of(self, line: ViewLine) -> GroupReaders | None:
        """The group of a line, None where its members are not known."""
        return self.groups.get((line.cluster, line.group))

    def owner(self, line: ViewLine) -> GroupMember | None:
        """The member that holds the partition of a line."""
        found = self.of(line)
        return None if found is None else found.holders.get(TopicPartition(line.topic, line.partition))

    def count(self, line: ViewLine) -> int | None:
        """The members of a line's group, of a line with a topic those that hold a partition of it."""
        found = self.of(line)
        if found is None:
            return None
        if not line.topic:
            return len(found.group.members)
        return len({member.member_id for key, member in found.holders.items() if key.topic == line.topic})


def require_groups(level: ViewLevel) -> None:
    """Raise `UsageError` for a level whose lines are not about one group of one cluster."""
    if level not in LEVELS:
        raise UsageError(
            f"--members needs lines of one group, and those of --by {level.value} are not",
            hint="use --by partition, group-topic or group",
        )


def groups_by_cluster(view: LagView) -> dict[str, list[str]]:
    """The groups that the lines of a view name, sorted, by cluster."""
    found: dict[str, set[str]] = {}
    for line in view.lines:
        if "group" in KINDS[view.level]:
            found.setdefault(line.cluster, set()).add(line.group)
    return {cluster: sorted(groups) for cluster, groups in sorted(found.items())}


def readers_of(described: Described) -> Readers:
    """The members as coordinators described them; groups of types whose members are not listed become a note."""
    groups: dict[tuple[str, str], GroupReaders] = {}
    missing: dict[tuple[str, str], list[str]] = {}
    for (cluster, name), answer in sorted(described.items()):
        if isinstance(answer, ItemError):
            missing.setdefault((cluster, str(answer)), []).append(name)
        elif answer.type in _LISTED or answer.state is GroupState.DEAD:
            idle = sum(not member.partitions for member in answer.members)
            groups[cluster, name] = GroupReaders(group=answer, holders=holders_of(answer.members), idle=idle)
        else:
            why = f"those of {answer.type.value} groups are not listed"
            missing.setdefault((cluster, why), []).append(name)
    notes = (f"{cluster}: members of {some(names)} are not known: {why}" for (cluster, why), names in missing.items())
    return Readers(groups=groups, notes=tuple(notes))
