"""The clients of one cluster together."""

from typing import Protocol

from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import DataPlane
from kafkakit.ports.groups import GroupAdmin
from kafkakit.ports.log import LogReader


class ClusterClients(Protocol):
    """The clients of one cluster; each connects on first use, and who opened them closes them."""

    @property
    def admin(self) -> ClusterAdmin:
        """The control side."""
        ...

    @property
    def groups(self) -> GroupAdmin:
        """The consumer groups."""
        ...

    @property
    def log(self) -> LogReader:
        """Raw reads of logs."""
        ...

    @property
    def data(self) -> DataPlane:
        """Records in and out."""
        ...
