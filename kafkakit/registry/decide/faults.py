"""The refusals of the service, with kafka-kit's texts; `docs/registry.md` names the codes that differ."""

from kafkakit.core.errors import ConflictError, KafkakitError, TryLaterError
from kafkakit.core.rpc import RpcCode, RpcError

_INVALID, _MISSING, _FAILED = RpcCode.INVALID_ARGUMENT, RpcCode.NOT_FOUND, RpcCode.FAILED_PRECONDITION

_CODES = {
    "error fetching brokers": RpcCode.INTERNAL,
    "error fetching topics": RpcCode.INTERNAL,
    "broker does not exist": _FAILED,
    "broker Id field must be specified": _INVALID,
    "broker Ids field must be specified": _INVALID,
    "topic does not exist": _MISSING,
    "topic Name field must be specified": _INVALID,
    "topic field missing in request body": _INVALID,
    "topic already exists": RpcCode.ALREADY_EXISTS,
    "insufficient number of brokers": _FAILED,
    "invalid broker id": _FAILED,
    "tagging topic timed out": RpcCode.DEADLINE_EXCEEDED,
    "GroupId field must be specified": _INVALID,
    "must provide a non-nil or non-empty tags": _INVALID,
    "requested Kafka object does not exist": _MISSING,
    "wait time exceeded": RpcCode.RESOURCE_EXHAUSTED,
    "deadline exceeded": RpcCode.DEADLINE_EXCEEDED,
}


def fault(text: str, *, detail: str = "") -> RpcError:
    """The refusal with one of kafka-kit's texts, and what is known beyond it."""
    return RpcError(_CODES[text], f"{text}: {detail}" if detail else text)


def invalid(text: str) -> RpcError:
    """A request that cannot be meant."""
    return RpcError(_INVALID, text)


def code_of(error: KafkakitError) -> RpcCode:
    """The code of a refusal, and of an error of the cluster or the store."""
    if isinstance(error, RpcError):
        return error.code
    return RpcCode.UNAVAILABLE if isinstance(error, TryLaterError | ConflictError) else RpcCode.INTERNAL
