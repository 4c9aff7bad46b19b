"""UnregisterBroker (KIP-631), a request that kafka-python 3.0 lacks.

Its message classes take their schema from a file of kafka-python that their name picks; ours takes that one's place.
"""

from typing import Any

from kafka.protocol.api_message import ApiMessage

_HEAD = {"apiKey": 64, "validVersions": "0", "flexibleVersions": "0+"}


def _field(name: str, kind: str, **more: str) -> dict[str, str]:
    return {"name": name, "type": kind, "versions": "0+", **more}


class EndTxnRequest(ApiMessage):  # type: ignore[misc, unused-ignore]
    """The request; `broker_id` is the broker to forget."""

    @classmethod
    def json_patch(cls, _json: dict[str, Any]) -> dict[str, Any]:
        """The schema."""
        fields = [_field("BrokerId", "int32")]
        return _HEAD | {"type": "request", "name": "UnregisterBrokerRequest", "fields": fields}


class EndTxnResponse(ApiMessage):  # type: ignore[misc, unused-ignore]
    """The answer; kafka-python finds it by its number."""

    @classmethod
    def json_patch(cls, _json: dict[str, Any]) -> dict[str, Any]:
        """The schema."""
        text = _field("ErrorMessage", "string", nullableVersions="0+")
        fields = [_field("ThrottleTimeMs", "int32"), _field("ErrorCode", "int16"), text]
        return _HEAD | {"type": "response", "name": "UnregisterBrokerResponse", "fields": fields}


UnregisterBroker = EndTxnRequest
