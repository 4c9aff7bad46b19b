"""`kafkakit status` as a process on real brokers, and how soon `kafkakit ui` shows what happens there.

Run: PYTHONPATH=. python bench/status_live.py [--runs 7] [--topics 50]

Starts three brokers. `status` runs as a whole process, with 6 partitions and with 100 of each topic more. A browser
without a window opens the page of `ui` for the few partitions: its first paint as the browser itself measures it, and
for a broker that is killed and started again the time from the first answer of the cluster that says so to the text in
the page. Prints one JSON object.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from machine import shape

from tests.rigs.browser import Tab, browsing
from tests.rigs.desk import Desk
from tests.rigs.pictures import made_address
from tests.rigs.waiting import until

LIMIT_S = 120.0


def spread(seconds: list[float]) -> dict[str, float]:
    """The least, the middle and the most, in seconds."""
    found = sorted(seconds)
    return {"min": round(found[0], 2), "median": round(statistics.median(found), 2), "max": round(found[-1], 2)}


def whole_runs(desk: Desk, runs: int) -> dict[str, float]:
    """`status` as a process, its first run left out."""
    taken = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        desk.run("--profile sandbox status")
        taken.append(time.perf_counter() - began)
    return spread(taken[1:])


def create(admin: AdminClient, topics: int) -> None:
    """So many topics of 100 partitions with three copies, all with leaders at the end."""
    made = admin.create_topics([NewTopic(f"wide-{n:03d}", 100, 3) for n in range(topics)], request_timeout=LIMIT_S)
    for done in made.values():
        done.result()

    def are_led() -> bool:
        found = admin.list_topics(timeout=60).topics
        rows = [p for name, topic in found.items() if name.startswith("wide") for p in topic.partitions.values()]
        return len(rows) == 100 * topics and all(p.leader >= 0 and len(p.isrs) == 3 for p in rows)

    until(are_led, "the partitions have leaders")


def update_s(tab: Tab, admin: AdminClient, broker: int, act: Callable[[], object], *, alive: bool) -> float:
    """The time from the cluster's first answer with, or without, a broker to the text in the page."""
    acting, seen = threading.Thread(target=act), list[float]()

    def watch() -> None:
        end_s = time.monotonic() + LIMIT_S
        while not seen and time.monotonic() < end_s:
            if (broker in admin.list_topics(topic="load-0", timeout=10).brokers) is alive:
                seen.append(time.monotonic())
            time.sleep(0.02)

    watching = threading.Thread(target=watch)
    acting.start()
    watching.start()
    tab.wait(f"document.body.innerText.includes('broker-down') === {str(not alive).lower()}")
    shown_s = time.monotonic()
    watching.join()
    acting.join()
    return max(0.0, shown_s - seen[0])


def browse(desk: Desk, admin: AdminClient, rounds: int) -> dict[str, object]:
    """First paints, and the time to each of some events."""
    log, updates, paints = desk.folder / "ui.log", list[float](), list[float]()
    with desk.serving("--profile sandbox ui --listen 127.0.0.1:0", log), browsing(desk.folder) as tab:
        address = made_address(log)
        for _ in range(5):
            tab.open(address)
            tab.wait("performance.getEntriesByName('first-contentful-paint').length")
            paints.append(tab.run("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000)
        for _ in range(rounds):
            for word, alive in (("kill", False), ("restart", True)):
                act = lambda word=word: desk.run(f"sandbox {word} 1003")  # noqa: E731
                updates.append(update_s(tab, admin, 1003, act, alive=alive))
                time.sleep(5)
    return {"first_paint": round(paints[0], 2), "paints": spread(paints), "updates": spread(updates)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--topics", type=int, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        desk = Desk(Path(name))
        servers = json.loads(desk.run("sandbox up --brokers 3 -o json"))["bootstrap_servers"]
        try:
            admin = AdminClient({"bootstrap.servers": servers})
            desk.run("--profile sandbox sandbox load --topics 1 --partitions 6 --data 1MB")
            few = whole_runs(desk, given.runs)
            page = browse(desk, admin, 3)
            create(admin, given.topics)
            many = whole_runs(desk, given.runs)
        finally:
            desk.run("sandbox down")
    found = {"status_s": few, f"status_{100 * given.topics + 6}_partitions_s": many, "ui_s": page}
    asked = {"status_s": 1.0, "status_5000_partitions_s": 1.5, "first_paint_s": 0.3, "update_s": 1.0}
    print(json.dumps({"bench": "status_live", **found, "asked": asked, "machine": shape()}))


if __name__ == "__main__":
    main()
