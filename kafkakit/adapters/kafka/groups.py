"""`ports.GroupAdmin` over kafka-python's protocol, for groups of every type."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kafkakit.adapters.kafka import groups_read as read
from kafkakit.adapters.kafka import groups_requests as requests
from kafkakit.adapters.kafka.errors import error_from, error_of, refused
from kafkakit.adapters.kafka.groups_commits import read_commits
from kafkakit.adapters.kafka.groups_coordinators import MOVED, PAUSE_S, Coordinators
from kafkakit.adapters.kafka.groups_shares import read_share_offsets
from kafkakit.config.security import Security
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import OperationFailedError, TryLaterError
from kafkakit.core.group_facts import (
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    ShareOffset,
)
from kafkakit.core.model import TopicPartition

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
        """See `ports.GroupAdmin`."""
        self._session.close()

    def groups(self) -> tuple[GroupListing, ...]:
        """See `ports.GroupAdmin`."""
        from kafka.protocol.metadata import MetadataRequest

        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        brokers = [broker.node_id for broker in self._session.request("list brokers", request).brokers]
        listed = self._listed(brokers)
        for broker, answer in sorted(listed.items()):
            if isinstance(answer, ItemError):
                raise TryLaterError(f"list groups: broker {broker} does not answer ({answer})")
        found = {one.group: one for _, answer in sorted(listed.items()) if isinstance(answer, list) for one in answer}
        return tuple(found[name] for name in sorted(found))

    def describe(self, groups: Collection[str]) -> Mapping[str, GroupDescription | ItemError]:
        """See `ports.GroupAdmin`; two requests to each coordinator. Of share and streams groups no members."""
        wanted = sorted(set(groups))
        if not wanted or not self._session.ready():
            return {name: _dead(name) for name in wanted}
        deadline = time.monotonic() + self._session.request_timeout_s
        found: dict[str, Described] = {}
        while True:
            found |= self._described([name for name in wanted if _again(found.get(name))])
            left = [name for name in wanted if _again(found[name])]
            if not left or time.monotonic() > deadline:
                return {name: found[name] for name in wanted}
            self._session.forget(left)
            time.sleep(PAUSE_S)

    def committed(
        self, group: str, partitions: Collection[TopicPartition] | None = None, *, stable: bool = True
    ) -> Mapping[TopicPartition, CommittedOffset | ItemError]:
        """See `ports.GroupAdmin`."""
        if (partitions is not None and not partitions) or not self._session.ready():
            return {}
        answer = self._session.ask_coordinator(
            group, lambda: requests.fetch_request(group, partitions, stable=stable), _fetch_codes, repeat=True
        )
        if not isinstance(answer, ItemError):
            if answer.error_code == GROUP_DENIED:
                raise refused(f"read the commits of group {group}", "DESCRIBE on the group")
            error = error_of(answer.error_code)
            if error is not None:
                raise OperationFailedError(f"read the commits of group {group}: {error}")
            return read.commits_of(answer.topics)
        if answer.retriable:
            raise TryLaterError(f"read the commits of group {group}: {answer}")
        if answer.name == "GroupAuthorizationFailedError":
            raise refused(f"read the commits of group {group}", "DESCRIBE on the group")
        raise OperationFailedError(f"read the commits of group {group}: {answer}")

    def committed_by(
        self, groups: Collection[str], partitions: Collection[TopicPartition], *, stable: bool = True
    ) -> Mapping[str, Mapping[TopicPartition, CommittedOffset | ItemError] | ItemError]:
        """See `ports.GroupAdmin`."""
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
        """See `ports.GroupAdmin`."""
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
        """See `ports.GroupAdmin`."""
        return read_share_offsets(self._session, groups)

    def delete(self, group: str) -> ItemResult:
        """See `ports.GroupAdmin`."""
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

        deadline = time.monotonic() + self._session.request_timeout_s
        found: dict[int, list[GroupListing] | ItemError] = {}
        left = sorted(set(brokers))
        while left:
            for broker, answer in self._session.request_brokers(
                {broker: ListGroupsRequest(states_filter=[], types_filter=[]) for broker in left}
            ).items():
                if isinstance(answer, Exception):
                    found[broker] = error_from(answer)
                else:
                    found[broker] = error_of(answer.error_code) or read.listings_of(answer)
            if time.monotonic() > deadline:
                break
            left = [broker for broker in left if _loads(found[broker])]
            if left:
                time.sleep(PAUSE_S)
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
            found[name] = _joined(reported, known[name])
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


def _joined(reported: Described, listing: GroupListing) -> Described:
    """What the newer client reports, with the state from the listing where that client does not know it."""
    if isinstance(reported, ItemError):
        return reported
    if reported.state is GroupState.DEAD and listing.state is not GroupState.DEAD:
        return ItemError(name="GroupIdNotFoundError", message="the group's protocol changed", retriable=True)
    return replace(reported, state=listing.state) if reported.state is GroupState.UNKNOWN else reported


def _dead(name: str) -> GroupDescription:
    return GroupDescription(group=name, type=GroupType.UNKNOWN, state=GroupState.DEAD)


def _again(reported: Described | None) -> bool:
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
