"""What looks into signed tokens."""

from collections.abc import Mapping
from typing import Any, Protocol


class TokenVerifier(Protocol):
    """Tokens of one issuer for one audience; for several threads."""

    def verify(self, token: str) -> Mapping[str, Any]:
        """The claims of a token that holds now; `RpcError` 401 for any other. May fetch keys: blocks for seconds."""
        ...
