"""Protocol buffers without generated code: the compiled descriptors are loaded, and messages are mappings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError

from kafkakit.core.rpc import RpcCode, RpcError

DESCRIPTORS = Path(__file__).with_name("registry.binpb")
JSON_DEPTH = 16


class ProtobufCodec:
    """Implements `ports.MessageCodec` for the messages of one package; safe for several threads."""

    def __init__(self, descriptors: bytes, package: str) -> None:
        self.pool = descriptor_pool.DescriptorPool()
        self._classes: dict[str, Any] = {}
        for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
            self.pool.AddSerializedFile(file.SerializeToString())
            named = [m.name for m in file.message_type if file.package == package]
            types = {name: self.pool.FindMessageTypeByName(f"{package}.{name}") for name in named}
            self._classes |= {name: message_factory.GetMessageClass(kind) for name, kind in types.items()}

    def message_class(self, message: str) -> Any:
        """The class of a message, for clients."""
        return self._classes[message]

    def decode(self, message: str, data: bytes) -> Mapping[str, Any]:
        try:
            return _fields(self._classes[message].FromString(data))
        except DecodeError:
            raise RpcError(RpcCode.INVALID_ARGUMENT, f"the request is not a {message}") from None

    def decode_json(self, message: str, data: bytes) -> Mapping[str, Any]:
        """See `ports.MessageCodec`; an empty body is a message without fields."""
        found = self._classes[message]()
        try:
            json_format.Parse(data or b"{}", found, ignore_unknown_fields=True, max_recursion_depth=JSON_DEPTH)
        except (json_format.ParseError, ValueError, RecursionError) as error:
            text = " ".join(str(error).split())[:200]
            raise RpcError(RpcCode.INVALID_ARGUMENT, f"the body is not a {message}: {text}") from None
        return _fields(found)

    def encode(self, message: str, fields: Mapping[str, Any]) -> bytes:
        made: bytes = self._classes[message](**fields).SerializeToString(deterministic=True)
        return made


def _fields(message: Any) -> dict[str, Any]:
    return {field.name: _value(message, field) for field in message.DESCRIPTOR.fields}


def _value(message: Any, field: Any) -> Any:
    if field.message_type is None:
        value = getattr(message, field.name)
        return tuple(value) if field.is_repeated else value
    if field.message_type.GetOptions().map_entry:
        is_plain = field.message_type.fields_by_name["value"].message_type is None
        entries = dict(getattr(message, field.name))
        return entries if is_plain else {key: _fields(entry) for key, entry in entries.items()}
    if field.is_repeated:
        return tuple(_fields(entry) for entry in getattr(message, field.name))
    return _fields(getattr(message, field.name)) if message.HasField(field.name) else None
