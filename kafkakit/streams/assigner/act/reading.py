"""The Assigner's documents in the control store, read by commands."""

from kafkakit.core.lease import LeaseRecord
from kafkakit.execution.act.lease_reader import read_lease
from kafkakit.ports.control import ControlStore
from kafkakit.streams.assigner.decide.policy import HISTORY_DOCUMENT, HISTORY_PATH, AutomaticHistory
from kafkakit.streams.assigner.decide.standing import (
    DRAINS_FOLDER,
    LEASE_PATH,
    STANDING_DOCUMENT,
    STANDING_PATH,
    AssignerStanding,
)
from kafkakit.streams.client.api import (
    GRANT_DOCUMENT,
    GRANTS_FOLDER,
    WORKER_DOCUMENT,
    WORKERS_FOLDER,
    GrantDocument,
    WorkerDocument,
    grant_path,
    worker_path,
)


class AssignerReader:
    """One read for each document; `TryLaterError` while the store is away."""

    def __init__(self, store: ControlStore) -> None:
        self._store = store

    def workers(self) -> dict[str, WorkerDocument]:
        """The workers by slot, dead ones too until the Assigner removes them."""
        found = self._store.values(WORKERS_FOLDER).items()
        return {slot: WORKER_DOCUMENT.stored(kept.value, worker_path(slot)) for slot, kept in found}

    def grants(self) -> dict[str, GrantDocument]:
        """What each slot may read."""
        found = self._store.values(GRANTS_FOLDER).items()
        return {slot: GRANT_DOCUMENT.stored(kept.value, grant_path(slot)) for slot, kept in found}

    def draining(self) -> frozenset[str]:
        """The ids of workers that are to be drained."""
        return frozenset(self._store.children(DRAINS_FOLDER))

    def lease(self) -> LeaseRecord | None:
        """The lease of the Assigner in charge."""
        return read_lease(self._store, LEASE_PATH)

    def standing(self) -> AssignerStanding | None:
        """Where the Assigner in charge stands; None where none ever was."""
        found = self._store.get(STANDING_PATH)
        return None if found is None else STANDING_DOCUMENT.stored(found.value, STANDING_PATH)

    def history(self) -> AutomaticHistory:
        """The automatic failovers of the last day."""
        found = self._store.get(HISTORY_PATH)
        return AutomaticHistory() if found is None else HISTORY_DOCUMENT.stored(found.value, HISTORY_PATH)
