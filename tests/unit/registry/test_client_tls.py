"""The client and the commands over real TLS: certificates made here, of the server alone and of both sides."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkakit import wiring
from kafkakit.core.errors import InputError, KafkakitError, UsageError
from kafkakit.core.rpc import RpcError
from kafkakit.registry.client import connect
from kafkakit.registry.decide.access import Access, read_access
from kafkakit.registry.decide.requests import Role
from kafkakit.registry.decide.tags import Kind
from tests.rigs.command_line import Home
from tests.rigs.registry import Registry, serving, tls_files
from tests.unit.registry.test_parts import CALLERS

ANYTHING = Access(by_digest=read_access(CALLERS.encode(), "tokens"), anonymous=frozenset(Role), names=None)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tls_files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module", params=["tls", "mtls"])
def secured(
    request: pytest.FixtureRequest, files: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Registry, bool]]:
    needs_one = request.param == "mtls"
    tls = wiring.server_tls(files / "server.key", files / "server.pem", files / "ca.pem" if needs_one else None)
    with serving(tmp_path_factory.mktemp("served"), tls=tls, access=ANYTHING) as registry:
        yield registry, needs_one


def ours(files: Path) -> dict[str, Any]:
    return {"cert_file": files / "client.pem", "key_file": files / "client.key"}


def test_the_client_reads_and_changes(secured: tuple[Registry, bool], files: Path, tmp_path: Path) -> None:
    registry, needs_one = secured
    token = tmp_path / "token"
    token.write_text("root-token\n")
    given: dict[str, Any] = {"ca_file": files / "ca.pem", "token_file": token, **(ours(files) if needs_one else {})}
    for host in ("127.0.0.1", "localhost"):
        server = f"https://{host}:{registry.addresses['HTTP'].rpartition(':')[2]}"
        with connect(server, **given) as client:
            before = client.topics()["test1"].tags
            client.change_tags(Kind.TOPIC, "test1", before, {"from": host})
            client.tag(Kind.BROKER, "1001", {"from": host})
            assert client.topics(["from:" + host]).keys() == {"test1"}
            assert client.brokers()[1001].tags == {"from": host}
            assert client.history(Kind.TOPIC, "test1")[0].by == "root"


def test_another_side_than_the_one_that_is_meant_is_refused(
    secured: tuple[Registry, bool], files: Path, tmp_path: Path
) -> None:
    registry, needs_one = secured
    server, other = f"https://{registry.addresses['HTTP']}", tls_files(tmp_path)
    with connect(server, ca_file=other / "ca.pem") as client, pytest.raises(UsageError, match="TLS fails"):
        client.topic_names()
    with connect(server) as client, pytest.raises(UsageError, match="TLS fails"):
        client.topic_names()  # the system knows no such authority
    with connect(server.replace("https", "http")) as client, pytest.raises(KafkakitError):
        client.topic_names()
    for given in ({}, ours(other)):
        with connect(server, ca_file=files / "ca.pem", **given) as client:
            if needs_one:
                with pytest.raises(KafkakitError) as caught:
                    client.topic_names()
                # In TLS 1.3 the refusal comes after the handshake, and some servers end the connection without it.
                assert "TLS fails" in caught.value.message or (not given) == ("--cert-file" in str(caught.value.hint))
            else:
                assert client.topic_names()


def test_a_certificate_for_another_use_is_none_of_a_server(files: Path, tmp_path: Path) -> None:
    tls = wiring.server_tls(files / "client.key", files / "client.pem", None)
    with (
        serving(tmp_path, tls=tls) as registry,
        connect(f"https://{registry.addresses['HTTP']}", ca_file=files / "ca.pem") as client,
        pytest.raises(UsageError, match="TLS fails"),
    ):
        client.topic_names()


def test_a_key_that_does_not_fit_is_named(files: Path) -> None:
    given: dict[str, Any] = {"cert_file": files / "client.pem", "key_file": files / "server.key"}
    with pytest.raises(InputError, match=r"client\.pem, .*server\.key: cannot be used for TLS"), connect("h", **given):
        pass


def test_the_commands_take_the_same_files(secured: tuple[Registry, bool], files: Path, tmp_path: Path) -> None:
    registry, needs_one = secured
    home = Home(tmp_path)
    server = ("--server", f"https://{registry.addresses['HTTP']}", "--ca-file", str(files / "ca.pem"))
    mine = ("--cert-file", str(files / "client.pem"), "--key-file", str(files / "client.key"))

    ran = home.run("registry", "tag", "--topics", "test2", "over:tls", *server, *mine)
    assert (ran.code, ran.stdout.splitlines()[-1]) == (0, "1 of 1 topic changed")
    ran = home.run("registry", "topics", "where over = tls", "-o", "tsv", *server, *mine)
    assert (ran.code, ran.stdout.split("\t")[0]) == (0, "test2")
    assert home.run("registry", "untag", "--topics", "test2", "over", *server, *mine).code == 0

    without = home.run("registry", "topics", *server)
    if needs_one:
        assert without.code in (2, 75)
        assert "TLS fails" in without.stderr or "hint: the server may need a certificate" in without.stderr
        assert len([line for line in without.stderr.splitlines() if line.startswith("error: ")]) == 1
    else:
        assert without.code == 0
    assert "belong together" in home.run("registry", "topics", *server, *mine[:2]).stderr


def test_a_refusal_comes_over_tls_as_it_does_without(files: Path, tmp_path: Path) -> None:
    tls = wiring.server_tls(files / "server.key", files / "server.pem", None)
    with (
        serving(tmp_path, tls=tls, access=Access(by_digest={})) as registry,
        connect(f"https://{registry.addresses['HTTP']}", ca_file=files / "ca.pem") as client,
        pytest.raises(RpcError, match="needs the header Authorization"),
    ):
        client.topic_names()
