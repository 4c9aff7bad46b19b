"""What tests of commands share."""

from pathlib import Path

import pytest

from tests.rigs.command_line import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with a working folder, and nothing in it."""
    home = Home(tmp_path)
    home.work.mkdir(parents=True)
    return home
