"""Short lists in sentences."""

from collections.abc import Iterable

_SHOWN = 8


def some(items: Iterable[object]) -> str:
    """The items joined with commas, at most eight of them: `1, 2, ... (12 in all)`; `none` for an empty list."""
    texts = [str(item) for item in items]
    if len(texts) > _SHOWN:
        return f"{', '.join(texts[:_SHOWN])}, ... ({len(texts)} in all)"
    return ", ".join(texts) or "none"
