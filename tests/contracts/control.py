"""What `ports.ControlStore` promises, as tests that run against the fake and against the real stores.

A subclass gives the `rig` fixture. Every test uses a folder of its own.
"""

import itertools
import threading
from collections.abc import Iterator
from typing import Protocol

import pytest

from kafkakit.core.errors import ConflictError, UsageError
from kafkakit.core.lease import VALUE_LIMIT_BYTES
from kafkakit.ports.stores import ControlStore

_folders = itertools.count()


class Rig(Protocol):
    """A control store, and more doors to the same one."""

    def open(self) -> ControlStore:
        """A store as another process would open it; the test closes it."""
        ...


class ControlContract:
    @pytest.fixture
    def store(self, rig: Rig) -> Iterator[ControlStore]:
        store = rig.open()
        yield store
        store.close()

    @pytest.fixture
    def other(self, rig: Rig) -> Iterator[ControlStore]:
        store = rig.open()
        yield store
        store.close()

    @pytest.fixture
    def folder(self) -> str:
        return f"contract-{next(_folders)}"

    def test_nothing_is_there_at_first(self, store: ControlStore, folder: str) -> None:
        assert store.get(f"{folder}/a") is None
        assert store.children(folder) == ()

    def test_what_one_wrote_another_reads(self, store: ControlStore, other: ControlStore, folder: str) -> None:
        version = store.cas(f"{folder}/a", b"one\n\x00\xff", None)
        found = other.get(f"{folder}/a")
        assert found is not None
        assert (found.value, found.version) == (b"one\n\x00\xff", version)
        later = other.cas(f"{folder}/a", b"two", version)
        assert later > version
        found = store.get(f"{folder}/a")
        assert found is not None
        assert (found.value, found.version) == (b"two", later)

    def test_a_write_that_expects_something_else_changes_nothing(
        self, store: ControlStore, other: ControlStore, folder: str
    ) -> None:
        path = f"{folder}/a"
        for expected in (-1, 0, 7):
            with pytest.raises(ConflictError, match="found nothing"):
                store.cas(path, b"x", expected)
        version = store.cas(path, b"one", None)
        for late in (None, version + 1, version - 1):
            with pytest.raises(ConflictError, match="was changed by another process"):
                other.cas(path, b"x", late)
        with pytest.raises(ConflictError):
            other.delete(path, version + 1)
        found = other.get(path)
        assert found is not None
        assert (found.value, found.version) == (b"one", version)

    def test_a_version_does_not_come_back_after_a_deletion(
        self, store: ControlStore, other: ControlStore, folder: str
    ) -> None:
        path = f"{folder}/a"
        first = store.cas(path, b"one", None)
        other.delete(path, first)
        assert store.get(path) is None
        with pytest.raises(ConflictError):
            store.delete(path, first)
        with pytest.raises(ConflictError):
            store.cas(path, b"x", first)
        assert store.cas(path, b"one", None) > first

    def test_the_same_value_again_is_a_new_version(self, store: ControlStore, folder: str) -> None:
        first = store.cas(f"{folder}/a", b"one", None)
        assert store.cas(f"{folder}/a", b"one", first) > first

    def test_children_are_names_with_values_or_ways_to_them(
        self, store: ControlStore, other: ControlStore, folder: str
    ) -> None:
        store.cas(f"{folder}/b/deep/er", b"1", None)
        version = store.cas(f"{folder}/a", b"1", None)
        store.cas(f"{folder}/a/below", b"1", None)
        store.cas(f"{folder}/c.d_e-f", b"1", None)
        assert other.children(folder) == ("a", "b", "c.d_e-f")
        assert other.children(f"{folder}/b") == ("deep",)
        assert other.get(f"{folder}/b") is None
        assert folder in other.children("")
        store.delete(f"{folder}/a", version)
        assert other.children(folder) == ("a", "b", "c.d_e-f")
        assert other.children(f"{folder}/a") == ("below",)
        below = store.get(f"{folder}/a/below")
        assert below is not None
        store.delete(f"{folder}/a/below", below.version)
        assert other.children(folder) == ("b", "c.d_e-f")

    def test_values_are_those_directly_below(self, store: ControlStore, other: ControlStore, folder: str) -> None:
        assert store.values(folder) == {}
        names = [f"name-{number:03d}" for number in range(30)]
        versions = {name: store.cas(f"{folder}/{name}", name.encode(), None) for name in names}
        store.cas(f"{folder}/way/below", b"1", None)
        store.cas(f"{folder}/.a{'x' * 247}", b"topic", None)
        store.delete(f"{folder}/name-003", versions["name-003"])
        store.cas(f"{folder}/name-004", b"new", versions["name-004"])
        found = other.values(folder)
        assert list(found) == sorted({*names, f".a{'x' * 247}"} - {"name-003"})
        assert (found["name-004"].value, found["name-005"].value) == (b"new", b"name-005")
        assert all(found[name] == store.get(f"{folder}/{name}") for name in found)
        assert list(other.values(f"{folder}/way")) == ["below"]
        assert other.values(f"{folder}/name-001") == {}

    def test_a_way_becomes_a_value(self, store: ControlStore, folder: str) -> None:
        store.cas(f"{folder}/a/b", b"below", None)
        version = store.cas(f"{folder}/a", b"above", None)
        found = store.get(f"{folder}/a")
        assert found is not None
        assert (found.value, found.version) == (b"above", version)

    def test_sizes_and_paths_are_limited(self, store: ControlStore, folder: str) -> None:
        largest = bytes(range(256)) * (VALUE_LIMIT_BYTES // 256)
        store.cas(f"{folder}/large", largest, None)
        found = store.get(f"{folder}/large")
        assert found is not None
        assert found.value == largest
        for value in (b"", largest + b"x"):
            with pytest.raises(UsageError, match="control document"):
                store.cas(f"{folder}/other", value, None)
        for path in (
            "",
            "/",
            "a//b",
            "/a",
            "a/",
            "..",
            "a/../b",
            "a/.",
            "./a",
            "../a",
            "a b",
            "a\n",
            "ü",
            "@value",
            "x" * 250,
        ):
            with pytest.raises(UsageError, match="not a path"):
                store.cas(path, b"x", None)
            with pytest.raises(UsageError, match="not a path"):
                store.get(path)

    def test_no_increment_is_lost(self, rig: Rig, store: ControlStore, folder: str) -> None:
        """Eight writers, two of them through one door, count to 40 together."""
        path, threads, each = f"{folder}/counter", 8, 5
        failures: list[BaseException] = []

        def count(door: ControlStore) -> None:
            try:
                for _ in range(each):
                    while not increment(door, path):
                        pass
            except BaseException as error:
                failures.append(error)

        doors = [rig.open() for _ in range(threads - 1)]
        workers = [threading.Thread(target=count, args=(door,)) for door in (*doors, doors[0])]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        for door in doors:
            door.close()
        assert failures == []
        found = store.get(path)
        assert found is not None
        assert int(found.value) == threads * each

    def test_closing_twice_is_harmless(self, rig: Rig, folder: str) -> None:
        store = rig.open()
        store.get(f"{folder}/a")
        store.close()
        store.close()

    def test_a_change_ends_the_wait_for_it(self, store: ControlStore, other: ControlStore, folder: str) -> None:
        path = f"{folder}/a"
        version = store.cas(path, b"one", None)
        assert not store.await_change(path, version, 0.05)
        assert store.await_change(path, None, 30)
        for change in (
            lambda: other.cas(path, b"two", version),
            lambda: other.delete(path, version_of(other, path) or 0),
        ):
            known = version_of(store, path)
            timer = threading.Timer(0.3, change)
            timer.start()
            assert store.await_change(path, known, 30)
            timer.join()
            assert version_of(store, path) != known
        assert not store.await_change(path, None, 0.05)

    def test_what_is_not_there_yet_is_waited_for(self, store: ControlStore, other: ControlStore, folder: str) -> None:
        timer = threading.Timer(0.3, lambda: other.cas(f"{folder}/a", b"one", None))
        timer.start()
        assert store.await_change(f"{folder}/a", None, 30)
        timer.join()


def increment(store: ControlStore, path: str) -> bool:
    found = store.get(path)
    try:
        store.cas(path, b"%d" % (1 + (int(found.value) if found else 0)), found.version if found else None)
    except ConflictError:
        return False
    return True


def version_of(store: ControlStore, path: str) -> int | None:
    found = store.get(path)
    return found.version if found else None
