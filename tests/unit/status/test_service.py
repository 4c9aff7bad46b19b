"""The service behind the page: what each address shows, who may see it, and what happens while a cluster is away."""

import asyncio
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, quote, urljoin

import pytest

from kafkakit.adapters.host import SystemClock
from kafkakit.core.cluster_facts import (
    BrokerLogDirs,
    ClusterInfo,
    GroupListing,
    GroupState,
    GroupType,
    LiveReplica,
    TopicCount,
)
from kafkakit.core.errors import InputError, KafkakitError, TryLaterError, UsageError
from kafkakit.core.model import Broker, LogDir, Partition, TagSet, Topic, TopicPartition
from kafkakit.core.rpc import HttpPage, HttpRequest
from kafkakit.kubernetes.brokers import pods_of_cluster
from kafkakit.kubernetes.objects import read_objects
from kafkakit.status.act.objects import MOST_AT_ONCE, SharedReads
from kafkakit.status.act.reading import HistoryFile, UnreadableCluster, unreadable_sources
from kafkakit.status.act.service import (
    SESSION_COOKIE,
    LiveCluster,
    PlanFiles,
    Sessions,
    StatusWatch,
    UiLook,
    UiService,
    UiStores,
)
from kafkakit.status.commands.ui import asset, render
from kafkakit.status.decide.delays import GroupDelay
from kafkakit.status.decide.judgement import ClusterReading, ClusterStatus, judge_cluster
from kafkakit.status.decide.objects import (
    BrokerDetail,
    CommitOfGroup,
    GroupDetail,
    PartitionDetail,
    ReplicaFacts,
    TopicDetail,
    TopicRow,
    partition_row,
    topic_row,
)
from kafkakit.status.decide.pages import StreamEntry
from tests.fakes.admin import FakeClock
from tests.fakes.control import FakeControlStore
from tests.places import ROOT
from tests.rigs.kubernetes import cluster, printed
from tests.rigs.waiting import WAIT_S, until
from tests.unit.status.test_judgement import P7, down, health, healthy, state

PLAN = ROOT / "tests/cases/compat/journal/dirs.plan.json"
EVIL = "<b>x</b>'\"&\u202e" + "y" * 230


def shown(reading: ClusterReading) -> ClusterReading:
    """With topics and groups to list."""
    assert reading.partitions is not None
    counts = {f"topic-{n:03d}": TopicCount(3, 3, int(n == 7), int(n in (7, 9)), 0) for n in range(120)}
    counts[EVIL] = TopicCount(1, 3, 0, 0, 0)
    groups = tuple(GroupListing(group=f"g{n}", type=GroupType.CLASSIC, state=GroupState.EMPTY) for n in range(60))
    lag = (GroupDelay(group="g3", status="stopped", lag=12),)
    return replace(reading, partitions=replace(reading.partitions, of_topics=counts), groups=groups, lag=lag)


class Source:
    """A cluster whose reading a test sets; `failure` is raised instead."""

    def __init__(self, reading: ClusterReading) -> None:
        self.reading = reading
        self.failure: Exception | None = None
        self.glances: object = 1
        self.asked: list[str] = []
        self.tag_set: TagSet | None = TagSet()
        self.rows: dict[str, TopicRow] = {}
        self.closed = False

    def glance(self) -> object:
        if isinstance(self.glances, Exception):
            raise self.glances
        return self.glances

    def read(self) -> ClusterStatus:
        if self.failure is not None:
            raise self.failure
        return judge_cluster(self.reading)

    def topic(self, name: str) -> TopicDetail:
        self.asked.append(name)
        if self.failure is not None:
            raise self.failure
        if name != "orders":
            raise UsageError(f"topic {name} does not exist")
        return TopicDetail(row=topic_row(Topic(name="orders", partitions=()), 1), partitions=(), groups=("g",))

    def partition(self, key: TopicPartition) -> PartitionDetail:
        raise UsageError("no such partition")

    def broker(self, number: int) -> BrokerDetail:
        raise TryLaterError("no answer in 3 s")

    def group(self, name: str) -> GroupDetail:
        return GroupDetail(group=name, description=None, commits=(), error="?")

    def streams(self) -> Sequence[StreamEntry]:
        return [StreamEntry(name="orders", lanes=[("live", "orders-1 on prod")])]

    def tags(self) -> TagSet:
        if self.tag_set is None:
            raise TryLaterError("no answer from the store")
        return self.tag_set

    def topics(self, *, sizes: bool) -> Mapping[str, TopicRow]:
        self.asked.append(f"all topics, sizes={sizes}")
        return self.rows

    def close(self) -> None:
        self.closed = True


