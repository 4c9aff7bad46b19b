"""The words for dialects and forms on the command line, taken from the dialects themselves."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from kafkakit.streams.model.dialects.registry import FORMS, WORDS

if TYPE_CHECKING:
    DialectWord: TypeAlias = str
    FormWord: TypeAlias = str
else:
    DialectWord = StrEnum("DialectWord", {word: word for word in WORDS})
    FormWord = StrEnum("FormWord", {word: word for word in FORMS})

DEFAULT_FORM = FormWord(FORMS[0])
