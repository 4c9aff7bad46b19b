"""A value with the version that replacing it must name."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Versioned:
    """A value of a control store and the version that a `cas` must name to replace it."""

    value: bytes
    version: int
