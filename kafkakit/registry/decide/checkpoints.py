"""MirrorMaker 2's checkpoints: which local offset of a group stands for which upstream one."""

from collections.abc import Iterable
from struct import Struct

from kafkakit.core.records import Record
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.registry.decide.faults import invalid

SUFFIX = ".checkpoints.internal"
DEFAULT_ALIAS = "source"
MAX_NAME = 249
_SHORT, _INT, _VALUE = Struct(">h"), Struct(">i"), Struct(">hqq")


def checkpoint_topic(alias: str) -> str:
    """The topic with the checkpoints of an upstream cluster; `RpcError` for an alias that is in no topic's name."""
    topic = f"{alias or DEFAULT_ALIAS}{SUFFIX}"
    if len(topic) > MAX_NAME or not all(char.isascii() and (char.isalnum() or char in "._-") for char in topic):
        raise invalid("the alias cannot be part of a topic's name")
    return topic


def fold_checkpoints(records: Iterable[Record], group: str, found: dict[str, tuple[int, int]]) -> None:
    """Enter the group's offsets by `topic:partition`; the last record of each wins, one without a value removes it."""
    for record in records:
        owner, entry = _read_key(record.key or b"", record.offset)
        if owner != group:
            continue
        if record.is_null:
            found.pop(entry, None)
            continue
        if len(record.value) < _VALUE.size:
            raise _damaged(record.offset)
        version, upstream, local = _VALUE.unpack_from(record.value)
        if version != 0:
            raise RpcError(RpcCode.INTERNAL, f"unknown header version on checkpoint record: {version}")
        found[entry] = (upstream, local)


def _read_key(key: bytes, offset: int) -> tuple[str, str]:
    group, rest = _text(key, offset)
    topic, rest = _text(rest, offset)
    if not group:
        raise RpcError(RpcCode.INTERNAL, "unexpected consumer group with empty name")
    if not topic:
        raise RpcError(RpcCode.INTERNAL, "unexpected topic with empty name")
    if len(rest) < _INT.size:
        raise _damaged(offset)
    return group, f"{topic}:{_INT.unpack_from(rest)[0]}"


def _text(data: bytes, offset: int) -> tuple[str, bytes]:
    if len(data) < _SHORT.size:
        raise _damaged(offset)
    length = _SHORT.unpack_from(data)[0]
    if length < 0 or len(data) < _SHORT.size + length:
        raise _damaged(offset)
    return data[_SHORT.size : _SHORT.size + length].decode("utf-8", "replace"), data[_SHORT.size + length :]


def _damaged(offset: int) -> RpcError:
    return RpcError(RpcCode.INTERNAL, f"the checkpoint record at offset {offset} is damaged")