class Ui:
    """A service of one or more clusters, and the pages that it answers with."""

    def __init__(self, *readings: ClusterReading, token: str = "", plans: Path | None = None) -> None:
        self.clock = FakeClock()
        self.sources = [Source(reading) for reading in readings]
        self.watches = [StatusWatch(f"c{number}", source, self.clock) for number, source in enumerate(self.sources)]
        look = UiLook(render=render, asset=asset)
        folder = PlanFiles(plans, lambda path, limit: path.read_bytes())
        self.service = UiService(self.watches, folder, look, Sessions(token=token))
        self.look()

    def look(self) -> None:
        for watch in self.watches:
            watch.publish()

    def ask(self, path: str, method: str = "GET", *, body: bytes = b"", **headers: str) -> HttpPage:
        target, _, query = path.partition("?")
        values = dict(parse_qsl(query, keep_blank_values=True))
        authorization = headers.pop("authorization", "")
        return self.service.answer(
            HttpRequest(
                method=method, path=target, query=values, remote="127.0.0.1:9", is_local=True, body=body,
                authorization=authorization,
                headers={name.replace("_", "-"): value for name, value in headers.items()},
            )
        )  # fmt: skip

    def text(self, path: str) -> str:
        page = self.ask(path)
        assert page.status == 200, (path, page)
        return page.body.decode()


PATHS = (
    "/",
    "/brokers",
    "/topics",
    "/topics/orders",
    "/groups",
    "/groups/g3",
    "/moves",
    "/streams",
    "/findings",
    "/plans",
)


@pytest.fixture
def ui() -> Ui:
    return Ui(shown(down(healthy(partitions=health({P7: state((1,))}), min_isr={"payments": 2}), 3)))


@pytest.mark.parametrize("path", PATHS)
def test_every_page_has_a_title_one_heading_landmarks_and_no_style_or_script_of_its_own(ui: Ui, path: str) -> None:
    text = ui.text(path)
    (title,) = re.findall("<title>(.*?)</title>", text.partition("<body>")[0])
    assert len(title) > 5
    assert text.count("<h1>") == 1
    assert text.count("<main>") == 1
    assert "<style" not in text
    assert re.findall("<script[^>]*>", text) == ['<script src="/assets/ui.js" defer>']
    assert not re.search(r"\son[a-z]+=|\sstyle=", text)


@pytest.mark.parametrize("path", PATHS)
def test_names_from_the_cluster_are_text(ui: Ui, path: str) -> None:
    for page in (ui.text(path), ui.text("/topics?page=3"), ui.text("/topics?q=%3Cb%3E")):
        assert "<b>x</b>'" not in page
        assert "\u202e" not in page


def test_all_links_of_all_pages_lead_to_pages(ui: Ui) -> None:
    todo, seen = ["/"], set[str]()
    while todo:
        path = todo.pop()
        if path in seen or not path.startswith("/"):
            continue
        seen.add(path)
        answer = ui.ask(path.replace("&amp;", "&"))
        may_fail = path.startswith(
            ("/topics/", "/brokers/")
        )  # the source has one topic, and brokers that do not answer
        assert answer.status == 200 or (may_fail and answer.status in (404, 503)), (path, answer.status)
        if not path.startswith("/assets/"):
            todo += [urljoin(path, link) for link in re.findall('href="([^"#]+)"', answer.body.decode())]
    assert len(seen) > 60


def test_a_list_is_paged_filtered_and_sorted_on_the_server(ui: Ui) -> None:
    first, second = ui.text("/topics"), ui.text("/topics?page=2")
    assert ("topic-000" in first, "topic-060" in first) == (True, False)
    assert ("topic-000" in second, "topic-060" in second) == (False, True)
    assert "1 to 50 of 121" in first
    found = ui.text("/topics?state=short")
    assert re.findall(">(topic-[0-9]+)</a>", found) == ["topic-007", "topic-009"]
    assert re.findall(">(topic-[0-9]+)</a>", ui.text("/topics?q=11"))[0] == "topic-011"
    assert re.findall(">(topic-[0-9]+)</a>", ui.text("/topics?sort=state"))[:2] == ["topic-007", "topic-009"]


