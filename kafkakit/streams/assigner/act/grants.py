"""Workers and grants in the control store, as the Assigner in charge reads and writes them."""

from collections.abc import Callable, Mapping

from kafkakit.core.errors import ConflictError
from kafkakit.core.lease import Holder, Life
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore
from kafkakit.streams.assigner.decide.assignment import Assignment
from kafkakit.streams.assigner.decide.roster import Roster, SeenWorker, living, observed
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


class WorkerLooks:
    """The workers from look to look; the time without a change is counted by our own clock."""

    def __init__(self, store: ControlStore, clock: Clock, life_of: Callable[[Holder], Life]) -> None:
        self._store, self._clock, self._life_of = store, clock, life_of
        self.roster: Roster = {}
        self._looked_s = float("-inf")

    def look(self) -> Roster:
        """Read all workers. `TryLaterError` while the store is away, `InputError` for a document of a newer version."""
        found: dict[str, tuple[int, WorkerDocument]] = {}
        looked_s, self._looked_s = self._looked_s, float("-inf")
        for slot, kept in self._store.values(WORKERS_FOLDER).items():
            before = self.roster.get(slot)
            same = before is not None and before.version == kept.version
            document = (
                before.document
                if before is not None and same
                else WORKER_DOCUMENT.stored(kept.value, worker_path(slot))
            )
            found[slot] = (kept.version, document)
        now_s = self._clock.monotonic()
        self.roster, self._looked_s = observed(self.roster, found, looked_s, now_s, self._life_of), now_s
        return self.roster


class GrantStore:
    """The grants under one lease; `require_held` is asked before each write."""

    def __init__(self, store: ControlStore, require_held: Callable[[], None]) -> None:
        self._store, self._require_held = store, require_held
        self._versions: dict[str, int] = {}

    def adopt(self, assignment: Assignment, roster: Roster) -> None:
        """Read all grants and write each again under our token; `ConflictError` where an earlier Assigner still wrote.

        After this nothing that another one sent before it lost the lease can come into effect.
        """
        found = self._store.values(GRANTS_FOLDER)
        self._versions = {slot: kept.version for slot, kept in found.items()}
        documents = {s: GRANT_DOCUMENT.stored(kept.value, grant_path(s)) for s, kept in found.items()}
        self.write(assignment.adopt(documents, roster))

    def write(self, documents: Mapping[str, GrantDocument]) -> None:
        """Write documents by compare-and-set; after an error it is unknown which ones, and all are to be adopted."""
        for slot, document in documents.items():
            self._require_held()
            self._versions[slot] = self._store.cas(
                grant_path(slot), GRANT_DOCUMENT.encode(document), self._versions.get(slot)
            )

    def remove_dead(self, assignment: Assignment, roster: Roster) -> tuple[dict[str, WorkerDocument], tuple[str, ...]]:
        """Remove the documents of dead workers, so that none of them is one again, and free what they had.

        Returns the workers that live, and the slots of those that do not; one that wrote meanwhile lives.
        """
        workers, gone = living(roster), []
        for slot, seen in roster.items():
            if seen.is_dead and not self._fence(slot, seen):
                workers[slot] = seen.document
        for slot in [slot for slot in (*assignment.slots, *roster) if slot not in workers]:
            if slot not in gone:
                gone.append(slot)
                assignment.drop(slot)
                self._remove(slot)
        return dict(sorted(workers.items())), tuple(gone)

    def _fence(self, slot: str, seen: SeenWorker) -> bool:
        self._require_held()
        try:
            self._store.delete(worker_path(slot), seen.version)
        except ConflictError:
            found = self._store.get(worker_path(slot))
            return found is None
        return True

    def _remove(self, slot: str) -> None:
        version = self._versions.pop(slot, None)
        if version is not None:
            self._require_held()
            self._store.delete(grant_path(slot), version)
