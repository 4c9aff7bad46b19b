"""The small text files of a log dir: offset checkpoints, leader epochs, properties."""

from collections.abc import Iterator, Mapping

Checkpoint = Mapping[tuple[str, int], int]


def _lines(data: bytes) -> Iterator[list[str]]:
    """The fields of each entry; ends at the first line that is damaged."""
    lines = data.decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or lines[0].strip() != "0" or not lines[1].strip().isdecimal():
        return
    for line in lines[2 : 2 + int(lines[1])]:
        yield line.split()


def offset_checkpoint(data: bytes) -> Checkpoint:
    """The offsets of `recovery-point-offset-checkpoint` and its like, by topic and partition; without damaged lines."""
    found = {}
    for fields in _lines(data):
        if len(fields) == 3 and fields[1].isdecimal() and fields[2].isdecimal():
            found[fields[0], int(fields[1])] = int(fields[2])
    return found


def leader_epochs(data: bytes) -> tuple[tuple[int, int], ...]:
    """The (epoch, start offset) entries of a `leader-epoch-checkpoint`, oldest first; empty for a damaged file."""
    entries = [tuple(map(int, f)) for f in _lines(data) if len(f) == 2 and f[0].isdecimal() and f[1].isdecimal()]
    found = tuple((epoch, start) for epoch, start in entries)
    return found if found == tuple(sorted(found)) else ()


def properties(data: bytes) -> Mapping[str, str]:
    """The entries of `meta.properties`; of an older version the id of the broker is `broker.id`."""
    pairs = (
        line.split("=", 1) for line in data.decode("utf-8", "replace").splitlines() if not line.lstrip().startswith("#")
    )
    return {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) == 2}


def broker_id(found: Mapping[str, str]) -> int | None:
    """The id that `meta.properties` gives to its broker."""
    text = found.get("node.id", found.get("broker.id", ""))
    return int(text) if text.isdecimal() else None
