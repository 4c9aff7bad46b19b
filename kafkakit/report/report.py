"""The one value that a command ends with: it is rendered as text, rows or data, and decides the exit code."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafkakit.core.errors import ExitCode, KafkakitError

_FIRST_LINES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a command found or did.

    `command` is the command's words (`reassign verify`); `data` is for JSON and YAML, `text` for people, `rows`
    (with `columns`) for TSV. A `failure` is raised after the report was written; without one the command exits
    with `code`. `warnings` go to stderr before it. With `refused` the text says what was not done: programs
    get the failure alone. With `is_document` the text is in a format of its own, which programs read.
    """

    command: str
    data: Mapping[str, object]
    text: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    warnings: tuple[str, ...] = ()
    failure: KafkakitError | None = None
    refused: bool = False
    is_document: bool = False
    code: int = ExitCode.DONE

    def naming(self, cluster_id: str, profile: str | None) -> "Report":
        """Name the cluster and the profile in use in the first lines of the text, unless it is a document."""
        if self.is_document or not self.text:
            return self
        used = cluster_words(cluster_id, profile)
        end = sum(len(line) for line in self.text.splitlines(keepends=True)[:_FIRST_LINES])
        first, rest = self.text[:end], self.text[end:]
        if f"cluster {cluster_id}" in first:
            return replace(self, text=first.replace(f"cluster {cluster_id}", used, 1) + rest)
        return replace(self, text=f"{used}\n{self.text}")


def cluster_words(cluster_id: str, profile: str | None) -> str:
    """`cluster X (profile prod)`, how a text names the cluster that it is about."""
    return f"cluster {cluster_id} (profile {profile})" if profile else f"cluster {cluster_id}"
