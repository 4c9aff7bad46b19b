"""Where partition sizes and free space come from beside the brokers."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from kafkakit.core.storage_reading import Sample, StorageReading


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


class Patience(NamedTuple):
    """How long each attempt of a request to a service may take, and how many there are."""

    timeout_s: float
    attempts: int = 4


class SampleQueries(Protocol):
    """A service that keeps series of metrics and answers queries in a language of its own."""

    @property
    def source(self) -> str:
        """The service in words."""
        ...

    def query(self, expression: str, at: datetime) -> tuple[Sample, ...]:
        """One sample a series, not later than `at`.

        Raises `TryLaterError` when the service does not answer, `OperationFailedError` when it refuses the query or
        the credentials, and `InputError` when the answer makes no sense.
        """
        ...


class HostQueries(SampleQueries, Protocol):
    """A service of metrics with a series for each host, where hosts have tags."""

    def host_tags(self, host: str) -> tuple[str, ...]:
        """The tags of a host, each `NAME:VALUE`; raises as `query`."""
        ...
