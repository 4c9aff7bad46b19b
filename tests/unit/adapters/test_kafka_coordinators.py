"""A coordinator is followed where it moves, and a commit whose answer is lost is never sent a second time."""

import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kafkakit.adapters.kafka.group_consumer import KafkaGroupConsumer
from kafkakit.adapters.kafka.groups import Coordinators, KafkaGroups
from kafkakit.config.security import Security
from kafkakit.core.cluster_facts import CommittedOffset, GroupDescription, GroupState, GroupType, ItemError
from kafkakit.core.model import TopicPartition
from tests.rigs.waiting import until

KEY = TopicPartition("t", 0)
LOST = ConnectionError("broke")


class Script(Coordinators):
    """Brokers that give prepared answers, in order; `requests` holds what they were asked."""

    def __init__(self, *answers: object, deaf: int = 0) -> None:
        super().__init__("nowhere:1", Security(), 5.0, 1.0)
        self.answers = list(answers)
        self.deaf = deaf
        self.requests: list[str] = []
        self.found = 0

    def ready(self) -> bool:
        return True

    def find(self, groups: Any) -> dict[str, int | ItemError]:
        missing = [group for group in groups if group not in self._coordinators]
        self.found += bool(missing)
        self._coordinators |= dict.fromkeys(missing, self.found)
        return {group: self._coordinators[group] for group in groups}

    def request_brokers(self, requests: Mapping[int, Any]) -> dict[int, Any]:
        return self._fan_out(requests)

    def _fan_out(self, requests: Mapping[int, Any]) -> dict[int, Any]:
        return {broker: self._one(request) for broker, request in requests.items()}

    def _one(self, request: Any) -> Any:
        name = type(request).__name__
        if name == "MetadataRequest":
            self.deaf -= 1
            return LOST if self.deaf >= 0 else SimpleNamespace()
        self.requests.append(name)
        return self.answers.pop(0)


def groups_over(script: Script, newer: Mapping[str, GroupDescription | ItemError] | None = None) -> KafkaGroups:
    groups: Any = KafkaGroups("nowhere:1", Security(), lambda names: {name: (newer or {})[name] for name in names})
    groups._session = script
    assert isinstance(groups, KafkaGroups)
    return groups


def committed(code: int) -> Any:
    place = SimpleNamespace(partition_index=0, error_code=code)
    return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=[place])])


def listing(**types: tuple[str, str]) -> Any:
    rows = [SimpleNamespace(group_id=name, group_type=kind, group_state=state) for name, (kind, state) in types.items()]
    return SimpleNamespace(error_code=0, groups=rows)


def commit(groups: KafkaGroups) -> ItemError | None:
    return groups.commit("g", {KEY: CommittedOffset(offset=1)})[KEY]


def test_a_commit_follows_its_coordinator() -> None:
    script = Script(committed(16), committed(14), committed(0))
    assert commit(groups_over(script)) is None
    assert (len(script.requests), script.found) == (3, 3)


def test_a_commit_whose_answer_is_lost_is_not_sent_again() -> None:
    script = Script(LOST, committed(0))
    error = commit(groups_over(script))
    assert error is not None
    assert error.retriable
    assert len(script.requests) == 1


def test_a_commit_waits_for_a_coordinator_that_can_be_reached() -> None:
    script = Script(committed(0), deaf=2)
    assert commit(groups_over(script)) is None
    assert (len(script.requests), script.found) == (1, 3)


def test_a_coordinator_that_moved_since_it_was_read_is_not_followed_blindly() -> None:
    """Somebody may have committed at the new one: who writes has to read there first."""
    script = Script(SimpleNamespace(error_code=0, topics=[]), committed(16), committed(0))
    groups = groups_over(script)
    groups.committed("g")
    error = commit(groups)
    assert error is not None
    assert (error.name, len(script.requests)) == ("NotCoordinatorError", 2)


def test_what_follows_a_request_that_failed_is_not_sent() -> None:
    script = Script(SimpleNamespace(error_code=0, topics=[]), committed(16), committed(0))
    groups = groups_over(script)
    groups.committed("g")
    told = groups.commit(
        "g", {TopicPartition("t", n): CommittedOffset(offset=1, metadata="x" * 300_000) for n in (0, 1)}
    )
    assert {error and error.name for error in told.values()} == {"NotCoordinatorError"}
    assert len(script.requests) == 2


def test_a_refusal_is_final() -> None:
    script = Script(committed(25))
    error = commit(groups_over(script))
    assert error is not None
    assert error.name == "UnknownMemberIdError"


def test_a_read_is_repeated_after_a_lost_answer() -> None:
    answer = SimpleNamespace(error_code=0, topics=[])
    script = Script(LOST, answer)
    assert groups_over(script).committed("g") == {}
    assert len(script.requests) == 2


def test_groups_of_types_without_a_description_are_told_from_the_listing() -> None:
    script = Script(listing(s=("share", "Stable"), k=("streams", "Reconciling"), n=("swarm", "Empty")))
    found = groups_over(script).describe(["s", "k", "n"])
    told = [(one.type, one.state) for one in found.values() if isinstance(one, GroupDescription)]
    assert told == [
        (GroupType.STREAMS, GroupState.RECONCILING),
        (GroupType.UNKNOWN, GroupState.EMPTY),
        (GroupType.SHARE, GroupState.STABLE),
    ]
    assert script.requests == ["ListGroupsRequest"]


def test_a_newer_group_is_never_called_dead_while_it_is_listed() -> None:
    dead = GroupDescription(group="g", type=GroupType.CLASSIC, state=GroupState.DEAD)
    live = GroupDescription(group="g", type=GroupType.CONSUMER, state=GroupState.UNKNOWN)
    answers: list[GroupDescription] = [dead, live]
    script = Script(listing(g=("consumer", "Stable")), listing(g=("consumer", "Assigning")))
    groups: Any = KafkaGroups("nowhere:1", Security(), lambda names: {name: answers.pop(0) for name in names})
    groups._session = script
    found = groups.describe(["g"])["g"]
    assert (found.type, found.state) == (GroupType.CONSUMER, GroupState.ASSIGNING)


class Client:
    """A data client whose calls raise `error`, at once or when the test lets them go on."""

    def __init__(self, error: Exception, *, waits: bool = False) -> None:
        self.error, self.goes_on = error, threading.Event()
        if not waits:
            self.goes_on.set()

    def commit(self, **_: object) -> None:
        self.goes_on.wait(120)
        raise self.error

    def close(self) -> None:
        self.commit()


def member_over(client: Client) -> KafkaGroupConsumer:
    member = KafkaGroupConsumer("127.0.0.1:1", Security(), "g")
    member.close(0)
    member._client = client
    return member


def test_a_defect_of_a_bounded_call_is_raised_and_one_that_comes_late_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    commits = {KEY: CommittedOffset(offset=1)}
    with pytest.raises(TypeError, match="no offset"):
        member_over(Client(TypeError("no offset"))).commit(commits, 60)
    late = Client(TypeError("no offset"), waits=True)
    assert member_over(late).commit(commits, 0.01) == {KEY: "TIMED_OUT"}
    assert caplog.text == ""
    late.goes_on.set()
    until(
        lambda: "a call that took too long failed: TypeError('no offset')" in caplog.text, "the late defect is logged"
    )


def test_a_member_that_cannot_be_closed_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    member_over(Client(LookupError("no such listener"))).close(60)
    assert "closing a member of a group failed: LookupError('no such listener')" in caplog.text
