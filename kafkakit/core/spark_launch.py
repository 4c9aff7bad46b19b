"""What starts a driver of Spark: the installation and the command line, as values."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTools:
    """What runs a driver here: Spark's folder, a Python with pyspark, a Java, and the folder of kafkakit's job code."""

    spark_home: str
    python: str
    java_home: str
    code_folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command line, and what it needs in its environment beside that of this process."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
