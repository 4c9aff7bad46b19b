"""Requests of any form over real connections to a registry: which statuses they get, and how long answers take.

Run: PYTHONPATH=. python bench/registry_fuzz.py [--requests 20000] [--seed 1]. Prints one JSON object.

Half go over HTTP (methods, paths, parameters and bodies at random; a part of them as bytes that are no request at all),
half over gRPC (random bytes to each method). A status of 500, an unknown gRPC code or a connection that ends without an
answer to a sound request is a fault. At the end one caller sends ten times its rate, and the first answer after it is
measured.
"""

import argparse
import json
import random
import socket
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import quote

import grpc
import numpy as np
from machine import shape

from kafkakit.registry.decide.access import CallRates
from kafkakit.registry.decide.requests import RPC_BY_NAME, RPCS, SERVICE
from tests.rigs.registry import serving

WORDS = ["", "a:b", "1001", "test1", "true", "-1", "4294967296", "%", "..", "\0", "where", "a" * 300, "\u202e", "{}"]
FIELDS = [
    "tag",
    "name",
    "id",
    "spanning",
    "with_replicas",
    "exclude",
    "query",
    "fields",
    "page_size",
    "page_token",
    "x",
]
V2 = [("GET", f"/v2/{name}") for name in ("topics", "brokers", "history", "explain", "openapi.json")]
CALLS = [(rpc.http_method, rpc.http_path) for rpc in RPCS] + [*V2, ("POST", "/v2/tags"), ("GET", "/x")]


def body_of(dice: random.Random) -> bytes:
    """JSON of a wrong form, or bytes."""
    if dice.random() < 0.5:
        return dice.randbytes(dice.randint(0, 80))
    keys = ["topic", "tags", "ids", "name", "partitions", "replication", "configs", "changes"]
    return json.dumps({dice.choice(keys): dice.choice([None, 1, -1, [], {}, "x", [{}], {"name": 1}])}).encode()


def over_http(address: str, dice: random.Random, count: int) -> tuple[Counter[str], list[float]]:
    """Statuses, and seconds of each answer."""
    found: Counter[str] = Counter()
    took = []
    connection = HTTPConnection(address, timeout=10)
    for _ in range(count):
        if dice.random() < 0.1:
            found[raw(address, dice.randbytes(dice.randint(1, 200)))] += 1
            continue
        method, path = dice.choice(CALLS)
        if dice.random() < 0.2:
            method = dice.choice(["GET", "PUT", "POST", "DELETE", "PATCH"])
        for part in ("{name}", "{id}", "{remote_cluster_alias}", "{group_id}"):
            path = path.replace(part, quote(dice.choice(WORDS), safe=""))
        query = "&".join(f"{dice.choice(FIELDS)}={quote(dice.choice(WORDS))}" for _ in range(dice.randint(0, 4)))
        began = time.perf_counter()
        try:
            connection.request(method, f"{path}?{query}", body_of(dice))
            answer = connection.getresponse()
            answer.read()
            found[str(answer.status)] += 1
        except (HTTPException, OSError) as error:
            found[f"no answer: {type(error).__name__}"] += 1
            connection.close()
        took.append(time.perf_counter() - began)
    return found, took


def raw(address: str, data: bytes) -> str:
    """Bytes that are no request: the connection ends, or they are refused."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as one:
        one.sendall(data + b"\r\n\r\n")
        one.shutdown(socket.SHUT_WR)
        try:
            return "no request: " + (one.recv(64).decode("latin-1").split(" ")[1:2] or ["closed"])[0]
        except OSError:
            return "no request: closed"


def over_grpc(address: str, dice: random.Random, count: int) -> tuple[Counter[str], list[float]]:
    """Codes, and seconds of each answer."""
    found: Counter[str] = Counter()
    took = []
    with grpc.insecure_channel(address) as channel:
        calls = [channel.unary_unary(f"/{SERVICE}/{name}") for name in sorted(RPC_BY_NAME)]
        for _ in range(count):
            began = time.perf_counter()
            try:
                dice.choice(calls)(dice.choice([b"", dice.randbytes(dice.randint(1, 80))]), timeout=10)
                found["OK"] += 1
            except grpc.RpcError as error:
                found[error.code().name] += 1
            took.append(time.perf_counter() - began)
    return found, took


def overload(folder: Path) -> dict[str, object]:
    """One caller at ten times its rate for 3 s, over 200 connections, and the first request a second after it."""
    with serving(folder, rates=CallRates(reads_per_s=100, writes_per_s=10, timeout_s=0.2)) as registry:
        address, found = registry.addresses["HTTP"], Counter[int]()

        def press(_: int) -> None:
            one, end = HTTPConnection(address, timeout=10), time.perf_counter() + 3
            while time.perf_counter() < end:
                one.request("GET", "/v1/brokers/list")
                answer = one.getresponse()
                answer.read()
                found[answer.status] += 1
                time.sleep(0.1)

        with ThreadPoolExecutor(200) as pool:
            list(pool.map(press, range(200)))
        time.sleep(1)
        connection, began = HTTPConnection(address, timeout=10), time.perf_counter()
        connection.request("GET", "/v1/brokers/list")
        after = connection.getresponse()
        after.read()
        took_ms = round(1000 * (time.perf_counter() - began), 1)
    return {"statuses": dict(found), "first_status_after": after.status, "first_answer_after_ms": took_ms}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    dice = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving(folder) as registry:
            http, http_s = over_http(registry.addresses["HTTP"], dice, options.requests // 2)
            codes, grpc_s = over_grpc(registry.addresses["gRPC"], dice, options.requests // 2)
            alive, lines = registry.server.is_alive(), [x for x in registry.lines if " up: " not in x]
        load = overload(folder)
    faults = http["500"] + sum(n for what, n in http.items() if what.startswith("no answer"))
    faults += codes["UNKNOWN"] + codes["INTERNAL"] + codes["DEADLINE_EXCEEDED"]
    print(
        json.dumps(
            {
                "bench": "registry_fuzz",
                "requests": options.requests,
                "seed": options.seed,
                "http": dict(sorted(http.items())),
                "grpc": dict(sorted(codes.items())),
                "p99_ms": {"http": pct(http_s), "grpc": pct(grpc_s)},
                "faults": faults,
                "alive_after": alive,
                "lines": lines[:5],
                "ten_times_the_rate": load,
                "machine": shape(),
            },
            indent=2,
        )
    )


def pct(seconds: list[float]) -> float:
    return round(1000 * float(np.percentile(seconds, 99)), 1)


if __name__ == "__main__":
    main()
