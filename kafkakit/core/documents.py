"""kafkakit's files as values: versioned envelopes, decoded with limits and printed the same everywhere.

Every file is `{"kafkakit": {"kind": KIND, "schema": N}, ...}`. This module turns bytes into values and
back; reading and writing files is `adapters/files.py`.
"""

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from kafkakit.core.errors import InputError
from kafkakit.core.model import ClusterSnapshot, CordonMark, PartitionMap

if TYPE_CHECKING:
    from kafkakit.core.plan import Plan
    from kafkakit.core.yaml_json import Document, Node

T = TypeVar("T")

SNAPSHOT_KIND = "cluster-snapshot"
PLAN_KIND = "plan"
SCHEMA_VERSION = 1
PLAN_LIMIT_BYTES = 2 << 30
"""The largest plan file that is read."""
_CHUNK_BYTES = 1 << 20


class _Header(msgspec.Struct):
    kind: str
    schema: int


class _Envelope(msgspec.Struct):
    kafkakit: _Header


class _Map(msgspec.Struct):
    partitions: msgspec.Raw
    kafkakit: msgspec.Raw | None = None


def decode_json(data: bytes, shape: type[T], source: str) -> T:
    """Decode JSON bytes into `shape`; `source` names the input in errors.

    Raises `InputError` for text that is not UTF-8, truncated or malformed JSON, wrong types, numbers out
    of range and nesting too deep, with the path of the offending value.
    """
    try:
        return decoded_json(data, shape)
    except msgspec.ValidationError as error:
        raise InputError(source, _one_line(str(error))) from None
    except msgspec.DecodeError as error:
        raise InputError(source, f"not valid JSON: {_one_line(str(error))}") from None
    except UnicodeDecodeError as error:
        raise InputError(source, f"not valid UTF-8 text (byte {error.start})") from None
    except RecursionError:
        raise InputError(source, "nested too deeply") from None


def decoded_json(data: bytes, shape: type[T], *, strict: bool = True) -> T:
    """Decode JSON bytes into `shape`, for callers that word the error themselves.

    Raises what `msgspec.json.decode` raises, and `UnicodeDecodeError` for text that is not UTF-8 wherever it stands:
    msgspec skips the keys that `shape` lacks, and their values, without looking at their bytes.
    """
    if not data.isascii():
        _check_utf8(data)
    return msgspec.json.decode(data, type=shape, strict=strict)


def decode_document(data: bytes, kind: str, shape: type[T], source: str) -> T:
    """Decode a kafkakit file of the given kind; refuses other kinds and newer schemas with `InputError`."""
    try:
        header = decode_json(data, _Envelope, source).kafkakit
    except InputError as error:
        if "missing required field `kafkakit`" in error.problem:
            raise InputError(source, f'not a kafkakit {kind} file (no "kafkakit" header)') from None
        raise
    if header.kind != kind:
        raise InputError(source, f"is a {header.kind!r:.80} file, expected {kind!r}")
    if not 1 <= header.schema <= SCHEMA_VERSION:
        raise InputError(
            source,
            f"has schema {header.schema}, this kafkakit reads up to {SCHEMA_VERSION}",
            hint="use a newer kafkakit",
        )
    return decode_json(data, shape, source)


def encode_document(
    kind: str, value: object, *, leave_out: Collection[str] = (), instead: Mapping[str, object] = MappingProxyType({})
) -> bytes:
    """Encode a value as a kafkakit file: one line of JSON with the header first, and a final newline.

    Top-level fields in `leave_out` are not written; `instead` has what is written in place of others.
    """
    # A dataclass is taken apart at the top alone: what is in it is encoded as it is.
    body: dict[str, Any] = (
        {field.name: getattr(value, field.name) for field in fields(value) if field.name[0] != "_"}
        if is_dataclass(value) and not isinstance(value, type)
        else msgspec.to_builtins(value, str_keys=True)
    )
    kept = {name: instead.get(name, item) for name, item in body.items() if name not in leave_out}
    return encode_json({"kafkakit": {"kind": kind, "schema": SCHEMA_VERSION}, **kept})


@dataclass(frozen=True, slots=True)
class DocumentKind(Generic[T]):
    """A kind of kafkakit file: its name in the header, and what it holds."""

    name: str
    shape: type[T]

    def encode(self, value: T) -> bytes:
        """The file of a value, as `encode_document` writes it."""
        return encode_document(self.name, value)

    def decode(self, data: bytes, source: str) -> T:
        """The value in a file; `InputError` for another kind or a newer schema, unknown fields are ignored."""
        return decode_document(data, self.name, self.shape, source)

    def stored(self, data: bytes, path: str) -> T:
        """The value in a document of the control store, which is named by its path in errors."""
        return self.decode(data, f"control document {path}")


CORDON = DocumentKind("broker-cordon", CordonMark)


def encode_json(value: object) -> bytes:
    """Encode a value as one line of JSON with a final newline; key order is the value's own."""
    return msgspec.json.encode(value) + b"\n"


def json_text(value: object, *, ascii_only: bool = False) -> str:
    """The text of `json.dumps` with an indent of two, which itself encodes in Python and takes four times as long."""
    try:
        return msgspec.json.format(json.dumps(value, ensure_ascii=ascii_only), indent=2)
    except (msgspec.DecodeError, UnicodeEncodeError):  # NaN, and lone surrogates
        return json.dumps(value, indent=2, ensure_ascii=ascii_only)


