"""Looks at a store of snapshots: which dates it has, and when a date was collected."""

import json

from kafkakit.core.fleet_tables import MANIFESTS, manifest_of
from kafkakit.ports.run_store import RunStore

_DATE = "snapshot_date="


def known_dates(store: RunStore) -> tuple[str, ...]:
    """The dates of which the store has a manifest, oldest first. One listing."""
    return tuple(name.removeprefix(_DATE) for name in store.names(MANIFESTS) if name.startswith(_DATE))


def taken_ms(store: RunStore, snapshot_date: str) -> int | None:
    """When the last cluster of a date was read whole; None where there is none. Reads each manifest of the date."""
    folder, times = f"{MANIFESTS}/{_DATE}{snapshot_date}", []
    for name in store.names(folder):
        try:
            manifest = manifest_of(json.loads(store.read(f"{folder}/{name}") or b""))
        except (ValueError, AttributeError):
            continue
        if manifest.is_complete:
            times.append(manifest.ended_ms)
    return max(times, default=None)
