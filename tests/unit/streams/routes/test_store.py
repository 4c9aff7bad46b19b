"""Routes in a control store: compare-and-set with a history, whatever is cut, lost or damaged."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kafkakit.adapters.control_file import FileControl
from kafkakit.adapters.files import write_file
from kafkakit.core.errors import ConflictError, InputError, TryLaterError, UsageError
from kafkakit.ports.stores import ControlStore
from kafkakit.streams.model.route import ROUTE_LIMIT_BYTES, LaneRule, Route, encode_route, history_path, route_path
from kafkakit.streams.routes.api_act import RouteStore
from kafkakit.streams.routes.decide import encode_change
from tests.fakes.control import FakeControlStore
from tests.rigs.routes import CutStore, Killed, route


def heavier(found: Route) -> Route:
    """One more for the weight of the first lane."""
    first, *others = found.lanes
    return replace(found, lanes=(replace(first, weight=first.weight + 1), *others))


def create(store: ControlStore, stream: str = "orders", *, by: str = "me") -> Route:
    return RouteStore(store).create(route(stream), by=by, what="create", at_ms=1)


def change(store: ControlStore, *, by: str = "me", edit: Callable[[Route], Route] = heavier) -> Route:
    return RouteStore(store).change("orders", edit, by=by, what="heavier", at_ms=2)


def weight(store: ControlStore) -> int:
    return RouteStore(store).existing("orders").route.lanes[0].weight


def told(store: ControlStore) -> list[tuple[int, str, bool]]:
    """The history: epochs, who changed, and whether it came into effect."""
    return [(k.change.route.epoch, k.change.by, k.in_effect) for k in RouteStore(store).history("orders")]


@pytest.fixture(params=["fake", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ControlStore:
    return FakeControlStore() if request.param == "fake" else FileControl(tmp_path, write_file)


def test_a_route_is_created_changed_read_and_deleted(store: ControlStore) -> None:
    routes = RouteStore(store)
    assert (routes.read("orders"), routes.streams(), routes.next_epoch("orders")) == (None, (), 1)
    assert create(store).epoch == 1
    with pytest.raises(UsageError, match="stream orders exists already"):
        create(store)
    first = routes.existing("orders")
    assert first.route == route()
    changed = change(store)
    assert (changed.epoch, changed.lanes[0].weight) == (2, 2)
    second = routes.existing("orders")
    assert (second.route, second.version > first.version) == (changed, True)
    assert change(store, edit=lambda found: found) == changed
    assert told(store) == [(1, "me", True), (2, "me", True)]
    create(store, "other")
    assert routes.streams() == ("orders", "other")
    with pytest.raises(ConflictError):
        routes.delete("orders", first.route, by="me", what="delete", at_ms=3)
    routes.delete("orders", changed, by="me", what="delete", at_ms=3)
    assert (routes.read("orders"), routes.streams()) == (None, ("other",))
    assert told(store) == [(1, "me", True), (2, "me", True), (3, "me", True)]


def test_epochs_go_on_after_a_deletion(store: ControlStore) -> None:
    create(store)
    RouteStore(store).delete("orders", change(store), by="me", what="delete", at_ms=3)
    assert create(store).epoch == 4
    assert told(store) == [(1, "me", True), (2, "me", True), (3, "me", True), (4, "me", True)]


def test_what_does_not_exist_cannot_be_changed(store: ControlStore) -> None:
    for call in (
        lambda: change(store),
        lambda: RouteStore(store).existing("orders"),
        lambda: RouteStore(store).delete("orders", route(), by="me", what="x", at_ms=1),
    ):
        with pytest.raises(UsageError, match="there is no stream orders"):
            call()
    assert store.children("streams") == ()
    for name in ("", "a/b", "..", "x" * 201, "a b"):
        with pytest.raises(UsageError, match="not a stream's name"):
            RouteStore(store).read(name)


def test_a_route_that_is_not_valid_is_not_written(store: ControlStore) -> None:
    create(store)
    with pytest.raises(UsageError, match="twice"):
        change(store, edit=lambda found: replace(found, lanes=found.lanes * 2))
    rules = tuple(LaneRule(lane="live", where="x" * 700) for _ in range(100))
    with pytest.raises(UsageError, match="bytes, at most"):
        change(store, edit=lambda found: replace(found, rules=rules))
    assert told(store) == [(1, "me", True)]


def test_the_largest_route_fits_into_its_history(store: ControlStore) -> None:
    create(store)
    room = ROUTE_LIMIT_BYTES - len(encode_route(route())) - 40
    rules = (LaneRule(lane="live", where="x" * room),)
    RouteStore(store).change(
        "orders", lambda found: replace(found, rules=rules), by="\U0001f600" * 300, what="\U0001f600" * 900, at_ms=2**60
    )
    assert told(store)[-1][0] == 2
    assert len(told(store)[-1][1]) == 200


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", [0, 1])
def test_a_cut_between_the_two_writes_loses_neither_and_leaves_nothing_that_counts(number: int, after: bool) -> None:
    store = CutStore()
    create(store)
    store.cut, store.after = store.count + number, after
    with pytest.raises(Killed):
        change(store, by="dead")
    came = (number, after) == (1, True)
    wrote_entry = number == 1 or after
    assert weight(store) == (2 if came else 1)
    assert told(store) == [(1, "me", True)] + [(2, "dead", came)] * wrote_entry
    store.cut = None
    epoch = change(store, by="next").epoch
    assert epoch == (3 if wrote_entry else 2)
    assert weight(store) == (3 if came else 2)
    assert told(store) == [(1, "me", True)] + [(2, "dead", came)] * wrote_entry + [(epoch, "next", True)]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", [0, 1])
def test_a_cut_while_a_stream_is_created_or_deleted(number: int, after: bool) -> None:
    store = CutStore()
    store.cut, store.after = number, after
    with pytest.raises(Killed):
        create(store, by="dead")
    came = (number, after) == (1, True)
    store.cut = None
    if not came:
        assert create(store).epoch == (2 if number or after else 1)
    first = RouteStore(store).existing("orders").route
    store.cut = store.count + number
    with pytest.raises(Killed):
        RouteStore(store).delete("orders", first, by="dead", what="delete", at_ms=2)
    store.cut = None
    found = RouteStore(store).read("orders")
    assert (found is None) == came
    if found is not None:
        RouteStore(store).delete("orders", found.route, by="me", what="delete", at_ms=3)
    effective = [epoch for epoch, _, counts in told(store) if counts]
    assert len(effective) == 2
    assert create(store).epoch > max(epoch for epoch, _, _ in told(store)[:-1])


@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.parametrize("number", [0, 1])
def test_a_lost_answer_changes_the_route_once(number: int, happened: bool) -> None:
    store = CutStore()
    create(store)
    (store.lost if happened else store.refused).add(store.count + number)
    assert change(store).lanes[0].weight == 2
    assert weight(store) == 2
    assert [counts for _, _, counts in told(store)].count(True) == 2
    (store.lost if happened else store.refused).add(store.count + number)
    RouteStore(store).delete("orders", RouteStore(store).existing("orders").route, by="me", what="x", at_ms=1)
    assert RouteStore(store).read("orders") is None
    (store.lost if happened else store.refused).add(store.count + number)
    assert create(store) == RouteStore(store).existing("orders").route


class LateStore(CutStore):
    """Another process writes after a lost answer, before this one looks again."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] | None = None

    def _replace(self, path: str, value: bytes, expected: int | None) -> int:
        try:
            return super()._replace(path, value, expected)
        except TryLaterError:
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile is not None:
                meanwhile()
            raise


