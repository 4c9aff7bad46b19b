"""Spans of time as sentences have them."""

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import (
    agree,
    format_bytes,
    format_rate,
    format_rough_time,
    format_span,
    parse_rate,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20MB", 20_000_000),
        ("20MiB", 20 * 2**20),
        ("20 MB/s", 20_000_000),
        ("500kB", 500_000),
        ("10M", 10_000_000),
        ("1.5G", 1_500_000_000),
        ("1048576", 1_048_576),
        (" 1B ", 1),
        ("0.5kB", 500),
        ("999999999999999999", 999_999_999_999_999_999),
    ],
)
def test_rates_are_read(text: str, expected: int) -> None:
    assert parse_rate(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0MB",
        "10",
        "999/s",
        "-5MB",
        "fast",
        "20XB",
        "1e6",
        "20MB/h",
        "0.0001B",
        "9" * 18 + "TB",
        "9" * 10_000,
        "٣MB",
        "20Mb",
        "20Mb/s",
        "20Mbps",
        "20MBps",
    ],
)
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_rate(text)


def test_sizes_are_read_and_may_be_zero() -> None:
    assert [parse_size(text) for text in ("0", "500MB", "1.5GiB", "200k", "2 GiB")] == [
        0,
        500_000_000,
        1_610_612_736,
        200_000,
        2**31,
    ]
    for text in ("", "1Mb", "10MB/s", "-1"):
        with pytest.raises(UsageError, match="is not a size"):
            parse_size(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1_440_000_000_000, "1.31 TiB"), (2**20, "1 MiB"), (None, "?")],
)
def test_bytes_are_printed(count: int | None, text: str) -> None:
    assert format_bytes(count) == text


def test_rates_and_times_are_printed() -> None:
    assert format_rate(20_000_000) == "20 MB/s"
    assert format_rate(999_600) == "1 MB/s"
    assert format_rate(1234) == "1.23 kB/s"
    assert [format_rough_time(s) for s in (0.4, 12, 200, 7500, 90_000)] == ["0s", "12s", "3m 20s", "2h 5m", "1d 1h"]


@pytest.mark.parametrize(
    ("what", "one"),
    [("are lost", "is lost"), ("do not exist", "does not exist"), ("have none", "has none"), ("name it", "names it"),
     ("cannot be read", "cannot be read"), ("is of version 2", "is of version 2")],
)  # fmt: skip
def test_verbs_agree_with_numbers(what: str, one: str) -> None:
    assert agree(1, what) == one
    assert agree(2, what) == what


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0041, "0.0041 s"),
        (45, "45 s"),
        (60, "1 min"),
        (113, "1 min 53 s"),
        (600, "10 min"),
        (3600, "1 h"),
        (86_400, "24 h"),
        (36 * 3600 + 300, "36 h 05 min"),
        (192 * 3600 + 300, "192 h 05 min"),
        (7 * 86_400, "7 d"),
        (10 * 86_400 + 3600, "10 d 1 h"),
        (12 * 86_400 + 60, "12 d"),
    ],
)
def test_a_span_is_as_exact_as_matters(seconds: float, text: str) -> None:
    assert format_span(seconds) == text
