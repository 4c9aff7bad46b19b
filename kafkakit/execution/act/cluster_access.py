"""What an action may use of one cluster, and what came of the attempt to become the one that may change it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import TypeAlias

from kafkakit.core.errors import LeaseUnknownError, TryLaterError
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """The clients of one cluster.

    With a `token` this process alone may change the cluster: `admin` and `clock` keep its lease, and `control` is the
    store that the lease is in. Without one nothing may be changed.
    """

    cluster_id: str
    admin: ClusterAdmin
    clock: Clock
    token: int | None = None
    control: ControlStore | None = None


OpenAccess: TypeAlias = Callable[[], AbstractContextManager[ClusterAccess]]
"""Connects and takes the lease until the context ends; `TryLaterError` names the process that has it."""


def access_or_busy(stack: ExitStack, open_access: OpenAccess) -> ClusterAccess | TryLaterError:
    """The access, kept until `stack` ends, or the error that names the process that has the lease.

    Raises `LeaseUnknownError` when the control store does not answer.
    """
    try:
        return stack.enter_context(open_access())
    except LeaseUnknownError:
        raise
    except TryLaterError as busy:
        return busy
