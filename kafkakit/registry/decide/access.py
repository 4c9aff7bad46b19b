"""Which caller may do what: bearer tokens with roles, for topics and brokers whose names match."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import msgspec

from kafkakit.core.errors import InputError
from kafkakit.core.printable import printable
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.registry.decide.requests import Role

MAX_CALLERS = 1000
_ADDRESS = re.compile(r"[0-9.]+|\[[0-9a-fA-F:.]+\]")


class _Grant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    sha256: str
    roles: list[Role]
    topics: tuple[str, ...] = ("*",)
    brokers: tuple[str, ...] = ("*",)


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    callers: list[_Grant]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A program that calls; patterns are those of shells (`team-a-*`), and do not limit reads."""

    name: str
    roles: frozenset[Role]
    topics: tuple[str, ...] = ("*",)
    brokers: tuple[str, ...] = ("*",)
    expires_s: float | None = None

    def has_expired(self, now_s: float) -> bool:
        """Whether its token is not good any more, in Unix seconds."""
        return self.expires_s is not None and now_s >= self.expires_s

    def require(self, role: Role, kind: str = "", names: Iterable[str] = ()) -> None:
        """`RpcError` 403 where the role is missing, or is not given for one of the names."""
        if role not in self.roles:
            raise RpcError(RpcCode.PERMISSION_DENIED, f"{self.name} has no right to {role}")
        patterns = self.topics if kind == "topic" else self.brokers
        for name in names if kind else ():
            if not any(fnmatchcase(name, pattern) for pattern in patterns):
                raise RpcError(
                    RpcCode.PERMISSION_DENIED, f"{self.name} has no right to {role} {kind} {printable(name[:80])}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The callers by the SHA-256 of their token, and what those without a token may do; empty: nothing.

    `names` are the host names under which the server is known, in lower case, beside addresses and `localhost`; None:
    any, where TLS shows a browser whose name it is.
    """

    by_digest: Mapping[str, Caller]
    anonymous: frozenset[Role] = frozenset()
    is_open_to_reads_from_here: bool = False
    names: frozenset[str] | None = frozenset()

    def check_page(self, headers: Mapping[str, str]) -> None:
        """`RpcError` for a call that a page of another server makes in a browser, which must have a token.

        A page of another server is known by `Origin` and `Sec-Fetch-Site`; or by `Host`, when it has made its own name
        lead to this address (DNS rebinding): a browser takes it for a page of ours then.
        """
        host = headers.get("host", "").lower()
        name = re.sub(r":[0-9]*$", "", host).removesuffix(".")
        is_known = not name or name == "localhost" or _ADDRESS.fullmatch(name) or self.names is None
        if not is_known and name not in (self.names or ()):
            raise RpcError(
                RpcCode.PERMISSION_DENIED,
                f"{printable(name[:80])} is no known name of this server (--http-name): needs a token",
            )
        origin = headers.get("origin", f"http://{host}").lower()
        is_ours = origin.partition("://")[2] == host
        if not is_ours or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
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
            roles |= {Role.READ}
        if not roles:
            raise RpcError(RpcCode.UNAUTHENTICATED, "needs the header Authorization: Bearer TOKEN")
        self.check_page(headers)
        return Caller(name=remote, roles=roles)


def read_access(data: bytes, source: str) -> dict[str, Caller]:
    """The callers of a token file; `InputError` for an unsound one.

    The file is YAML: `callers:` with, for each, `name`, `sha256` (of the token, in hex), `roles` (read, tag, create,
    delete) and, optionally, `topics` and `brokers`. It holds no secret.
    """
    try:
        document = msgspec.yaml.decode(data, type=_Document)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise InputError(source, f"is no list of callers: {' '.join(str(error).split())[:200]}") from None
    if len(document.callers) > MAX_CALLERS:
        raise InputError(source, f"names more than {MAX_CALLERS} callers")
    found: dict[str, Caller] = {}
    for grant in document.callers:
        digest = grant.sha256.lower()
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef") or digest in found:
            raise InputError(
                source,
                f"caller {printable(grant.name[:60])!r} has no sha256 of its own",
                hint='openssl rand -hex 32 > token; printf %s "$(cat token)" | sha256sum',
            )
        found[digest] = Caller(
            name=printable(grant.name[:100]),
            roles=frozenset(grant.roles),
            topics=grant.topics,
            brokers=grant.brokers,
        )
    return found


def is_loopback(address: str) -> bool:
    """Whether an address is of this host."""
    return address in ("localhost", "::1") or address.removeprefix("::ffff:").startswith("127.")