def decode_snapshot(data: bytes, source: str) -> ClusterSnapshot:
    """Decode a `cluster-snapshot` file, whatever its order; `plan_rules.check_snapshot` checks the sense."""
    return decode_document(data, SNAPSHOT_KIND, ClusterSnapshot, source).in_order()


def encode_snapshot(snapshot: ClusterSnapshot) -> bytes:
    """Encode a `cluster-snapshot` file."""
    absent = ["tags"] if snapshot.tags is None else []
    absent += [name for name in ("min_isr", "cordoned") if not getattr(snapshot, name)]
    return encode_document(SNAPSHOT_KIND, snapshot, leave_out=absent)


def decode_plan(data: bytes, source: str) -> "Plan":
    """Decode a `plan` file; shape only, `plan_rules.check_plan` checks the sense."""
    from kafkakit.core.plan import Plan

    return decode_document(data, PLAN_KIND, Plan, source)


def encode_plan(plan: "Plan") -> bytes:
    """Encode a `plan` file."""
    absent = [name for name in ("profile", "constraints") if not getattr(plan, name)]
    instead = {}
    if plan.certificate.proof is not None and not plan.certificate.proof.counts:
        # Files of earlier versions have no such field, and stay the same when they are written again.
        instead["certificate"] = msgspec.to_builtins(plan.certificate)
        del instead["certificate"]["proof"]["counts"]
    return encode_document(PLAN_KIND, plan, leave_out=absent, instead=instead)


def decode_partition_map(data: bytes, source: str) -> PartitionMap:
    """Decode Kafka's reassignment JSON (unknown keys ignored, as Kafka's own tool does)."""
    return decode_json(data, PartitionMap, source)


def is_partition_map(data: bytes) -> bool:
    """True for a JSON object with `partitions` and without a header of ours: Kafka's reassignment JSON."""
    try:
        return decode_json(data, _Map, "").kafkakit is None
    except InputError:
        return False


def encode_partition_map(partition_map: PartitionMap) -> bytes:
    """Encode Kafka's reassignment JSON, byte-compatible with kafka-kit: compact, one newline at the end."""
    return encode_json(partition_map)


def _check_utf8(data: bytes) -> None:
    decoder = getincrementaldecoder("utf-8")()
    for start in range(0, len(data), _CHUNK_BYTES):  # in parts: a plan may have two gibibytes
        before = len(decoder.getstate()[0])
        try:
            decoder.decode(data[start : start + _CHUNK_BYTES], final=start + _CHUNK_BYTES >= len(data))
        except UnicodeDecodeError as error:
            place = start - before + error.start
            raise UnicodeDecodeError("utf-8", data, place, place + 1, error.reason) from None


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)[:300]


def decode_tree(
    document: "Document", shape: type[T], *, prefix: str = "", hint: str | None = None, strict: bool = True
) -> T:
    """A sound document as a value of `shape`; `InputError` has the place of what does not fit, `prefix` and `hint`.

    Plain scalars are what YAML 1.1 says: `no` is false, `1:30` is 90, `2026-01-31` is a date. Without `strict` they are
    text, which may stand for numbers and switches where `shape` has them.
    """
    from kafkakit.core.yaml_json import plain_value  # most readers of this module read no YAML

    try:
        return msgspec.convert(plain_value(document, is_text=not strict), shape, strict=strict)
    except msgspec.ValidationError as error:
        said = " ".join(str(error).split())
        raise InputError(place_in(document, said), f"{prefix}{said}"[:300], hint=hint) from None
    except RecursionError:  # aliases of aliases
        raise InputError(document.path, f"{prefix}nested too deeply", hint=hint) from None


_VALUE_PATH = re.compile(r" - at (?:`key` in )?`\$([^`]*)`$")
_PATH_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN_FIELD = re.compile(r"unknown field `([^`]*)`")


def place_in(document: "Document", message: str, node: "Node | None" = None) -> str:
    """The path of a document with the line and column of the value or key that a message of msgspec names, if any.

    The path in the message begins at `node`, at the document's root when not given; `node` itself is a place.
    """
    from kafkakit.core.yaml_json import Mapping as MappingNode

    path, unknown = _VALUE_PATH.search(message), _UNKNOWN_FIELD.search(message)
    is_part, node = node is not None, node or document.root
    for step in _PATH_STEP.finditer(path[1] if path else ""):
        below = _child_of(node, step)
        if below is None:  # a value of any key: the message has not its name
            break
        node = below
    if unknown and isinstance(node, MappingNode) and unknown[1] in node.entries:
        return document.position(node.entries[unknown[1]].key.start)
    return document.position(node.start) if path or is_part else document.path


def _child_of(node: "Node", step: re.Match[str]) -> "Node | None":
    from kafkakit.core.yaml_json import Mapping as MappingNode
    from kafkakit.core.yaml_json import Sequence as SequenceNode

    if isinstance(node, MappingNode) and step[1] in node.entries:
        return node.entries[step[1]].value
    is_item = isinstance(node, SequenceNode) and (step[2] or "").isdigit() and int(step[2]) < len(node.items)
    return node.items[int(step[2])] if is_item and isinstance(node, SequenceNode) else None
