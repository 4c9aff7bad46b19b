import pickle

import pytest

from kafkakit.config.security import Mechanism, Protocol, Secret, Security, problems_of, to_confluent, to_kafka_python
from kafkakit.core.text import plain_value

SCRAM_TLS = Security(
    protocol=Protocol.SASL_SSL,
    ca_file="/ca.pem",
    sasl_mechanism=Mechanism.SCRAM_SHA_256,
    username="admin",
    password=Secret("hunter2"),
)
MUTUAL = Security(
    protocol=Protocol.SSL,
    ca_file="/ca.pem",
    cert_file="/cert.pem",
    key_file="/key.pem",
    key_password=Secret("sesame"),
    check_hostname=False,
)


@pytest.mark.parametrize("shown", [repr, str, "{}".format, "{!r:>20}".format, lambda s: f"{s:>10}", plain_value])
def test_a_secret_is_never_shown(shown: object) -> None:
    assert callable(shown)
    text = str(shown(Secret("hunter2")))
    assert "hunter2" not in text
    assert "***" in text


def test_a_secret_inside_security_is_never_shown() -> None:
    assert "hunter2" not in repr(SCRAM_TLS)
    assert "hunter2" not in str(plain_value(SCRAM_TLS))


def test_a_secret_cannot_be_pickled() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(Secret("hunter2"))


def test_scram_over_tls_for_both_clients() -> None:
    assert to_kafka_python(SCRAM_TLS) == {
        "security_protocol": "SASL_SSL",
        "ssl_check_hostname": True,
        "ssl_cafile": "/ca.pem",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "admin",
        "sasl_plain_password": "hunter2",
    }
    assert to_confluent(SCRAM_TLS) == {
        "security.protocol": "SASL_SSL",
        "ssl.endpoint.identification.algorithm": "https",
        "ssl.ca.location": "/ca.pem",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "admin",
        "sasl.password": "hunter2",
    }


def test_mutual_tls_for_both_clients() -> None:
    assert to_kafka_python(MUTUAL) == {
        "security_protocol": "SSL",
        "ssl_check_hostname": False,
        "ssl_cafile": "/ca.pem",
        "ssl_certfile": "/cert.pem",
        "ssl_keyfile": "/key.pem",
        "ssl_password": "sesame",
    }
    assert to_confluent(MUTUAL)["ssl.endpoint.identification.algorithm"] == "none"
    assert to_confluent(MUTUAL)["ssl.key.password"] == "sesame"


def test_plaintext_says_nothing_else() -> None:
    assert to_kafka_python(Security()) == {"security_protocol": "PLAINTEXT"}
    assert to_confluent(Security()) == {"security.protocol": "PLAINTEXT"}


@pytest.mark.parametrize("security", [Security(), SCRAM_TLS, MUTUAL])
def test_what_fits_has_no_problems(security: Security) -> None:
    assert problems_of(security) == ()


@pytest.mark.parametrize(
    ("security", "word"),
    [
        (Security(ca_file="/ca.pem"), "does not encrypt"),
        (Security(protocol=Protocol.SSL, cert_file="/c.pem"), "tls.key_file is missing"),
        (Security(protocol=Protocol.SASL_SSL, username="a", password=Secret("x")), "sasl.mechanism"),
        (Security(protocol=Protocol.SASL_SSL, sasl_mechanism=Mechanism.PLAIN, password=Secret("x")), "sasl.username"),
        (Security(protocol=Protocol.SASL_SSL, sasl_mechanism=Mechanism.PLAIN, username="a"), "needs a password"),
        (Security(username="a"), "sends no user name"),
    ],
)
def test_what_does_not_fit_is_named(security: Security, word: str) -> None:
    (problem,) = problems_of(security)
    assert word in problem
