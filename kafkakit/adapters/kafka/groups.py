"""`ports.data.GroupAdmin` over kafka-python's protocol, for groups of every type, through their coordinators.

The broker that answers for a group is looked up, and asked until it does. Commits of many groups are read at once
(KIP-709, Kafka 3.0 and later). Share groups have their own offsets (KIP-932, with the lag of KIP-1226).
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kafkakit.adapters.kafka import groups_read as read
from kafkakit.adapters.kafka import groups_read as requests
from kafkakit.adapters.kafka.groups_read import commits_of, fetch_many_request
from kafkakit.adapters.kafka.session import UNKNOWN_TOPIC, KafkaSession, error_from, error_of, refused_error
from kafkakit.config.security import Security
from kafkakit.core.cluster_facts import (
    AnsweredGroups,
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    ItemError,
    ShareOffset,
)
from kafkakit.core.errors import OperationFailedError, TryLaterError
from kafkakit.core.model import OFFSETS_TOPIC, TopicPartition
from kafkakit.ports.acting import repeat_every

GROUP_DENIED = 30
Described = GroupDescription | ItemError
ItemResult = ItemError | None
Describer = Callable[[Collection[str]], Mapping[str, Described]]


class KafkaGroups:
    """Groups of one cluster; connects on first use, not for use by two threads at once.

    `describe_newer` describes groups of the KIP-848 protocol, which kafka-python does not support. A coordinator
    that moves is followed for up to `request_timeout_s`. Reading never creates the offsets topic.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        security: Security,
        describe_newer: Describer,
        *,
        request_timeout_s: float = 30,
        bootstrap_timeout_s: float = 10,
    ) -> None:
        self._session = Coordinators(bootstrap_servers, security, request_timeout_s, bootstrap_timeout_s)
        self._describe_newer = describe_newer

    def close(self) -> None:
        self._session.close()

    def groups(self) -> tuple[GroupListing, ...]:
        answer = self.answered_groups()
        for broker, error in answer.silent.items():
            raise TryLaterError(f"list groups: broker {broker} does not answer ({error})")
        return answer.groups

    def answered_groups(self) -> AnsweredGroups:
        from kafka.protocol.metadata import MetadataRequest

        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        brokers = [broker.node_id for broker in self._session.request("list brokers", request).brokers]
        listed = sorted(self._listed(brokers).items())
        silent = {broker: answer for broker, answer in listed if isinstance(answer, ItemError)}
        if silent and len(silent) == len(listed):
            raise TryLaterError(f"list groups: no broker answers ({next(iter(silent.values()))})")
        found = {one.group: one for _, answer in listed if isinstance(answer, list) for one in answer}
        return AnsweredGroups(groups=tuple(found[name] for name in sorted(found)), silent=silent)

    def describe(self, groups: Collection[str]) -> Mapping[str, GroupDescription | ItemError]:
        """See `ports.GroupAdmin`; two requests to each coordinator. Of share and streams groups no members."""
        wanted = sorted(set(groups))
        if not wanted or not self._session.ready():
            return {name: _dead_group(name) for name in wanted}
        found: dict[str, Described] = {}
        for _ in repeat_every(time, PAUSE_S, self._session.request_timeout_s):
            found |= self._described([name for name in wanted if _is_asked_again(found.get(name))])
            left = [name for name in wanted if _is_asked_again(found[name])]
            if not left:
                break
            self._session.forget(left)
        return {name: found[name] for name in wanted}

    def committed(
        self, group: str, partitions: Collection[TopicPartition] | None = None, *, stable: bool = True
    ) -> Mapping[TopicPartition, CommittedOffset | ItemError]:
        if (partitions is not None and not partitions) or not self._session.ready():
            return {}
        answer = self._session.ask_coordinator(
            group, lambda: requests.fetch_request(group, partitions, stable=stable), _fetch_codes, repeat=True
        )
        if not isinstance(answer, ItemError):
            if answer.error_code == GROUP_DENIED:
                raise refused_error(f"read the commits of group {group}", "DESCRIBE on the group")
            error = error_of(answer.error_code)
            if error is not None:
                raise OperationFailedError(f"read the commits of group {group}: {error}")
            return read.commits_of(answer.topics)
        if answer.retriable:
            raise TryLaterError(f"read the commits of group {group}: {answer}")
        if answer.name == "GroupAuthorizationFailedError":
            raise refused_error(f"read the commits of group {group}", "DESCRIBE on the group")
        raise OperationFailedError(f"read the commits of group {group}: {answer}")

    def committed_by(
        self, groups: Collection[str], partitions: Collection[TopicPartition], *, stable: bool = True
    ) -> Mapping[str, Mapping[TopicPartition, CommittedOffset | ItemError] | ItemError]:
        if not groups or not partitions or not self._session.ready():
            return {name: {} for name in groups}
        return read_commits(self._session, groups, partitions, stable=stable)

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Mapping[TopicPartition, ItemResult]:
        """See `ports.GroupAdmin`; many partitions go in several requests, one after the other.

        A retriable error of a connection leaves open whether the commit was written: read it back. A coordinator that
        moved since it was last requested for this group is not followed, for others may have committed there.
        """
        reported: dict[TopicPartition, ItemResult] = {}
        usable: dict[TopicPartition, CommittedOffset] = {}
        for key, offset in sorted(offsets.items()):
            if _encodable(offset.metadata):
                usable[key] = offset
            else:
                reported[key] = ItemError(name="InvalidRequestError", message="the metadata is not valid Unicode text")
        trouble: ItemError | None = None
        for part in requests.pieces(usable):
            if trouble is None:
                answer = self._session.ask_coordinator(
                    group, partial(requests.commit_request, group, part), _commit_codes, repeat=False
                )
                if isinstance(answer, ItemError):
                    trouble = answer
                else:
                    reported |= read.results_of(answer.topics, part)
            if trouble is not None:
                reported |= dict.fromkeys(part, trouble)
        return dict(sorted(reported.items()))

    def forget(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ItemResult]:
        wanted = sorted(set(partitions))
        if not wanted:
            return {}
        answer = self._session.ask_coordinator(
            group, lambda: requests.delete_request(group, wanted), _top_code, repeat=False
        )
        if isinstance(answer, ItemError):
            return dict.fromkeys(wanted, answer)
        error = error_of(answer.error_code)
        return dict.fromkeys(wanted, error) if error is not None else read.results_of(answer.topics, wanted)

    def share_offsets(self, groups: Collection[str]) -> Mapping[str, tuple[ShareOffset, ...] | ItemError]:
        return read_share_offsets(self._session, groups)

    def delete(self, group: str) -> ItemResult:
        from kafka.protocol.admin import DeleteGroupsRequest

        if not self._session.ready():
            return ItemError(name="GroupIdNotFoundError")
        answer = self._session.ask_coordinator(
            group,
            lambda: DeleteGroupsRequest(groups_names=[group]),
            lambda answer: {one.error_code for one in answer.results},
            repeat=False,
        )
        return answer if isinstance(answer, ItemError) else error_of(answer.results[0].error_code)

    def _listed(self, brokers: Collection[int]) -> dict[int, list[GroupListing] | ItemError]:
        """The groups of each coordinator, requested side by side; one that still loads is waited for."""
        from kafka.protocol.admin import ListGroupsRequest

        found: dict[int, list[GroupListing] | ItemError] = {}
        left = sorted(set(brokers))
        for _ in repeat_every(time, PAUSE_S, self._session.request_timeout_s) if left else ():
            for broker, answer in self._session.request_brokers(
                {broker: ListGroupsRequest(states_filter=[], types_filter=[]) for broker in left}
            ).items():
                if isinstance(answer, Exception):
                    found[broker] = error_from(answer)
                else:
                    found[broker] = error_of(answer.error_code) or read.listings_of(answer)
            left = [broker for broker in left if _loads(found[broker])]
            if not left:
                break
        return found

    def _described(self, groups: Collection[str]) -> dict[str, Described]:
        found: dict[str, Described] = {}
        places: dict[str, int] = {}
        for name, place in self._session.find(groups).items():
            if isinstance(place, ItemError):
                found[name] = place
            else:
                places[name] = place
        listed = self._listed(set(places.values()))
        known: dict[str, GroupListing] = {}
        for answer in listed.values():
            if isinstance(answer, list):
                known |= {one.group: one for one in answer if one.group in places}
        for name, broker in places.items():
            trouble = listed[broker]
            if isinstance(trouble, ItemError):
                found[name] = trouble
        rest = [name for name in places if name not in found]
        newer = [name for name in rest if name in known and known[name].type is GroupType.CONSUMER]
        classic = [name for name in rest if name not in known or known[name].type is GroupType.CLASSIC]
        found |= self._classic({name: places[name] for name in classic})
        for name, reported in self._describe_newer(newer).items() if newer else ():
            found[name] = _with_listed_state(reported, known[name])
        for name in rest:
            if name not in found:
                one = known[name]
                found[name] = GroupDescription(group=name, type=one.type, state=one.state, coordinator=places[name])
        return found

    def _classic(self, places: Mapping[str, int]) -> dict[str, Described]:
        from kafka.protocol.admin import DescribeGroupsRequest

        by_broker: dict[int, list[str]] = {}
        for name, broker in sorted(places.items()):
            by_broker.setdefault(broker, []).append(name)
        requested = {
            broker: DescribeGroupsRequest(groups=names, include_authorized_operations=False)
            for broker, names in by_broker.items()
        }
        found: dict[str, Described] = {}
        for broker, answer in self._session.request_brokers(requested).items() if requested else ():
            if isinstance(answer, Exception):
                found |= dict.fromkeys(by_broker[broker], error_from(answer))
            else:
                found |= {one.group_id: read.description_of(one, broker) for one in answer.groups}
        return found


