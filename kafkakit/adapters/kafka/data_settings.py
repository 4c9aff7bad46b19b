"""Settings that every client of librdkafka has here, and how its errors are read.

librdkafka logs through a callback and never to stderr; settings are named in its CONFIGURATION.md.
"""

import logging
from collections.abc import Callable
from typing import Any

from kafkakit.config.security import Security, to_confluent
from kafkakit.core.errors import UsageError


def client_settings(bootstrap_servers: str, security: Security) -> dict[str, Any]:
    """How to reach a cluster; the password is revealed in the result."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "client.id": "kafkakit",
        "log_level": 2,
        "logger": quiet_logger(),
        "socket.connection.setup.timeout.ms": 5_000,
        "reconnect.backoff.max.ms": 1_000,
        "topic.metadata.refresh.interval.ms": 5_000,
        **to_confluent(security),
    }


def made(client: Callable[[dict[str, Any]], Any], settings: dict[str, Any]) -> Any:
    """Make a client; librdkafka refuses certificates and keys here that it cannot use."""
    from confluent_kafka import KafkaException

    try:
        return client(settings)
    except KafkaException as error:
        raise UsageError(f"the data client refuses its settings: {reason(error)}") from None


def reason(error: Exception) -> str:
    """librdkafka's words for the first error inside a `KafkaException`."""
    inner = error.args[0] if error.args else error
    return str(inner.str()) if hasattr(inner, "str") else str(inner)


class FatalError(logging.Handler):
    """Keeps the reason of a fatal error, which the client tells its log for certain, and Python only at times."""

    reason: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Only fatal errors are critical."""
        if record.levelno >= logging.CRITICAL:
            self.reason = record.getMessage().partition("Fatal error: ")[2] or record.getMessage()


def quiet_logger(handler: logging.Handler | None = None) -> logging.Logger:
    """A logger that only the handler hears."""
    logger = logging.Logger("kafkakit.librdkafka")  # not from the tree of loggers: nothing comes to stderr
    logger.addHandler(handler or logging.NullHandler())
    return logger
