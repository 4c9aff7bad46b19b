"""Commits without metadata: an offset alone, which clients of every dialect make."""

from kafkakit.streams.model.commit import CommitState, Reading
from kafkakit.streams.model.dialects.dialect import Dialect, EncodedMetadata, EncodeRequest, MetadataText


def _read(source: MetadataText, data: bytes) -> Reading:
    del data
    return Reading(dialect=PLAIN.name, state=CommitState(base=source.offset), chars=source.chars)


def _write(request: EncodeRequest) -> EncodedMetadata:
    del request
    return EncodedMetadata(text="")


PLAIN = Dialect(
    name="plain",
    decode=_read,
    encode=_write,
    word="plain",
    reader="any client",
    noun="plain commit",
    has_payload=False,
)
