"""The follower keeps the newest route, and never an older one; which profile and config file a client takes."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.kafka.data import own_settings
from kafkakit.adapters.kafka.group_consumer import KafkaGroupConsumer
from kafkakit.adapters.kafka.stream_producer import KafkaStreamCluster
from kafkakit.config.security import Security
from kafkakit.core.errors import InputError, TryLaterError, UsageError
from kafkakit.streams.client.connect import connect
from kafkakit.streams.client.control_store import RouteFollower
from kafkakit.streams.model.route import Route, encode_route, route_path
from tests.rigs.stream_routes import FakeClusters
from tests.rigs.waiting import until

LIMIT_S = 120.0
PATH = route_path("orders")


@pytest.fixture
def fakes() -> FakeClusters:
    fakes = FakeClusters()
    fakes.routes.create(fakes.segment("a"))
    return fakes


@pytest.fixture
def follower(fakes: FakeClusters) -> Iterator[RouteFollower]:
    follower = RouteFollower(fakes.store, "orders", SystemClock())
    follower.start()
    yield follower
    follower.stop()


def replaced(fakes: FakeClusters, value: bytes) -> None:
    found = fakes.store.get(PATH)
    fakes.store.cas(PATH, value, found.version if found else None)


def test_subscribers_see_every_newer_route_in_order(fakes: FakeClusters, follower: RouteFollower) -> None:
    seen: list[int] = []

    def note(route: Route) -> None:
        seen.append(route.epoch)

    follower.subscribe(note)
    for epoch in (2, 3, 4):
        fakes.routes.change("live", paused=epoch % 2 == 0)
        until(lambda epoch=epoch: follower.epoch == epoch)  # type: ignore[misc]
    assert seen == [1, 2, 3, 4]
    follower.unsubscribe(note)
    fakes.routes.change("live", paused=False)
    until(lambda: follower.epoch == 5)
    assert seen == [1, 2, 3, 4]


def test_a_subscriber_that_raises_is_called_again_and_keeps_the_route_from_no_other(
    fakes: FakeClusters, follower: RouteFollower
) -> None:
    seen, other, failures = list[int](), list[int](), [3]

    def fail(route: Route) -> None:
        if route.epoch == 2 and failures[0]:
            failures[0] -= 1
            raise RuntimeError("can't start new thread")
        seen.append(route.epoch)

    follower.subscribe(fail)
    follower.subscribe(lambda route: other.append(route.epoch))
    fakes.routes.change("live", paused=True)
    until(lambda: other == [1, 2])
    until(lambda: "RuntimeError: can't start new thread" in follower.condition().problem)
    until(lambda: seen == [1, 2] and not follower.condition().problem)
    assert (other, failures) == ([1, 2], [0])
    with pytest.raises(ZeroDivisionError):
        follower.subscribe(lambda _: 1 / 0)  # type: ignore[arg-type]
    fakes.routes.change("live", paused=False)
    until(lambda: other == [1, 2, 3] and seen == [1, 2, 3])
    assert not follower.condition().problem


def test_no_lock_is_held_while_a_subscriber_is_called(fakes: FakeClusters, follower: RouteFollower) -> None:
    """What it waits for may need the follower: another thread subscribes, reads the route, and unsubscribes."""
    done = threading.Event()

    def use_the_follower() -> None:
        seen = list[int]()
        follower.subscribe(lambda route: seen.append(route.epoch))
        follower.unsubscribe(print)
        assert (seen, follower.current().epoch, follower.condition().epoch) == ([2], 2, 2)
        done.set()

    def wait(route: Route) -> None:
        if route.epoch == 2:
            follower.refresh()
            threading.Thread(target=use_the_follower).start()
            assert done.wait(LIMIT_S)

    follower.subscribe(wait)
    fakes.routes.change("live", paused=True)
    assert done.wait(LIMIT_S)
    until(lambda: not follower.condition().problem)


def test_an_epoch_that_is_not_higher_is_ignored(fakes: FakeClusters, follower: RouteFollower) -> None:
    before = fakes.routes.change("live", paused=True)
    until(lambda: follower.epoch == 2)
    for epoch in (1, 2):
        replaced(fakes, encode_route(replace(before, epoch=epoch, rules=())))
        until(lambda epoch=epoch: follower.condition().ignored_documents == epoch)  # type: ignore[misc]
    assert follower.current() == before


def test_the_route_of_another_stream_changes_nothing(fakes: FakeClusters, follower: RouteFollower) -> None:
    before = follower.current()
    replaced(fakes, encode_route(replace(before, stream="payments", epoch=7)))
    until(lambda: follower.condition().problem == "the document is the route of stream payments")
    assert follower.current() == before
    other = RouteFollower(fakes.store, "orders", SystemClock())
    with pytest.raises(InputError, match="is the route of stream payments"):
        other.start()


def test_a_damaged_document_and_a_deletion_change_nothing(fakes: FakeClusters, follower: RouteFollower) -> None:
    before = follower.current()
    replaced(fakes, b"\0damaged")
    until(lambda: "the route of stream orders" in follower.condition().problem)
    time.sleep(0.6)  # longer than one wait for a change: the problem stays until the document is replaced
    assert follower.condition().problem
    found = fakes.store.get(PATH)
    assert found is not None
    fakes.store.delete(PATH, found.version)
    until(lambda: follower.condition().problem == "the route was deleted")
    assert follower.current() == before
    replaced(fakes, encode_route(replace(before, epoch=7)))
    until(lambda: follower.epoch == 7 and not follower.condition().problem)


def test_a_stores_fault_does_not_end_the_thread(
    fakes: FakeClusters, follower: RouteFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(fakes.store, "await_change", lambda *_: 1 / 0)
        until(lambda: "ZeroDivisionError" in follower.condition().problem)
    fakes.routes.change("live", paused=True)
    until(lambda: follower.epoch == 2)


def test_a_damaged_document_at_the_start(fakes: FakeClusters) -> None:
    follower = RouteFollower(fakes.store, "orders", SystemClock())
    with pytest.raises(TryLaterError, match="not read yet"):
        follower.current()
    replaced(fakes, b"damaged")
    with pytest.raises(InputError, match="the route of stream orders"):
        follower.start()
    follower.stop()


@pytest.mark.parametrize(
    ("profile", "variables", "named"),
    [
        (None, {"KAFKAKIT_PROFILE": "of-variable"}, "of-variable"),
        ("of-argument", {"KAFKAKIT_PROFILE": "of-variable"}, "of-argument"),
        ("of-argument", {}, "of-argument"),
        (None, {"KAFKAKIT_CONFIG": "/missing/of-variable.yaml"}, "/missing/of-variable.yaml"),
        (None, {"KAFKAKIT_PROFILE": "", "KAFKAKIT_CONFIG": ""}, "no Kafka address is configured"),
    ],
)
def test_an_argument_is_stronger_than_its_variable(
    profile: str | None, variables: dict[str, str], named: str, tmp_path: Path
) -> None:
    folders = {f"XDG_{kind}_HOME": str(tmp_path / kind) for kind in ("CONFIG", "STATE", "CACHE")}
    with pytest.raises(UsageError, match=named):
        connect(profile, environment={**folders, "HOME": str(tmp_path), "KAFKAKIT_CONTROL_STORE": "kafka", **variables})


def test_an_argument_names_the_config_file(tmp_path: Path) -> None:
    missing = tmp_path / "of-argument.yaml"
    with pytest.raises(UsageError, match=r"of-argument\.yaml"):
        connect(config=missing, environment={"HOME": str(tmp_path), "KAFKAKIT_CONFIG": "/missing/of-variable.yaml"})


def connect_with(tmp_path: Path, librdkafka: dict[str, str | int | float | bool]) -> None:
    variables = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    place = {"KAFKAKIT_BOOTSTRAP_SERVER": "127.0.0.1:1", "KAFKAKIT_CONTROL_STORE": "file"}
    with connect(environment={**variables, **place}, librdkafka=librdkafka):
        pass


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("acks", "1", "must be on all in-sync replicas"),
        ("enable.auto.commit", True, "commits what was handled"),
        ("group.instance.id", "a", "ConsumerOptions.member sets it"),
        ("linger.ms", 5, "ProducerLimits set it"),
        ("sasl.password", "secret-of-the-test", "it comes from the profile"),
        ("ssl.ca.location", "/ca.pem", "it comes from the profile"),
        ("error_cb", print, "functions and plugins are not taken"),
        ("fetch.wait.max.ms", "soon", "refuses its settings"),
        ("no.such.setting", 1, "refuses its settings"),
    ],
)
def test_settings_that_the_client_needs_cannot_be_given(
    tmp_path: Path, name: str, value: str | int | bool, why: str
) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        connect_with(tmp_path, {"fetch.wait.max.ms": 50, name: value})
    assert "secret-of-the-test" not in f"{refused.value} {refused.value.hint}"


def test_settings_of_librdkafka_reach_its_clients(tmp_path: Path) -> None:
    own: dict[str, str | int | float | bool] = {"fetch.wait.max.ms": 50, "socket.keepalive.enable": True}
    connect_with(tmp_path, own)
    member = KafkaGroupConsumer("127.0.0.1:1", Security(), "g", own=own_settings(own))
    assert {name: member._settings[name] for name in own} == own
    member.close(0.0)
    cluster = KafkaStreamCluster("127.0.0.1:1", Security(), own_settings(own))
    assert {name: cluster._settings[name] for name in own} == own
