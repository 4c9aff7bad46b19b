"""Whatever bytes a metrics znode holds: they are read, or refused in one line. Never anything else."""

import gzip

import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkakit.core.errors import InputError
from kafkakit.core.model import TopicPartition
from kafkakit.core.storage_documents import (
    Compression,
    decode_broker_storage,
    decode_partition_sizes,
    encode_broker_storage,
    encode_partition_sizes,
)

ROUNDS = settings(max_examples=300, deadline=None, derandomize=True)
KEYS = st.builds(TopicPartition, st.text("abz._-", min_size=1, max_size=5), st.integers(0, 2**31 - 1))
SIZES = st.dictionaries(KEYS, st.integers(0, 2**53), max_size=8)
FREE = st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**53), max_size=8)
GOOD = encode_partition_sizes({TopicPartition("orders", 3): 12})


def only_input_errors(data: bytes) -> None:
    for decode in (decode_partition_sizes, decode_broker_storage):
        refusal = ""
        try:
            values = decode(data, "znode")
        except InputError as error:
            refusal = str(error)
        else:
            assert all(isinstance(v, int) and 0 <= v < 2**63 for v in values.values())
        assert not refusal or refusal.startswith("znode: ")
        assert "\n" not in refusal
        assert len(refusal) < 1_000


@ROUNDS
@given(st.binary(max_size=200))
@example(b'{"t":{"0":{"Size":1e400}}}')
@example(b'{"t":{"0":{"Size":9223372036854775807}}}')
def test_random_bytes(data: bytes) -> None:
    only_input_errors(data)
    only_input_errors(b"\x1f\x8b" + data)
    only_input_errors(gzip.compress(data))
    only_input_errors(b"\x28\xb5\x2f\xfd" + data)
    only_input_errors(zstandard.compress(data))


@ROUNDS
@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255), st.integers(0, len(GOOD)))
def test_a_good_znode_with_a_byte_changed_or_its_end_cut_off(place: int, value: int, end: int) -> None:
    data = bytearray(GOOD)
    data[place] = value
    only_input_errors(bytes(data))
    only_input_errors(GOOD[:end])


@ROUNDS
@given(SIZES, FREE, st.sampled_from(Compression))
def test_what_is_written_is_read(
    sizes: dict[TopicPartition, int], free: dict[int, int], compression: Compression
) -> None:
    assert decode_partition_sizes(encode_partition_sizes(sizes, compression), "z") == sizes
    assert decode_broker_storage(encode_broker_storage(free, compression), "z") == free
