"""How arrays that are indexed by ever higher numbers grow."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


def grown(array: "NDArray[Any]", rows: int, fill: object) -> "NDArray[Any]":
    """The array itself when it has `rows` rows, else a copy with room for an eighth more, new rows set to `fill`.

    With `fill` None they hold anything, and take no memory until they are written.
    """
    import numpy as np

    have = len(array)
    if have >= rows:
        return array
    room = max(rows, have + have // 8, 64)
    bigger = np.empty((room, *array.shape[1:]), dtype=array.dtype)
    bigger[:have] = array
    if fill is not None:
        bigger[have:] = fill
    return bigger