def _with_listed_state(reported: Described, listing: GroupListing) -> Described:
    """What the newer client reports, with the state from the listing where that client does not know it."""
    if isinstance(reported, ItemError):
        return reported
    if reported.state is GroupState.DEAD and listing.state is not GroupState.DEAD:
        return ItemError(name="GroupIdNotFoundError", message="the group's protocol changed", retriable=True)
    return replace(reported, state=listing.state) if reported.state is GroupState.UNKNOWN else reported


def _dead_group(name: str) -> GroupDescription:
    return GroupDescription(group=name, type=GroupType.UNKNOWN, state=GroupState.DEAD)


def _is_asked_again(reported: Described | None) -> bool:
    return reported is None or (isinstance(reported, ItemError) and reported.retriable)


def _loads(reported: list[GroupListing] | ItemError) -> bool:
    return isinstance(reported, ItemError) and reported.name in {error.name for error in map(error_of, MOVED) if error}


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _top_code(answer: Any) -> set[int]:
    return {answer.error_code}


def _fetch_codes(answer: Any) -> set[int]:
    return {answer.error_code} | {place.error_code for topic in answer.topics for place in topic.partitions}


def _commit_codes(answer: Any) -> set[int]:
    return {place.error_code for topic in answer.topics for place in topic.partitions}


