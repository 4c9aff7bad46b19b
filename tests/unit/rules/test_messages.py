"""Rules of messages at their boundaries, and the port of librdkafka's loop against the loop as C has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.rules.families.messages import is_decodable, largest_output, output_sizes
from tests.rigs.rule_cases import SKIPPED, findings, verdict

MIB = 2**20
BROKER = '{config: {socket.request.max.bytes: "1000", replica.fetch.max.bytes: "100"}, brokers: [{id: 1}], topics: '


def sized(size: int) -> str:
    return f'[{{name: t, config: {{max.message.bytes: "{size}"}}}}]'


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("KKM401", f"{BROKER}{sized(1000)}}}", 0),
        ("KKM401", f"{BROKER}{sized(1001)}}}", 1),
        ("KKM401", f"topics: {sized(1000)}", SKIPPED),
        ("KKM401", "brokers: [{id: 1, config: {}}]\ntopics: [{name: t}]", 0),
        ("KKM402", "brokers: [{id: 1, config: {}}]\ntopics: [{name: t}]", 0),
        ("KKM402", f"{BROKER}{sized(400)}}}", 0),
        ("KKM402", f"{BROKER}{sized(401)}}}", 1),
        ("KKM402", f"brokers: [{{id: 1, config: {{}}}}]\ntopics: {sized(4 * MIB)}", 0),
        ("KKM402", f"brokers: [{{id: 1, config: {{}}}}]\ntopics: {sized(10 * MIB + 1)}", 1),
        ("KKM402", f"topics: {sized(400)}", SKIPPED),
        ("KKM403", "brokers: [{id: 1, config: {}}]\ntopics: [{name: t}]", 0),
        ("KKM403", f"topics: {sized(4 * MIB)}", 0),
        ("KKM403", f"topics: {sized(4 * MIB + 1)}", 1),
        ("KKM404", f"topics: {sized(10 * MIB)}", 0),
        ("KKM404", f"topics: {sized(10 * MIB + 1)}", 1),
        ("KKM404", "topics: [{name: t}]", SKIPPED),
        ("KKM405", f"topics: {sized(MIB)}", SKIPPED),
        ("KKM405", 'topics: [{name: t, config: {max.message.bytes: "1048589"}, observed: {current: {}}}]', SKIPPED),
        (
            "KKM405",
            'config: {}\ntopics: [{name: t, config: {max.message.bytes: "1048588"}, observed: {current: {}}}]',
            0,
        ),
        (
            "KKM405",
            'config: {}\ntopics: [{name: t, config: {max.message.bytes: "1048589"}, observed: {current: {}}}]',
            1,
        ),
        (
            "KKM405",
            'topics: [{name: t, config: {max.message.bytes: "2000000"},'
            ' observed: {current: {max.message.bytes: "2000000"}}}]',
            0,
        ),
        ("KKM406", "topics: [{name: t, config: {compression.type: lz4}, observed: {codec: lz4}}]", 0),
        ("KKM406", "topics: [{name: t, config: {compression.type: uncompressed}, observed: {codec: none}}]", 0),
        ("KKM406", "topics: [{name: t, config: {compression.type: lz4}}]", SKIPPED),
        ("KKM406", "topics: [{name: t, config: {compression.type: producer}}]", 0),
        ("KKM407", 'topics: [{name: t, config: {compression.type: zstd, compression.zstd.level: "12"}}]', 0),
        ("KKM407", 'topics: [{name: t, config: {compression.type: zstd, compression.zstd.level: "13"}}]', 1),
        ("KKM407", 'topics: [{name: t, config: {compression.type: gzip, compression.gzip.level: "8"}}]', 0),
        ("KKM407", 'topics: [{name: t, config: {compression.type: gzip, compression.gzip.level: "9"}}]', 1),
        ("KKM407", 'topics: [{name: t, config: {compression.type: lz4, compression.gzip.level: "9"}}]', 0),
        (
            "KKM408",
            "topics: [{name: t, observed: {codec: none,"
            " partitions: [{partition: 0, replicas: [1], bytes_s: 500000}, {partition: 1, replicas: [1],"
            " bytes_s: 500000}]}}]",
            0,
        ),
        (
            "KKM408",
            "topics: [{name: t, observed: {codec: none,"
            " partitions: [{partition: 0, replicas: [1], bytes_s: 500000}, {partition: 1, replicas: [1],"
            " bytes_s: 500001}]}}]",
            1,
        ),
        ("KKM408", "topics: [{name: t, observed: {codec: none}}]", SKIPPED),
        ("KKM409", f"topics: {sized(256 * MIB // 20)}", 0),
        ("KKM409", f"topics: {sized(256 * MIB // 20 + 1)}", 1),
        ("KKM409", "brokers: [{id: 1, config: {}}]\ntopics: [{name: t}]", 0),
        ("KKM410", "topics: [{name: t}]", SKIPPED),
        ("KKM410", "topics: [{name: t, observed: {batches: []}}]", 0),
        ("KKM411", "topics: [{name: t, observed: {timestamp_skew_s: 3600}}]", 0),
        ("KKM411", "topics: [{name: t, observed: {timestamp_skew_s: -3601}}]", 1),
        ("KKM411", "topics: [{name: t}]", SKIPPED),
        ("KKM412", "topics: [{name: t, config: {message.timestamp.type: LogAppendTime}}]", 0),
    ],
)
def test_boundaries(code: str, text: str, expected: int | str) -> None:
    assert verdict(code, text) == expected


def test_the_worked_value_of_librdkafka() -> None:
    assert list(output_sizes(1_000_000, None, 100_000_000)) == [2_000_000, 6_000_000, 18_000_000, 54_000_000]
    assert largest_output(1_000_000, None, 100_000_000) == 54_000_000
    assert is_decodable(1_000_000, 54_000_000, None)
    assert not is_decodable(1_000_000, 54_000_001, None)
    assert is_decodable(1_000_000, 60_000_000, 60_000_000)
    assert not is_decodable(1_000_000, 100_000_001, 100_000_001)


def test_small_buffers_grow_by_4000() -> None:
    assert list(output_sizes(10, None, 20_000)) == [20, 4_020, 12_060]


def test_the_message_has_the_numbers() -> None:
    (found,) = findings(
        "KKM410",
        "topics: [{name: t, observed: {batches: [{partition: 3, offset: 71, compressed_bytes: 1000000,"
        " decompressed_bytes: 60000000}]}}]",
    )
    assert "partition 3 offset 71" in found.message
    assert "tries at most 54,000,000 bytes (receive.message.max.bytes 100,000,000)" in found.message


@given(st.integers(1, 10**7), st.integers(0, 10**9), st.one_of(st.none(), st.integers(0, 10**9)), st.integers(1, 10**9))
def test_the_port_is_the_loop(compressed: int, decompressed: int, content_size: int | None, limit: int) -> None:
    # rdkafka_zstd.c, rd_kafka_zstd_decompress, with a decompressor that fails while the output is too small.
    out_bufsize = content_size if content_size is not None else compressed * 2
    decoded = False
    while out_bufsize <= limit:
        if out_bufsize >= decompressed:
            decoded = True
            break
        out_bufsize += max(out_bufsize * 2, 4000)
    assert is_decodable(compressed, decompressed, content_size, limit) is decoded
