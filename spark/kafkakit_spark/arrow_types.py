"""Arrow's types of the columns that code of Python fills."""

from collections.abc import Mapping

import pyarrow as pa

ARROW_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}
"""By the name that Spark's DDL has for them."""


def arrow_schema(ddl: str) -> pa.Schema:
    """The columns of a schema of Spark that names these types alone."""
    return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in (part.split() for part in ddl.split(","))])
