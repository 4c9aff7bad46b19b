"""Spans of time as sentences have them."""

import pytest

from kafkakit.core.quantities import format_span


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
