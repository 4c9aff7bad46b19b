"""Signed tokens: keys made here, what is taken and what is refused, and what claims give."""

import asyncio
import base64
import json
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from kafkakit.adapters.jwt_tokens import REFRESH_S, RETRY_S, JwtVerifier, read_keys
from kafkakit.core.errors import InputError, MissingExtraError, TryLaterError
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.registry.act.service import KNOWN_S, SignedTokens
from kafkakit.registry.decide.access import Access, JwtRules, caller_of, jwt_in, read_jwt_rules
from kafkakit.registry.decide.tags import CallRole
from kafkakit.wiring import open_token_verifier, threads_of_requests
from tests.rigs.command_line import Home
from tests.rigs.registry import serving
from tests.rigs.registry_v2 import BOTH, one

ISSUER, AUDIENCE = "https://id.example", "registry"
RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
OTHER = rsa.generate_private_key(65537, 2048)


def public(key: Any, kid: str, **more: str) -> dict[str, Any]:
    algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": kid, **more}


def jwks(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": list(keys)}).encode()


SET = jwks(public(RSA, "r1", use="sig", alg="RS256"), public(EC, "e1"))


def claims(**more: Any) -> dict[str, Any]:
    now = int(time.time())
    found = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": now + 300, "groups": ["dev", "ops"], **more}
    return {key: value for key, value in found.items() if value is not None}


def signed(key: Any = RSA, algorithm: str = "RS256", kid: str | None = "r1", **more: Any) -> str:
    return jwt.encode(claims(**more), key, algorithm=algorithm, headers={} if kid is None else {"kid": kid})


def verifier(data: bytes = SET, **more: Any) -> JwtVerifier:
    return JwtVerifier(lambda: data, "keys", issuer=ISSUER, audience=AUDIENCE, leeway_s=30, **more)


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_both_algorithms_are_taken() -> None:
    found = verifier()
    assert found.verify(signed())["sub"] == "alice"
    assert found.verify(signed(EC, "ES256", "e1"))["sub"] == "alice"
    assert found.verify(signed(kid=None))["sub"] == "alice"
    assert found.verify(signed(aud=["x", AUDIENCE]))["sub"] == "alice"


PUBLIC_PEM = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def hmac_with_public_key() -> str:
    """The classic confusion: the public key as the secret of HS256; made by hand, since PyJWT refuses to."""
    import hashlib
    import hmac

    head = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': 'r1'})}.{part(claims())}"
    mac = hmac.new(PUBLIC_PEM, head.encode(), hashlib.sha256).digest()
    return f"{head}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


BAD: dict[str, Any] = {
    "another key": lambda: signed(OTHER),
    "unknown kid": lambda: signed(kid="r9"),
    "kid of the other type": lambda: signed(kid="e1"),
    "algorithm of the other key": lambda: signed(EC, "ES256", "r1"),
    "a stronger hash": lambda: signed(algorithm="RS512"),
    "HS256 with the public key": hmac_with_public_key,
    "HS256": lambda: signed("secret" * 10, "HS256"),
    "none": lambda: f"{part({'alg': 'none', 'kid': 'r1'})}.{part(claims())}.",
    "None": lambda: f"{part({'alg': 'None'})}.{part(claims())}.",
    "no signature": lambda: signed().rpartition(".")[0] + ".",
    "its own key": lambda: jwt.encode(claims(), OTHER, "RS256", {"jwk": public(OTHER, "x"), "kid": "r1"}),
    "critical header": lambda: jwt.encode(claims(), RSA, "RS256", {"kid": "r1", "crit": ["b64"], "b64": False}),
    "kid of another kind": lambda: f"{part({'alg': 'RS256', 'kid': {'a': 1}})}.{part(claims())}.AAAA",
    "expired": lambda: signed(exp=int(time.time()) - 31),
    "not yet": lambda: signed(nbf=int(time.time()) + 90),
    "another issuer": lambda: signed(iss="https://evil.example"),
    "another audience": lambda: signed(aud="other"),
    "no expiry": lambda: signed(exp=None),
    "no issuer": lambda: signed(iss=None),
    "no audience": lambda: signed(aud=None),
    "expiry of another kind": lambda: signed(exp="soon"),
    "claims changed": lambda: ".".join((signed().split(".")[0], part(claims(sub="root")), signed().split(".")[2])),
    "no JWT": lambda: "a.b.c",
    "empty": lambda: "..",
    "long": lambda: signed(x="y" * 9000),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name: str) -> None:
    with pytest.raises(RpcError) as refused:
        verifier().verify(BAD[name]())
    assert refused.value.code == RpcCode.UNAUTHENTICATED


def test_the_leeway_is_for_clocks_that_differ() -> None:
    found = verifier()
    assert found.verify(signed(exp=int(time.time()) - 10))
    assert found.verify(signed(nbf=int(time.time()) + 10))


SMALL = rsa.generate_private_key(65537, 1024)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b'{"keys": 1}', b'{"keys": [1, {}]}', b"{" * 10000,
        jwks(public(SMALL, "s")),
        jwks({"kty": "oct", "k": "c2VjcmV0", "kid": "r1", "alg": "HS256"}),
        jwks(public(RSA, "r1", use="enc")),
        jwks(public(RSA, "r1", alg="RS512")),
        jwks(public(ec.generate_private_key(ec.SECP384R1()), "e3")),
        jwks({**json.loads(RSAAlgorithm.to_jwk(RSA)), "kid": "private"}),
    ],
)  # fmt: skip
def test_a_set_without_a_sound_key_is_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        read_keys(data, "keys")


