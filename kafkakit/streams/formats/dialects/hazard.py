"""One thing that is wrong with a commit, or may go wrong, and the command that repairs it."""

from dataclasses import dataclass

from kafkakit.core.findings import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """What is wrong, with its consequence; `hint` is what to do, empty where there is nothing to do."""

    rule: str
    severity: Severity
    message: str
    hint: str = ""
