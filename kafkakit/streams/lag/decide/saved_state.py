"""What a lag monitor knows of one cluster, as bytes: so that a restart need not read the whole commit log again.

The file is one line of JSON (kind, schema, cluster, the sections with their shapes, the digest of the rest), then the
sections, compressed. The digest shows that a file was cut or changed; sizes are checked before anything is unpacked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from kafkakit.core.documents import decode_document, encode_document
from kafkakit.core.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

STATE_KIND = "lag-state"
LIMIT_BYTES = 1 << 30
HEAD_LIMIT_BYTES = 1 << 20
DTYPES = ("<i8", "<i4", "|i1", "|u1", "|b1", "<f8")
TEXT = "text"
_LEVEL = 1

_Count = Annotated[int, Meta(ge=0, le=2**62)]
_Name = Annotated[str, Meta(max_length=100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """A cluster's commits and end offsets as they were at `saved_ms`.

    `topic_id` is that of the offsets topic. `texts` and `arrays` hold everything by name; see `saving`.
    """

    cluster_id: str
    topic_id: bytes
    saved_ms: int
    texts: Mapping[str, Sequence[bytes]]
    arrays: "Mapping[str, NDArray[Any]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    name: _Name
    dtype: _Name
    shape: Annotated[tuple[_Count, ...], Meta(min_length=1, max_length=2)]
    bytes: _Count


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    cluster_id: Annotated[str, Meta(max_length=300)]
    topic_id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    saved_ms: _Count
    sections: Annotated[tuple[_Section, ...], Meta(max_length=100)]
    packed_bytes: _Count
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


def encode_state(state: SavedState) -> bytes:
    """The file's bytes."""
    import zstandard

    sections: list[_Section] = []
    parts: list[bytes] = []
    for name, values in sorted(state.texts.items()):
        data = _packed_texts(values)
        sections.append(_Section(name=name, dtype=TEXT, shape=(len(values),), bytes=len(data)))
        parts.append(data)
    for name, array in sorted(state.arrays.items()):
        if array.dtype.str not in DTYPES:
            raise ValueError(f"{name} has type {array.dtype.str}")
        data = array.tobytes()
        sections.append(_Section(name=name, dtype=array.dtype.str, shape=array.shape, bytes=len(data)))
        parts.append(data)
    packed = zstandard.ZstdCompressor(level=_LEVEL).compress(b"".join(parts))
    head = _Head(
        cluster_id=state.cluster_id,
        topic_id=state.topic_id.hex(),
        saved_ms=state.saved_ms,
        sections=tuple(sections),
        packed_bytes=len(packed),
        digest=_digest(packed),
    )
    return encode_document(STATE_KIND, head) + packed


def decode_state(data: bytes, source: str) -> SavedState:
    """Read a state file; `InputError` when it is cut, changed, of another kind, or larger than it may be."""
    import zstandard

    line = data.find(b"\n", 0, HEAD_LIMIT_BYTES) + 1
    if not line:
        raise InputError(source, "has no header")
    head = decode_document(data[:line], STATE_KIND, _Head, source)
    packed = data[line:]
    if len(packed) != head.packed_bytes or _digest(packed) != head.digest:
        raise InputError(source, "is damaged: its digest does not match")
    size = sum(s.bytes for s in head.sections)
    if size > LIMIT_BYTES:
        raise InputError(source, f"holds more than {LIMIT_BYTES:,} bytes")
    try:
        if zstandard.frame_content_size(packed) != size:
            raise ValueError
        body = zstandard.ZstdDecompressor().decompress(packed) if size else b""
        texts, arrays = _unpacked(head.sections, body)
    except (zstandard.ZstdError, ValueError):
        raise InputError(source, "is damaged: its sections do not fit together") from None
    return SavedState(
        cluster_id=head.cluster_id,
        topic_id=bytes.fromhex(head.topic_id),
        saved_ms=head.saved_ms,
        texts=texts,
        arrays=arrays,
    )


def _unpacked(sections: Sequence[_Section], body: bytes) -> "tuple[dict[str, list[bytes]], dict[str, NDArray[Any]]]":
    import numpy as np

    texts: dict[str, list[bytes]] = {}
    arrays: dict[str, NDArray[Any]] = {}
    at = 0
    for section in sections:
        part = body[at : at + section.bytes]
        at += section.bytes
        if section.dtype == TEXT:
            texts[section.name] = _texts(part, section.shape[0])
        elif section.dtype not in DTYPES or prod(section.shape) * np.dtype(section.dtype).itemsize != len(part):
            raise ValueError
        else:
            # A copy, since arrays over bytes cannot be written to.
            arrays[section.name] = np.frombuffer(part, section.dtype).reshape(section.shape).copy()
    return texts, arrays


def _packed_texts(values: Sequence[bytes]) -> bytes:
    import numpy as np

    return np.array([len(v) for v in values], "<i8").tobytes() + b"".join(values)


def _texts(part: bytes, count: int) -> list[bytes]:
    import numpy as np

    sizes: list[int] = np.frombuffer(part[: 8 * count], "<i8").tolist()
    if len(sizes) != count or min(sizes, default=0) < 0 or 8 * count + sum(sizes) != len(part):
        raise ValueError
    return [part[8 * count + end - size : 8 * count + end] for size, end in zip(sizes, accumulate(sizes), strict=True)]


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=32).hexdigest()
