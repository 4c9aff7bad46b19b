"""Which zstd batches librdkafka can read: a port of the loop in `rdkafka_zstd.c` that guesses the size of the output.

The buffer begins with the content size of the frame, or with twice the compressed size where the frame has none, and
grows to three times its size (by 4,000 bytes at least) until the batch fits or `receive.message.max.bytes` is passed.
A batch that no size on the way fits is reported as BAD_COMPRESSION, at every attempt: the partition stalls.
"""

from collections.abc import Iterator

RECEIVE_MESSAGE_MAX_BYTES = 100_000_000
"""librdkafka's default of `receive.message.max.bytes`."""
_LEAST_GROWTH = 4_000


def output_sizes(compressed_bytes: int, content_size: int | None, limit: int) -> Iterator[int]:
    """The sizes in bytes that librdkafka tries, at most `limit`, smallest first; at most about 60."""
    size = 2 * compressed_bytes if content_size is None else content_size
    while size <= limit:
        yield size
        size += max(2 * size, _LEAST_GROWTH)


def largest_output(compressed_bytes: int, content_size: int | None, limit: int) -> int | None:
    """The most bytes that a batch may decompress to and be read; None where no size is tried at all."""
    return max(output_sizes(compressed_bytes, content_size, limit), default=None)


def is_decodable(
    compressed_bytes: int, decompressed_bytes: int, content_size: int | None, limit: int = RECEIVE_MESSAGE_MAX_BYTES
) -> bool:
    """True when librdkafka reads a zstd batch with these sizes in bytes."""
    return any(size >= decompressed_bytes for size in output_sizes(compressed_bytes, content_size, limit))
