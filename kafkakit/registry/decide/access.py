"""Which caller may do what, and whether and when a call is carried out.

Bearer tokens have roles, for topics and brokers whose names match. The claims of a JWT mean a caller: the first rule
whose claims it has gives roles and names. Calls are limited by rates for each caller and by deadlines.
"""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from kafkakit.core.documents import decode_tree
from kafkakit.core.errors import InputError
from kafkakit.core.options import parsed_option
from kafkakit.core.rpc import RpcCode, RpcError, is_from_another_page, is_loopback, unknown_name
from kafkakit.core.text import sanitize
from kafkakit.core.yaml_json import ANY_FILE, sound_document
from kafkakit.registry.decide.tags import CallRole

MAX_CALLERS = 1000


class _Grant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    sha256: str
    roles: list[CallRole]
    topics: tuple[str, ...] = ("*",)
    brokers: tuple[str, ...] = ("*",)


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    callers: list[_Grant]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A program that calls; patterns are those of shells (`team-a-*`), and do not limit reads."""

    name: str
    roles: frozenset[CallRole]
    topics: tuple[str, ...] = ("*",)
    brokers: tuple[str, ...] = ("*",)
    expires_s: float | None = None

    def has_expired(self, now_s: float) -> bool:
        """Whether its token is not good any more, in Unix seconds."""
        return self.expires_s is not None and now_s >= self.expires_s

    def require(self, role: CallRole, kind: str = "", names: Iterable[str] = ()) -> None:
        """`RpcError` 403 where the role is missing, or is not given for one of the names."""
        if role not in self.roles:
            raise RpcError(RpcCode.PERMISSION_DENIED, f"{self.name} has no right to {role}")
        patterns = self.topics if kind == "topic" else self.brokers
        for name in names if kind else ():
            if not any(fnmatchcase(name, pattern) for pattern in patterns):
                raise RpcError(
                    RpcCode.PERMISSION_DENIED, f"{self.name} has no right to {role} {kind} {sanitize(name[:80])}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The callers by the SHA-256 of their token, and what those without a token may do; empty: nothing.

    `names` are the host names under which the server is known, in lower case, beside addresses and `localhost`; None:
    any, where TLS shows a browser whose name it is.
    """

    by_digest: Mapping[str, Caller]
    anonymous: frozenset[CallRole] = frozenset()
    is_open_to_reads_from_here: bool = False
    names: frozenset[str] | None = frozenset()

    def check_page(self, headers: Mapping[str, str]) -> None:
        """`RpcError` for a call that a page of another server makes in a browser, which must have a token."""
        if name := unknown_name(headers, self.names):
            raise RpcError(
                RpcCode.PERMISSION_DENIED, f"{name} is not a known name of this server (--http-name): needs a token"
            )
        if is_from_another_page(headers):
            raise RpcError(
                RpcCode.UNAUTHENTICATED,
                "comes from a page of another server: needs the header Authorization: Bearer TOKEN",
            )

    def identify(self, headers: Mapping[str, str], remote: str) -> Caller:
        """The caller of a request; `RpcError` 401 for a wrong token, and for none where one is needed."""
        authorization = headers.get("authorization", "")
        if authorization:
            kind, _, token = authorization.partition(" ")
            digest = hashlib.sha256(token.strip().encode("utf-8", "replace")).hexdigest()
            found = self.by_digest.get(digest)
            if found is None or kind.lower() != "bearer":
                raise RpcError(RpcCode.UNAUTHENTICATED, "the token is not known")
            return found
        roles = self.anonymous
        if self.is_open_to_reads_from_here and is_loopback(remote):
            roles |= {CallRole.READ}
        if not roles:
            raise RpcError(RpcCode.UNAUTHENTICATED, "needs the header Authorization: Bearer TOKEN")
        self.check_page(headers)
        return Caller(name=remote, roles=roles)


def read_access(data: bytes, source: str) -> dict[str, Caller]:
    """The callers of a token file; `InputError` for an unsound one.

    The file is YAML: `callers:` with, for each, `name`, `sha256` (of the token, in hex), `roles` (read, tag, create,
    delete) and, optionally, `topics` and `brokers`. It holds no secret.
    """
    document = decode_tree(sound_document(data, source, ANY_FILE), _Document, prefix="is not a list of callers: ")
    if len(document.callers) > MAX_CALLERS:
        raise InputError(source, f"names more than {MAX_CALLERS} callers")
    found: dict[str, Caller] = {}
    for grant in document.callers:
        digest = grant.sha256.lower()
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef") or digest in found:
            raise InputError(
                source,
                f"caller {sanitize(grant.name[:60])!r} has no sha256 of its own",
                hint='openssl rand -hex 32 > token; printf %s "$(cat token)" | sha256sum',
            )
        found[digest] = Caller(
            name=sanitize(grant.name[:100]),
            roles=frozenset(grant.roles),
            topics=grant.topics,
            brokers=grant.brokers,
        )
    return found


MAX_RULES = 1000
MAX_LEEWAY_S = 300
_URL = re.compile(r"(https?)://(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?(?:/[!-~]*)?")


class ClaimRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Claims that a token must all have, as the value or in the list of values, and what they give."""

    claims: dict[str, str | bool | int]
    roles: tuple[CallRole, ...]
    topics: tuple[str, ...] = ("*",)
    brokers: tuple[str, ...] = ("*",)


class JwtRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose tokens are taken, where the keys are, and what the claims give."""

    issuer: str
    audience: str
    jwks_file: str = ""
    jwks_url: str = ""
    leeway_s: int = 30
    name_claim: str = "sub"
    callers: tuple[ClaimRule, ...]


