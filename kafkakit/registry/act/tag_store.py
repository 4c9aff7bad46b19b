"""The tags of brokers and topics in a control store, laid out as kafka-kit's znodes: `<root>/{broker,topic}/<name>`."""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import copy

from kafkakit.core.errors import ConflictError, InputError, TryLaterError
from kafkakit.core.tags import decode_tags
from kafkakit.core.versioned import Versioned
from kafkakit.ports.control import ControlStore
from kafkakit.registry.act.kept_replies import KeptReplies
from kafkakit.registry.act.tag_history import TagHistory
from kafkakit.registry.decide.faults import fault
from kafkakit.registry.decide.tags import Kind, Tags, encode_tags, merged, without

MAX_TRIES = 10
Lock = Callable[[], AbstractContextManager[None]]


class TagStore:
    """Every write names the version it was made from, so that no tag of another process is lost.

    `lock` is held around each write, for programs that write without naming a version. Raises `TryLaterError` where
    the store does not answer, or where others changed the same object ten times meanwhile. Each change is entered in
    the history, as one of `by`.
    """

    def __init__(
        self,
        store: ControlStore,
        root: str,
        lock: Lock = nullcontext,
        *,
        by: str = "kafkakit",
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._root, self._lock, self._by = store, root.strip("/"), lock, by
        self.history = TagHistory(store, root, now_s)
        self.replies = KeptReplies(store, root, now_s)
        # Threads of one process would only make one another try again.
        self._one_at_a_time = threading.Lock()

    def acting_for(self, by: str) -> "TagStore":
        """The store for the changes of one caller."""
        acting = copy(self)
        acting._by = by
        return acting

    def all(self, kind: Kind, unreadable: list[str]) -> dict[str, Tags]:
        """The tags of every object of a kind, by name; records that hold no tags are named in `unreadable`."""
        found: dict[str, Tags] = {}
        for name, record in self._store.values(f"{self._root}/{kind}").items():
            try:
                found[name] = decode_tags(record.value, self._path(kind, name))
            except InputError as error:
                unreadable.append(error.source)
        return found

    def get(self, kind: Kind, name: str) -> Tags | None:
        """The tags of an object; None where it has no record, which differs from a record without tags."""
        found = self._store.get(self._path(kind, name))
        return None if found is None else decode_tags(found.value, self._path(kind, name))

    def put(self, kind: Kind, name: str, given: Tags) -> Tags:
        """Set tags beside those that are there; gives all."""
        return self._change(kind, name, lambda present: merged(kind, name, present or {}, given))

    def remove(self, kind: Kind, name: str, keys: frozenset[str]) -> Tags:
        """Delete tags by key; gives what is left. `RpcError` where the object never had any."""

        def change(present: Tags | None) -> Tags:
            if present is None:
                raise fault("requested Kafka object does not exist")
            return without(present, keys)

        return self._change(kind, name, change)

    def change(self, kind: Kind, name: str, change: Callable[[Tags], Mapping[str, str]]) -> Tags:
        """Replace the tags, of which no record is none, by what `change` makes of them; lets through what it raises."""
        return self._change(kind, name, lambda present: change(present or {}))

    def drop(self, kind: Kind, name: str, is_due: Callable[[Tags], bool]) -> bool:
        """Delete the record itself where it is due; False where it is gone, or not due any more."""
        with self._one_at_a_time, self._lock():
            for _ in range(MAX_TRIES):
                entering = self.history.read(kind, name)
                found = self._store.get(self._path(kind, name))
                present = None if found is None else decode_tags(found.value, self._path(kind, name))
                if found is None or present is None or not is_due(present):
                    return False
                try:
                    entering.announce(present, found.version, None, self._by)
                    self._store.delete(self._path(kind, name), found.version)
                except ConflictError:
                    continue
                entering.confirm(None, None)
                return True
        raise _busy(kind, name)

    def _change(self, kind: Kind, name: str, change: Callable[[Tags | None], Mapping[str, str]]) -> Tags:
        path = self._path(kind, name)
        with self._one_at_a_time, self._lock():
            for _ in range(MAX_TRIES):
                # The history is read first: what is entered there meanwhile makes our entry a conflict.
                entering = self.history.read(kind, name)
                found: Versioned | None = self._store.get(path)
                present = None if found is None else decode_tags(found.value, path)
                wanted = dict(sorted(change(present).items()))
                if wanted == present or (present is None and not wanted):
                    return wanted
                try:
                    version = None if found is None else found.version
                    entering.announce(present, version, wanted, self._by)
                    version = self._store.cas(path, encode_tags(wanted), version)
                except ConflictError:
                    continue
                entering.confirm(wanted, version)
                return wanted
        raise _busy(kind, name)

    def _path(self, kind: Kind, name: str) -> str:
        return f"{self._root}/{kind}/{name}"


def _busy(kind: Kind, name: str) -> TryLaterError:
    return TryLaterError(f"the tags of {kind} {name} were changed by other processes {MAX_TRIES} times meanwhile")
