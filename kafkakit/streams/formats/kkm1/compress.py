"""zstd as a tie-breaker: it wins over Rice codes for dense or regular patterns, and only then it is used."""

from kafkakit.streams.formats.inflate import BombError, inflate_zstd
from kafkakit.streams.formats.kkm1.envelope import MAX_BODY_BYTES
from kafkakit.streams.formats.zstd_frames import DamagedError

# Below this a frame's own headers cost more than it saves.
MIN_BODY = 64
# The weakest level takes microseconds and tells whether the strongest, which takes milliseconds, has a chance.
_PROBE, _BEST = 1, 19
_CHANCE = 1.25
# Where even a body that the probe likes is long, the strongest level costs tens of milliseconds for a few bytes.
_LONG, _BEST_OF_LONG = 16 * 1024, 9


def compressed(body: bytes, rival: int | None) -> bytes | None:
    """The body as one zstd frame of less than `rival` bytes (None: none stands), without a size or checksum.

    None where it is not smaller, or could not be read back within the reader's limits.
    """
    if not MIN_BODY <= len(body) <= MAX_BODY_BYTES:
        return None
    frame = _frame(body, _PROBE)
    if rival is not None and len(frame) > _CHANCE * rival:
        return None
    frame = min(frame, _frame(body, _BEST if len(body) < _LONG else _BEST_OF_LONG), key=len)
    if rival is not None and len(frame) >= rival:
        return None
    try:
        return frame if inflate_zstd(frame, MAX_BODY_BYTES) == body else None
    except (BombError, DamagedError):
        return None


def _frame(body: bytes, level: int) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=level, write_content_size=False, write_checksum=False).compress(body)
