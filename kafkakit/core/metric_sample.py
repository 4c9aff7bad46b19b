"""One value of one series of a metrics service."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple


class Sample(NamedTuple):
    """`value` is NaN where the series has none, and `time` then that of the query."""

    labels: Mapping[str, str]
    value: float
    time: datetime
