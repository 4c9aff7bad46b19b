"""Replies by the key of their request, in the store: who carries a request out, and what is kept for how long."""

import pytest

from kafkakit.core.errors import InputError
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.registry.act.tag_store import GRACE_S, KEPT_S, MAX_KEPT, PRUNE_AFTER, Claim, KeptReplies
from kafkakit.registry.decide.v2_calls import ChangeTagsReply, ChangeTagsRequest, ObjectChange, TagResult
from tests.fakes.control import FakeControlStore

REQUEST = ChangeTagsRequest(changes=(ObjectChange(kind="topic", name="t", set={"a": "1"}),))
OTHER = ChangeTagsRequest(changes=(ObjectChange(kind="topic", name="t", set={"a": "2"}),))
REPLY = ChangeTagsReply(results=(TagResult(kind="topic", name="t", changed=True, tags={"a": "1"}, etag="e"),))


class Rig:
    """Two servers on one store, with one clock."""

    def __init__(self) -> None:
        self.now_s, self.store = 1000.0, FakeControlStore()
        self.one, self.two = (KeptReplies(self.store, "registry", lambda: self.now_s) for _ in range(2))

    def claimed(self, server: KeptReplies, key: str = "k", request: ChangeTagsRequest = REQUEST) -> Claim:
        found = server.claim("ci", key, request, 5)
        assert isinstance(found, Claim)
        return found

    def kept(self) -> int:
        return len(self.store.children("registry/replies"))


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_one_of_two_servers_carries_a_request_out(rig: Rig) -> None:
    claim = rig.claimed(rig.one)
    assert rig.two.claim("ci", "k", REQUEST, 5) is None
    assert isinstance(rig.two.claim("another caller", "k", OTHER, 5), Claim)
    rig.one.settle(claim, REPLY)
    assert rig.two.claim("ci", "k", REQUEST, 5) == REPLY
    with pytest.raises(RpcError, match="came with another request before"):
        rig.two.claim("ci", "k", OTHER, 5)
    rig.now_s += KEPT_S
    assert rig.claimed(rig.two, request=OTHER)


def test_a_request_whose_server_ended_is_carried_out_when_it_comes_again_later(rig: Rig) -> None:
    late = rig.claimed(rig.one)
    rig.now_s += 5 + GRACE_S
    claim = rig.claimed(rig.two)
    rig.one.settle(late, ChangeTagsReply(results=()))  # the first one lived after all: its reply comes too late
    rig.two.settle(claim, REPLY)
    assert rig.one.claim("ci", "k", REQUEST, 5) == REPLY


@pytest.mark.parametrize(
    "reply",
    [
        None,
        ChangeTagsReply(results=(TagResult(kind="topic", name="t", code=int(RpcCode.UNAVAILABLE)),)),
        ChangeTagsReply(
            results=tuple(
                TagResult(kind="topic", name=f"{n * 7919 % 104729:x}", tags={f"{n * n:x}": f"{n * 31337:x}"})
                for n in range(20_000)
            )
        ),
    ],
    ids=["failed", "not final", "too large"],
)
def test_what_cannot_be_kept_leaves_nothing(rig: Rig, reply: ChangeTagsReply | None) -> None:
    rig.one.settle(rig.claimed(rig.one), reply)
    assert rig.kept() == 0
    assert rig.claimed(rig.two)


def test_a_store_that_is_away_when_a_reply_is_kept_loses_that_reply_alone(rig: Rig) -> None:
    claim = rig.claimed(rig.one)
    rig.store.away = True
    rig.one.settle(claim, REPLY)
    rig.store.away = False
    assert rig.two.claim("ci", "k", REQUEST, 5) is None


def test_what_is_kept_is_bounded_in_number_and_age(rig: Rig) -> None:
    for number in range(MAX_KEPT + 2 * PRUNE_AFTER):
        rig.now_s += 0.001
        rig.one.settle(rig.claimed(rig.one, f"k{number}"), REPLY)
    assert rig.kept() <= MAX_KEPT + PRUNE_AFTER + 1
    assert rig.one.claim("ci", f"k{number}", REQUEST, 5) == REPLY
    assert rig.claimed(rig.one, "k0"), "the oldest goes first"
    rig.now_s += KEPT_S
    rig.claimed(KeptReplies(rig.store, "registry", lambda: rig.now_s))
    assert rig.kept() == 1


def test_a_record_of_something_else_is_replaced_and_a_damaged_reply_named(rig: Rig) -> None:
    claim = rig.claimed(rig.one)
    version = rig.store.cas(claim.path, b"{", claim.version)
    claim = rig.claimed(rig.one)
    assert claim.version > version
    record = b'{"request":"%b","until_s":1e9,"reply":"eA=="}' % claim.request.encode()
    rig.store.cas(claim.path, record, claim.version)
    with pytest.raises(InputError, match="holds no reply"):
        rig.one.claim("ci", "k", REQUEST, 5)


@pytest.mark.parametrize("key", ["k" * 256, "a\nb"])
def test_a_key_that_is_none_is_refused(rig: Rig, key: str) -> None:
    with pytest.raises(RpcError, match="at most 255 characters, all printable"):
        rig.one.claim("ci", key, REQUEST, 5)
    assert rig.store.writes == 0