MOVED = frozenset({14, 15, 16})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: nothing was done, ask again."""
KEYS_PER_REQUEST = 500
PAUSE_S = 0.1
Codes = Callable[[Any], set[int]]


class Coordinators(KafkaSession):
    """A session that remembers coordinators and follows them; a move is waited for up to `request_timeout_s`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._coordinators: dict[str, int] = {}
        self._topic_seen = False

    def ready(self) -> bool:
        """Whether the cluster has an offsets topic; to ask for a coordinator would create it."""
        from kafka.protocol.metadata import MetadataRequest

        if not self._topic_seen:
            topics = [MetadataRequest.MetadataRequestTopic(name=OFFSETS_TOPIC)]
            request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
            answer = self.request("look for the offsets topic", request)
            # Who may not see the topic may see groups, so only a topic that is not there counts.
            self._topic_seen = all(topic.error_code != UNKNOWN_TOPIC for topic in answer.topics)
        return self._topic_seen

    def find(self, groups: Collection[str]) -> dict[str, int | ItemError]:
        """The coordinator of each group; one request for each 500 that are not remembered."""
        from kafka.protocol.metadata import FindCoordinatorRequest

        found: dict[str, int | ItemError] = {g: self._coordinators[g] for g in groups if g in self._coordinators}
        missing = sorted(set(groups) - found.keys())
        for at in range(0, len(missing), KEYS_PER_REQUEST):
            part = missing[at : at + KEYS_PER_REQUEST]
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=part, min_version=4)
            for answer in self.request("find coordinators", request).coordinators:
                error = error_of(answer.error_code, answer.error_message)
                found[answer.key] = error or answer.node_id
                if error is None:
                    self._coordinators[answer.key] = answer.node_id
        return found

    def forget(self, groups: Collection[str]) -> None:
        """Find the coordinators of these groups again."""
        for group in groups:
            self._coordinators.pop(group, None)

    def ask_coordinator(self, group: str, request: Callable[[], Any], codes: Codes, *, repeat: bool) -> Any | ItemError:
        """Ask the coordinator of a group, wherever it moves; returns the response or why there is none.

        With `repeat` False a request is sent again only when it is known that it had no effect, and only where no
        coordinator was known before: who has read from one that is gone must read again before it writes.
        """
        follows = repeat or group not in self._coordinators
        for _ in repeat_every(time, PAUSE_S, self.request_timeout_s):
            broker = self.find([group])[group]
            if isinstance(broker, ItemError):
                error = broker
            elif not repeat and not self._answers(broker):
                # A request on a connection that cannot be made fails like one whose answer is lost: send none.
                error = ItemError(name="CoordinatorNotAvailableError", message=f"broker {broker}", retriable=True)
            else:
                answer = self._fan_out({broker: request()})[broker]
                moved = set() if isinstance(answer, Exception) else codes(answer) & MOVED
                if not isinstance(answer, Exception) and not moved:
                    return answer
                error = error_from(answer) if isinstance(answer, Exception) else _error(min(moved))
                if isinstance(answer, Exception) and not repeat:
                    self.forget([group])
                    return error
            self.forget([group])
            if not follows or not error.retriable:
                break
        return error

    def _answers(self, broker: int) -> bool:
        from kafka.protocol.metadata import MetadataRequest

        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        return not isinstance(self._fan_out({broker: request})[broker], Exception)


