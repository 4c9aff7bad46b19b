"""How arrays that are indexed by ever higher numbers grow."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

Columns = Mapping[str, tuple[str, object]]
"""Attributes of an object that are arrays of one length: by name the type of the elements, and what fills new rows."""


def grown(array: "NDArray[Any]", rows: int, fill: object) -> "NDArray[Any]":
    """The array itself when it has `rows` rows, else a copy with space for an eighth more, new rows set to `fill`.

    With `fill` None they hold anything, and take no memory until they are written.
    """
    import numpy as np

    have = len(array)
    if have >= rows:
        return array
    bigger = np.empty((max(rows, have + have // 8, 64), *array.shape[1:]), dtype=array.dtype)
    bigger[:have] = array
    if fill is not None:
        bigger[have:] = fill
    return bigger


def add_columns(owner: object, columns: Columns, *shape: int) -> None:
    """Give an object its columns, empty; each row has `shape`."""
    import numpy as np

    for name, (dtype, _) in columns.items():
        setattr(owner, name, np.empty((0, *shape), dtype=dtype))


def grow_columns(owner: object, columns: Columns, rows: int) -> None:
    """Let the columns of an object have at least `rows` rows, see `grown`."""
    for name, (_, fill) in columns.items():
        setattr(owner, name, grown(getattr(owner, name), rows, fill))
