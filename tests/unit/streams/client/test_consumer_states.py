"""However a callback or a thread of a consumer ends, the consumer says so: it is running, stopped or failed."""

import asyncio
import gc
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from kafkakit.core.errors import OperationFailedError, RefusedError, TryLaterError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.client import cluster_reader, workers
from kafkakit.streams.client.client import StreamClient
from kafkakit.streams.client.consumer import StreamConsumer
from kafkakit.streams.client.dead_letters import ConsumerHooks, ConsumerOptions, DeadLetterWriter, LeftOut
from kafkakit.streams.client.decide.figures import ConsumerState, consumer_families
from kafkakit.streams.client.decide.work_rules import DependencyDownError, Mode, RejectError, RetryLaterError, WorkRules
from kafkakit.streams.client.workers import SharedWork, StreamRecord
from tests.fakes.group_consumer import FakeGroups
from tests.rigs.stream_routes import FakeClusters
from tests.rigs.waiting import until
from tests.unit.streams.client.test_dead_letters import FAST, PLACE, Seen, committed, consumer, values

UNORDERED = WorkRules(mode=Mode.UNORDERED, retry=FAST)
EXITS = (SystemExit(7), KeyboardInterrupt())
PASSING = (ValueError("no"), asyncio.CancelledError())
"""What is the failure of one record, however it is raised."""


@pytest.fixture
def cluster() -> FakeGroups:
    made = FakeGroups()
    made.make_topic(PLACE.topic, 1)
    made.write(PLACE, values(0, 20))
    return made


def shown(made: StreamConsumer) -> str:
    """The state on the page of metrics."""
    family = next(found for found in consumer_families([made.figures()]) if found.name == "state")
    (state,) = (dict(labels)["state"] for labels, value in family.samples if value)
    return state


def check_failed(made: StreamConsumer, error: BaseException, reason: str) -> None:
    """All that tells of the end agrees, and nothing of the consumer runs any more."""
    until(lambda: not alive())
    figures = made.figures()
    assert (made.state, figures.state, shown(made)) == (ConsumerState.FAILED,) * 3
    assert reason in figures.reason
    assert figures.problems[0] == f"the consumer failed: {figures.reason}"
    with pytest.raises(type(error)) as found:
        made.close()
    assert found.value is error
    assert made.registration() is None


NAMES = re.compile(r"kafkakit-(worker-\d+|reader-c\d|route|dead-letters|health)")
EARLIER = list[threading.Thread]()


@pytest.fixture(autouse=True)
def earlier_threads() -> None:
    EARLIER[:] = threading.enumerate()


def alive() -> list[str]:
    """The threads of this test's consumers that run."""
    return [each.name for each in threading.enumerate() if each not in EARLIER and NAMES.fullmatch(each.name)]


def failing(error: BaseException, *, once: bool = False, at: int = 5) -> Callable[..., None]:
    """Raises for the record at an offset, each time or once."""
    raised = list[int]()

    def call(record: Any, *_: object) -> None:
        offset = record.offset if isinstance(record.offset, int) else record.offset()
        if offset == at and not (once and raised):
            raised.append(offset)
            raise error

    return call


def both_ways(made: StreamConsumer, is_async: bool) -> BaseException:
    """Run it until it fails, as its kind is run; what was raised."""
    with pytest.raises(BaseException) as found:
        asyncio.run(raised_inside(made)) if is_async else made.run()
    return found.value


async def raised_inside(made: StreamConsumer) -> None:
    """An exit that leaves a task ends the loop: the consumer must be closed before that."""
    try:
        await made.run_async()
    finally:
        until(lambda: not alive())


