"""Which caller the claims of a JWT mean: the first rule whose claims it has gives roles and names."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from kafkakit.core.errors import InputError
from kafkakit.core.printable import printable
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.registry.decide.access import Caller, is_loopback
from kafkakit.registry.decide.requests import Role

MAX_RULES = 1000
MAX_LEEWAY_S = 300
_URL = re.compile(r"(https?)://(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?(?:/[!-~]*)?")


class ClaimRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Claims that a token must all have, as the value or in the list of values, and what they give."""

    claims: dict[str, str | bool | int]
    roles: tuple[Role, ...]
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
    try:
        rules = msgspec.yaml.decode(data, type=JwtRules)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise InputError(source, f"has no rules for JWTs: {' '.join(str(error).split())[:200]}") from None
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
    shown = f"jwt:{printable(name[:100])}"
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
        raise InputError(source, f"jwks_url {printable(url[:80])} must begin with https:// and name a host")
