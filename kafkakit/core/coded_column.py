"""A column of few distinct values: the values once, and which of them each row has."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedColumn(Sequence[Any]):
    """`codes` (one for each row) are places in `words`; -1 is null. Four bytes a row, whatever a word is."""

    words: tuple[Any, ...]
    codes: "NDArray[np.int32]"

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: Any) -> Any:
        code = self.codes[index]
        return None if code < 0 else self.words[code]
