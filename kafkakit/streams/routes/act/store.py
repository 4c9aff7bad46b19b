"""Routes in a control store: read, changed by compare-and-set with a history, and awaited."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from kafkakit.core.errors import ConflictError, InputError, TryLaterError, UsageError
from kafkakit.core.text import shell_command
from kafkakit.ports.stores import ControlStore
from kafkakit.streams.model.route import (
    Route,
    decode_route,
    encode_route,
    history_folder,
    history_path,
    is_stream_name,
    route_path,
)
from kafkakit.streams.model.route_edits import refuse_open_operation
from kafkakit.streams.routes.decide import (
    BY_LIMIT,
    WHAT_LIMIT,
    KeptChange,
    RouteChange,
    decode_change,
    encode_change,
    in_effect,
)

TRIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedRoute:
    """A route, and the version of its document in the store."""

    route: Route
    version: int


class RouteStore:
    """The routes of a control store.

    A change writes the history's entry under the epoch that it leads to, which only one process can, and then the
    route. Calls raise `TryLaterError` while the store is away (a change may then have been made or not), and
    `InputError` for a document that is damaged or of a newer schema.
    """

    def __init__(self, store: ControlStore) -> None:
        self._store = store

    def read(self, stream: str) -> VersionedRoute | None:
        """The route of a stream; None where there is none. One read."""
        found = self._store.get(route_path(stream))
        if found is None:
            return None
        source = f"control document {route_path(stream)}"
        route = decode_route(found.value, source)
        if route.stream != stream:
            raise InputError(source, f"is about stream {route.stream}")
        return VersionedRoute(route=route, version=found.version)

    def existing(self, stream: str) -> VersionedRoute:
        """As `read`, with `UsageError` for a stream that does not exist."""
        return _require_route(self.read(stream), stream)

    def names(self) -> tuple[str, ...]:
        """The names of all streams, and of those that were deleted, sorted. One request."""
        return tuple(filter(is_stream_name, self._store.children("streams")))

    def streams(self) -> tuple[str, ...]:
        """The names of all streams, sorted. One read each."""
        return tuple(name for name in self.names() if self._store.get(route_path(name)) is not None)

    def history(self, stream: str, most: int = 1000) -> tuple[KeptChange, ...]:
        """The newest entries of a stream's history, oldest first; also of a stream that was deleted. One read each."""
        read = self.read(stream)
        found = ((path, self._store.get(path)) for path in self._entries(stream)[-most:])
        changes = [decode_change(kept.value, f"control document {path}") for path, kept in found if kept is not None]
        came = in_effect(changes, None if read is None else read.route.epoch)
        return tuple(KeptChange(change=change, in_effect=change.route.epoch in came) for change in changes)

    def next_epoch(self, stream: str) -> int:
        """The epoch that the next change leads to, unless another process comes first; above every earlier one."""
        read, entries = self.read(stream), self._entries(stream)
        last = int(entries[-1].rpartition("/")[2]) if entries else 0
        return max(last, 0 if read is None else read.route.epoch) + 1

    def planned_epoch(self, stream: str) -> int:
        """The epoch above the last one in effect: names for the topics of a change, the same until one is made."""
        read = self.read(stream)
        if read is not None:
            return read.route.epoch + 1
        return 1 + max((each.change.route.epoch for each in self.history(stream) if each.in_effect), default=0)

    def create(self, route: Route, *, by: str, what: str, at_ms: int) -> Route:
        """Write the first route of a stream under its next epoch; `UsageError` where there is one already."""
        change = RouteChange(at_ms=at_ms, by=by, what=what, route=route)

        def made(found: VersionedRoute | None) -> RouteChange:
            if found is not None:
                shown = shell_command("streams show", route.stream)
                raise UsageError(f"stream {route.stream} exists already", hint=f"to print it: {shown}")
            return change

        written = self._write(route.stream, made)
        if self.next_epoch(route.stream) == written.epoch + 1:
            return written

        # Another process may have made and deleted the stream meanwhile, under higher epochs than this one.
        def raised(found: VersionedRoute | None) -> RouteChange | Route:
            is_ours = found is not None and found.route.epoch == written.epoch
            return replace(change, from_epoch=written.epoch) if is_ours else written

        return self._write(route.stream, raised)

    def change(self, stream: str, edit: Callable[[Route], Route], *, by: str, what: str, at_ms: int) -> Route:
        """Replace the route by `edit` of it, under the next epoch; an edit that changes nothing writes nothing.

        `edit` is called again with the newer route when another process comes first, and may raise. Raises
        `UsageError` for a stream that does not exist or a route that is not valid, `ConflictError` after ten tries.
        """

        def made(found: VersionedRoute | None) -> RouteChange | Route:
            before = _require_route(found, stream).route
            after = edit(before)
            if replace(after, epoch=before.epoch) == before:
                return before
            return RouteChange(at_ms=at_ms, by=by, what=what, route=after, from_epoch=before.epoch)

        return self._write(stream, made)

    def delete(self, stream: str, expected: Route, *, by: str, what: str, at_ms: int) -> None:
        """Remove the route, if it is still the `expected` one; the history stays, and epochs continue from there.

        Raises `RefusedError` while an operation is open.
        """
        refuse_open_operation(expected)

        def made(found: VersionedRoute | None) -> RouteChange:
            before = _require_route(found, stream).route
            if before != expected:
                raise ConflictError(f"stream {stream} was changed by another process")
            return RouteChange(at_ms=at_ms, by=by, what=what, route=before, from_epoch=before.epoch, is_deletion=True)

        self._write(stream, made)

    def await_change(self, stream: str, known: VersionedRoute | None, timeout_s: float) -> bool:
        """Wait until the route is another one than `known`, or gone; False when `timeout_s` ended first."""
        return self._store.await_change(route_path(stream), None if known is None else known.version, timeout_s)

    def _write(self, stream: str, made: Callable[[VersionedRoute | None], RouteChange | Route]) -> Route:
        for _ in range(TRIES):
            found = self.read(stream)
            change = made(found)
            if isinstance(change, Route):
                return change
            change = replace(
                change,
                by=change.by[:BY_LIMIT],
                what=change.what[:WHAT_LIMIT],
                route=replace(change.route, epoch=self.next_epoch(stream)),
            )
            encode_route(change.route)
            entry = history_path(stream, change.route.epoch)
            try:
                version = self._store.cas(entry, encode_change(change), None)
            except (ConflictError, TryLaterError):
                # Where the answer was lost the entry may be there: it is left behind, and the next epoch is taken.
                continue
            try:
                self._put(stream, change, None if found is None else found.version)
            except ConflictError:
                # The route was certainly not written, so the entry is none. Without this it would be shown as such.
                with suppress(ConflictError, TryLaterError):
                    self._store.delete(entry, version)
                continue
            return change.route
        raise ConflictError(f"stream {stream} was changed by other processes {TRIES} times", hint="try again")

    def _put(self, stream: str, change: RouteChange, expected: int | None) -> None:
        """Write the route of an entry, or remove it; a lost answer is settled by reading and one repetition."""
        try:
            return self._replace(stream, change, expected)
        except TryLaterError:
            if self._came(change):
                return None
        try:
            self._replace(stream, change, expected)
        except ConflictError:
            # The first write may have arrived late.
            if not self._came(change):
                raise
        return None

    def _replace(self, stream: str, change: RouteChange, expected: int | None) -> None:
        if not change.is_deletion:
            self._store.cas(route_path(stream), encode_route(change.route), expected)
        elif expected is not None:
            self._store.delete(route_path(stream), expected)

    def _came(self, change: RouteChange) -> bool:
        """Whether the entry came into effect: its epoch belongs to this process alone."""
        kept = self.history(change.route.stream, 10 * TRIES)
        return any(each.in_effect and each.change.route.epoch == change.route.epoch for each in kept)

    def _entries(self, stream: str) -> tuple[str, ...]:
        folder = history_folder(stream)
        names = self._store.children(folder)
        return tuple(f"{folder}/{name}" for name in names if len(name) == 12 and name.isascii() and name.isdigit())


def _require_route(found: VersionedRoute | None, stream: str) -> VersionedRoute:
    if found is None:
        raise UsageError(f"there is no stream {stream}", hint="list them with: kafkakit streams list")
    return found
