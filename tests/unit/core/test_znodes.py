"""kafka-kit's metrics znodes: read as it writes them, and refused in one line when they make no sense."""

import gzip
import json
import tracemalloc

import pytest
import zstandard

from kafkakit.core import storage_documents as znodes
from kafkakit.core.errors import InputError
from kafkakit.core.model import TopicPartition
from kafkakit.core.storage_documents import (
    Compression,
    decode_broker_storage,
    decode_partition_sizes,
    encode_broker_storage,
    encode_partition_sizes,
)
from tests.contracts.storage_metrics import StorageMetricsContract
from tests.fakes.admin import FakeClock, FakeStorageMetrics

SIZES = {TopicPartition("b", 2): 7, TopicPartition("b", 10): 8, TopicPartition("a.x", 0): 2**40}


class FakeRig(FakeStorageMetrics):
    def __init__(self) -> None:
        super().__init__(FakeClock())
        self.metrics = self

    def pass_time(self) -> None:
        self.clock.advance(0.05)

    def now(self):  # type: ignore[no-untyped-def]
        return self.clock.now()


@pytest.fixture
def rig() -> FakeRig:
    return FakeRig()


class TestFakeStorageMetrics(StorageMetricsContract):
    pass


def test_the_bytes_are_those_that_kafka_kit_writes() -> None:
    text = b'{"a.x":{"0":{"Size":1099511627776}},"b":{"10":{"Size":8},"2":{"Size":7}}}'
    assert encode_partition_sizes(SIZES, Compression.NONE) == text
    assert gzip.decompress(encode_partition_sizes(SIZES)) == text
    assert encode_broker_storage({1002: 1, 999: 2}, Compression.NONE) == (
        b'{"1002":{"StorageFree":1},"999":{"StorageFree":2}}'
    )


@pytest.mark.parametrize("compression", Compression)
def test_what_is_written_is_read(compression: Compression) -> None:
    assert decode_partition_sizes(encode_partition_sizes(SIZES, compression), "z") == SIZES
    assert decode_broker_storage(encode_broker_storage({1: 5}, compression), "z") == {1: 5}
    assert decode_partition_sizes(encode_partition_sizes({}, compression), "z") == {}


def test_numbers_with_fractions_and_exponents_are_rounded_down() -> None:
    assert decode_broker_storage(b'{"1":{"StorageFree":1.5e3},"2":{"StorageFree":9.99,"Other":1}}', "z") == {
        1: 1500,
        2: 9,
    }


def test_several_gzip_members_are_one_text() -> None:
    data = gzip.compress(b'{"1":{"Stor') + gzip.compress(b'ageFree":4}}')
    assert decode_broker_storage(data, "z") == {1: 4}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "not valid JSON"),
        (b"null", "Expected `object`"),
        (b"[]", "Expected `object`"),
        (b'{"t":{"0":{"Size":-1}}}', "which is not a number of bytes"),
        (b'{"t":{"0":{"Size":1e30}}}', "which is not a number of bytes"),
        (b'{"t":{"0":{"Size":1e999}}}', "z:"),
        (b'{"t":{"0":{"Size":NaN}}}', "not valid JSON"),
        (b'{"t":{"0":{"Size":"12"}}}', "Expected `float`"),
        (b'{"t":{"0":{}}}', "missing required field `Size`"),
        (b'{"t":{"-1":{"Size":1}}}', "'-1' is not a number"),
        (b'{"t":{" 1":{"Size":1}}}', "' 1' is not a number"),
        (b'{"t":{"1_0":{"Size":1}}}', "'1_0' is not a number"),
        ('{"t":{"٣":{"Size":1}}}'.encode(), "is not a number"),
        (b'{"t":{"2147483648":{"Size":1}}}', "is not a number"),
        (b"\xff\xfe", "z:"),
        (b'{"\xff":{}}', "z:"),
        (gzip.compress(b"{}", mtime=0)[:-9], "cannot be unpacked"),
        (b"\x1f\x8bxxxxxxxxxxxxxxx", "cannot be unpacked"),
        (b"[" * 100_000, "z:"),
    ],
)
def test_a_bad_znode_is_refused_in_one_line(data: bytes, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        decode_partition_sizes(data, "z")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_broker_is_refused() -> None:
    with pytest.raises(InputError, match="'x' is not a number"):
        decode_broker_storage(b'{"x":{"StorageFree":1}}', "z")
    with pytest.raises(InputError, match="free storage of broker 7 is -2"):
        decode_broker_storage(b'{"7":{"StorageFree":-2}}', "z")


def test_a_small_znode_that_inflates_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(znodes, "MAX_INFLATED", 1 << 20)
    bomb = gzip.compress(b" " * (3 << 20))
    assert len(bomb) < 10_000
    with pytest.raises(InputError, match="more than 1 MiB"):
        decode_broker_storage(bomb, "z")
    with pytest.raises(InputError, match="more than 1 MiB"):
        decode_broker_storage(gzip.compress(b" " * (1 << 19)) * 3, "z")
    with pytest.raises(InputError, match="more than 1 MiB"):
        decode_broker_storage(b" " * (2 << 20), "z")
    bomb = zstandard.compress(b" " * (1 << 30))
    assert len(bomb) < 100_000
    tracemalloc.start()
    with pytest.raises(InputError, match="more than 1 MiB"):
        decode_broker_storage(bomb, "z")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 64 << 20


def test_a_large_cluster_is_read_whole() -> None:
    sizes = {TopicPartition(f"topic-{t}", p): t * p for t in range(100) for p in range(100)}
    assert decode_partition_sizes(encode_partition_sizes(sizes), "z") == sizes
    assert json.loads(encode_partition_sizes(sizes, Compression.NONE))["topic-99"]["99"] == {"Size": 99 * 99}