@pytest.mark.parametrize("query", ["page=0", "page=-1", "page=9999999", "page=x", "sort=nothing", "state=nothing"])
def test_an_address_that_cannot_be_meant_shows_the_list(ui: Ui, query: str) -> None:
    assert "topic-" in ui.text(f"/topics?{query}")


def test_what_there_is_not_is_404_with_a_way_back(ui: Ui) -> None:
    for path in ("/nothing", "/topics/nix", "/topics/orders/x", "/brokers/99", "/plans/../../etc/passwd", "/c/other"):
        page = ui.ask(path)
        assert (page.status, b'href="/brokers"' in page.body) == (404, True), path


def test_an_object_that_cannot_be_read_now_is_503_and_says_why(ui: Ui) -> None:
    page = ui.ask("/brokers/1")
    assert (page.status, b"no answer in 3 s" in page.body) == (503, True)


def test_what_one_page_needs_is_read_once_in_a_while(ui: Ui) -> None:
    for _ in range(3):
        ui.text("/topics/orders")
    ui.clock.elapsed += 6
    ui.text("/topics/orders")
    assert ui.sources[0].asked == ["orders", "orders"]


def test_what_is_not_there_is_asked_for_once_in_a_while(ui: Ui) -> None:
    for _ in range(3):
        assert ui.ask("/topics/nix").status == 404
    assert ui.sources[0].asked == ["nix"]


def test_a_read_that_hangs_is_shared_and_keeps_nothing_else_waiting() -> None:
    begun, go_on, asked = threading.Event(), threading.Event(), list[str]()
    reads = SharedReads(FakeClock(), wait_s=0.01)

    def hang() -> str:
        asked.append("hang")
        begun.set()
        go_on.wait(60)
        return "at last"

    for _ in range(20):
        with pytest.raises(TryLaterError, match="is being read"):
            reads.one("topic", "hangs", hang)
    assert begun.wait(60)
    until(lambda: given(reads, "other", lambda: "quick") == "quick", "another one is read meanwhile")
    go_on.set()
    until(lambda: given(reads, "hangs", hang) == "at last", "the read ends")
    assert asked == ["hang"]


def given(reads: SharedReads, key: str, work: Callable[[], str]) -> str:
    try:
        return reads.one("topic", key, work)
    except TryLaterError:
        return ""


def test_many_reads_that_hang_are_not_joined_by_more_of_them() -> None:
    go_on = threading.Event()
    reads = SharedReads(FakeClock(), wait_s=0.01)
    try:
        for number in range(MOST_AT_ONCE):
            with pytest.raises(TryLaterError, match="is being read"):
                reads.one("topic", number, lambda: go_on.wait(60))
        with pytest.raises(TryLaterError, match=f"{MOST_AT_ONCE} other"):
            reads.one("topic", "more", lambda: True)
    finally:
        go_on.set()


class Store(FakeControlStore):
    """Counts those that are open; `failure` is raised by what is read."""

    opened, closed = 0, 0
    failure: KafkakitError | None = None

    def children(self, path: str) -> tuple[str, ...]:
        if Store.failure is not None:
            raise Store.failure
        return ()

    def close(self) -> None:
        Store.closed += 1


def stores_of(opened: Callable[[], FakeControlStore]) -> UiStores:
    return UiStores(open_control=opened, open_tags=opened)


def test_the_control_store_is_opened_once_and_again_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("opened", "closed"):
        monkeypatch.setattr(Store, name, 0)

    def open_store() -> Store:
        Store.opened += 1
        return Store()

    clock = FakeClock()
    error = TryLaterError("away")
    sources = unreadable_sources("c", "kafkakit", error, clock)
    memory = HistoryFile(Path("nowhere"), lambda path, limit: b"", lambda path, data: None)
    cluster = LiveCluster(UnreadableCluster("c", error, clock), memory, sources, stores_of(open_store))
    for _ in range(3):
        assert cluster.streams() == []
    assert (Store.opened, Store.closed) == (1, 0)
    monkeypatch.setattr(Store, "failure", error)
    with pytest.raises(TryLaterError):
        cluster.streams()
    assert (Store.opened, Store.closed) == (1, 1)
    monkeypatch.setattr(Store, "failure", None)
    cluster.streams()
    cluster.close()
    assert (Store.opened, Store.closed) == (2, 2)


