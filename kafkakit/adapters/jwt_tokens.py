"""JSON Web Tokens (RFC 7519) signed with RS256 or ES256, by the keys of a JWK set (RFC 7517)."""

import json
import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

import jwt

from kafkakit.core.errors import InputError, KafkakitError
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.core.text import ToldOnce

MAX_TOKEN = 8192
MAX_SET_BYTES = 256 << 10
MAX_KEYS = 100
MIN_RSA_BITS = 2048
REFRESH_S = 600.0
RETRY_S = 30.0
"""Between two readings that unknown keys cause, so that made-up tokens do not cause many."""
LONGEST_USE_S = 86_400.0
"""Keys that could not be read again for so long are not trusted any more."""

Keys = Mapping[tuple[str, str], Any]
"""Keys by algorithm and key id; the id is empty where the set gives none."""


def read_keys(data: bytes, source: str) -> Keys:
    """The keys of a set that can verify, others are left out; `InputError` where there is none.

    An algorithm belongs to a type of key: a token cannot choose another one for it.
    """
    try:
        items = json.loads(data)["keys"][:MAX_KEYS]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise InputError(source, "is not a JWK set") from None
    found: dict[tuple[str, str], Any] = {}
    for item in items:
        algorithm = _algorithm(item)
        if algorithm is None:
            continue
        try:
            key = jwt.PyJWK(item, algorithm=algorithm).key
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        if hasattr(key, "private_numbers"):
            raise InputError(source, "holds a private key", hint="publish only the public keys")
        if algorithm == "ES256" or key.key_size >= MIN_RSA_BITS:
            found[algorithm, str(item.get("kid", ""))] = key
    if not found:
        raise InputError(source, f"has no key for RS256 ({MIN_RSA_BITS} bits or more) or ES256")
    return found


class JwtVerifier:
    """Implements `ports.TokenVerifier`; `load` gives the JWK set, and is called again every ten minutes.

    A set that cannot be read leaves the keys that are known, for a day, and `report` gets a line.
    """

    def __init__(
        self,
        load: Callable[[], bytes],
        source: str,
        *,
        issuer: str,
        audience: str,
        leeway_s: float,
        clock_s: Callable[[], float] = time.monotonic,
        report: Callable[[str], object] = lambda line: None,
    ) -> None:
        self._load, self._source, self._clock_s = load, source, clock_s
        self._faults = ToldOnce(report)
        self._issuer, self._audience, self._leeway_s = issuer, audience, leeway_s
        self._lock = Lock()
        self._keys: Keys = {}
        self._read_s: float | None = None
        self._tried_s: float | None = None

    def verify(self, token: str) -> Mapping[str, Any]:
        if len(token) > MAX_TOKEN:
            raise _refusal("is too long")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise _refusal("is not a JWT") from None
        algorithm, kid = header.get("alg"), header.get("kid", "")
        if algorithm not in ("RS256", "ES256") or "crit" in header or not isinstance(kid, str):
            raise _refusal("is not signed with RS256 or ES256")
        try:
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key=self._key(algorithm, kid),
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._leeway_s,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise _refusal(f"does not hold: {' '.join(str(error).split())[:100]}") from None
        return claims

    def refresh(self) -> None:
        """Read the set now; raises what `load` raises, and `InputError` for a set without keys."""
        keys = read_keys(self._load(), self._source)
        self._keys, self._read_s = keys, self._clock_s()

    def try_refresh(self) -> None:
        """Read the set, unless that was tried a moment ago; a failure is reported when its reason changes.

        The keys that are known stay, and tokens with these do not wait for an address that gives no answer.
        """
        if not self._lock.acquire(blocking=not self._keys):
            return
        try:
            now_s = self._clock_s()
            if self._tried_s is None or now_s - self._tried_s >= RETRY_S:
                self._tried_s = now_s
                self._refresh_or_report()
        finally:
            self._lock.release()

    def _refresh_or_report(self) -> None:
        try:
            self.refresh()
        except KafkakitError as error:
            self._faults.tell(f"the keys that tokens are verified by cannot be read: {error.message}")
        else:
            self._faults.clear(f"the keys that tokens are verified by are read again from {self._source}")

    def _key(self, algorithm: str, kid: str) -> Any:
        now_s = self._clock_s()
        if self._read_s is None or now_s - self._read_s > REFRESH_S:
            self.try_refresh()
        found = self._find(algorithm, kid)
        if found is None:
            self.try_refresh()
            found = self._find(algorithm, kid)
        if found is None or self._read_s is None or now_s - self._read_s > LONGEST_USE_S:
            raise _refusal("is signed with a key that is not known")
        return found

    def _find(self, algorithm: str, kid: str) -> Any:
        if kid:
            return self._keys.get((algorithm, kid))
        fitting = [key for (of, _), key in self._keys.items() if of == algorithm]
        return fitting[0] if len(fitting) == 1 else None


def _algorithm(item: Any) -> str | None:
    """What a key of the set is used with; None for a key that is of no use here."""
    if not isinstance(item, dict) or item.get("use", "sig") != "sig" or "k" in item:
        return None
    kind = {"RSA": "RS256", "EC": "ES256" if item.get("crv") == "P-256" else None}.get(str(item.get("kty")))
    return kind if item.get("alg", kind) == kind else None


def _refusal(why: str) -> RpcError:
    return RpcError(RpcCode.UNAUTHENTICATED, f"the token {why}")
