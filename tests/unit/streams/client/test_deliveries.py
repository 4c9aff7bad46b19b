"""What `send` gives back: results, waits, callbacks."""

import asyncio
import logging
import threading

import pytest

from kafkakit.core.errors import TryLaterError
from kafkakit.streams.client.delivery import Delivery, WrittenRecord, settle

LIMIT_S = 120.0
WRITTEN = WrittenRecord("live", 1, "cluster-a", "orders.live.1", 0, 7, 1, 1)


def test_a_result_is_waited_for_by_several_threads() -> None:
    delivery, found = Delivery(), list[WrittenRecord]()
    threads = [threading.Thread(target=lambda: found.append(delivery.result(LIMIT_S))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert not delivery.done()
    settle([(delivery, WRITTEN)])
    for thread in threads:
        thread.join(LIMIT_S)
    assert (found, delivery.exception(), delivery.done()) == ([WRITTEN] * 3, None, True)


def test_a_wait_that_ends_without_a_result_leaves_nothing_behind() -> None:
    delivery = Delivery()
    for wait in (delivery.result, delivery.exception):
        with pytest.raises(TimeoutError):
            wait(0.001)
    assert not delivery._callbacks
    settle([(delivery, TryLaterError("no answer"))])
    assert isinstance(delivery.exception(), TryLaterError)
    with pytest.raises(TryLaterError, match="no answer"):
        delivery.result(0)


def test_callbacks_run_in_order_and_one_that_fails_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    first, second, called = Delivery(), Delivery(), list[str]()
    first.add_done_callback(lambda done: called.append(f"1 {done.done()} {second.done()}"))
    first.add_done_callback(lambda _: 1 / 0)
    second.add_done_callback(lambda _: called.append("2"))
    with caplog.at_level(logging.ERROR, "kafkakit.streams.client"):
        settle([(first, WRITTEN), (second, WRITTEN)])
    second.add_done_callback(lambda _: called.append("after"))
    assert called == ["1 True True", "2", "after"]
    assert "a callback of a delivery" in caplog.text


@pytest.mark.parametrize("error", [SystemExit(7), KeyboardInterrupt()], ids=repr)
def test_an_exit_in_a_callback_ends_no_thread_of_the_producer(error: BaseException) -> None:
    called = list[str]()

    def fail(_: Delivery) -> None:
        raise error

    def settled() -> None:
        first, second = Delivery(), Delivery()
        first.add_done_callback(fail)
        second.add_done_callback(lambda _: called.append("second"))
        settle([(first, WRITTEN), (second, WRITTEN)])
        called.append("on")

    thread = threading.Thread(target=settled)
    thread.start()
    thread.join(LIMIT_S)
    assert called == ["second", "on"]
    with pytest.raises(type(error)):  # Ctrl-C in the application's own thread
        settled()


def test_awaiting_a_delivery() -> None:
    async def run() -> None:
        early, late, never = Delivery(), Delivery(), Delivery()
        settle([(early, WRITTEN)])
        assert await early == WRITTEN
        threading.Timer(0.01, lambda: settle([(late, TryLaterError("gone"))])).start()
        with pytest.raises(TryLaterError, match="gone"):
            await asyncio.wait_for(late, LIMIT_S)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(never, 0.001)
        assert not never._callbacks

    asyncio.run(run())
