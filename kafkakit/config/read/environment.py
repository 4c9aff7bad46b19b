"""This process's environment and streams, as far as they decide on output and questions."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """The facts about streams and environment that decide on colour, animation and questions."""

    stdin_is_terminal: bool
    stderr_is_terminal: bool
    is_ci: bool
    is_github_actions: bool
    is_dumb: bool
    no_color: bool

    @classmethod
    def now(cls) -> Self:
        """Look at this process."""
        environment = read_environment()
        return cls(
            stdin_is_terminal=_is_terminal(sys.stdin),
            stderr_is_terminal=_is_terminal(sys.stderr),
            is_ci=environment.get("CI", "").lower() not in ("", "0", "false"),
            is_github_actions=environment.get("GITHUB_ACTIONS", "") == "true",
            is_dumb=environment.get("TERM", "") == "dumb",
            no_color=environment.get("NO_COLOR", "") != "",
        )

    def wants_color(self, choice: str) -> bool:
        """Settle `--color`: auto means a terminal that is not dumb, without NO_COLOR."""
        if choice == "auto":
            return self.stderr_is_terminal and not self.is_dumb and not self.no_color
        return choice == "always"


def read_environment() -> Mapping[str, str]:
    """A copy of this process's environment."""
    return dict(os.environ)


def _is_terminal(stream: object) -> bool:
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        return False
