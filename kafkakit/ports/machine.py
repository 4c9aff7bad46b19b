"""What the sandbox needs of the machine, as protocols; `adapters/` implements them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from kafkakit.config.security import Security
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.programs import ProcessRecord
from kafkakit.ports.acting import Clock
from kafkakit.ports.admin import ClusterAdmin


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java launcher: its path, its major version and where it was found."""

    path: str
    major: int
    source: str


class NodeFailedError(OperationFailedError):
    """A process of the sandbox did not do its work (exit 1); `tail` holds its log's last lines."""

    def __init__(self, message: str, *, tail: Sequence[str] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.tail = tuple(tail)


class PortTakenError(NodeFailedError):
    """A port that was free a moment ago is taken; starting again with other ports may help."""


class OldSessionError(NodeFailedError):
    """A broker came back before ZooKeeper forgot it (6 s); starting again later helps."""


class Processes(Protocol):
    """Start, recognise and signal processes; take free ports."""

    def start(self, command: Sequence[str], log_file: str, remember: Callable[[ProcessRecord], None]) -> ProcessRecord:
        """Start a process that outlives us, once `remember` has recorded it; `command[1]` is its marker.

        Raises `UsageError` if it cannot start.
        """
        ...

    def become(self, command: Sequence[str]) -> NoReturn:
        """Replace this process by the command; `UsageError` if it cannot start."""
        ...

    def started(self) -> Collection[ProcessRecord]:
        """Every process that this object started."""
        ...

    def wait(self, record: ProcessRecord, timeout_s: float) -> int:
        """The exit status of a process that this object started; it is killed after `timeout_s`."""
        ...

    def is_alive(self, record: ProcessRecord) -> bool:
        """True when the process still runs *and* pid, start time and marker are those of the record."""
        ...

    def kill(self, records: Collection[ProcessRecord], *, graceful_s: float = 0) -> Collection[ProcessRecord]:
        """SIGKILL our processes (after SIGTERM and a wait, if asked); returns those that were alive."""
        ...

    def free_ports(self, count: int) -> tuple[int, ...]:
        """Distinct free ports on loopback."""
        ...

    def answers(self, port: int) -> bool:
        """True when something accepts connections on the loopback port."""
        ...


class Jars(Protocol):
    """Finds the class path of a Kafka version."""

    def class_path(self, version: str, say: Callable[[str], None], *, tools: bool = False) -> tuple[str, ...]:
        """Absolute jar paths; the first call for a version downloads, later ones do not touch the network.

        `tools`: those of Kafka's own command line tools, of this version or of the newest that was published.
        """
        ...


class Certificates(Protocol):
    """Makes a throwaway certificate authority."""

    def make(self, brokers: Collection[str], users: Collection[str]) -> Mapping[str, bytes]:
        """PEM files by name: `ca.pem`, `BROKER.keystore.pem`, `USER.pem`, `USER.key`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """All of it; `random_bytes` gives unpredictable bytes, `class_archives` is a folder of the cache ("": none)."""

    processes: Processes
    jars: Jars
    certificates: Certificates
    clock: Clock
    find_java: Callable[[], Java]
    open_admin: Callable[[str, Security], ClusterAdmin]
    random_bytes: Callable[[int], bytes]
    class_archives: str = ""
