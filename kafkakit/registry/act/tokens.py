"""The callers of signed tokens, verified in threads and then known for a minute; and the files that name callers."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

from kafkakit.core.errors import KafkakitError
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.ports.tokens import TokenVerifier
from kafkakit.registry.decide.access import Caller
from kafkakit.registry.decide.claims import JwtRules, caller_of

KNOWN_S = 60.0
MAX_KNOWN, MAX_WAITING = 10_000, 200


class SignedTokens:
    """Identifies callers by the claims of their tokens."""

    def __init__(self, verifier: TokenVerifier, rules: JwtRules, clock_s: Callable[[], float] = time.time) -> None:
        self._clock_s = clock_s
        self.use(verifier, rules)
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="tokens")
        self._waiting = 0

    def use(self, verifier: TokenVerifier, rules: JwtRules) -> None:
        """Identify by these from now on; from any thread."""
        known: OrderedDict[bytes, tuple[float, Caller]] = OrderedDict()
        self._parts = verifier, rules, known

    async def identify(self, token: str) -> Caller:
        """The caller; `RpcError` 401 for a token that does not hold, 403 for one without rights."""
        digest, now_s = sha256(token.encode("utf-8", "replace")).digest(), self._clock_s()
        verifier, rules, known = self._parts
        until_s, caller = known.get(digest, (0.0, None))
        if caller is not None and now_s < until_s and not caller.has_expired(now_s):
            return caller
        if self._waiting >= MAX_WAITING:
            raise RpcError(RpcCode.RESOURCE_EXHAUSTED, "too many tokens are being verified", retry_after_s=1)
        self._waiting += 1
        try:
            claims = await asyncio.get_running_loop().run_in_executor(self._threads, verifier.verify, token)
        finally:
            self._waiting -= 1
        caller = caller_of(claims, rules)
        known[digest] = (now_s + KNOWN_S, caller)
        known.move_to_end(digest)
        if len(known) > MAX_KNOWN:
            known.popitem(last=False)
        return caller


class CallerFile:
    """A file that says who may call, which is looked at again and again while the service runs.

    `read` gives its content, and `take` puts what it says into use; either may raise `KafkakitError`: then what was in
    use stays, and one line goes to `report`.
    """

    def __init__(
        self, name: str, read: Callable[[], bytes], take: Callable[[], None], report: Callable[[str], None]
    ) -> None:
        self._name, self._read, self._take, self._report = name, read, take, report
        self._last: bytes | None = None
        self._told = ""

    def check(self) -> bool:
        """Take it in where it changed since the last time; tells whether. The first time it always is."""
        try:
            content = self._read()
            self._told = ""
            if content == self._last:
                return False
            is_first, self._last = self._last is None, content
            self._take()
        except KafkakitError as error:
            if error.message != self._told:
                self._report(f"{self._name} changed and cannot be used, the callers from before stay: {error.message}")
            self._told = error.message
            return False
        if not is_first:
            self._report(f"{self._name} changed: its callers count from now on")
        return True
