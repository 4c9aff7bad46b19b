"""The OpenAPI document of version 2, made from the table of calls and their messages."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kafkakit.registry.decide.requests import Role
from kafkakit.registry.decide.v2.calls import CALLS_V2, CallV2
from kafkakit.registry.decide.v2.messages import AnyV2Request

_REF = "#/components/schemas/{name}"
_ERROR = {
    "type": "object",
    "properties": {
        "code": {"type": "integer", "description": "The code of gRPC."},
        "message": {"type": "string"},
        "details": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["code", "message"],
}
_HEADERS = {
    "If-Match": "The etag that the tags of the single change must still have; 409 otherwise.",
    "Idempotency-Key": "The same key and request within an hour gives the same reply.",
}


def openapi_document() -> dict[str, Any]:
    """OpenAPI 3.1, whose schemas are JSON Schema."""
    types = {kind for call in CALLS_V2 for kind in (call.request, call.reply)}
    _, schemas = msgspec.json.schema_components(sorted(types, key=lambda kind: kind.__name__), ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for call in CALLS_V2:
        paths.setdefault(call.http_path, {})[call.http_method.lower()] = _operation(call, schemas)
    paths["/healthz"] = {
        "get": {
            "operationId": "Health",
            "summary": "Whether reads are answered",
            "security": [],
            "responses": {"200": {"description": "They are."}, "503": {"description": "They are not."}},
        }
    }
    queries = {call.request.__name__ for call in CALLS_V2 if call.http_method == "GET"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "kafkakit registry", "version": "2", "description": "Topics, brokers and their tags."},
        "security": [{"bearer": []}, {}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {**{name: of for name, of in schemas.items() if name not in queries}, "Error": _ERROR},
        },
    }


def _operation(call: CallV2, schemas: Mapping[str, Any]) -> dict[str, Any]:
    content = "text/event-stream" if call.is_stream else "application/json"
    found: dict[str, Any] = {
        "operationId": call.name,
        "summary": call.summary,
        "description": _doc(call.request),
        "responses": {
            "200": {"description": _doc(call.reply), "content": {content: {"schema": _ref(call.reply.__name__)}}},
            "default": {
                "description": "A refusal.",
                "content": {"application/json": {"schema": _ref("Error")}},
            },
        },
    }
    if call.http_method == "GET":
        parameters = list(_parameters(call, schemas[call.request.__name__]))
    else:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _ref(call.request.__name__)}},
        }
        parameters = [
            {"name": name, "in": "header", "required": False, "description": text, "schema": {"type": "string"}}
            for name, text in _HEADERS.items()
            if call.role is not Role.READ
        ]
    return {**found, "parameters": parameters} if parameters else found


def _parameters(call: CallV2, schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, of in schema["properties"].items():
        is_in_path = f"{{{name}}}" in call.http_path
        yield {
            "name": name,
            "in": "path" if is_in_path else "query",
            "required": is_in_path or name in schema.get("required", ()),
            "schema": {key: value for key, value in of.items() if key != "default"},
            **({"style": "form", "explode": False} if of.get("type") == "array" else {}),
        }


def _ref(name: str) -> dict[str, str]:
    return {"$ref": _REF.format(name=name)}


def _doc(message: type[AnyV2Request] | type[Any]) -> str:
    return " ".join((message.__doc__ or "").split())