def test_a_cluster_whose_settings_are_broken_says_so_beside_others() -> None:
    clock, error = FakeClock(), InputError("prod.yaml", "its profile is broken")
    memory = HistoryFile(Path("nowhere"), lambda path, limit: b"", lambda path, data: None)
    sources = unreadable_sources("bad", "kafkakit", error, clock)
    cluster = LiveCluster(UnreadableCluster("bad", error, clock), memory, sources, stores_of(Store))
    watch = StatusWatch("bad", cluster, clock)
    watch.publish()
    look = UiLook(render=render, asset=asset)
    ui = Ui(healthy())
    ui.service = UiService([watch, *ui.watches], PlanFiles(None, lambda p, n: b""), look, Sessions())
    assert "its profile is broken" in ui.text("/")
    assert "its profile is broken" in ui.text("/c/bad")
    assert (ui.ask("/c/bad/topics/orders").status, ui.ask("/c/c0/topics/orders").status) == (503, 200)


def test_plans_are_decoded_once_and_the_newest_files_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkakit.status.act.service.MOST_PLANS", 2)
    plan, read = PLAN.read_bytes(), list[str]()
    for age, name in enumerate(("z.json", "m.json", "a.json")):
        (tmp_path / name).write_bytes(plan)
        os.utime(tmp_path / name, (1000 + age, 1000 + age))

    def read_file(path: Path, limit: int) -> bytes:
        read.append(path.name)
        return path.read_bytes()

    folder = PlanFiles(tmp_path, read_file)
    for _ in range(2):
        assert sorted(entry.name for entry in folder.plans()) == ["a.json", "m.json"]
    assert sorted(read) == ["a.json", "m.json"]
    os.utime(tmp_path / "z.json", (2000, 2000))
    assert sorted(entry.name for entry in folder.plans()) == ["a.json", "z.json"]
    assert sorted(read) == ["a.json", "m.json", "z.json"]
    assert folder.page("m.json") is None


def test_a_reading_that_failed_is_told_at_once() -> None:
    ui = Ui(healthy())
    ui.sources[0].failure = TryLaterError("no answer in 3 s")
    ui.look()
    assert "no answer in 3 s" in ui.text("/")
    assert ui.watches[0].view("").is_stale


def test_figures_of_a_slow_cluster_are_old_after_a_minute() -> None:
    ui = Ui(healthy())
    watch = ui.watches[0]
    watch.reading = replace(watch.reading, took_s=9.0, read_s=ui.clock.monotonic())
    ui.clock.elapsed += 50
    assert not watch.view("").is_stale
    ui.clock.elapsed += 20
    assert watch.view("").is_stale


def test_a_cluster_that_goes_away_keeps_its_figures_and_says_how_old_they_are() -> None:
    ui = Ui(healthy())
    assert 'class="severity ok">ok' in ui.text("/")
    ui.sources[0].failure = TryLaterError("no answer in 3 s")
    ui.clock.elapsed += 30
    ui.look()
    text = ui.text("/")
    assert "old: no answer in 3 s" in text
    assert 'id="health" role="status" data-live><span class="severity unknown">' in text
    ui.sources[0].failure = None
    ui.look()
    assert "These figures" not in ui.text("/")


def test_a_defect_of_a_reading_ends_no_watch() -> None:
    ui = Ui(shown(healthy()))
    ui.sources[0].failure = RuntimeError("boom")
    ui.clock.elapsed += 30
    ui.look()
    assert "RuntimeError: boom" in ui.text("/")


def test_what_a_glance_shows_is_read_at_once_and_a_glance_that_fails_ends_no_watch() -> None:
    source = Source(healthy())
    watch = StatusWatch("c0", source, SystemClock(), every_s=1e6)
    watch.start()
    for number, seen in enumerate((2, TryLaterError("away"), RuntimeError("boom"), 2), start=1):
        until(lambda number=number: watch.reading.version == number, str(seen))  # type: ignore[misc]
        source.glances = seen
    until(lambda: watch.reading.version == 5)
    watch.close(WAIT_S)
    assert source.closed


def test_before_the_first_reading_there_are_no_zeros() -> None:
    ui = Ui(healthy())
    watch = StatusWatch("c0", ui.sources[0], ui.clock)
    service = UiService([watch], PlanFiles(None, lambda p, n: b""), UiLook(render=render, asset=asset), Sessions())
    ui.service = service
    for path in PATHS[:1] + PATHS[1:3] + PATHS[4:5]:
        text = ui.text(path)
        assert "read yet" in text or "not known" in text, path
        assert ">0<" not in text


