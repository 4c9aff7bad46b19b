"""The callers of signed tokens: verified in threads, and known for a minute then."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.ports.tokens import TokenVerifier
from kafkakit.registry.decide.access import Caller
from kafkakit.registry.decide.claims import JwtRules, caller_of

KNOWN_S = 60.0
MAX_KNOWN, MAX_WAITING = 10_000, 200


class SignedTokens:
    """Identifies callers by the claims of their tokens."""

    def __init__(self, verifier: TokenVerifier, rules: JwtRules, clock_s: Callable[[], float] = time.time) -> None:
        self._verifier, self._rules, self._clock_s = verifier, rules, clock_s
        self._known: OrderedDict[bytes, tuple[float, Caller]] = OrderedDict()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="tokens")
        self._waiting = 0

    async def identify(self, token: str) -> Caller:
        """The caller; `RpcError` 401 for a token that does not hold, 403 for one without rights."""
        digest, now_s = sha256(token.encode("utf-8", "replace")).digest(), self._clock_s()
        until_s, known = self._known.get(digest, (0.0, None))
        if known is not None and now_s < until_s and not known.has_expired(now_s):
            return known
        if self._waiting >= MAX_WAITING:
            raise RpcError(RpcCode.RESOURCE_EXHAUSTED, "too many tokens are being verified", retry_after_s=1)
        self._waiting += 1
        try:
            claims = await asyncio.get_running_loop().run_in_executor(self._threads, self._verifier.verify, token)
        finally:
            self._waiting -= 1
        caller = caller_of(claims, self._rules)
        self._known[digest] = (now_s + KNOWN_S, caller)
        self._known.move_to_end(digest)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return caller
