"""Parts of the machine that a test needs: it skips without them, or fails where `KAFKAKIT_REQUIRE` names them."""

import os
from typing import NoReturn

import pytest


def missing(part: str, reason: str) -> NoReturn:
    """Skip for want of a part, or fail when it is required."""
    if part in os.environ.get("KAFKAKIT_REQUIRE", "").split(","):
        pytest.fail(f"{part} is required: {reason}")
    pytest.skip(f"{part}: {reason}")
