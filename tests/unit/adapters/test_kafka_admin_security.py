"""What brokers answer about ACLs, producers and transactions, as kafkakit's values: refusals, silence and gaps."""

import logging
import threading
from types import SimpleNamespace as Answer
from typing import Any

import pytest

from kafkakit.adapters.kafka import admin_write as admin_acls
from kafkakit.adapters.kafka import admin_write as admin_transactions
from kafkakit.adapters.kafka import session
from kafkakit.adapters.kafka.admin_write import (
    ACL_OPERATION_CODE,
    acl_results,
    acls_of,
    description_requests,
    producers_of,
    transactions_of,
)
from kafkakit.config.security import Security
from kafkakit.core.cluster_facts import (
    AclBinding,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResourceKind,
    ItemError,
    ProducerState,
)
from kafkakit.core.errors import ConnectRefusedError, OperationFailedError, TryLaterError
from kafkakit.core.model import TopicPartition

KEY = TopicPartition("t", 0)
DENY = AclBinding(
    kind=AclResourceKind.TOPIC, name="t", principal="User:a", operation=AclOperation.WRITE,
    permission=AclPermission.DENY,
)  # fmt: skip


def test_codes_are_those_of_kafka_python() -> None:
    from kafka.protocol.admin import ACLOperation, ACLPermissionType, ACLResourcePatternType, ACLResourceType

    assert {e.name: c for e, c in ACL_OPERATION_CODE.items() if c < 15} == {
        e.name: e.value for e in ACLOperation if e.name != "ANY"
    }
    assert ACL_OPERATION_CODE[AclOperation.TWO_PHASE_COMMIT] == 15
    kinds = {e.name: c for e, c in admin_acls.KIND_CODE.items() if e is not AclResourceKind.USER}
    assert kinds == {e.name: e.value for e in ACLResourceType if e.value > 1}
    assert {e.name: c for e, c in admin_acls.PATTERN_CODE.items()} == {
        e.name: e.value for e in ACLResourcePatternType if e.value > 2
    }
    assert {e.name: c for e, c in admin_acls.PERMISSION_CODE.items()} == {
        e.name: e.value for e in ACLPermissionType if e.value > 1
    }


def acls_answer(operation: int = 4, code: int = 0) -> Any:
    acl = Answer(principal="User:a", host="*", operation=operation, permission_type=2)
    resource = Answer(resource_type=2, resource_name="t", pattern_type=4, acls=[acl])
    return Answer(error_code=code, error_message=None, resources=[] if code else [resource])


def test_an_operation_of_a_newer_kafka_is_a_binding_all_the_same() -> None:
    (found,) = acls_of(acls_answer(operation=99)) or ()
    assert (found.operation, found.pattern) == (AclOperation.UNKNOWN, AclPattern.PREFIXED)


def test_no_authorizer_is_no_list_and_a_refusal_is_neither() -> None:
    assert acls_of(acls_answer(code=54)) is None
    with pytest.raises(OperationFailedError, match="describe ACLs: not permitted"):
        acls_of(acls_answer(code=31))
    with pytest.raises(OperationFailedError, match="describe ACLs: UnknownError"):
        acls_of(acls_answer(code=-1))


def test_a_binding_without_an_answer_is_not_done_and_one_that_matched_can_be_refused() -> None:
    fine = Answer(error_code=0, error_message=None, matching_acls=[])
    bad = Answer(error_code=0, error_message=None, matching_acls=[Answer(error_code=-1, error_message="x y")])
    other = AclBinding(
        kind=DENY.kind, name="u", principal="User:a", operation=DENY.operation, permission=DENY.permission
    )
    assert acl_results([fine], [DENY, other])[DENY] is None
    assert (acl_results([fine], [DENY, other])[other] or ItemError(name="")).name == "UnknownError"
    assert str(acl_results([bad], [DENY])[DENY]) == "UnknownError: x y"


def producer(**given: int) -> Any:
    state = {
        "producer_id": 1,
        "producer_epoch": 2,
        "last_sequence": 3,
        "last_timestamp": 4,
        "current_txn_start_offset": -1,
    }
    return Answer(**state | given)


def partition(number: int, *active: Any, code: int = 0) -> Any:
    return Answer(partition_index=number, error_code=code, error_message=None, active_producers=active)


