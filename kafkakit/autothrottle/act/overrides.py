"""Where overrides are kept: a document of the control store, or kafka-kit's znodes."""

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from kafkakit.autothrottle.decide.overrides import (
    MAX_BROKERS,
    OVERRIDES_DOCUMENT,
    Override,
    Overrides,
    decode_znode,
    encode_znode,
)
from kafkakit.core.errors import ConflictError, InputError
from kafkakit.ports.control import ControlStore

ATTEMPTS = 20


class OverrideStore(Protocol):
    """Reads and changes overrides; raises `TryLaterError` while the store does not answer."""

    def read(self) -> Overrides:
        """All overrides; raises `InputError` for a document that is none."""
        ...

    def put(self, broker: int | None, override: Override | None) -> None:
        """Set one, or remove it; `broker` None is the one for all."""
        ...

    def settle(self) -> None:
        """Called once removals are in effect."""
        ...


class ControlOverrides:
    """One document; changes of several processes at a time are all kept."""

    def __init__(self, store: ControlStore, cluster_id: str) -> None:
        self._store, self._path = store, f"clusters/{cluster_id}/autothrottle/overrides"

    def read(self) -> Overrides:
        """See `OverrideStore`; one read."""
        found = self._store.get(self._path)
        return Overrides() if found is None else OVERRIDES_DOCUMENT.decode(found.value, self._path)

    def put(self, broker: int | None, override: Override | None) -> None:
        """See `OverrideStore`."""

        def change() -> None:
            found = self._store.get(self._path)
            before = Overrides() if found is None else OVERRIDES_DOCUMENT.decode(found.value, self._path)
            after = before.with_one(broker, override)
            if len(after.of) > MAX_BROKERS:
                raise InputError("the overrides", f"are for more than {MAX_BROKERS} brokers")
            if after != before:
                self._store.cas(self._path, OVERRIDES_DOCUMENT.encode(after), None if found is None else found.version)

        _until_no_conflict(change)

    def settle(self) -> None:
        """Nothing is left behind."""


class ZnodeOverrides:
    """kafka-kit's znodes: `override_rate` below the prefix for all brokers, a child of it for each single one."""

    def __init__(self, store: ControlStore, prefix: str) -> None:
        self._store, self._path = store, "/".join((*filter(None, prefix.split("/")), "override_rate"))

    def read(self) -> Overrides:
        """See `OverrideStore`; children that are no broker ids are ignored, as kafka-kit's API could make `all`."""
        of = {int(name): self._one(self._path_of(int(name))) for name in self._names()}
        return Overrides(every=self._one(self._path), of={b: o for b, o in sorted(of.items()) if o is not None})

    def put(self, broker: int | None, override: Override | None) -> None:
        """See `OverrideStore`; a removal is a rate of 0, which the pacer takes away once it is in effect."""

        def change() -> None:
            found = self._store.get(path)
            if found is not None or override is not None:
                self._store.cas(path, encode_znode(override), None if found is None else found.version)

        path = self._path if broker is None else self._path_of(broker)
        _until_no_conflict(change)

    def settle(self) -> None:
        """Delete the znodes of brokers whose rate is 0."""
        for name in self._names():
            path = self._path_of(int(name))
            found = self._store.get(path)
            # One that changed meanwhile, or cannot be read, stays.
            with suppress(ConflictError, InputError):
                if found is not None and decode_znode(found.value, path) is None:
                    self._store.delete(path, found.version)

    def _names(self) -> tuple[str, ...]:
        return tuple(n for n in self._store.children(self._path) if n.isascii() and n.isdigit() and len(n) <= 10)

    def _path_of(self, broker: int) -> str:
        return f"{self._path}/{broker}"

    def _one(self, path: str) -> Override | None:
        found = self._store.get(path)
        return None if found is None else decode_znode(found.value, f"znode /{path}")


def _until_no_conflict(change: Callable[[], None]) -> None:
    for left in reversed(range(ATTEMPTS)):
        try:
            change()
        except ConflictError:
            if not left:
                raise
        else:
            return


def remove_each(store: OverrideStore) -> None:
    """Remove the overrides of all single brokers."""
    for broker in store.read().of:
        store.put(broker, None)
