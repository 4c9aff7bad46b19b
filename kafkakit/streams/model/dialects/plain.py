"""Commits that say no more than their offset: without metadata, or with metadata in no dialect that is known.

The latter is text of an application, or a payload that is not as its writer makes it.
"""

from kafkakit.streams.model.commit import CommitState, Reading
from kafkakit.streams.model.dialects.dialect import OPAQUE_NAME, Dialect, EncodedMetadata, EncodeRequest, MetadataText


def _read_plain(source: MetadataText, data: bytes) -> Reading:
    del data
    return Reading(dialect=PLAIN.name, state=CommitState(base=source.offset), chars=source.chars)


def _write_plain(request: EncodeRequest) -> EncodedMetadata:
    del request
    return EncodedMetadata(text="")


def _read_opaque(source: MetadataText, data: bytes) -> Reading:
    del data
    return source.opaque()


def _write_opaque(request: EncodeRequest) -> EncodedMetadata:
    if request.replaces is None:
        return EncodedMetadata(text="")
    return EncodedMetadata(text="", notes=(f"its {OPAQUE_NAME} metadata is dropped: it does not fit another offset",))


PLAIN = Dialect(
    name="plain",
    decode=_read_plain,
    encode=_write_plain,
    word="plain",
    reader="any client",
    noun="plain commit",
    has_payload=False,
)
OPAQUE = Dialect(
    name=OPAQUE_NAME,
    decode=_read_opaque,
    encode=_write_opaque,
    reader="the client that wrote this metadata",
    noun="opaque commit",
    is_understood=False,
)
