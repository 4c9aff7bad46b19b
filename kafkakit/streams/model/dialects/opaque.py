"""Metadata in no dialect that is known: text of an application, or a payload that is not as its writer makes it."""

from kafkakit.streams.model.commit import Reading
from kafkakit.streams.model.dialects.dialect import OPAQUE_NAME, Dialect, EncodedMetadata, EncodeRequest, MetadataText


def _read(source: MetadataText, data: bytes) -> Reading:
    del data
    return source.opaque()


def _write(request: EncodeRequest) -> EncodedMetadata:
    if request.replaces is None:
        return EncodedMetadata(text="")
    return EncodedMetadata(text="", notes=(f"its {OPAQUE_NAME} metadata is dropped: it does not fit another offset",))


OPAQUE = Dialect(
    name=OPAQUE_NAME,
    decode=_read,
    encode=_write,
    reader="the client that wrote this metadata",
    noun="opaque commit",
    is_understood=False,
)
