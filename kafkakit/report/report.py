"""The one value that a command ends with: it is rendered as text, rows or data, and decides the exit code."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.core.errors import ExitCode, KafkakitError


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a command found or did.

    `command` is the command's words (`reassign verify`); `data` is for JSON and YAML, `text` for people, `rows`
    (with `columns`) for TSV. A `failure` is raised after the report was written; without one the command exits
    with `code`. `warnings` go to stderr before it. With `refused` the text says what was not done: programs
    get the failure alone.
    """

    command: str
    data: Mapping[str, object]
    text: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    warnings: tuple[str, ...] = ()
    failure: KafkakitError | None = None
    refused: bool = False
    code: int = ExitCode.DONE