def read_jwt_rules(data: bytes, source: str) -> JwtRules:
    """The rules of a YAML file; `InputError` for unsound ones."""
    rules = decode_tree(sound_document(data, source, ANY_FILE), JwtRules, prefix="has no rules for JWTs: ")
    if not rules.issuer or not rules.audience:
        raise InputError(source, "issuer and audience must be given")
    if bool(rules.jwks_file) == bool(rules.jwks_url):
        raise InputError(source, "needs either jwks_file or jwks_url")
    if rules.jwks_url:
        _check_url(rules.jwks_url, source)
    if not 0 <= rules.leeway_s <= MAX_LEEWAY_S:
        raise InputError(source, f"leeway_s is {rules.leeway_s}: 0 to {MAX_LEEWAY_S}")
    if not 0 < len(rules.callers) <= MAX_RULES or not all(rule.claims for rule in rules.callers):
        raise InputError(source, f"callers must hold 1 to {MAX_RULES} rules, each with claims")
    return rules


def caller_of(claims: Mapping[str, Any], rules: JwtRules) -> Caller:
    """The caller of verified claims; `RpcError` 401 without a name, 403 where no rule fits."""
    name = claims.get(rules.name_claim)
    if not isinstance(name, str) or not name:
        raise RpcError(RpcCode.UNAUTHENTICATED, f"the token has no claim {rules.name_claim}")
    shown = f"jwt:{sanitize(name[:100])}"
    rule = next((rule for rule in rules.callers if _fits(rule, claims)), None)
    if rule is None:
        raise RpcError(RpcCode.PERMISSION_DENIED, f"{shown} has no rights here")
    return Caller(
        name=shown,
        roles=frozenset(rule.roles),
        topics=rule.topics,
        brokers=rule.brokers,
        expires_s=float(claims["exp"]) + rules.leeway_s,
    )


def jwt_in(authorization: str) -> str | None:
    """The token of a header that has the form of a JWT; None for another one."""
    kind, _, token = authorization.partition(" ")
    token = token.strip()
    return token if kind.lower() == "bearer" and len(token.split(".")) == 3 else None


def _fits(rule: ClaimRule, claims: Mapping[str, Any]) -> bool:
    return all(_has(claims.get(key), value) for key, value in rule.claims.items())


def _has(found: Any, wanted: str | bool | int) -> bool:
    values = found if isinstance(found, list) else [found]
    return any(type(value) is type(wanted) and value == wanted for value in values)


def _check_url(url: str, source: str) -> None:
    found = _URL.fullmatch(url)
    if found is None or (found[1] == "http" and not is_loopback(found[2].strip("[]"))):
        raise InputError(source, f"jwks_url {sanitize(url[:80])} must begin with https:// and name a host")


BURST = 10
MAX_LIMITED_CALLERS = 10_000
LONGEST_FACTOR = 3
"""A client's deadline is cut to so many times the usual one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRates:
    """Calls a second for each caller, and the usual deadline."""

    reads_per_s: float = parsed_option(
        1000,
        "--read-rate-limit",
        typed=int,
        parse=float,
        envvar="REGISTRY_READ_RATE_LIMIT",
        min=1,
        help="Reads per second, for each caller.",
    )
    writes_per_s: float = parsed_option(
        10,
        "--write-rate-limit",
        typed=int,
        parse=float,
        envvar="REGISTRY_WRITE_RATE_LIMIT",
        min=1,
        help="Changes per second, for each caller.",
    )
    timeout_s: float = parsed_option(
        5000,
        "--default-request-timeout",
        typed=int,
        parse=lambda ms: ms / 1000,
        envvar="REGISTRY_DEFAULT_REQUEST_TIMEOUT",
        min=1,
        max=600_000,
        metavar="MS",
        help="Time limit of a request; a client may name up to three times this.",
    )


class Admission:
    """A bucket of tokens for each caller and kind of call: ten at once, then as many a second as its rate.

    A call that finds none waits for its token where that comes before its deadline, and is refused otherwise.
    """

    def __init__(self, rates: CallRates) -> None:
        self._rates = rates
        self._free_at: OrderedDict[tuple[str, bool], float] = OrderedDict()

    def deadline_s(self, given_s: float | None) -> float:
        """The seconds that a call may take; what a client gives is cut to three times the usual."""
        usual = self._rates.timeout_s
        return usual if given_s is None else min(given_s, LONGEST_FACTOR * usual)

    def take(self, caller: str, now_s: float, deadline_s: float, *, is_read: bool) -> float:
        """The seconds to wait before the call; `RpcError` where the deadline would pass meanwhile."""
        step_s = 1 / (self._rates.reads_per_s if is_read else self._rates.writes_per_s)
        key = (caller, is_read)
        # When the bucket is full again: one number stands for its level.
        full_at = max(now_s, self._free_at.get(key, now_s)) + step_s
        wait_s = full_at - now_s - BURST * step_s
        if wait_s > deadline_s:
            raise RpcError(RpcCode.RESOURCE_EXHAUSTED, "wait time exceeded", retry_after_s=wait_s - deadline_s)
        self._free_at[key] = full_at
        self._free_at.move_to_end(key)
        if len(self._free_at) > MAX_LIMITED_CALLERS:
            self._free_at.popitem(last=False)
        return max(0.0, wait_s)