def test_a_fleet_has_a_table_and_each_cluster_its_own_addresses() -> None:
    ui = Ui(healthy(), down(healthy(), 3))
    text = ui.text("/")
    assert re.findall('href="(/c/[^"]*)"', text) == ["/c/c1", "/c/c0"]
    assert 'href="/c/c1/brokers"' in ui.text("/c/c1")
    assert ui.ask("/c/nix").status == 404


def test_nothing_but_a_login_can_be_posted(ui: Ui) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert ui.ask("/topics", method).status == 405


def test_without_the_token_nothing_is_shown_and_a_login_opens_a_session() -> None:
    ui = Ui(shown(healthy()), token="0123456789abcdef")
    sent = ui.ask("/topics")
    assert (sent.status, dict(sent.headers)["Location"], sent.body) == (303, "/login", b"")
    assert ui.ask("/topics", sec_fetch_mode="cors").status == 401
    assert ui.ask("/events").status == 303
    assert ui.ask("/topics", authorization="Bearer 0123456789abcdeX").status == 303
    assert ui.ask("/topics", authorization="Bearer 0123456789abcdef").status == 200
    assert ui.ask("/login", "POST", body=b"token=wrong").status == 401
    opened = ui.ask("/login", "POST", body=b"token=0123456789abcdef")
    cookie = dict(opened.headers)["Set-Cookie"]
    assert (opened.status, "HttpOnly; SameSite=Lax" in cookie, cookie.startswith(SESSION_COOKIE)) == (303, True, True)
    assert ui.ask("/topics", cookie=f"a=b; {cookie.split(';')[0]}").status == 200
    assert ui.ask("/topics", cookie=f"{SESSION_COOKIE}=guess").status == 303
    assert "0123456789abcdef" not in ui.ask("/login").body.decode()


