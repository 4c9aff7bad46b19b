"""Producers and consumers of a stream killed at random while clusters hang and die: what is lost, and what comes twice.

Run: python bench/streams_campaign.py [--minutes 10] [--seed 1] [--rate 300]

Two sandbox clusters of one broker each. An episode is a stream of its own with two producers and three consumers, in
processes of their own, one of each with a wall clock that jumps; its mode, kind of handler, codec, guard, partitions
and whether its topics are compacted are chosen at random. Some faults follow at random: processes killed with SIGKILL
together, the route moved to the other cluster, a cluster stopped with SIGSTOP and continued, or killed and started
again, its controller killed, the control store taken away, also while clients start, a dependency down. Then all of
them run to the end, and
`tests/rigs/stream_checker.py`, which shares no code with the client, counts. Prints one JSON object.
"""

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from machine import shape

sys.path.insert(0, str(Path(__file__).parent.parent))

from kafkakit.sandbox import lifecycle
from kafkakit.sandbox.decide.spec import Mode, Secure, build_spec
from kafkakit.wiring import this_machine
from tests.integration.conftest import Home, SandboxCluster, SilentReporter
from tests.rigs.stream_world import World
from tests.rigs.waiting import becomes

GOAL = {"problems": 0}
FAULTS = ("kill", "kill", "kill", "move", "hang", "die", "store", "birth", "outage", "controller")
MODES = ("key", "unordered", "partition")
HANDLERS = ("handler", "batch_handler", "async_handler")
CODECS = ("zstd", "snappy", "lz4", "gzip", "none")
COMPACTED = {
    "cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0",
    "max.compaction.lag.ms": "1000",
}  # fmt: skip


def cluster(home: Home, name: str) -> SandboxCluster:
    """One broker."""
    machine, store = this_machine(home.cache), home.store(name)
    spec = build_spec(name=name, brokers=1, racks=1, log_dirs=(1,), kafka=None, mode=Mode.KRAFT, secure=Secure.NONE)
    state, _ = lifecycle.up(machine, store, spec, SilentReporter())
    return SandboxCluster(machine=machine, store=store, home=home, state=state)


def fault(world: World, chosen: random.Random, kind: str) -> None:
    """One fault, for some seconds; what was killed is started again after it."""
    with ExitStack() as stack:
        if kind == "move":
            world.move(chosen.choice("ab"))
        elif kind == "hang":
            stack.enter_context(world.hung(*chosen.choice(("a", "b", "ab"))))
        elif kind == "die":
            stack.enter_context(world.gone(chosen.choice("ab")))
        elif kind == "controller":
            stack.enter_context(world.controller_gone(chosen.choice("ab")))
        elif kind in ("store", "birth"):
            stack.enter_context(world.store_away())
        elif kind == "outage":
            world.outage.touch()
            stack.callback(world.outage.unlink)
        time.sleep(chosen.uniform(0.5, 3))
        if kind == "kill" or chosen.random() < 0.5:
            world.kill_some(chosen)
        if kind == "birth":  # clients are started while their store is away
            world.kill_some(chosen)
            world.revive()
        time.sleep(chosen.uniform(0.5, 12 if kind in ("hang", "die", "controller") else 3))
    world.revive()


def episode(
    clusters: dict[str, SandboxCluster], folder: Path, chosen: random.Random, rate: int
) -> tuple[Counter[str], list[str]]:
    """One stream, some faults; its counts and problems."""
    counts: Counter[str] = Counter()
    configs = COMPACTED if chosen.random() < 0.2 else {}
    partitions = chosen.choice((1, 3, 12))
    with World(
        clusters=clusters, folder=folder, dlq_on=chosen.choice("ab"), partitions=partitions, configs=configs
    ) as world:
        mode, codec, handler = chosen.choice(MODES), chosen.choice(CODECS), chosen.choice(HANDLERS)
        counts.update([mode, codec, handler, *(["compacted"] if configs else [])])
        given: dict[str, Any] = {"mode": mode, "handler": handler, "strict": chosen.random() < 0.5}
        counts["strict"] += given["strict"]
        if mode == "partition":  # one record after another, with the waits of those that fail
            rate = min(rate, 20 * partitions)
        world.add("producer", per_s=rate, compression=codec)
        world.add("producer", per_s=rate, compression=codec, jumps=True)
        world.add("consumer", 2, **given)
        world.add("consumer", **given, jumps=True, limit_chars=chosen.choice((64, 200, 4095, 60_000)))
        becomes("nothing is handled", lambda: world.handled() > 50)
        for _ in range(chosen.randint(3, 6)):
            kind = chosen.choice(FAULTS)
            counts[kind] += 1
            fault(world, chosen, kind)
        try:
            verdict = world.finish(300)
        except AssertionError as error:
            return counts, [f"{folder.name}: {error}"]
    found = {name: getattr(verdict, name) for name in verdict.__slots__ if name != "problems"}
    counts.update({name: value for name, value in found.items() if name != "longest_chars"})
    return counts, [f"{folder.name}: {problem}" for problem in verdict.problems]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=300, help="records a second of each of the two producers")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    chosen, until_s = random.Random(asked.seed), time.monotonic() + 60 * asked.minutes
    folder = Path(tempfile.mkdtemp(prefix="streams-campaign-"))
    home = Home(folder=folder, cache=Path.home() / ".cache" / "kafkakit")
    counts, problems = Counter[str](), list[str]()
    with ExitStack() as stack:
        clusters = {}
        for name in "ab":
            clusters[name] = cluster(home, name)
            stack.callback(clusters[name].down)
        while time.monotonic() < until_s:
            counts["episodes"] += 1
            found, wrong = episode(clusters, folder / f"episode-{counts['episodes']}", chosen, asked.rate)
            counts += found
            problems += wrong
            print(f"episode {counts['episodes']}: {dict(found)} {wrong}", file=sys.stderr, flush=True)
    if not problems:
        shutil.rmtree(folder, ignore_errors=True)
    result = {"seed": asked.seed, **counts, "problems": problems, "goal": GOAL, "machine": shape()}
    print(json.dumps(result, indent=2))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
