"""What is installed beside the kit: package versions and the version of librdkafka."""

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec


def package_versions(names: Iterable[str]) -> dict[str, str | None]:
    """Versions of installed packages from their metadata, None where absent; nothing is imported."""
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def python_version() -> str:
    """The running Python's version."""
    return platform.python_version()


def librdkafka_version() -> str | None:
    """The version of the C library that confluent-kafka loads, None when it cannot be loaded."""
    try:
        from confluent_kafka import libversion
    except ImportError:
        return None
    return str(libversion()[0])


def is_importable(module: str) -> bool:
    """True when a top-level module could be imported; it is not."""
    return find_spec(module) is not None
