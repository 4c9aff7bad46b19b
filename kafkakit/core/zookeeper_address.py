"""ZooKeeper addresses and znode paths as people write them."""

import re

from kafkakit.core.errors import UsageError

DEFAULT_PORT = 2181
_HOST = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::([0-9]{1,5}))?")
_PATH_PART = re.compile(r"[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff]{1,255}")


def parse_zookeeper_address(address: str, name: str) -> tuple[str, str]:
    """Split `host:port,host:port/chroot` into hosts with ports (2181 where none is given) and the chroot's path.

    `name` is what the error calls it; `UsageError` names the part that is wrong.
    """
    hosts, slash, chroot = address.strip().partition("/")
    named = []
    for raw in hosts.split(","):
        entry = raw.strip()
        match = _HOST.fullmatch(entry)
        if match is None or not 0 < int(match[1] or DEFAULT_PORT) <= 65535:
            raise UsageError(
                f"{name}: {entry[:60]!r} is not HOST:PORT",
                hint="give addresses separated by commas: zk1:2181,zk2:2181",
            )
        named.append(entry if match[1] else f"{entry}:{DEFAULT_PORT}")
    return ",".join(named), znode_path(chroot, name) if slash else ""


def znode_path(text: str, name: str) -> str:
    """The path below the root with a slash in front, or nothing for an empty one; `UsageError` when it is none."""
    parts = [part for part in text.strip("/").split("/") if part]
    for part in parts:
        if not _PATH_PART.fullmatch(part) or part in (".", ".."):
            raise UsageError(f"{name}: {part[:60]!r} is not a part of a znode's path")
    return "".join(f"/{part}" for part in parts)
