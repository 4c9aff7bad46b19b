"""Sums of pathways on their way to an agent: the bytes that arrive, and what becomes of refusals."""

import gzip

import msgspec
import pytest

from kafkakit.adapters.metrics_services import DatadogAgent
from kafkakit.core.errors import OperationFailedError, TryLaterError, UsageError
from kafkakit.streams.model.pathways import (
    Bucket,
    PathwayBuckets,
    PathwayNode,
    PayloadSender,
    checkpoint_out,
    encode_payload,
    produce_tags,
)
from tests.rigs.metrics_http import Reply, Server, serving

NOW = 1_700_000_000_000
NODE = PathwayNode("svc-a", "prod")
SENDER = PayloadSender(node=NODE, tracer_version="1.2.3")


def buckets() -> tuple[Bucket, ...]:
    made = PathwayBuckets()
    made.add(checkpoint_out(NODE, None, produce_tags("orders"), NOW, 120)[2])
    return made.take()


def agent(server: Server, pauses: list[float] | None = None) -> DatadogAgent:
    return DatadogAgent(server.url.removeprefix("http://"), pause=(pauses if pauses is not None else []).append)


def test_the_agent_gets_the_body_and_what_it_is() -> None:
    with serving(Reply(b"{}")) as server:
        agent(server).send(SENDER, buckets())
    (got,) = server.got
    headers = {name.lower(): value for name, value in got.headers.items()}
    assert got.path == "/v0.1/pipeline_stats"
    assert (headers["content-type"], headers["content-encoding"]) == ("application/msgpack", "gzip")
    assert (headers["datadog-meta-lang"], headers["datadog-meta-tracer-version"]) == ("python", "1.2.3")
    assert got.body == encode_payload(SENDER, buckets())
    (bucket,) = msgspec.msgpack.decode(gzip.decompress(got.body))["Stats"]
    assert [one["Hash"] for one in bucket["Stats"]] == [12637414960767859789]


def test_an_old_agent_refuses_and_a_busy_one_is_tried_again() -> None:
    with serving(Reply(status=404)) as server, pytest.raises(OperationFailedError, match="HTTP 404"):
        agent(server).send(SENDER, buckets())
    pauses: list[float] = []
    with serving(Reply(status=503), Reply(b"{}")) as server:
        agent(server, pauses).send(SENDER, buckets())
    assert (len(server.got), len(pauses)) == (2, 1)
    with serving(Reply(status=503)) as server, pytest.raises(TryLaterError, match="HTTP 503"):
        agent(server, pauses).send(SENDER, buckets())
    assert len(server.got) == 3


@pytest.mark.parametrize("address", ["", "localhost", ":8126", "h:0", "h:65536", "h:x", "h:\u0663"])
def test_an_address_has_a_host_and_a_port(address: str) -> None:
    with pytest.raises(UsageError, match="is not the address of an agent"):
        DatadogAgent(address)
