"""What is installed beside kafkakit: package versions and the version of librdkafka."""

import platform
import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires, version

_NAME = re.compile(r"[\w.-]+")
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")


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


def missing_of_extras(package: str) -> dict[str, tuple[str, ...]]:
    """The extras of an installed package, for users, with their packages that are not installed; {} when unknown."""
    found: dict[str, list[str]] = {}
    for requirement in requires(package) or ():
        extra = _EXTRA.search(requirement)
        name = _NAME.match(requirement)
        if extra and name and extra[1] != "dev":
            absent = found.setdefault(extra[1], [])
            if package_versions([name[0]])[name[0]] is None:
                absent.append(name[0])
    return {extra: tuple(absent) for extra, absent in sorted(found.items())}
