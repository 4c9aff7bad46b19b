"""A commit's metadata as text: what is left of it without trailing NULs, its size, and base64 read strictly."""

from binascii import Error, a2b_base64, b2a_base64
from dataclasses import dataclass

from kafkakit.streams.formats.commit import CommitState, Problem, Reading
from kafkakit.streams.formats.identity import CommitIdentity
from kafkakit.streams.formats.kkm1.text import utf16_units

OPAQUE_NAME = "opaque"
"""The dialect of text that no client known here writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataText:
    """Metadata, and the offset and identity it was committed with (None: unknown).

    `text` is without trailing NULs, `chars` counts them.
    """

    text: str
    chars: int
    offset: int
    identity: CommitIdentity | None = None

    @classmethod
    def of(cls, metadata: str, offset: int, identity: CommitIdentity | None = None) -> "MetadataText":
        """The text as its writer meant it: librdkafka's clients store one NUL more than they were given."""
        return cls(text=metadata.rstrip("\0"), chars=utf16_units(metadata), offset=offset, identity=identity)

    def opaque(self, reason: str = "") -> Reading:
        """A reading of text that no client known here writes; `reason` names what it nearly was."""
        return Reading(dialect=OPAQUE_NAME, state=CommitState(base=self.offset), chars=self.chars, reason=reason)

    def unusable(self, dialect: str, problem: Problem, reason: str, encoding: str, size: int) -> Reading:
        """A reading of a payload whose writer is known, of which nothing may be relied upon."""
        return Reading(
            dialect=dialect,
            state=CommitState(base=self.offset),
            chars=self.chars,
            problem=problem,
            reason=reason,
            encoding=encoding,
            raw_bytes=size,
        )


def canonical_base64(text: str) -> bytes | None:
    """The bytes behind standard base64 exactly as encoders write it (RFC 4648 section 4, padded); None for all else."""
    if not text.isascii() or len(text) % 4:
        return None
    try:
        data = a2b_base64(text)
    except Error:
        return None
    # Decoding passes over what is no base64, so only the way back tells.
    return data if to_base64(data) == text else None


def to_base64(data: bytes) -> str:
    """Standard base64, padded, on one line."""
    return b2a_base64(data, newline=False).decode("ascii")
