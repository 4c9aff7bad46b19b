"""Tags as they lie in a control store and in kafka-kit's znodes."""

import pytest

from kafkakit.core.errors import InputError, TryLaterError
from kafkakit.core.model import TagSet
from kafkakit.execution.act.retrier import read_tags
from tests.fakes.control import FakeControlStore


def put(store: FakeControlStore, path: str, text: str) -> None:
    store.cas(path, text.encode(), None)


def test_tags_by_kind_and_name() -> None:
    store = FakeControlStore()
    put(store, "registry/broker/1001", '{"feed":"x"}')
    put(store, "registry/broker/odd", '{"feed":"y"}')  # kafka-kit skips such ids, too
    put(store, "registry/broker/1002", "{}")
    put(store, "registry/topic/orders", '{"owner":"a","tier":"hot"}')
    put(store, "other/topic/clicks", '{"tier":"cold"}')
    assert read_tags(store) == TagSet(brokers={1001: {"feed": "x"}}, topics={"orders": {"owner": "a", "tier": "hot"}})
    assert read_tags(store, "other") == TagSet(topics={"clicks": {"tier": "cold"}})


def test_an_empty_store_has_no_tags() -> None:
    assert read_tags(FakeControlStore()) == TagSet()


@pytest.mark.parametrize("text", ["[]", '{"a":1}', "{", '"a"', "\xff", pytest.param("[" * 60_000, id="deep")])
def test_what_holds_no_tags_is_named(text: str) -> None:
    store = FakeControlStore()
    put(store, "registry/topic/orders", text)
    with pytest.raises(InputError, match="registry/topic/orders: holds no tags"):
        read_tags(store)


def test_a_store_that_does_not_answer_is_no_store_without_tags() -> None:
    store = FakeControlStore()
    store.away = True
    with pytest.raises(TryLaterError):
        read_tags(store)
