"""Services beside a cluster: sources of sizes, listeners of gRPC and HTTP, and Spark.

What the sandbox needs of the machine, as protocols; `adapters/` implements them.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, NoReturn, Protocol

from kafkakit.config.security import Security
from kafkakit.core.cluster_facts import MetricSample, StorageReading
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.lease import Holder, Life
from kafkakit.core.programs import EngineHost, Launch, ProcessRecord, SparkTools
from kafkakit.core.rpc import RpcAnswer, RpcCall, RpcStream
from kafkakit.ports.acting import Clock
from kafkakit.ports.admin import ClusterAdmin


class StorageMetrics(Protocol):
    """Sizes and free bytes that another program collected, such as kafka-kit's metricsfetcher.

    Calls raise `TryLaterError` when the place cannot be reached or holds nothing yet, and `InputError` when
    what it holds makes no sense.
    """

    def read(self) -> StorageReading:
        """Read sizes and free bytes, one request each."""
        ...

    def close(self) -> None:
        """Let go of connections; closing twice is harmless."""
        ...


class StorageStore(StorageMetrics, Protocol):
    """Storage metrics in a place where readings can be kept."""

    def write(self, reading: StorageReading) -> Mapping[str, int]:
        """Replace what is there; returns the number of bytes by the name of each thing written.

        Raises `TryLaterError` when the place cannot be reached (it may have been written then), `OperationFailedError`
        when it refuses, `UsageError` when the reading does not fit.
        """
        ...


class RequestLimits(NamedTuple):
    """How long each attempt of a request to a service may take, and how many there are."""

    timeout_s: float
    attempts: int = 4


class SampleQueries(Protocol):
    """A service that keeps series of metrics and answers queries in a language of its own."""

    @property
    def source(self) -> str:
        """The service in words."""
        ...

    def query(self, expression: str, at: datetime) -> tuple[MetricSample, ...]:
        """One sample a series, not later than `at`.

        Raises `TryLaterError` when the service does not answer, `OperationFailedError` when it refuses the query or
        the credentials, and `InputError` when the answer makes no sense.
        """
        ...


class HostQueries(SampleQueries, Protocol):
    """A service of metrics with a series for each host, where hosts have tags."""

    def check_keys(self) -> None:
        """Ask whether the keys are good; raises `OperationFailedError` if not, `TryLaterError` without an answer."""
        ...

    def host_tags(self, host: str) -> tuple[str, ...]:
        """The tags of a host, each `NAME:VALUE`; raises as `query`."""
        ...


Answer = Callable[[RpcCall], Awaitable[RpcAnswer | RpcStream]]
"""Answers one call, in the event loop of the listener; raises nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcService:
    """A service by its full name, with its methods; those of `streams` may be answered by an `RpcStream`."""

    name: str
    methods: Collection[str]
    answer: Answer
    streams: Collection[str] = ()


class MessageCodec(Protocol):
    """Messages of one protocol as mappings: field names as declared, repeated fields tuples, unset fields present."""

    def decode(self, message: str, data: bytes) -> Mapping[str, Any]:
        """Read the binary form; `RpcError` for what is none."""
        ...

    def decode_json(self, message: str, data: bytes) -> Mapping[str, Any]:
        """Read JSON with names of either style, unknown ones ignored; `RpcError` for what cannot be read."""
        ...

    def encode(self, message: str, fields: Mapping[str, Any]) -> bytes:
        """The binary form, the same bytes for the same fields."""
        ...


class RpcListener(Protocol):
    """One address that is listened on; started and stopped in one event loop."""

    async def start(self) -> str:
        """Listen; the address with the real port. Raises `UsageError` where that is impossible."""
        ...

    @property
    def failure(self) -> str:
        """Why it has ended by itself; empty before the start, while it listens, and after a stop."""
        ...

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, and wait so long for those in progress."""
        ...


class TokenVerifier(Protocol):
    """Tokens of one issuer for one audience; for several threads."""

    def verify(self, token: str) -> Mapping[str, Any]:
        """The claims of a token that holds now; `RpcError` 401 for any other. May fetch keys: blocks for seconds."""
        ...


class RunLock(Protocol):
    """A held lock, as an open file that a driver inherits: the run stays locked until the last of them has ended."""

    def fileno(self) -> int:
        """The descriptor of the locked file."""
        ...


class SparkDrivers(Protocol):
    """Starts, recognises and stops drivers of Spark on this host."""

    def tools(self, *, needs_java: bool = True) -> SparkTools:
        """Find pyspark and Java; `MissingExtraError` or `UsageError` says what to install."""
        ...

    def engine_host(self) -> EngineHost:
        """What there is for an engine without a JVM."""
        ...

    def code_folder(self) -> str:
        """The folder of `spark/main.py` and of the job code."""
        ...

    def write_code(self, path: str, *, whole_package: bool) -> None:
        """Write the zip that executors get: the same bytes for the same code.

        With `whole_package` all of kafkakit, else only what needs Spark, Arrow, numpy and the standard library.
        """
        ...

    def lock(self, folder: str, what: str) -> AbstractContextManager[RunLock]:
        """Take the lock of a run's folder; `TryLaterError` names the process that has it."""
        ...

    def start(self, launch: Launch, log: str, lock: RunLock, name: str) -> Holder:
        """Start a driver in a session of its own, its output appended to `log`."""
        ...

    def exit_code(self, driver: Holder) -> int | None:
        """The exit code of a driver that this object started; None while it runs, negative for a signal."""
        ...

    def life(self, driver: Holder) -> Life:
        """Whether a driver runs, as far as this host can know."""
        ...

    def stop(self, driver: Holder) -> bool:
        """Stop a driver with all its processes, after 10 s by force; False when it does not run on this host."""
        ...


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
