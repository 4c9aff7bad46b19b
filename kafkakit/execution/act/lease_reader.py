"""Reading which process holds a lease in a control store."""

from collections.abc import Callable

from kafkakit.core.errors import KafkakitError, LeaseUnknownError, OperationFailedError, TryLaterError
from kafkakit.core.lease import LEASE_DOCUMENT, Holder, LeaseRecord, Life
from kafkakit.core.versioned import Versioned
from kafkakit.execution.decide.status.looks import HeldLease
from kafkakit.ports.control import ControlStore
from kafkakit.ports.reporter import Reporter


def lease_path(cluster_id: str) -> str:
    """Where the lease of one cluster's changes is kept."""
    return f"clusters/{cluster_id}/lease"


def read_lease(store: ControlStore, path: str) -> LeaseRecord | None:
    """The lease as it stands, None when no process ever held it; one read."""
    return decoded_lease(store.get(path), path)


def held_lease(store: ControlStore, cluster_id: str) -> LeaseRecord | None:
    """The lease of one cluster's changes, None while no process holds it; one read.

    Raises `LeaseUnknownError` when the store does not answer.
    """
    try:
        record = read_lease(store, lease_path(cluster_id))
    except (TryLaterError, OperationFailedError) as error:
        raise lease_unknown(cluster_id, error) from None
    return None if record is None or record.holder is None else record


def lease_unknown(cluster_id: str, error: KafkakitError) -> LeaseUnknownError:
    """What is said where the control store does not answer; every command that takes the lease has the option."""
    return LeaseUnknownError(
        f"the lease of cluster {cluster_id} cannot be read or taken: {error.message}",
        hint=f"{error.hint or 'make it answer'}; to repair the cluster meanwhile: --without-lease",
    )


def decoded_lease(found: Versioned | None, path: str) -> LeaseRecord | None:
    """The lease in a document of the store."""
    return None if found is None else LEASE_DOCUMENT.stored(found.value, path)


class LeaseReader:
    """Reads which process may change a cluster; a control store that does not answer is warned of once.

    `store` opens the control store; `life_of` tells what is certain of a holder's process (`wiring.life_of`);
    `locked_by` names the process of this host that has the lock of the cluster's changes, empty when none has.
    """

    def __init__(
        self,
        store: Callable[[], ControlStore],
        cluster_id: str,
        life_of: Callable[[Holder], Life],
        locked_by: Callable[[], str],
        reporter: Reporter,
    ) -> None:
        self._locked_by = locked_by
        self._store, self._path, self._life_of, self._reporter = store, lease_path(cluster_id), life_of, reporter
        self._has_warned = False

    def read(self) -> HeldLease | None:
        """The lease and what is known of its holder; None when neither it nor the lock of the host is known."""
        try:
            record = read_lease(self._store(), self._path)
        except KafkakitError as error:
            if not self._has_warned:
                self._reporter.warn(f"which process may change the cluster cannot be read: {error.message}")
            self._has_warned = True
            record = None
        host = self._locked_by()
        if record is None:
            return HeldLease(locked_by=host) if host else None
        life = Life.UNKNOWN if record.holder is None else self._life_of(record.holder)
        return HeldLease(record=record, life=life, locked_by=host)