def test_after_a_lost_answer_the_change_of_another_process_is_kept() -> None:
    store = LateStore()
    create(store)
    store.lost.add(store.count + 1)
    store.meanwhile = lambda: change(store, by="other")
    assert change(store).epoch == 2
    assert weight(store) == 3
    assert told(store) == [(1, "me", True), (2, "me", True), (3, "other", True)]


def test_a_stream_that_was_deleted_meanwhile_does_not_come_back() -> None:
    store = LateStore()
    store.lost.add(1)
    store.meanwhile = lambda: RouteStore(store).delete(
        "orders", RouteStore(store).existing("orders").route, by="other", what="x", at_ms=2
    )
    assert create(store).epoch == 1
    assert RouteStore(store).read("orders") is None


class DelayedStore(CutStore):
    """The write with a number is not answered, and arrives when the next one is made."""

    def __init__(self) -> None:
        super().__init__()
        self.delayed: int | None = None
        self.waiting: tuple[str, bytes, int | None] | None = None

    def _replace(self, path: str, value: bytes, expected: int | None) -> int:
        if self.count == self.delayed:
            self.delayed, self.waiting = None, (path, value, expected)
            raise TryLaterError("the control store did not answer")
        if self.waiting is not None:
            waiting, self.waiting = self.waiting, None
            super()._replace(*waiting)
        return super()._replace(path, value, expected)


def test_a_write_that_arrives_late_is_recognised() -> None:
    store = DelayedStore()
    create(store)
    store.delayed = store.count + 1
    assert change(store).epoch == 2
    assert weight(store) == 2
    assert told(store) == [(1, "me", True), (2, "me", True)]


