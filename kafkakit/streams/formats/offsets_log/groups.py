"""Which groups a partition of `__consumer_offsets` knows, and who is in them: bounded, for those who want owners."""

from dataclasses import dataclass, field

from kafkakit.core.group_facts import GroupType
from kafkakit.streams.formats.offsets_log.facts import GroupEvent, Owner
from kafkakit.streams.formats.offsets_log.group_values import ClassicGroup, GroupEpoch, NewMember
from kafkakit.streams.formats.offsets_log.keys import KeyType
from kafkakit.streams.formats.offsets_log.records import Entry

GROUP_TYPES = {
    KeyType.GROUP_METADATA: GroupType.CLASSIC,
    KeyType.CONSUMER_GROUP_METADATA: GroupType.CONSUMER,
    KeyType.SHARE_GROUP_METADATA: GroupType.SHARE,
    KeyType.STREAMS_GROUP_METADATA: GroupType.STREAMS,
}
"""The records whose presence says that a group exists, and of which protocol."""

MEMBER_TYPES = {
    KeyType.CONSUMER_GROUP_MEMBER: GroupType.CONSUMER,
    KeyType.SHARE_GROUP_MEMBER: GroupType.SHARE,
}
"""The records that name one member each."""

EVENT_TYPES = frozenset(GROUP_TYPES) | frozenset(MEMBER_TYPES)
MAX_GROUPS = 100_000
MAX_OWNERS = 100
"""Members kept of each group; more are counted only."""

MAX_OWNER_CHARS = 256


@dataclass(slots=True)
class _Group:
    types: dict[GroupType, int] = field(default_factory=dict)
    owners: dict[str, Owner] = field(default_factory=dict)
    left_out: int = 0


class GroupRecords:
    """The groups of one partition as their records tell them; a group past `max_groups` is not followed.

    A group costs about 500 bytes and 300 for each member kept.
    """

    def __init__(self, *, max_groups: int = MAX_GROUPS) -> None:
        self._max_groups = max_groups
        self._groups: dict[str, _Group] = {}
        self._touched: dict[str, tuple[int, GroupType]] = {}

    def take(self, at: int, entry: Entry) -> None:
        """Follow one record of `EVENT_TYPES`."""
        name, kind = entry.key.group, entry.key.type
        group = self._groups.get(name)
        if group is None:
            if entry.value is None or len(self._groups) >= self._max_groups:
                return
            group = self._groups[name] = _Group()
        protocol = GROUP_TYPES.get(kind) or MEMBER_TYPES[kind]
        if kind in MEMBER_TYPES:
            self._take_member(group, entry)
        elif entry.value is None:
            group.types.pop(protocol, None)
            if protocol is GroupType.CLASSIC:
                group.owners.clear()
                group.left_out = 0
        else:
            self._take_group(group, protocol, entry.value)
        self._touched[name] = (at, protocol)

    def _take_group(self, group: _Group, protocol: GroupType, value: object) -> None:
        if isinstance(value, ClassicGroup):
            group.types[protocol] = value.generation
            kept = sorted(value.members, key=lambda m: m.member_id)[:MAX_OWNERS]
            group.owners = {m.member_id: _owner(m.member_id, m.client_id, m.host) for m in kept}
            group.left_out = len(value.members) - len(kept)
        elif isinstance(value, GroupEpoch):
            group.types[protocol] = value.epoch

    def _take_member(self, group: _Group, entry: Entry) -> None:
        member = entry.key.member
        if isinstance(entry.value, NewMember):
            if member in group.owners or len(group.owners) < MAX_OWNERS:
                group.owners[member] = _owner(member, entry.value.client_id, entry.value.host)
            else:
                group.left_out += 1
        elif member in group.owners:
            del group.owners[member]
        elif group.left_out:
            group.left_out -= 1

    def events(self) -> tuple[GroupEvent, ...]:
        """The last state of every group touched since the last call, sorted by name."""
        touched, self._touched = self._touched, {}
        found = []
        for name in sorted(touched):
            at, protocol = touched[name]
            group = self._groups[name]
            is_gone = not group.types and not group.owners
            kind = protocol if protocol in group.types or not group.types else max(group.types)
            found.append(
                GroupEvent(
                    group=name,
                    at=at,
                    type=kind,
                    is_gone=is_gone,
                    epoch=group.types.get(kind, -1),
                    owners=tuple(group.owners[m] for m in sorted(group.owners)),
                    owners_left_out=group.left_out,
                )
            )
            if is_gone:
                del self._groups[name]
        return tuple(found)


def _owner(member: str, client: str, host: str) -> Owner:
    return Owner(member[:MAX_OWNER_CHARS], client[:MAX_OWNER_CHARS], host[:MAX_OWNER_CHARS])