class Issuer:
    """A source of keys that changes, fails and counts."""

    def __init__(self) -> None:
        self.data, self.now_s, self.asked, self.is_away = SET, 0.0, 0, False
        self.lines: list[str] = []

    def load(self) -> bytes:
        self.asked += 1
        if self.is_away:
            raise TryLaterError("away")
        return self.data

    def verifier(self) -> JwtVerifier:
        return JwtVerifier(
            self.load,
            "keys",
            issuer=ISSUER,
            audience=AUDIENCE,
            leeway_s=30,
            clock_s=lambda: self.now_s,
            report=self.lines.append,
        )


def holds(found: JwtVerifier, token: str) -> bool:
    try:
        return bool(found.verify(token))
    except RpcError:
        return False


def test_a_new_key_is_found_and_made_up_ones_do_not_flood_the_issuer() -> None:
    issuer = Issuer()
    found = issuer.verifier()
    assert holds(found, signed())
    assert issuer.asked == 1
    issuer.data = jwks(public(OTHER, "r2"))
    assert not holds(found, signed(OTHER, kid="r2"))
    issuer.now_s += RETRY_S
    assert holds(found, signed(OTHER, kid="r2"))
    assert issuer.asked == 2
    assert not holds(found, signed()), "a key that was taken back is not good any more"
    for number in range(100):
        assert not holds(found, signed(kid=f"made-up-{number}"))
    assert issuer.asked == 2
    issuer.now_s += RETRY_S
    for number in range(100):
        assert not holds(found, signed(kid=f"made-up-{number}"))
    assert issuer.asked == 3


def test_keys_are_read_again_and_stay_where_the_issuer_is_away() -> None:
    issuer = Issuer()
    found = issuer.verifier()
    issuer.is_away = True
    assert not holds(found, signed())
    issuer.is_away, issuer.now_s = False, RETRY_S
    assert holds(found, signed())
    issuer.is_away, issuer.now_s = True, RETRY_S + REFRESH_S + 1
    assert holds(found, signed())
    assert issuer.asked == 3
    issuer.now_s += 86_400
    assert not holds(found, signed())
    away = "the keys that tokens are verified by cannot be read: away"
    assert issuer.lines == [away, "the keys that tokens are verified by are read again from keys", away]


# -- rules ------------------------------------------------------------------------------------------

RULES = f"""
issuer: {ISSUER}
audience: {AUDIENCE}
jwks_url: https://id.example/keys
callers:
  - claims: {{groups: ops, env: prod}}
    roles: [read, tag, create, delete]
  - claims: {{groups: dev}}
    roles: [read, tag]
    topics: ["dev-*"]
    brokers: []
"""


def test_the_first_rule_that_fits_gives_the_rights() -> None:
    rules = read_jwt_rules(RULES.encode(), "rules")
    dev = caller_of(claims(), rules)
    assert dev.roles == {CallRole.READ, CallRole.TAG}
    assert (dev.name, dev.topics, dev.brokers) == ("jwt:alice", ("dev-*",), ())
    assert dev.expires_s is not None
    assert dev.has_expired(time.time() + 331)
    assert not dev.has_expired(time.time() + 300)
    assert caller_of(claims(env="prod"), rules).roles == set(CallRole)
    for other in ({"groups": ["x"]}, {"groups": None}, {"groups": {"dev": 1}}, {"groups": "develop"}):
        with pytest.raises(RpcError) as refused:
            caller_of(claims(**other), rules)
        assert refused.value.code == RpcCode.PERMISSION_DENIED
    for sub in (None, "", 5):
        with pytest.raises(RpcError) as refused:
            caller_of(claims(sub=sub), rules)
        assert refused.value.code == RpcCode.UNAUTHENTICATED


def test_a_claim_of_another_type_does_not_fit() -> None:
    text = RULES.replace("{groups: dev}", "{admin: true}")
    rules = read_jwt_rules(text.encode(), "rules")
    assert caller_of(claims(admin=True), rules).roles
    for value in (1, "true"):
        with pytest.raises(RpcError):
            caller_of(claims(admin=value), rules)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("https://id.example/keys", "http://id.example/keys"),
        ("https://id.example/keys", "https://user:pass@id.example/keys"),
        ("https://id.example/keys", "file:///etc/passwd"),
        ("jwks_url", "jwks_uri"),
        ("jwks_url:", "jwks_file: x\njwks_url:"),
        (f"issuer: {ISSUER}", "issuer: ''"),
        ("roles: [read, tag]", "roles: [admin]"),
        ("claims: {groups: dev}", "claims: {}"),
        ("callers:", "leeway_s: 86400\ncallers:"),
        ("callers:", "callers: []\nx:"),
    ],
)
def test_unsound_rules_are_refused(old: str, new: str) -> None:
    assert old in RULES
    with pytest.raises(InputError):
        read_jwt_rules(RULES.replace(old, new).encode(), "rules")


