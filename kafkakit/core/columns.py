"""Values that are columns of one length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Columns:
    """Base of dataclasses whose fields are arrays of one length, or again such columns; others are of the whole."""

    def taken(self, rows: "NDArray[np.int64] | NDArray[np.bool_]") -> Self:
        """These rows, in this order; what is of the whole stays."""
        taken = {
            name: column.taken(rows) if isinstance(column, Columns) else column[rows]
            for name, column in self._columns()
        }
        return replace(self, **taken)

    @classmethod
    def stacked(cls, parts: "Sequence[Self]") -> Self:
        """The rows of all parts, one at the least, below one another; what is of the whole is the first one's."""
        import numpy as np

        stacked = {}
        for name, column in parts[0]._columns():
            each = [getattr(part, name) for part in parts]
            stacked[name] = column.stacked(each) if isinstance(column, Columns) else np.concatenate(each)
        return replace(parts[0], **stacked)

    def _columns(self) -> Iterator[tuple[str, Any]]:
        import numpy as np

        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray | Columns):
                yield field.name, value
