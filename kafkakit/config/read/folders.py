"""Where kafkakit keeps configuration, state, caches and sockets: XDG's folders, or systemd's."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Absolute folders; none of them needs to exist. `locks` None: the host's own folder for locks of all users."""

    config: Path
    state: Path
    cache: Path
    runtime: Path
    locks: Path | None = None


def find_folders(environment: Mapping[str, str]) -> Folders:
    """Derive the folders from the environment; relative XDG values are ignored, as the standard requires."""
    home = Path(environment.get("HOME") or "~").expanduser()
    state = _first(environment, "KAFKAKIT_STATE_DIR", "STATE_DIRECTORY") or _xdg(
        environment, "XDG_STATE_HOME", home / ".local/state"
    )
    runtime = _first(environment, "RUNTIME_DIRECTORY")
    if runtime is None:
        base = environment.get("XDG_RUNTIME_DIR", "")
        runtime = Path(base) / "kafkakit" if os.path.isabs(base) else state / "run"
    return Folders(
        config=_xdg(environment, "XDG_CONFIG_HOME", home / ".config"),
        state=state,
        cache=_xdg(environment, "XDG_CACHE_HOME", home / ".cache"),
        runtime=runtime,
        locks=_first(environment, "KAFKAKIT_LOCK_DIR"),
    )


def _xdg(environment: Mapping[str, str], name: str, fallback: Path) -> Path:
    value = environment.get(name, "")
    return (Path(value) if os.path.isabs(value) else fallback) / "kafkakit"


def _first(environment: Mapping[str, str], *names: str) -> Path | None:
    for name in names:
        # systemd gives a colon-separated list; the first one is ours.
        value = environment.get(name, "").split(":")[0]
        if os.path.isabs(value):
            return Path(value)
    return None
