"""What became of an operation, as values that reports are made of."""

from dataclasses import dataclass
from enum import StrEnum

from kafkakit.streams.failover.decide.certificate import DrainCertificate
from kafkakit.streams.failover.decide.journal import OperationRecord
from kafkakit.streams.failover.decide.operation import Step


class EndKind(StrEnum):
    """How a run ended, for programs."""

    DONE = "done"
    WAITING = "waiting"
    REFUSED = "refused"
    LATE = "late-writer"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a run ended: at which step the operation is, and why it does not continue; `reason` is for programs."""

    kind: EndKind
    step: Step
    record: OperationRecord
    reason: str = ""
    lines: tuple[str, ...] = ()
    records: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateCheck:
    """What a check found: `late` partitions grew after the seal, `short` groups stand below an end that they reached.

    `unread` says what could not be compared, `gone` are topics that were deleted since. `is_anchored` tells whether the
    journal of the operation names the certificate's hash; None where there is no journal.
    """

    certificate: DrainCertificate
    late: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    is_anchored: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """What became of the topics of an operation, by name and in words."""

    record: OperationRecord
    results: tuple[tuple[str, str], ...]
    check: CertificateCheck | None = None