def _error(code: int) -> ItemError:
    error = error_of(code)
    if error is None:
        raise ValueError(f"the error code {code} stands for no error")
    return error


GroupCommits = dict[TopicPartition, CommittedOffset | ItemError] | ItemError
ANSWERED = 20_000
"""Commits that one answer may hold: with metadata of 4 KB each, the most that brokers take, 80 MB."""


def read_commits(
    session: Coordinators, groups: Collection[str], partitions: Collection[TopicPartition], *, stable: bool
) -> dict[str, GroupCommits]:
    """One request to each coordinator for up to 500 groups; those that move are followed up to the session's limit."""
    wanted = sorted(set(groups))
    at_once = max(1, min(KEYS_PER_REQUEST, ANSWERED // len(partitions)))
    found: dict[str, GroupCommits] = {}
    for at in range(0, len(wanted), at_once):
        left = wanted[at : at + at_once]
        for _ in repeat_every(time, PAUSE_S, session.request_timeout_s):
            found |= _commits_request(session, left, partitions, stable=stable)
            left = [name for name in left if isinstance(error := found[name], ItemError) and error.retriable]
            if not left:
                break
            session.forget(left)
    return found


def _commits_request(
    session: Coordinators, groups: Collection[str], partitions: Collection[TopicPartition], *, stable: bool
) -> dict[str, GroupCommits]:
    found: dict[str, GroupCommits] = {}
    by_broker: dict[int, list[str]] = {}
    for name, place in session.find(groups).items():
        if isinstance(place, ItemError):
            found[name] = place
        else:
            by_broker.setdefault(place, []).append(name)
    requests = {broker: fetch_many_request(names, partitions, stable=stable) for broker, names in by_broker.items()}
    for broker, answer in session.request_brokers(requests).items() if requests else ():
        if isinstance(answer, Exception):
            found |= dict.fromkeys(by_broker[broker], error_from(answer))
        else:
            found |= {one.group_id: _commits_of(one) for one in answer.groups}
    silent = ItemError(name="UnknownServerError", message="the broker left the group out", retriable=True)
    return {name: found.get(name, silent) for name in groups}


def _commits_of(group: Any) -> GroupCommits:
    """A group's commits; a coordinator that moved answers with its error for the group, or for each partition."""
    moved = next((error_of(code) for code in _codes(group) if code in MOVED), None)
    return moved or error_of(group.error_code) or commits_of(group.topics)


def _codes(group: Any) -> Iterator[int]:
    yield group.error_code
    yield from (place.error_code for topic in group.topics for place in topic.partitions)


ShareOffsets = tuple[ShareOffset, ...] | ItemError


def read_share_offsets(session: Coordinators, groups: Collection[str]) -> dict[str, ShareOffsets]:
    """One request to each coordinator; coordinators that move are followed for up to the session's limit."""
    wanted = sorted(set(groups))
    found: dict[str, ShareOffsets] = {}
    left = wanted
    for _ in repeat_every(time, PAUSE_S, session.request_timeout_s) if wanted else ():
        found |= _share_request(session, left)
        left = [name for name in left if isinstance(error := found[name], ItemError) and error.retriable]
        if not left:
            break
        session.forget(left)
    return {name: found[name] for name in wanted}


def _share_request(session: Coordinators, groups: Collection[str]) -> dict[str, ShareOffsets]:
    from kafkakit.adapters.kafka.session import DescribeShareGroupOffsets

    found: dict[str, ShareOffsets] = {}
    by_broker: dict[int, list[str]] = {}
    for name, place in session.find(groups).items():
        if isinstance(place, ItemError):
            found[name] = place
        else:
            by_broker.setdefault(place, []).append(name)
    named = DescribeShareGroupOffsets.ShareGroupAsked
    requests = {
        broker: DescribeShareGroupOffsets(groups=[named(group_id=name, topics=None) for name in names])
        for broker, names in by_broker.items()
    }
    for broker, answer in session.request_brokers(requests).items() if requests else ():
        if isinstance(answer, Exception):
            found |= dict.fromkeys(by_broker[broker], error_from(answer))
        else:
            found |= {one.group_id: _offsets_of(one) for one in answer.groups}
    silent = ItemError(name="UnknownServerError", message="the broker left the group out", retriable=True)
    return {name: found.get(name, silent) for name in groups}


def _offsets_of(group: Any) -> ShareOffsets:
    error = error_of(group.error_code, group.error_message)
    if error is not None:
        return error
    return tuple(
        sorted(
            (
                ShareOffset(
                    place=TopicPartition(topic.topic_name, one.partition_index),
                    start=one.start_offset if one.start_offset >= 0 else None,
                    lag=one.lag if one.lag >= 0 else None,
                    error=error_of(one.error_code, one.error_message),
                )
                for topic in group.topics
                for one in topic.partitions
            ),
            key=lambda one: one.place,
        )
    )
