"""Kafka's error codes and kafka-python's exceptions, as kafkakit's errors."""

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import OperationFailedError

UNKNOWN_TOPIC = 3
INVALID_TOPIC = 17
TOPIC_DENIED = 29
CLUSTER_DENIED = 31
UNKNOWN_TOPIC_ID = 100


def error_of(code: int, text: str | None = None) -> ItemError | None:
    """The error of a code and the broker's text; None for 0."""
    if code == 0:
        return None
    from kafka import errors

    kind = errors.for_code(code)
    name = kind.__name__ if kind.__name__ != "UnrecognizedBrokerError" else f"Error{code}"
    return ItemError(name=name, message=" ".join((text or "").split())[:300], retriable=bool(kind.retriable))


def error_from(exception: Exception) -> ItemError:
    """The error of a request that did not come back; worth another try."""
    text = " ".join(str(exception).split())
    name = type(exception).__name__
    return ItemError(name=name, message=text.removeprefix(name).removeprefix(": ")[:300], retriable=True)


def refused(what: str, right: str) -> OperationFailedError:
    """The failure of a read for a missing right, which Kafka would otherwise report as empty data."""
    return OperationFailedError(f"{what}: not permitted", hint=f"grant {right} to this user")
