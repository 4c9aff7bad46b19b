"""Many big-endian numbers and varints of one byte string at once: gathers by arrays of positions."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Positions = NDArray[np.int64]


class Views:
    """Overlapping views of `data`, one number at every byte position; no copy is made.

    Reads past the end give whatever lies last: callers compare positions with the end of what they read.
    `data` needs at least 8 bytes.
    """

    def __init__(self, data: bytes) -> None:
        import numpy as np

        self.data = data
        self.u8: NDArray[np.uint8] = np.frombuffer(data, np.uint8)
        self._wide: dict[int, NDArray[Any]] = {
            size: np.ndarray((len(data) - size + 1,), f">i{size}", data, strides=(1,)) for size in (2, 4, 8)
        }

    def number(self, at: "Positions", size: int) -> "NDArray[np.int64]":
        """The signed number of 2, 4 or 8 bytes at each position."""
        import numpy as np

        view = self._wide[size]
        return view[np.minimum(at, len(view) - 1)].astype(np.int64)

    def byte(self, at: "Positions") -> "NDArray[np.int64]":
        """The unsigned byte at each position."""
        import numpy as np

        return self.u8[np.minimum(at, len(self.u8) - 1)].astype(np.int64)

    def uvarint(self, at: "Positions", max_bytes: int = 5) -> "tuple[NDArray[np.int64], Positions]":
        """The unsigned varint at each position, and where it ends: far past the data where it has too many bytes.

        Bits beyond the 63rd are lost; nothing that is used has as many.
        """
        import numpy as np

        value = self.byte(at)
        after = at + 1
        more = np.flatnonzero(value >= 0x80)
        value &= 0x7F
        for i in range(1, max_bytes):
            if not more.size:
                return value, after
            byte = self.byte(after[more])
            if i < 9:
                value[more] |= (byte & 0x7F) << (7 * i)
            after[more] += 1
            more = more[byte >= 0x80]
        after[more] = len(self.data) + 1
        return value, after

    def varint(self, at: "Positions") -> "tuple[NDArray[np.int64], Positions]":
        """The zigzag varint (32 bits) at each position, and where it ends, as `uvarint` has it."""
        value, after = self.uvarint(at)
        return (value >> 1) ^ -(value & 1), after
