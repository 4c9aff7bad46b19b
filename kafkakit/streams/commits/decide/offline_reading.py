"""A commit from a string, without a cluster."""

from kafkakit.streams.model.commit import CommitIdentity
from kafkakit.streams.model.dialects.dialect import KAFKA_LIMIT, CommitFacts
from kafkakit.streams.model.dialects.registry import read_metadata


def text_of_stdin(data: bytes) -> str:
    """Metadata without the line end that a shell adds; bytes that are no UTF-8 are replaced."""
    return data.decode("utf-8", "replace").rstrip("\r\n")


def facts_of(
    text: str, offset: int, *, limit_chars: int | None, identity: CommitIdentity | None, at_ms: int
) -> CommitFacts:
    """What is known of metadata that was committed with `offset`; no limit given stands for Kafka's default."""
    return CommitFacts(
        offset=offset,
        metadata=text,
        reading=read_metadata(text, offset, identity),
        at_ms=at_ms,
        group=identity.group if identity else None,
        identity=identity,
        limit_chars=limit_chars or KAFKA_LIMIT,
        is_limit_known=limit_chars is not None,
    )
