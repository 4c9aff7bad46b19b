"""What a driver's log says of its progress: lines of JSON among those of Spark."""

import json
from dataclasses import dataclass

_MARK = '{"kafkakit": "progress"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A job began (`start`), came to its `end`, or `failed` with an `error`; `number` counts from 1 of `total`."""

    job: str
    phase: str
    number: int = 0
    total: int = 0
    seconds: float = 0.0
    error: str = ""

    def __str__(self) -> str:
        if self.phase == "start":
            return f"job {self.number} of {self.total}: {self.job}"
        if self.error:
            return f"{self.job} failed: {self.error}"
        return f"{self.job} done in {self.seconds:.1f} s"


def progress_of(line: str) -> Progress | None:
    """The progress that a line reports; None for every other line."""
    if not line.startswith(_MARK):
        return None
    try:
        data = json.loads(line)
        return Progress(
            job=str(data["job"]),
            phase=str(data["phase"]),
            number=int(data.get("number", 0)),
            total=int(data.get("of", 0)),
            seconds=float(data.get("seconds", 0.0)),
            error=str(data.get("error", "")),
        )
    except (ValueError, KeyError, TypeError):
        return None
