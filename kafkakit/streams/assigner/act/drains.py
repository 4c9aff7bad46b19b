"""Requests of operators that a worker gets nothing more."""

from kafkakit.core.errors import ConflictError, UsageError
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore
from kafkakit.streams.assigner.decide.standing import DRAINS_FOLDER
from kafkakit.streams.client.api import (
    GRANT_DOCUMENT,
    GRANTS_FOLDER,
    WORKER_DOCUMENT,
    WORKERS_FOLDER,
    WorkerDocument,
    grant_path,
    worker_path,
)

_LOOK_S = 0.2


class Drains:
    """Drains of workers by the name of their slots; a drain ends with the worker's process."""

    def __init__(self, store: ControlStore, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def worker(self, name: str) -> WorkerDocument:
        """The worker of a slot, or of an id; `UsageError` where there is none."""
        for slot, kept in self._store.values(WORKERS_FOLDER).items():
            document = WORKER_DOCUMENT.stored(kept.value, worker_path(slot))
            if name in (slot, document.id):
                return document
        raise UsageError(f"there is no worker {name}", hint="kafkakit streams assigner show names them")

    def request(self, worker: WorkerDocument, by: str) -> None:
        """Ask for a drain; one that was asked for stays."""
        path = f"{DRAINS_FOLDER}/{worker.id}"
        if self._store.get(path) is None:
            try:
                self._store.cas(path, by.encode(), None)
            except ConflictError:
                return

    def undo(self, worker: WorkerDocument) -> None:
        """Ask for no drain any more."""
        path = f"{DRAINS_FOLDER}/{worker.id}"
        found = self._store.get(path)
        if found is not None:
            self._store.delete(path, found.version)

    def held(self, worker: WorkerDocument) -> int:
        """How many partitions the worker may read now."""
        for slot, kept in self._store.values(GRANTS_FOLDER).items():
            document = GRANT_DOCUMENT.stored(kept.value, grant_path(slot))
            if document.worker == worker.id:
                return sum(len(topic.partitions) for topic in document.topics)
        return 0

    def wait(self, worker: WorkerDocument, wait_s: float) -> int:
        """Wait until it holds none, so long at most; how many it still holds."""
        until_s = self._clock.monotonic() + wait_s
        while (left := self.held(worker)) and self._clock.monotonic() < until_s:
            self._clock.sleep(_LOOK_S)
        return left
