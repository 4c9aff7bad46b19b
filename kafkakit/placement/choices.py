"""What a rebuild or a drain evens out, as the operator chooses it."""

from enum import StrEnum


class PlaceBy(StrEnum):
    """What a rebuild evens out: counts of replicas, or free bytes."""

    COUNT = "count"
    STORAGE = "storage"


class OptimizeFor(StrEnum):
    """What placement by bytes looks at: free bytes alone, or then leaders too, among the partitions that change."""

    DISTRIBUTION = "distribution"
    STORAGE = "storage"