def handlers(call: Callable[..., None]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The three kinds of handler, each calling the same for every record."""

    async def asynchronous(record: StreamRecord) -> None:
        call(record)

    def batched(records: Sequence[StreamRecord]) -> None:
        for record in records:
            call(record)

    yield "single", {"handler": call}
    yield "batch", {"batch_handler": batched}
    yield "async", {"async_handler": asynchronous}


KINDS = ("single", "batch", "async")


@pytest.mark.parametrize("error", EXITS, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_an_exit_in_a_handler_ends_the_consumer_and_is_not_retried(
    cluster: FakeGroups, kind: str, error: BaseException
) -> None:
    calls, fail = list[int](), failing(error)

    def call(record: StreamRecord) -> None:
        calls.append(record.offset)
        fail(record)

    made = consumer(cluster, work=UNORDERED, concurrency=1, **dict(handlers(call))[kind])
    assert made.state is ConsumerState.STOPPED
    assert both_ways(made, kind == "async") is error
    assert calls.count(5) == 1
    check_failed(made, error, type(error).__name__)
    handled = made.figures().total("handled")
    assert handled <= 5 if kind == "batch" else handled == 5
    assert committed(cluster).offset == handled, "what was handled is committed"


@pytest.mark.parametrize("error", PASSING, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_any_other_error_of_a_handler_is_a_failure_of_its_record(
    cluster: FakeGroups, kind: str, error: BaseException
) -> None:
    made = consumer(cluster, work=UNORDERED, **dict(handlers(failing(error, once=True)))[kind])

    def look() -> None:
        until(lambda: made.figures().total("handled") == 20)
        assert (made.state, made.figures().problems, shown(made)) == (ConsumerState.RUNNING, (), "running")
        made.stop()

    looking = threading.Thread(target=look)
    looking.start()
    if kind == "async":
        asyncio.run(made.run_async())
    else:
        made.run()
    looking.join()
    figures = made.figures()
    assert kind == "batch" or figures.total("failures") == 1
    assert (figures.state, figures.problems, figures.total("handled"), figures.partitions) == ("stopped", (), 20, ())


WRONG_RETURNS: dict[str, Any] = {
    "list": [ValueError("x")],
    "empty list": [],
    "true": True,
    "zero": 0,
    "text": "",
    "mixed keys": {"a": ValueError("x"), 0: ValueError("y")},
    "fraction": {0.5: ValueError("x")},
    "true as key": {True: ValueError("x")},
    "offset": {1_000_000: ValueError("x")},
    "negative": {-1: ValueError("x")},
    "no error": {0: None},
    "class": {0: ValueError},
}


@pytest.mark.parametrize("name", WRONG_RETURNS)
def test_a_batch_handler_that_returns_what_means_nothing_fails_at_the_first_record(
    cluster: FakeGroups, name: str
) -> None:
    made = consumer(cluster, batch_handler=lambda records: WRONG_RETURNS[name])
    with pytest.raises(TypeError, match="returns None, or a mapping of positions in its records to errors") as found:
        made.run()
    check_failed(made, found.value, "WrongReturnError: a batch_handler returns None")
    assert ("billing", PLACE) not in cluster.commits or committed(cluster).offset == 0


def test_errors_by_position_may_be_any_mapping_of_whole_numbers(cluster: FakeGroups) -> None:
    import numpy as np

    seen = Seen()

    def handle(records: Sequence[StreamRecord]) -> dict[int, BaseException]:
        bad = {np.int64(i): ValueError("once") for i, record in enumerate(records) if not record.tries}
        for index, record in enumerate(records):
            if index not in bad:
                seen(record)
        return bad  # type: ignore[return-value]

    with consumer(cluster, batch_handler=handle, work=UNORDERED) as running:
        until(lambda: committed(cluster).offset == 20 if cluster.commits else False)
        assert running.figures().total("failures") == 20
    assert set(seen.values.values()) == {1}


def test_a_handler_of_the_wrong_kind_fails_at_the_first_record(cluster: FakeGroups) -> None:
    async def asynchronous(record: Any) -> None: ...

    for given in ({"handler": asynchronous}, {"batch_handler": asynchronous}):
        made = consumer(cluster, **dict[str, Any](given))
        with pytest.raises(TypeError, match="give it as async_handler"):
            made.run()
    gc.collect()  # the coroutine was closed: there is no warning that it was never awaited
    made = consumer(cluster, async_handler=lambda record: None)
    with pytest.raises(TypeError, match="can be awaited, not a value of type NoneType"):
        asyncio.run(made.run_async())
    assert not cluster.commits or committed(cluster).offset == 0


ODD_ERRORS: dict[str, Callable[[], Exception]] = {
    "list as dependency": lambda: DependencyDownError(["db"]),  # type: ignore[arg-type]
    "no dependency": lambda: DependencyDownError(""),
    "none as dependency": lambda: DependencyDownError(None),  # type: ignore[arg-type]
    "wait of nan": lambda: RetryLaterError(after_s=float("nan")),
    "wait without end": lambda: RetryLaterError(after_s=float("inf")),
    "wait of text": lambda: RetryLaterError(after_s="soon"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", ODD_ERRORS)
def test_errors_with_odd_parts_are_failures_of_their_record(cluster: FakeGroups, name: str) -> None:
    failed = set[int]()

    def handle(record: StreamRecord) -> None:
        if record.offset not in failed:
            failed.add(record.offset)
            raise ODD_ERRORS[name]()

    with consumer(cluster, handler=handle, work=UNORDERED) as running:
        until(lambda: len(failed) == 20)
        assert "" not in running.figures().dependencies_down
        until(lambda: running.figures().total("handled") == 20)


HOOKS = ("checkpoint", "filter", "guard", "reject", "spare")


def hooked(cluster: FakeGroups, hook: str, call: Callable[..., Any]) -> StreamConsumer:
    """A consumer that calls the hook for the record at 5."""
    if hook == "guard":
        cluster.unreadable = {(PLACE, 5)}
        call = lambda origin, offset, *_, inner=call: inner(At(offset))  # noqa: E731
    if hook in ("reject", "spare"):
        call = lambda rejected, inner=call: inner(rejected.record)  # noqa: E731
    hooks = ConsumerHooks(**{hook: call})
    if hook == "spare":
        hooks = ConsumerHooks(reject=lambda _: 1 / 0, spare=call)

    def handle(record: StreamRecord) -> None:
        if hook in ("reject", "spare") and record.offset == 5:
            raise RejectError("never")

    given: dict[str, Any] = {"work": UNORDERED, "hooks": hooks, "handler": handle}
    if hook == "spare":
        given["work"] = WorkRules(mode=Mode.UNORDERED, retry=FAST, limits=workers_limits())
    return consumer(cluster, **given)


def workers_limits() -> Any:
    from kafkakit.streams.client.decide.work_rules import WorkLimits

    return WorkLimits(records=1)


class At:
    def __init__(self, offset: int) -> None:
        self.offset = offset


@pytest.mark.parametrize("error", EXITS, ids=repr)
@pytest.mark.parametrize("hook", HOOKS)
def test_an_exit_in_a_hook_ends_the_consumer(cluster: FakeGroups, hook: str, error: BaseException) -> None:
    made = hooked(cluster, hook, failing(error))
    with pytest.raises(type(error)) as found:
        made.run()
    check_failed(made, found.value, type(error).__name__)


@pytest.mark.parametrize("error", PASSING, ids=repr)
@pytest.mark.parametrize("hook", HOOKS)
def test_any_other_error_of_a_hook_is_tried_again(cluster: FakeGroups, hook: str, error: BaseException) -> None:
    fail = failing(error, once=True)

    def call(record: Any, *_: object) -> Any:
        fail(record)
        return LeftOut(next_offset=6) if isinstance(record, At) else True

    with hooked(cluster, hook, call) as running:
        until(lambda: ("billing", PLACE) in cluster.commits and committed(cluster).offset == 20)
        assert running.state is ConsumerState.RUNNING
        if hook not in ("reject", "spare"):
            until(lambda: not running.figures().problems)


def raising(error: BaseException) -> Callable[..., Any]:
    def call(*_: object, **__: object) -> Any:
        raise error

    return call


TARGETS: dict[str, tuple[Any, str]] = {
    "worker": (SharedWork, "next"),
    "reader": (cluster_reader.ClusterReader, "_turn"),
    "end of a reader": (cluster_reader.ClusterReader, "lost"),
    "route": (StreamConsumer, "_lanes_of"),
    "dead letters": (DeadLetterWriter, "_write"),
}


@pytest.mark.parametrize("error", [*EXITS, *PASSING, OperationFailedError("no")], ids=repr)
@pytest.mark.parametrize("target", TARGETS)
def test_whatever_ends_a_thread_fails_the_consumer(
    cluster: FakeGroups, monkeypatch: pytest.MonkeyPatch, target: str, error: BaseException
) -> None:
    owner, name = TARGETS[target]
    if target == "end of a reader":
        cluster.is_away = True  # the member is dropped
    made = hooked(cluster, "reject", lambda record: None)
    newer = [made._plan.epoch]
    monkeypatch.setattr(made, "_route", partial(route_of, made._route(), newer))
    monkeypatch.setattr(owner, name, raising(error))
    made.start()
    newer[0] += 1
    check_failed(made, error, "")


def route_of(route: Any, newer: list[int]) -> Any:
    from dataclasses import replace

    return replace(route, epoch=newer[0])


@pytest.mark.parametrize(
    "name",
    ["kafkakit-worker-3", "kafkakit-reader-c1", "kafkakit-route", "kafkakit-dead-letters", "kafkakit-health"],
)
def test_a_thread_that_cannot_start_is_an_error_and_leaves_nothing_behind(
    cluster: FakeGroups, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    start, error = threading.Thread.start, RuntimeError("can't start new thread")

    def refuse(thread: threading.Thread) -> None:
        if thread.name == name:
            raise error
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    hooks = ConsumerHooks(reject=print, is_healthy=lambda: True)
    made = consumer(cluster, handler=Seen(), hooks=hooks)
    with pytest.raises(RuntimeError, match="new thread"):
        made.start()
    check_failed(made, error, "RuntimeError: can't start new thread")
    assert not any(cluster.members.values())


def test_a_reader_that_cannot_start_on_a_new_route_is_no_old_route_for_ever(
    cluster: FakeGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.unit.streams.client.test_dead_letters import route

    routes = [route()]
    made = consumer(cluster, handler=Seen(), the_route=routes[0])
    monkeypatch.setattr(made, "_route", lambda: routes[-1])
    made.start()
    until(lambda: made.figures().partitions)
    start, error = threading.Thread.start, RuntimeError("can't start new thread")

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "kafkakit-reader-c2":
            raise error
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    routes.append(moved(routes[0]))
    check_failed(made, error, "RuntimeError")
    assert not any(cluster.members.values()), "other members have its partitions"


def moved(route: Any) -> Any:
    """The lane's segment is on another cluster."""
    from dataclasses import replace

    (lane,) = route.lanes
    (segment,) = lane.segments
    new = replace(segment, id=2, cluster="other", cluster_id="c2", topic="orders.live.2")
    return replace(route, epoch=route.epoch + 1, lanes=(replace(lane, segments=(new,)),))


def test_a_task_that_the_application_cancels_is_an_error(cluster: FakeGroups) -> None:
    async def main() -> None:
        cancelled = list[int]()

        async def handle(record: StreamRecord) -> None:
            if not cancelled:
                cancelled.append(record.offset)
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            await asyncio.sleep(0)

        made = consumer(cluster, async_handler=handle)
        with pytest.raises(OperationFailedError, match="was cancelled by the application"):
            await made.run_async()
        assert shown(made) == "failed"

    asyncio.run(main())


def test_run_async_that_is_cancelled_stops_and_ends_handlers_that_hang(cluster: FakeGroups) -> None:
    async def main() -> None:
        begun, ended = asyncio.Event(), list[BaseException]()

        async def handle(record: StreamRecord) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError as error:
                ended.append(error)
                raise

        made = consumer(cluster, async_handler=handle, close_s=0.1, revoke_s=0.1, concurrency=1)
        running = asyncio.ensure_future(made.run_async())
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert len(ended) == 1
        assert (made.state, made.figures().problems) == (ConsumerState.STOPPED, ())

    asyncio.run(main())
    assert not cluster.commits or committed(cluster).offset == 0


def test_a_block_raises_why_its_consumer_failed_unless_it_ended_by_another_error(cluster: FakeGroups) -> None:
    def failed() -> StreamConsumer:
        return consumer(cluster, handler=failing(SystemExit(3), at=0))

    with pytest.raises(SystemExit), failed() as made:
        until(lambda: made.state is ConsumerState.FAILED)
    with pytest.raises(ZeroDivisionError), failed() as made:
        until(lambda: 1 / (made.state is not ConsumerState.FAILED) == 0)


def test_a_consumer_that_is_told_to_stop_ends_without_a_close(cluster: FakeGroups) -> None:
    made = consumer(cluster, handler=Seen())
    made.start()
    until(lambda: made.figures().total("handled") == 20)
    made.stop()
    until(lambda: made.state is ConsumerState.STOPPED and not alive())
    assert committed(cluster).offset == 20
    assert not any(cluster.members.values())
    made.close()


def test_a_consumer_is_started_once(cluster: FakeGroups) -> None:
    made = consumer(cluster, handler=Seen())
    with made, pytest.raises(UsageError, match="only once"):
        made.start()
    assert made.state is ConsumerState.STOPPED
    with pytest.raises(UsageError, match="only once"):
        made.start()
    assert not made.figures().problems


@pytest.mark.parametrize("is_raised", [False, True])
def test_closing_the_client_raises_what_nobody_has_heard_of(is_raised: bool) -> None:
    fakes = FakeClusters()
    fakes.routes.create(fakes.segment("a"))

    def use(client: StreamClient) -> object:
        made = client.consumer("orders", "billing", handler=print)  # its members cannot be opened
        if is_raised:
            with pytest.raises(UsageError, match="nothing reads here"):
                made.run()
        else:
            made.start()
            until(lambda: made.state is ConsumerState.FAILED)
        return None

    if is_raised:
        with fakes.client() as client:
            use(client)
    else:
        with pytest.raises(UsageError, match="nothing reads here"), fakes.client() as client:
            use(client)
        with pytest.raises(ZeroDivisionError), fakes.client() as client:
            until(lambda: use(client) or 1 / 0)
        with pytest.raises(UsageError, match="nothing reads here"):
            client.close()
    client.close()


def test_threads_that_make_producers_at_once_open_each_cluster_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = FakeClusters()
    fakes.routes.create(fakes.segment("a"))
    opened, barrier = list[str](), threading.Barrier(16)
    with fakes.client() as client:
        real = client._parts.open_cluster

        def slowly(profile: str) -> Any:
            opened.append(profile)
            threading.Event().wait(0.05)
            return real(profile)

        object.__setattr__(client._parts, "open_cluster", slowly)

        def write(number: int) -> None:
            producer = client.producer("orders")
            barrier.wait()
            producer.send(b"%d" % number).result(120)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert opened == ["a"]


def test_a_commit_error_is_a_problem_until_a_commit_succeeds(
    cluster: FakeGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.fakes.group_consumer import FakeGroupConsumer

    real, refuse = FakeGroupConsumer._commit, threading.Event()

    def commit(member: FakeGroupConsumer, partition: TopicPartition, asked: Any) -> str:
        return "ILLEGAL_GENERATION" if refuse.is_set() else real(member, partition, asked)

    monkeypatch.setattr(FakeGroupConsumer, "_commit", commit)
    refuse.set()
    with consumer(cluster, handler=Seen()) as running:
        until(lambda: f"commit of {PLACE}: ILLEGAL_GENERATION" in running.figures().problems)
        refuse.clear()
        until(lambda: running.figures().problems == ())
        assert running.figures().commit_errors


def test_a_cluster_that_is_back_and_dead_letters_that_are_written_are_no_problem(cluster: FakeGroups) -> None:
    away = threading.Event()
    away.set()

    def reject(rejected: object) -> None:
        if away.is_set():
            raise TryLaterError("the lane is away")

    with consumer(cluster, handler=raising(RejectError("no")), hooks=ConsumerHooks(reject=reject)) as running:
        until(lambda: "dead letters: TryLaterError: the lane is away" in running.figures().problems)
        cluster.is_away = True
        until(lambda: "the cluster is away" in running.figures().problems)
        cluster.is_away = False
        away.clear()
        until(lambda: running.figures().problems == ())


def test_totals_stay_when_partitions_go_elsewhere_and_after_the_end(cluster: FakeGroups) -> None:
    with consumer(cluster, handler=Seen()) as running:
        until(lambda: running.figures().total("handled") == 20)
        cluster.is_away = True
        until(lambda: running.figures().reconnects and not running.figures().partitions)
        assert (running.figures().total("handled"), running.figures().total("lag")) == (20, 0)
        cluster.is_away = False
        until(lambda: ("billing", PLACE) in cluster.commits and committed(cluster).offset == 20)
        total = running.figures().total("handled")
    assert running.figures().total("handled") == total >= 20
    families = {family.name: family for family in consumer_families([running.figures()])}
    assert [value for _, value in families["handled_records"].samples] == [total]
    assert [value for _, value in families["partitions"].samples] == [0]


def test_an_exit_while_a_consumer_waits_closes_it(cluster: FakeGroups, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the thread of `run`."""
    made = consumer(cluster, handler=Seen())
    wait, here = made._life.stopping.wait, threading.current_thread()

    def interrupted(wait_s: float) -> bool:
        if threading.current_thread() is here:
            raise KeyboardInterrupt
        return wait(wait_s)

    monkeypatch.setattr(made._life.stopping, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert made.state is ConsumerState.STOPPED
    until(lambda: not alive())


def test_an_asynchronous_handler_that_takes_too_long_has_failed(cluster: FakeGroups) -> None:
    seen, tries = Seen(), list[int]()

    async def handle(record: StreamRecord) -> None:
        if record.offset == 7 and not record.tries:
            tries.append(record.offset)
            await asyncio.sleep(3600)
        seen(record)

    made = consumer(cluster, async_handler=handle, work=UNORDERED, handle_s=0.05)

    async def run() -> None:
        running = asyncio.ensure_future(made.run_async())
        while sum(seen.values.values()) < 20:
            await asyncio.sleep(0.005)
        made.stop()
        await running

    asyncio.run(run())
    assert (tries, made.figures().total("failures") >= 1, seen.values) == ([7], True, Counter(values(0, 20)))


def test_a_handler_in_a_thread_that_hangs_is_a_problem(cluster: FakeGroups) -> None:
    released = threading.Event()

    def handle(record: StreamRecord) -> None:
        if record.offset == 7:
            released.wait()

    told = f"{PLACE} at 7: a handler has not returned for"
    with consumer(cluster, handler=handle, work=UNORDERED, handle_s=0.05) as running:
        try:
            until(lambda: any(told in each for each in running.figures().problems))
        finally:
            released.set()
        until(lambda: running.figures().total("handled") == 20)
        until(lambda: running.figures().problems == ())
    with pytest.raises(UsageError, match="handle_s"):
        ConsumerOptions(handle_s=float("nan"))


def test_messages_of_values_tell_numbers_and_no_contents() -> None:
    assert workers._of_type({"secret": 1}) == "a value of type dict"
    assert workers._of_type(7) == "int 7"


def test_a_route_that_cannot_be_renewed_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = FakeClusters()
    fakes.routes.create(fakes.segment("a"))
    with fakes.client() as client:
        made = client.consumer("orders", "billing", handler=print)
        assert made.figures().problems == ()
        monkeypatch.setattr(fakes.store, "await_change", raising(OSError("gone")))
        until(lambda: made.figures().problems == ("epoch 1 of the route stays in use: OSError: gone",))


def test_a_topic_that_was_created_again_between_two_looks_ends_its_consumer(
    cluster: FakeGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not shorter than what was read of the old one; reading alone would go on where that ended."""
    for name in ("_TOPICS_S", "_TOPICS_AGAIN_S"):
        monkeypatch.setattr(f"kafkakit.streams.client.consumer.{name}", 0.02)
    fakes = FakeClusters()
    fakes.routes.create(fakes.segment("a", partitions=1))
    assert fakes.routes.read().lanes[0].segments[0].topic == PLACE.topic
    with fakes.client() as client:
        object.__setattr__(client._parts, "open_member", lambda profile, group, rule: cluster.open(group))
        made = client.consumer("orders", "billing", handler=print)
        made.start()
        until(lambda: made.figures().total("handled") == 20)
        assert made.state is ConsumerState.RUNNING
        fakes.clusters["a"].topics[PLACE.topic].topic_id = "f" * 32
        until(lambda: made.state is ConsumerState.FAILED)
        with pytest.raises(RefusedError, match="it was deleted and created again") as raised:
            made.close()
    assert "streams link orders" in str(raised.value.hint)


def test_a_look_at_topics_counts_when_the_next_one_finds_the_same(
    cluster: FakeGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker may tell of an older topic for a moment, and one that does not answer tells nothing."""
    for name in ("_TOPICS_S", "_TOPICS_AGAIN_S"):
        monkeypatch.setattr(f"kafkakit.streams.client.consumer.{name}", 0.002)
    answers: list[Exception | None] = [
        RefusedError("old"),
        None,
        RefusedError("old"),
        TryLaterError("away"),
        RefusedError("old"),
    ]
    answers += [RefusedError("new"), ValueError("a defect"), None]
    asked = list[object]()

    def check(cluster_id: str, topics: Collection[str]) -> None:
        asked.append((cluster_id, tuple(topics)))
        answer = answers[len(asked) - 1] if len(asked) <= len(answers) else is_replaced
        if isinstance(answer, Exception):
            raise answer

    is_replaced: Exception | None = None
    made = consumer(cluster, handler=print, check_topics=check)
    made.start()
    until(lambda: is_longer(asked, len(answers) + 3))
    assert made.state is ConsumerState.RUNNING
    assert set(asked) == {("c1", (PLACE.topic,))}
    is_replaced = RefusedError("replaced")
    until(lambda: made.state is ConsumerState.FAILED)
    with pytest.raises(RefusedError, match="replaced"):
        made.close()


def is_longer(asked: list[object], count: int) -> bool:
    return len(asked) > count


def test_records_that_alone_are_left_are_rejected_when_all_answers(
    cluster: FakeGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `is_healthy` that may be an outage; one that raises knows as little."""
    monkeypatch.setattr("kafkakit.streams.client.consumer._HEALTH_S", 0.01)
    answers = [ConnectionError("no answer"), False, True]
    asked, rejected = list[object](), list[int]()

    def is_healthy() -> object:
        asked.append(answers[0])
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]

    def refuse(_: StreamRecord) -> None:
        raise ValueError("no")

    hooks = ConsumerHooks(is_healthy=is_healthy, reject=lambda found: rejected.append(found.record.offset))
    made = consumer(cluster, handler=refuse, hooks=hooks, work=UNORDERED)
    with made:
        until(lambda: any("nothing was handled since" in each for each in made.figures().problems))
        for more in (20, 40):
            until(partial(is_longer, asked, more))
            assert not rejected
            answers.pop(0)
        until(lambda: len(set(rejected)) == 20)
        until(lambda: not made.figures().problems)
        before = len(asked)
        assert made.figures().total("handled") == 0
    assert len(asked) <= before + 1, "nothing failed any more"


def test_a_commit_that_finds_no_topic_makes_the_consumer_look_again_and_go_on(cluster: FakeGroups) -> None:
    """A new member sees whether the topic is another one; what the old one was told is over."""
    seen = Seen()
    cluster.commit_error = "UNKNOWN_TOPIC_OR_PART"
    with consumer(cluster, handler=seen, work=UNORDERED) as made:
        until(lambda: made.figures().reconnects)
        cluster.commit_error = ""
        until(partial(is_committed, cluster, 20))
        before = made.figures().reconnects
        for end in range(21, 26):
            cluster.write(PLACE, values(end - 1, end))
            until(partial(is_committed, cluster, end))
        assert made.figures().reconnects == before
        assert not made.figures().problems


def is_committed(cluster: FakeGroups, end: int) -> bool:
    return ("billing", PLACE) in cluster.commits and committed(cluster).offset == end