def test_producers_of_each_partition_or_why_they_are_not_known() -> None:
    keys = [TopicPartition("t", number) for number in range(5)]
    leaders = {keys[0]: 1, keys[1]: 1, keys[2]: None, keys[3]: 2}
    one = Answer(topics=[Answer(name="t", partitions=[
        partition(0, producer(producer_id=9, current_txn_start_offset=7), producer(last_timestamp=-1)),
        partition(1, code=6),
    ])])  # fmt: skip
    found = producers_of(keys, leaders, {1: one, 2: OSError("gone")})
    state = ProducerState(producer_id=1, producer_epoch=2, last_sequence=3, last_ms=None, transaction_start=None)
    with_transaction = ProducerState(producer_id=9, producer_epoch=2, last_sequence=3, last_ms=4, transaction_start=7)
    assert found[keys[0]] == (state, with_transaction)
    names = [error.name for error in (found[key] for key in keys[1:]) if isinstance(error, ItemError)]
    assert names == ["NotLeaderForPartitionError", "LeaderNotAvailableError", "OSError", "UnknownTopicOrPartitionError"]
    assert isinstance(producers_of(keys[:1], leaders, {1: Answer(topics=[])})[keys[0]], ItemError)


def listed(code: int = 0, *names: str) -> Any:
    return Answer(error_code=code, transaction_states=[Answer(transactional_id=name) for name in names])


def described(code: int = 0, state: str = "Ongoing") -> Any:
    return Answer(transaction_states=[Answer(
        error_code=code, transactional_id="x", transaction_state=state, transaction_timeout_ms=5,
        transaction_start_time_ms=6, producer_id=7, producer_epoch=8, topics=[Answer(topic="t", partitions=[0, 1])],
    )])  # fmt: skip


def test_a_coordinator_that_cannot_tell_is_never_an_empty_list() -> None:
    for answer in (OSError("gone"), listed(14)):
        with pytest.raises(TryLaterError, match="list transactions: broker 3"):
            list(description_requests(3, answer))
    for found, message in ((OSError("gone"), "broker 3 gave no answer"), (described(16), "describe transaction x")):
        with pytest.raises(TryLaterError, match=message):
            list(transactions_of(3, found))
    with pytest.raises(OperationFailedError, match="describe transaction x: not permitted"):
        list(transactions_of(3, described(53)))


def test_a_transaction_that_ended_meanwhile_is_left_out() -> None:
    assert list(transactions_of(3, described(105))) == list(transactions_of(3, described(0, "CompleteCommit"))) == []
    (found,) = transactions_of(3, described(0, "PrepareAbort"))
    assert (found.state, found.partitions) == ("PrepareAbort", frozenset((KEY, TopicPartition("t", 1))))


def test_many_transactions_are_described_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_transactions, "IDS_PER_REQUEST", 2)
    requests = list(description_requests(3, listed(0, "c", "a", "b")))
    assert [request.transactional_ids for request in requests] == [["a", "b"], ["c"]]
    assert list(description_requests(3, listed())) == []


@pytest.mark.parametrize(
    ("addresses", "takes_us", "tried", "end"),
    [
        ("a:1,b:1,c:1", "", ["a:1"], "cannot connect: login refused by a:1"),
        ("a:1,b:1,c:1", "b:1", ["a:1", "b:1"], ""),
        ("a:1", "", ["a:1"], "cannot connect: login refused by a:1"),
    ],
)
def test_settings_that_one_address_refuses_cost_a_client_once(
    monkeypatch: pytest.MonkeyPatch, addresses: str, takes_us: str, tried: list[str], end: str
) -> None:
    from kafka.errors import KafkaTimeoutError

    made: list[str] = []

    def new_client(server: str, *_: object) -> str:
        made.append(server)
        if server != takes_us:
            raise KafkaTimeoutError("timed out")
        return server

    def explain(servers: str, _: Security) -> ConnectRefusedError | None:
        return (
            None
            if takes_us in servers.split(",")
            else ConnectRefusedError(f"cannot connect: login refused by {servers}")
        )

    monkeypatch.setattr(session, "_refuses", lambda *_: None)
    monkeypatch.setattr(session, "_new_client", new_client)
    monkeypatch.setattr(session, "explain", explain)
    if end:
        with pytest.raises(ConnectRefusedError, match=end):
            session.connect(addresses, Security(), 1.0, 1.0)
    else:
        assert session.connect(addresses, Security(), 1.0, 1.0) == takes_us
    assert made == tried


def test_each_client_has_its_own_reason() -> None:
    """Clients connect side by side; a reason is kept by the thread that connects."""
    words, logger = session._listen(), logging.getLogger("kafka.net.manager")
    started = threading.Barrier(2)

    def fail(why: str) -> None:
        started.wait()
        logger.warning("Bootstrap connection to %s failed: %s (backoff %.2f secs)", "h:1", why, 0.1)

    threads = [threading.Thread(target=fail, args=(why,)) for why in ("no login", "no TLS")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [words.take(thread.ident) for thread in threads] == ["no login", "no TLS"]
    assert words.take(threads[0].ident) == ""
