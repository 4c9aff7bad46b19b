"""Writing an offset map as confluentinc/parallel-consumer reads it, for a group that moves to that client."""

import struct

from kafkakit.streams.formats.commit import CommitState
from kafkakit.streams.formats.dialects.metadata_text import to_base64
from kafkakit.streams.formats.dialects.parallel_consumer.layout import ENCODINGS, MAX_BODY, MAX_RANGES
from kafkakit.streams.formats.kkm1.packing import pack_bitmap, runs_of
from kafkakit.streams.formats.kkm1.writable import check_done

CLIENT_LIMIT_CHARS = 4096
"""What the client itself takes for the limit, whatever its brokers allow."""
SMALL_BYTES = 200
"""Below this size of the data the client does not try to compress."""
MAX_RUN = 2**31 - 1
_MAGIC = {encoding.name: bytes([encoding.magic]) for encoding in ENCODINGS.values()}


def write_parallel_consumer(state: CommitState, *, limit_chars: int = CLIENT_LIMIT_CHARS) -> str | None:
    """The shortest metadata that parallel-consumer reads as the same done set; None when none fits `limit_chars`.

    "" stands for a state without done offsets above its base, as that client writes it. Runs and bitmaps of version 2
    are tried, and both under zstd when neither is below 200 bytes; of equal sizes runs win. The done set is kept
    exactly, everything else of the state is left out. Cost: linear in the ranges of the done set, and in its span up
    to 8 million offsets; a set of more ranges than a reader takes is given up at once. Raises `ValueError` for
    a done set that is not above the base (a mistake of the program).
    """
    check_done(state.base, state.done)
    if not state.done:
        return ""
    if len(state.done.ranges) > MAX_RANGES:
        return None
    runs = runs_of(state.base, state.done)
    maps = {"RunLengthV2": _runs(runs), "BitSetV2": _bitmap(runs)}
    candidates = [(name, data) for name, data in maps.items() if data is not None]
    if all(len(data) >= SMALL_BYTES for _, data in candidates):
        candidates += [(f"{name}Compressed", _zstd(data)) for name, data in candidates if len(data) <= MAX_BODY]
    if not candidates:
        return None
    name, data = min(candidates, key=lambda candidate: len(candidate[1]))
    text = to_base64(_MAGIC[name] + data)
    return text if len(text) <= limit_chars else None


def _runs(runs: list[int]) -> bytes | None:
    return None if max(runs) > MAX_RUN else struct.pack(f">{len(runs)}i", *runs)


def _bitmap(runs: list[int]) -> bytes | None:
    length = sum(runs)
    return struct.pack(">i", length) + pack_bitmap(runs).data + b"\0" if length < 8 * (MAX_BODY - 8) else None


def _zstd(data: bytes) -> bytes:
    """A frame without the content's size, as the client's stream writes it."""
    from zstandard import ZstdCompressor

    return ZstdCompressor(level=3, write_content_size=False).compress(data)
