"""Moves over a network that carries less than the brokers could send.

The checks are in `narrow_*.py`, which pytest runs in a network namespace of its own, on its loopback.
"""

from pathlib import Path

import pytest

from tests.rigs.capped_network import lacking, run_inside
from tests.rigs.required import missing


@pytest.mark.kafka
@pytest.mark.parametrize("checks", ["narrow_network.py", "narrow_autothrottle.py"])
def test_moves_over_a_narrow_network_end_well(checks: str) -> None:
    if reason := lacking():
        missing("netns", reason)
    words = ["-m", "pytest", "-n0", "-p", "no:cacheprovider", str(Path(__file__).with_name(checks))]
    ran = run_inside(words, capture_output=True, timeout=850)
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]
    assert "1 passed" in ran.stdout
