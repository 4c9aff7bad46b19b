"""What applying a declared value to a cluster that has another one would risk (kafka-helmsman's classes of drift)."""

from collections.abc import Callable, Mapping
from enum import StrEnum

from kafkakit.rules.effective import to_int


class DriftKind(StrEnum):
    """Whether the declared value can be applied."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    UNSUPPORTED = "unsupported"


def _always(live: str, declared: str) -> bool:
    return True


def _lowers(live: str, declared: str) -> bool:
    return _size(declared) < _size(live)


def _turns_on(live: str, declared: str) -> bool:
    return declared.strip().lower() == "true"


def _turns_off(live: str, declared: str) -> bool:
    return declared.strip().lower() == "false"


def _size(text: str) -> float:
    number = to_int(text)
    return float("inf") if number is None or number < 0 else number


_RISKY: Mapping[str, tuple[Callable[[str, str], bool], str]] = {
    "cleanup.policy": (_always, "records may be deleted"),
    "retention.ms": (_lowers, "records are deleted"),
    "retention.bytes": (_lowers, "records are deleted"),
    "local.retention.ms": (_lowers, "local segments are deleted"),
    "local.retention.bytes": (_lowers, "local segments are deleted"),
    "delete.retention.ms": (_lowers, "readers may miss deletes"),
    "max.compaction.lag.ms": (_lowers, "superseded values go sooner"),
    "min.insync.replicas": (_always, "writes may fail, or be acknowledged by fewer replicas"),
    "max.message.bytes": (_lowers, "producers of larger batches are refused"),
    "message.timestamp.type": (_always, "records get other timestamps"),
    "remote.storage.enable": (_turns_off, "remote segments may be deleted"),
    "unclean.leader.election.enable": (_turns_on, "committed records may be lost"),
}


def kind_of_drift(key: str, live: str, declared: str) -> tuple[DriftKind, str]:
    """The class of a difference of one topic key, and what applying the declared value risks (empty where safe)."""
    is_risky, risk = _RISKY.get(key, (None, ""))
    if is_risky is not None and is_risky(live, declared):
        return DriftKind.UNSAFE, risk
    return DriftKind.SAFE, ""


def kind_of_partitions(live: int, declared: int) -> tuple[DriftKind, str]:
    """The class of a difference in the number of partitions."""
    if declared < live:
        return DriftKind.UNSUPPORTED, "Kafka cannot remove partitions"
    return DriftKind.UNSAFE, "keys move to other partitions"
