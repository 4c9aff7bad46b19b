"""What a control store accepts as a path and as a value, the same in every adapter."""

import re

from kafkakit.core.errors import ConflictError, UsageError

VALUE_LIMIT_BYTES = 64 * 1024
MAX_PARTS = 8
_PART = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


def check_path(path: str) -> tuple[str, ...]:
    """The parts of a path: 1 to 8 names of at most 249 letters, digits, `.`, `_`, `-`; else `UsageError`.

    So a topic's name is one, and a path is safe as a path of files and of znodes, and leads nowhere else: neither `.`
    nor `..` is a name.
    """
    parts = tuple(path.split("/"))
    if len(parts) > MAX_PARTS or not all(_PART.fullmatch(part) for part in parts):
        raise UsageError(f"{path[:80]!r} is not a path of a control store")
    return parts


def check_folder(path: str) -> tuple[str, ...]:
    """The parts of a path whose children are asked for; the empty path is the root."""
    return check_path(path) if path else ()


def check_value(value: bytes) -> bytes:
    """The value itself; `UsageError` when it is empty or larger than 64 KiB."""
    if not 0 < len(value) <= VALUE_LIMIT_BYTES:
        raise UsageError(f"a control document of {len(value):,} bytes: it must have 1 to {VALUE_LIMIT_BYTES:,}")
    return value


def conflict(path: str, expected: int | None, found: int | None) -> ConflictError:
    """The error for a write that came too late; `found` is the version that is there."""
    wanted = "nothing" if expected is None else f"version {expected}"
    there = "nothing" if found is None else f"version {found}"
    return ConflictError(f"{path} was changed by another process (expected {wanted}, found {there})")