class RacingStore(CutStore):
    """Runs `race` once, before the write with a number."""

    def __init__(self) -> None:
        super().__init__()
        self.races: dict[int, Callable[[], object]] = {}

    def _replace(self, path: str, value: bytes, expected: int | None) -> int:
        race = self.races.pop(self.count, None)
        if race is not None:
            race()
        return super()._replace(path, value, expected)


@pytest.mark.parametrize("number", [0, 1])
def test_of_two_writers_at_once_both_changes_come(number: int) -> None:
    store = RacingStore()
    create(store)
    store.races[store.count + number] = lambda: change(store, by="other")
    change(store)
    assert weight(store) == 3
    assert [(by, counts) for _, by, counts in told(store)] == [("me", True), ("other", True), ("me", True)]


def test_epochs_do_not_go_down_where_a_stream_came_and_went_meanwhile() -> None:
    store = RacingStore()

    def come_and_go() -> None:
        RouteStore(store).delete("orders", create(store, by="other"), by="other", what="x", at_ms=2)

    store.races[1] = come_and_go
    made = create(store)
    assert made == RouteStore(store).existing("orders").route
    assert made.epoch == max(epoch for epoch, _, _ in told(store)) == 4


def test_a_writer_that_always_comes_second_gives_up() -> None:
    store = RacingStore()
    create(store)

    def again() -> None:
        number = store.count
        change(store, by="other")
        store.races[store.count + 1] = again
        assert store.count > number

    store.races[store.count + 1] = again
    with pytest.raises(ConflictError, match="changed by other processes 10 times"):
        change(store)


def test_many_threads_change_a_route_on_disk(tmp_path: Path) -> None:
    create(FileControl(tmp_path, write_file))
    failures: list[BaseException] = []

    def work(name: str) -> None:
        store = FileControl(tmp_path, write_file)
        for _ in range(5):
            try:
                change(store, by=name)
            except ConflictError as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    store = FileControl(tmp_path, write_file)
    assert weight(store) == 16 - len(failures)
    assert [counts for _, _, counts in told(store)] == [True] * weight(store)


def test_a_store_that_is_away_is_reported() -> None:
    store = FakeControlStore()
    create(store)
    store.away = True
    for call in (lambda: change(store), lambda: create(store), lambda: RouteStore(store).streams()):
        with pytest.raises(TryLaterError):
            call()
    store.away = False
    assert told(store) == [(1, "me", True)]


def test_damaged_and_newer_documents_are_refused(store: ControlStore) -> None:
    create(store)
    path = route_path("orders")

    def put(data: bytes) -> None:
        found = store.get(path)
        assert found is not None
        store.cas(path, data, found.version)

    good = encode_route(route())
    newer = good.replace(b'"schema":1', b'"schema":2')
    for data, problem in (
        (b"{", "not valid JSON"),
        (newer, "has schema 2"),
        (good.replace(b'"stream-route"', b'"plan"'), "is a 'plan' file"),
        (good.replace(b'"epoch":1', b'"epoch":0'), "epoch of 1 or more"),
        (encode_change(RouteStore(store).history("orders")[0].change), "is a 'stream-route-change' file"),
        (encode_route(route("other")), "is about stream other"),
    ):
        put(data)
        with pytest.raises(InputError, match=problem) as refused:
            change(store)
        assert refused.value.source == f"control document {path}"
        found = store.get(path)
        assert found is not None
        assert found.value == data
    put(good.replace(b'"lanes"', b'"later":1,"lanes"'))
    assert RouteStore(store).existing("orders").route == route()


def test_a_damaged_entry_of_the_history_is_named(store: ControlStore) -> None:
    create(store)
    entry = history_path("orders", 2)
    store.cas(entry, b"{", None)
    store.cas("streams/orders/history/notes", b"{", None)
    with pytest.raises(InputError, match=entry):
        RouteStore(store).history("orders")
    assert change(store).epoch == 3
    store.cas("streams/a.b/route", encode_route(route("a.b")), None)
    assert RouteStore(store).streams() == ("a.b", "orders")


def test_a_change_is_awaited(store: ControlStore) -> None:
    routes = RouteStore(store)
    assert not routes.await_change("orders", None, 0)
    create(store)
    assert routes.await_change("orders", None, 5)
    known = routes.existing("orders")
    assert not routes.await_change("orders", known, 0)
    change(store)
    assert routes.await_change("orders", known, 5)


def test_the_document_is_json_of_one_line_with_a_header(store: ControlStore) -> None:
    create(store)
    found = store.get(route_path("orders"))
    assert found is not None
    assert json.loads(found.value)["kafkakit"] == {"kind": "stream-route", "schema": 1}
    assert found.value.count(b"\n") == 1
