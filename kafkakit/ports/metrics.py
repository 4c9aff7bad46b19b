"""Where partition sizes and free space come from beside the brokers."""

from typing import Protocol

from kafkakit.core.storage_reading import StorageReading


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
