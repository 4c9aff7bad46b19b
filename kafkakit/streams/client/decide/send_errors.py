"""Why a record was not taken, or has no acknowledgement."""

from kafkakit.core.errors import OperationFailedError, TryLaterError, UsageError


class RecordRefusedError(UsageError):
    """A record that cannot be written as it is: a wrong type, name, time, partition or lane."""


class RecordTooLargeError(RecordRefusedError):
    """A record above the stream's limit of decompressed bytes."""


class ProducerClosedError(UsageError):
    """The producer was closed before the record was acknowledged; it may be written or not."""


class BackPressureError(TryLaterError):
    """The lane holds as much as it may, and nothing was acknowledged in time; the record was not taken."""


class NotAcknowledgedError(OperationFailedError):
    """A record was given up; `may_be_written` False means that it certainly was not written."""

    def __init__(self, message: str, *, may_be_written: bool, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.may_be_written = may_be_written


class LanePausedError(NotAcknowledgedError):
    """The lane took no writes until the record's time limit ended."""


class DualWriteError(NotAcknowledgedError):
    """One or both sides of a dual write failed; each is None where that side has the record."""

    def __init__(self, primary: BaseException | None, secondary: BaseException | None) -> None:
        sides = (("primary", primary), ("secondary", secondary))
        texts = [f"the {name}: {error}" for name, error in sides if error is not None]
        has_one = primary is None or secondary is None
        may_be_written = has_one or any(
            not isinstance(error, NotAcknowledgedError) or error.may_be_written for _, error in sides
        )
        super().__init__(f"not written twice: {'; '.join(texts)}", may_be_written=may_be_written)
        self.primary, self.secondary = primary, secondary