def test_what_has_the_form_of_a_token() -> None:
    assert jwt_in("Bearer a.b.c") == jwt_in("bearer  a.b.c ") == "a.b.c"
    assert jwt_in("Bearer abc") is jwt_in("Basic a.b.c") is jwt_in("") is None


def test_a_caller_is_known_for_a_minute_at_most() -> None:
    class Counting:
        asked = 0

        def verify(self, token: str) -> Mapping[str, Any]:
            self.asked += 1
            return claims(exp=1030)

    now_s, counting = [1000.0], Counting()
    tokens = SignedTokens(counting, read_jwt_rules(RULES.encode(), "r"), threads_of_requests(), lambda: now_s[0])

    async def ask() -> str:
        return (await tokens.identify("a.b.c")).name

    assert [asyncio.run(ask()) for _ in range(3)] == ["jwt:alice"] * 3
    assert counting.asked == 1
    now_s[0] += KNOWN_S
    asyncio.run(ask())
    assert counting.asked == 2
    now_s[0] = 1061
    asyncio.run(ask())
    assert counting.asked == 3, "an expired one is verified again, which refuses it"


# -- as a whole -------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", BOTH)
def test_a_service_takes_tokens(tmp_path: Path, protocol: str) -> None:
    rules = JwtRules(
        issuer=ISSUER, audience=AUDIENCE, jwks_file="x", callers=read_jwt_rules(RULES.encode(), "r").callers[1:]
    )
    call = BOTH[protocol]
    tokens = SignedTokens(verifier(), rules, threads_of_requests())
    with serving(tmp_path, access=Access(by_digest={}), tokens=tokens) as registry:
        assert call(registry, "ListTopics", {}).code == RpcCode.UNAUTHENTICATED
        assert call(registry, "ListTopics", {}, {"Authorization": "Bearer x"}).code == RpcCode.UNAUTHENTICATED
        assert call(registry, "ListTopics", {}, {"Authorization": f"Bearer {signed(OTHER)}"}).code == 16
        good = {"Authorization": f"Bearer {signed()}"}
        assert call(registry, "ListTopics", {}, good).body["total"] == 2
        found = call(registry, "ChangeTags", one("topic", "test1", set={"a": "b"}), good).body["results"][0]
        assert found["code"] == RpcCode.PERMISSION_DENIED
        assert "jwt:alice" in found["message"]
        assert call(registry, "ListTopics", {}, {"Authorization": f"Bearer {signed(groups=[])}"}).code == 7
        assert not any(signed().split(".")[2] in line for line in registry.lines)


class _Keys(BaseHTTPRequestHandler):
    body = SET

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/keys")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body if self.path == "/keys" else b"x" * (1 << 20))

    def log_message(self, *args: object) -> None:
        pass


def test_keys_come_from_an_address_with_limits(tmp_path: Path) -> None:
    server = HTTPServer(("127.0.0.1", 0), _Keys)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    try:
        assert open_token_verifier("", f"{base}/keys", ISSUER, AUDIENCE, 30, print).verify(signed())
        for path in ("/large", "/moved"):
            with pytest.raises(RpcError):
                open_token_verifier("", base + path, ISSUER, AUDIENCE, 30, print).verify(signed())
    finally:
        server.shutdown()
        server.server_close()
    file = tmp_path / "keys.json"
    file.write_bytes(SET)
    assert open_token_verifier(str(file), "", ISSUER, AUDIENCE, 30, print).verify(signed())
    file.write_bytes(b"{}")
    with pytest.raises(InputError):
        open_token_verifier(str(file), "", ISSUER, AUDIENCE, 30, print)


def test_the_command_takes_a_file_of_rules(tmp_path: Path) -> None:
    home, rules = Home(tmp_path), tmp_path / "jwt.yaml"
    options = ("registry", "serve", "--bootstrap-servers", "127.0.0.1:1", "--jwt-file", str(rules))
    assert "jwt.yaml" in home.run(*options).stderr
    rules.write_text(RULES.replace("jwks_url: https://id.example/keys", f"jwks_file: {tmp_path}/keys.json"))
    assert "keys.json" in home.run(*options).stderr
    (tmp_path / "keys.json").write_text("{}")
    refused = home.run(*options)
    assert (refused.code, "is not a JWK set" in refused.stderr) == (2, True)
    (tmp_path / "keys.json").write_bytes(SET)
    assert "--jwt-file and --no-token exclude" in home.run(*options, "--no-token").stderr


def test_the_library_that_is_missing_is_named() -> None:
    without = mock.patch.dict(sys.modules, {"kafkakit.adapters.jwt_tokens": None})
    with without, pytest.raises(MissingExtraError, match="requires the package PyJWT"):
        open_token_verifier("x", "", ISSUER, AUDIENCE, 30, print)