def test_every_page_has_the_policy(ui: Ui) -> None:
    for path in PATHS[:-1]:
        policy = dict(ui.ask(path).headers)["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


def test_events_tell_of_each_new_reading(ui: Ui) -> None:
    async def two() -> list[bytes]:
        page = ui.ask("/events")
        assert page.parts is not None
        got = [await anext(page.parts)]
        ui.look()
        got.append(await anext(page.parts))
        await page.parts.aclose()  # type: ignore[attr-defined]
        return got

    assert asyncio.run(two()) == [b"event: reading\ndata: 1\n\n", b"event: reading\ndata: 2\n\n"]


def test_too_many_browsers_are_refused_and_those_that_leave_make_room(ui: Ui) -> None:
    async def fill() -> tuple[int, int]:
        open_ones = [ui.ask("/events").parts for _ in range(64)]
        for parts in open_ones:
            assert parts is not None
            await anext(parts)
        refused = ui.ask("/events").status
        for parts in open_ones:
            await parts.aclose()  # type: ignore[union-attr]
        return refused, ui.ask("/events").status

    assert asyncio.run(fill()) == (503, 200)


HOSTILE = ("<&>\"'" * 50)[:249], "\U0001f600" * 249, "n" * 249, "\u4e2d" * 3_000
"""Names that grow when they are escaped, encoded or repeated."""


@pytest.mark.parametrize("name", HOSTILE, ids=["markup", "emoji", "longest", "too long for a link"])
def test_pages_stay_small_whatever_the_names_are(name: str, tmp_path: Path) -> None:
    names = [f"{n:05d}-{name}"[: max(249, len(name))] for n in range(120)]
    reading = shown(down(healthy(partitions=health({TopicPartition(n, 0): state((1,)) for n in names})), 3))
    assert reading.partitions is not None
    counts = {n: TopicCount(100, 3, 1, 1, 1) for n in names}
    listed = tuple(GroupListing(group=n, type=GroupType.CLASSIC, state=GroupState.EMPTY) for n in names)
    lag = tuple(GroupDelay(group=n, status="stopped", lag=12) for n in names)
    brokers = tuple(Broker(id=n, rack=name, host=name) for n in range(120))
    info = ClusterInfo(cluster_id="c", brokers=brokers)
    partitions = replace(reading.partitions, of_topics=counts)
    ui = Ui(replace(reading, partitions=partitions, groups=listed, lag=lag, info=info), plans=tmp_path)
    many = {f"{n}-{name}": name for n in range(120)}
    ui.sources[0] = source = LargeSource(ui.sources[0].reading)
    ui.watches[0] = StatusWatch("c0", source, ui.clock)
    source.tag_set = TagSet(topics=dict.fromkeys((*names, name), many), brokers=dict.fromkeys(range(120), many))
    look = UiLook(render=render, asset=asset)
    ui.service = UiService(ui.watches, PlanFiles(None, lambda p, n: b""), look, Sessions())
    for _ in range(3):
        ui.look()
        ui.clock.advance(20)
    one, query = quote(name, safe=""), query_of(f"name != '{name[:900]}' and (partitions > 1", explain=name[:200])
    paths = (
        *("/", "/topics", "/topics?page=2&sort=state", "/groups", "/brokers", "/findings", "/streams", "/moves"),
        *(
            f"/topics/{one}",
            f"/topics/{one}/7",
            f"/groups/{one}",
            "/brokers/7",
            f"/topics?{query}",
            f"/topics?{query})",
        ),
        f"/brokers?{query_of('rack != a', sort='disk', explain='5')}",
    )
    sizes = {path[:40]: len(ui.text(path).encode()) for path in paths}
    assert max(sizes.values()) < 200_000, sizes
    assert len(ui.text("/topics")) > 20_000


class LargeSource(Source):
    """Every topic has 1,024 partitions, and every group as many commits, under the name that is asked for."""

    def topic(self, name: str) -> TopicDetail:
        rows = [Partition(partition=p, replicas=(1, 2, 3), leader=1, isr=(1,)) for p in range(1_024)]
        topic = Topic(name=name, partitions=tuple(rows), configs={f"key-{n}": name * 2 for n in range(30)})
        found = tuple(partition_row(TopicPartition(name, p.partition), p, 2) for p in rows)
        return TopicDetail(row=topic_row(topic, 2), partitions=found, groups=(name,) * 400)

    def partition(self, key: TopicPartition) -> PartitionDetail:
        row = partition_row(key, Partition(partition=key.partition, replicas=(1, 2), leader=1, isr=(1,)), 2)
        copies = tuple(
            ReplicaFacts(broker=b, rack=key.topic, is_alive=True, in_sync=True, is_added=False, copy=None)
            for b in (1, 2)
        )
        return PartitionDetail(row=row, minimum=2, replicas=copies, span=None, producers=None, throttled=(key.topic,))

    def broker(self, number: int) -> BrokerDetail:
        names = list(self.tag_set.topics) if self.tag_set else []
        copies = {TopicPartition(name, 0): LiveReplica(size_bytes=1, log_dir=names[-1]) for name in names}
        dirs = tuple(LogDir(path=name, total_bytes=2, usable_bytes=1) for name in names)
        return BrokerDetail(dirs=BrokerLogDirs(broker=number, log_dirs=dirs, replicas=copies), settings={})

    def group(self, name: str) -> GroupDetail:
        commits = tuple(
            CommitOfGroup(key=TopicPartition(name, p), committed=1, end=9, lag=8, reader=f"{name} {name}")
            for p in range(1_024)
        )
        return GroupDetail(group=name, description=None, commits=commits)

    def streams(self) -> Sequence[StreamEntry]:
        name = next(iter(self.tag_set.topics)) if self.tag_set else ""
        return [StreamEntry(name=f"{n}{name}", lanes=[(name, f"{name} on prod")] * 5) for n in range(100)]


def query_of(text: str, **more: str) -> str:
    return "&".join(f"{name}={quote(value)}" for name, value in {"q": text, **more}.items())


def topics_in(text: str) -> list[str]:
    return re.findall(">(topic-[0-9]+)</a>", text)


@pytest.fixture
def tagged(ui: Ui) -> Ui:
    ui.sources[0].tag_set = TagSet(
        topics={"topic-007": {"team": "pay & go", "tier": "hot"}, "topic-009": {"team": "b"}},
        brokers={1: {"pool": "hot"}, 3: {"<i>": EVIL}},
    )
    return ui


def test_the_filter_of_topics_takes_queries_on_attributes_and_tags(tagged: Ui) -> None:
    found = {
        'team = "pay & go"': ["topic-007"],
        "where exists(team) and tier != hot": ["topic-009"],
        "offline = true or name like *-11?": ["topic-007", *(f"topic-{n}" for n in range(110, 120))],
        "under_replicated=true": ["topic-007", "topic-009"],
        "rf < 3": [],
    }
    assert {query: topics_in(tagged.text(f"/topics?{query_of(query)}")) for query in found} == found
    assert topics_in(tagged.text(f"/topics?{query_of('exists(team)', state='offline')}")) == ["topic-007"]
    assert topics_in(tagged.text(f"/topics?{query_of(' topic-11 ')}")) == [f"topic-{n}" for n in range(110, 120)]


def test_the_filter_of_brokers_takes_queries_too(tagged: Ui) -> None:
    def found(query: str) -> list[str]:
        return re.findall('href="/brokers/([0-9]+)"', tagged.text(f"/brokers?{query_of(query)}"))

    assert found("pool = hot") == ["1"]
    assert found("is_alive = false and rack = c") == ["3"]
    assert found("free_bytes > 10GiB and host = h and id <= 2") == ["1", "2"]
    assert found("replicas > 1000") == []


def test_settings_and_sizes_are_read_only_for_queries_that_look_at_them(tagged: Ui) -> None:
    source = tagged.sources[0]
    row = topic_row(Topic(name="topic-001", partitions=(), configs={"cleanup.policy": "compact"}), None)
    source.rows = {"topic-001": replace(row, bytes=5 << 30)}
    assert topics_in(tagged.text(f"/topics?{query_of('partitions > 1')}"))[0] == "topic-000"
    assert source.asked == []
    assert topics_in(tagged.text(f"/topics?{query_of('config.cleanup.policy = compact')}")) == ["topic-001"]
    assert topics_in(tagged.text(f"/topics?{query_of('bytes > 1GiB')}")) == ["topic-001"]
    assert source.asked == ["all topics, sizes=False", "all topics, sizes=True"]


@pytest.mark.parametrize(
    ("query", "words", "marked"),
    [
        ("partitions in 12", "column 15: found &#39;12&#39;, expected &#39;(&#39; and a list", "1"),
        ("partition = 12", "did you mean partitions?", "partition"),
        ("a && b", "column 3: found &#39;&amp;&amp;&#39;", "&amp;"),
        ("partitions = many", "compare it with a number", ""),
        ("reassigning = true", "reassigning is not known now: not read yet", ""),
    ],
)
def test_a_query_that_cannot_be_answered_says_where_and_why(tagged: Ui, query: str, words: str, marked: str) -> None:
    text = tagged.text(f"/topics?{query_of(query)}")
    assert words in text
    assert 'aria-invalid="true"' in text
    assert re.findall("<mark>(.*?)</mark>", text) == ([marked] if marked else [])
    assert (topics_in(text), "No topic fits" in text) == ([], False)


def test_a_key_that_no_object_has_is_told(tagged: Ui) -> None:
    assert "No topic has the tag owner." in tagged.text(f"/topics?{query_of('owner = a')}")


def test_a_query_is_explained_for_one_object(tagged: Ui) -> None:
    query = "tier = hot and partitions >= 12"
    text = tagged.text(f"/topics?{query_of(query, explain='topic-007')}")
    assert "Topic topic-007 does not match:" in text
    assert re.findall("<li>(partitions.*?)</li>", text) == ["partitions &gt;= 12: partitions is 3"]
    assert "Topic topic-007 matches:" in tagged.text(f"/topics?{query_of('tier = hot', explain='topic-007')}")
    assert "There is no topic nix." in tagged.text(f"/topics?{query_of(query, explain='nix')}")
    assert "Broker 1 does not match:" in tagged.text(f"/brokers?{query_of('pool = cold', explain='1')}")
    assert "Explain this query" not in tagged.text("/topics?q=topic-0")


def test_headings_choices_and_pages_keep_the_query(tagged: Ui) -> None:
    text = tagged.text(f"/topics?{query_of('partitions < 9', sort='partitions')}")
    links = [link.replace("&amp;", "&") for link in re.findall(r'href="(\?[^"]*)"', text)]
    kept = [link for link in links if "partitions%20%3C%209" in link]
    assert {"sort=state", "state=short", "page=2"} <= {part for link in kept for part in link[1:].split("&")}
    assert '<input type="hidden" name="sort" value="partitions">' in text


def test_tags_stand_at_each_object_and_lead_to_all_that_have_them(tagged: Ui) -> None:
    row = tagged.text("/topics?q=topic-007")
    assert re.findall('<span class="tag">(.*?)</span>', row) == ["team=pay &amp; go", "tier=hot"]
    tagged.sources[0].tag_set = TagSet(topics={"orders": {"team": "pay & go"}}, brokers={3: {"<i>": EVIL}})
    tagged.clock.elapsed += 31
    page = tagged.text("/topics/orders")
    (link,) = re.findall('<a class="tag" href="(.*?)">team=pay &amp; go</a>', page)
    assert link == "/topics?q=team%20%3D%20%22pay%20%26%20go%22"
    assert "registry history --topic orders" in page
    broker = tagged.text("/brokers/3")
    assert "&lt;i&gt;=&lt;b&gt;x" in broker
    assert "<i>" not in broker


def test_tags_that_cannot_be_read_are_unknown_and_never_none(tagged: Ui) -> None:
    tagged.sources[0].tag_set = None
    for path in ("/topics", "/topics/orders", "/brokers", "/brokers/3"):
        text = tagged.text(path)
        assert "Tags are not known: no answer from the store." in text, path
        assert re.search(r">\?</(td|dd)>", text), path
    text = tagged.text(f"/topics?{query_of('team = a')}")
    assert "team is not known now: no answer from the store" in text
    assert topics_in(text) == []


def test_where_nothing_has_tags_there_is_no_column_of_them(ui: Ui) -> None:
    assert ">Tags<" not in ui.text("/topics") + ui.text("/brokers") + ui.text("/topics/orders")


def test_the_page_of_a_broker_has_its_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = pods_of_cluster(read_objects(printed(cluster("ab", first=1)), "f"))
    ui = Ui(shown(healthy(pods=pods)))
    detail = BrokerDetail(dirs=BrokerLogDirs(broker=1, log_dirs=(), replicas={}), settings={})
    monkeypatch.setattr(ui.sources[0], "broker", lambda number: detail)
    words = re.sub(r"<[^>]+>", " ", ui.text("/brokers/1")).split()
    for told in ("kafka-1 of kafka", "Pod is ready", "Node n1", "Zone a", "Volumes data-kafka-1 100 GiB"):
        assert told in " ".join(words), told
    assert "Pod none" in " ".join(re.sub(r"<[^>]+>", " ", ui.text("/brokers/3")).split())
    assert "has no pod" in ui.text("/findings")


def test_a_partition_of_a_grid_has_its_own_address(ui: Ui) -> None:
    answer = ui.ask("/topics/orders?partition=7")
    assert (answer.status, dict(answer.headers)["Location"]) == (303, "/topics/orders/7")
    for text in ("x", "-1", "", "12345678901", "%D9%A7x"):
        assert ui.ask(f"/topics/orders?partition={text}").status == 200


def lag_of(ui: Ui, lag: tuple[GroupDelay, ...] | None) -> None:
    ui.sources[0].reading = replace(ui.sources[0].reading, lag=lag, at=ui.clock.now())
    ui.look()
    ui.clock.advance(20)


def test_lag_that_is_not_known_is_a_gap_and_never_zero() -> None:
    ui = Ui(shown(healthy()))
    ui.watches[0] = StatusWatch("c0", ui.sources[0], ui.clock)
    ui.service = UiService(
        ui.watches, PlanFiles(None, lambda p, n: b""), UiLook(render=render, asset=asset), Sessions()
    )
    known = (GroupDelay(group="g3", status="stopped", lag=12),)
    for lag in (
        known,
        known,
        (GroupDelay(group="g3", status="unreadable", lag=None),),
        known,
        known,
        None,
        known,
        known,
    ):
        lag_of(ui, lag)
    assert [sample.lag.get("g3") for sample in ui.watches[0].reading.lag] == [12, 12, None, 12, 12, None, 12, 12]
    page = ui.text("/groups/g3")
    lines = re.findall('<polyline points="(.*?)"', page)
    assert [line.count(",") for line in lines] == [2, 2, 2]
    assert len({point.split(",")[1] for line in lines for point in line.split()}) == 1, "all at 12 records"
    assert "A gap in the line: it was not known then." in page
    ui.sources[0].failure = TryLaterError("away")
    ui.look()
    page = ui.text("/groups/g3")
    assert re.findall(r'<text x="534" [^>]*>(.*?)</text>', page) == ["?"]


def test_counts_that_are_not_known_are_a_gap_too() -> None:
    ui = Ui(shown(healthy(partitions=health({P7: state((1,))}))))
    ui.sources[0].failure = TryLaterError("away")
    ui.look()
    ui.sources[0].failure = None
    ui.look()
    assert ui.watches[0].reading.short == (1, None, 1)
    assert len(re.findall("<circle", ui.text("/"))) == 2
