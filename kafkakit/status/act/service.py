"""The service behind `kafkakit ui`: clusters are read again and again, and pages are made of what was read last.

One thread a cluster reads its status and publishes a value that does not change; a request takes the newest and waits
for no reading. What only one page needs (a topic, a broker, a group) is read when it is asked for, each such thing once
at a time, and kept for some seconds. Every client is a read-only one.

A browser learns by an event that there is a new reading, and fetches the page that it shows again.
"""

import asyncio
import hmac
import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from stat import S_ISREG
from typing import Protocol, TypeVar, cast
from urllib.parse import parse_qs, unquote

from kafkakit.core.documents import decode_plan
from kafkakit.core.errors import InputError, KafkakitError, TryLaterError, UsageError
from kafkakit.core.model import TagSet, TopicPartition, cluster_tags_root
from kafkakit.core.plan import Plan
from kafkakit.core.rpc import HttpPage, HttpRequest, plain_page
from kafkakit.execution.act.retrier import read_tags
from kafkakit.ports.acting import Clock
from kafkakit.ports.stores import ControlStore
from kafkakit.report.exports import uri_part
from kafkakit.status.act.objects import (
    ClientSet,
    ClientSets,
    SharedReads,
    read_broker,
    read_group,
    read_partition,
    read_queried_topics,
    read_topic,
)
from kafkakit.status.act.reading import HistoryFile, Reader, StatusSources, pause_after
from kafkakit.status.decide import object_pages, pages
from kafkakit.status.decide.delays import GroupDelay
from kafkakit.status.decide.judgement import ClusterStatus, PartName
from kafkakit.status.decide.objects import (
    BrokerDetail,
    GroupDetail,
    PartitionDetail,
    TopicDetail,
    TopicRow,
    parse_partition,
)
from kafkakit.status.decide.page_parts import (
    NAV,
    Address,
    ClusterView,
    LagSample,
    PageFrame,
    QueryFacts,
    UiPage,
    link_to,
    query_needs,
    read_address,
)
from kafkakit.status.decide.pages import PlanEntry, StreamEntry, stream_entry
from kafkakit.streams.routes.api_act import RouteStore
from kafkakit.topicmappr.api import report_page

EVERY_S, GLANCE_S = 5.0, 0.25
STALE_READINGS, STALE_LIMIT_S = 3, 60.0
LAG_EVERY_S, LAG_SAMPLES, SHORT_SAMPLES = 15.0, 240, 120
LOOK_S, HEARTBEAT_S = 0.25, 15.0
TAGS_KEPT_S, TAGS_WAIT_S = 30.0, 1.0
"""So long tags are good for lists; so long a page waits for those that are being read."""
MOST_STREAMS, MOST_SESSIONS = 64, 1_000
MOST_STREAMS_SHOWN, MOST_PLANS = 200, 200
PLAN_LIMIT_BYTES = 64 << 20
SESSION_COOKIE = "kafkakit_session"
T = TypeVar("T")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HTML = "text/html; charset=utf-8"


class StatusSource(Protocol):
    """One cluster that is shown; reads of single objects may raise `KafkakitError`."""

    def read(self) -> ClusterStatus:
        """Its status now."""
        ...

    def glance(self) -> object:
        """A value that differs when brokers or moves do; cheap."""
        ...

    def topic(self, name: str) -> TopicDetail:
        """One topic."""
        ...

    def partition(self, key: TopicPartition) -> PartitionDetail:
        """One partition."""
        ...

    def broker(self, number: int) -> BrokerDetail:
        """One live broker."""
        ...

    def group(self, name: str) -> GroupDetail:
        """One group."""
        ...

    def streams(self) -> Sequence[StreamEntry]:
        """The streams of the profile."""
        ...

    def tags(self) -> TagSet:
        """The tags of topics and brokers."""
        ...

    def topics(self, *, sizes: bool) -> Mapping[str, TopicRow]:
        """All topics with their settings, and with `sizes` their bytes, for queries that look at these."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class PlanFolder(Protocol):
    """The plan files that are shown."""

    @property
    def name(self) -> str:
        """The folder; empty for none."""
        ...

    def plans(self) -> Sequence[PlanEntry]:
        """Newest first."""
        ...

    def page(self, name: str) -> bytes | None:
        """A plan with its proof as a page; None where there is no such file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedStatus:
    """What was published last; `version` grows with each."""

    version: int = 0
    status: ClusterStatus | None = None
    failure: str = ""
    read_s: float = 0.0
    took_s: float = 0.0
    lag: tuple[LagSample, ...] = ()
    short: tuple[int | None, ...] = ()


class StatusWatch:
    """Reads one cluster in a thread of its own until it is closed, sooner where a glance shows that it changed."""

    def __init__(self, name: str, source: StatusSource, clock: Clock, *, every_s: float = EVERY_S) -> None:
        self.name, self._source, self._clock, self._every_s = name, source, clock, every_s
        self.reading = PublishedStatus()
        self._is_closed = threading.Event()
        self._reads = SharedReads(clock)
        self._lag: deque[LagSample] = deque(maxlen=LAG_SAMPLES)
        self._short: deque[int | None] = deque(maxlen=SHORT_SAMPLES)
        self._thread = threading.Thread(target=self._run, name=f"watch {name}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self, limit_s: float) -> None:
        """Stop reading; a reading that hangs is left to the end of the process."""
        self._is_closed.set()
        self._thread.join(limit_s)
        if not self._thread.is_alive():
            self._source.close()

    def view(self, base: str) -> ClusterView:
        """What is known now; stale after a reading that failed, and when older than three intervals or a minute."""
        reading = self.reading
        age_s = self._clock.monotonic() - reading.read_s
        limit_s = min(STALE_LIMIT_S, STALE_READINGS * max(self._every_s, 10 * reading.took_s) + 1)
        is_stale = reading.status is not None and (bool(reading.failure) or age_s > limit_s)
        return ClusterView(
            name=self.name,
            base=base,
            status=reading.status,
            failure=reading.failure,
            is_stale=is_stale,
            age_s=age_s,
            lag=reading.lag,
            short=reading.short,
        )

    def one(self, kind: str, key: object, read: Callable[[], T]) -> T:
        """What one page needs: see `SharedReads.one`."""
        return self._reads.one(kind, key, read)

    def facts(self, text: str = "") -> QueryFacts:
        """What the filter `text` of a list looks at beside a reading, and the tags; what cannot be read says why."""
        if self.reading.status is None:
            return QueryFacts()
        tags, rows, tags_error, rows_error = None, None, "", ""
        has_rows, sizes = query_needs(text)
        try:
            tags = self._reads.one("store of tags", "", self._source.tags, kept_s=TAGS_KEPT_S, wait_s=TAGS_WAIT_S)
        except KafkakitError as error:
            tags_error = error.message
        if has_rows:
            try:
                rows = self._reads.one(
                    "list of topics", sizes, lambda: self._source.topics(sizes=sizes), kept_s=TAGS_KEPT_S
                )
            except KafkakitError as error:
                rows_error = error.message
        return QueryFacts(tags=tags, tags_error=tags_error, rows=rows, rows_error=rows_error)

    @property
    def source(self) -> StatusSource:
        """Where single objects are read."""
        return self._source

    def _run(self) -> None:
        while not self._is_closed.is_set():
            seen = self._glance()
            began_s = self._clock.monotonic()
            self.publish()
            ended_s = self._clock.monotonic()
            self._wait(seen, ended_s - began_s, ended_s)

    def _glance(self) -> object:
        try:
            return self._source.glance()
        except Exception as error:  # as in `publish`
            return type(error)

    def _wait(self, seen: object, took_s: float, ended_s: float) -> None:
        """Wait until a reading is due; where brokers or moves are others than `seen`, a quarter of the time reads."""
        due_s, soonest_s, pause_s = ended_s + pause_after(took_s, self._every_s), ended_s + 3 * took_s, GLANCE_S
        while (now_s := self._clock.monotonic()) < due_s:
            if self._is_closed.wait(min(pause_s, due_s - now_s)):
                return
            began_s = self._clock.monotonic()
            if began_s >= soonest_s and self._glance() != seen:
                return
            pause_s = max(GLANCE_S, 9 * (self._clock.monotonic() - began_s))

    def publish(self) -> None:
        """Read once; what fails leaves the figures that were there, which get old."""
        before, began_s = self.reading, self._clock.monotonic()
        status, failure = before.status, ""
        try:
            status = self._source.read()
        except Exception as error:  # a thread that ends would leave old figures on the page
            failure = error.message if isinstance(error, KafkakitError) else f"{type(error).__name__}: {error}"
        self._remember(status if not failure else None)
        now_s = self._clock.monotonic()
        self.reading = PublishedStatus(
            version=before.version + 1,
            status=status,
            failure=failure,
            read_s=now_s if not failure else before.read_s,
            took_s=now_s - began_s,
            lag=tuple(self._lag),
            short=tuple(self._short),
        )

    def _remember(self, status: ClusterStatus | None) -> None:
        """Add to what was seen lately; what this reading does not know, or all after a failed one, stands as None."""
        counts = status.counts if status is not None else None
        if counts is not None or self._short:
            self._short.append(counts.under_replicated if counts is not None else None)
        at, lag = (status.reading.at, status.reading.lag) if status is not None else (self._clock.now(), None)
        before = self._lag[-1] if self._lag else None
        if (lag or before is not None) and (before is None or (at - before.at).total_seconds() >= LAG_EVERY_S):
            self._lag.append(_lag_sample(at, lag, before))


def _lag_sample(at: datetime, lag: Sequence[GroupDelay] | None, before: LagSample | None) -> LagSample:
    """The lag of groups in time if any is known so, else in records; one that is not known is None."""
    if not lag:
        return LagSample(at=at, lag={}, is_time=before is not None and before.is_time)
    is_time = any(one.time_lag_ms is not None for one in lag)
    values: dict[str, float | None] = {}
    for one in lag:
        known = one.time_lag_ms if is_time else one.lag
        values[one.group] = None if known is None else known / 1000 if is_time else float(known)
    return LagSample(at=at, lag=values, is_time=is_time)


@dataclass(frozen=True, slots=True, kw_only=True)
class UiLook:
    """How pages are made: `render` makes HTML of one, `asset` gives a style or script by its name."""

    render: Callable[[UiPage, PageFrame], bytes]
    asset: Callable[[str], str]


ASSETS = {"ui.css": "text/css; charset=utf-8", "ui.js": "text/javascript; charset=utf-8"}


@dataclass(slots=True)
class Sessions:
    """The browsers that have shown the token; empty text: none is needed."""

    token: str = ""
    _known: "OrderedDict[str, None]" = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def knows(self, request: HttpRequest) -> bool:
        """Whether a request may see pages: by a token of its own, or by the cookie of a session."""
        if not self.token:
            return True
        scheme, _, given = request.authorization.partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self.token.encode()):
            return True
        cookies = dict(
            part.strip().split("=", 1) for part in request.headers.get("cookie", "").split(";") if "=" in part
        )
        with self._lock:
            return cookies.get(SESSION_COOKIE, "") in self._known

    def open(self, given: str) -> str | None:
        """A new session for the right token; None for another one."""
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            return None
        name = secrets.token_urlsafe(32)
        with self._lock:
            self._known[name] = None
            if len(self._known) > MOST_SESSIONS:
                self._known.popitem(last=False)
        return name


class UiService:
    """Answers requests of browsers."""

    def __init__(
        self,
        watches: Sequence[StatusWatch],
        plans: PlanFolder,
        look: UiLook,
        sessions: Sessions,
        *,
        is_secure: bool = False,
    ) -> None:
        self._watches = {watch.name: watch for watch in watches}
        self._plans, self._look, self._sessions, self._is_secure = plans, look, sessions, is_secure
        self._only = next(iter(self._watches)) if len(self._watches) == 1 else ""
        self._streams = 0

    def prepare(self) -> None:
        """Make one page, so that the first browser does not wait for the templates."""
        self._html(UiPage(title="", active="login", sections=()))

    def answer(self, request: HttpRequest) -> HttpPage:
        """One answer; only a login may be posted."""
        if request.path.startswith("/assets/"):
            return self._asset(request.path.removeprefix("/assets/"))
        if request.path == "/login":
            return self._login(request)
        if request.method not in ("GET", "HEAD"):
            return plain_page(405, "this server changes nothing: GET and HEAD only")
        if not self._sessions.knows(request):
            if request.headers.get("sec-fetch-mode", "navigate") != "navigate":
                return plain_page(401, "log in first")
            return HttpPage(body=b"", media=_HTML, status=303, headers=(("Location", "/login"),))
        if request.path == "/healthz":
            return plain_page(200, "ok")
        if request.path == "/events":
            return self._events()
        version = self._version()
        page = self._page(request)
        return page if isinstance(page, HttpPage) else self._html(page, version)

    def _version(self) -> int:
        return sum(watch.reading.version for watch in self._watches.values())

    def _html(self, page: UiPage, version: int = 0) -> HttpPage:
        body = self._look.render(page, PageFrame(nav=NAV, is_fleet=not self._only, version=version))
        return HttpPage(body=body, media=_HTML, status=page.status, headers=_headers())

    def _asset(self, name: str) -> HttpPage:
        media = ASSETS.get(name)
        if media is None:
            return plain_page(404, "there is no such file")
        body = self._look.asset(name).encode()
        return HttpPage(body=body, media=media, headers=(("Cache-Control", "max-age=300"),))

    def _login(self, request: HttpRequest) -> HttpPage:
        failed = False
        if request.method == "POST":
            given = parse_qs(request.body[:4096].decode("utf-8", "replace")).get("token", [""])[0]
            session = self._sessions.open(given.strip()) if self._sessions.token else None
            if session is not None:
                secure = "; Secure" if self._is_secure else ""
                cookie = f"{SESSION_COOKIE}={session}; HttpOnly; SameSite=Lax; Path=/{secure}"
                return HttpPage(body=b"", media=_HTML, status=303, headers=(("Location", "/"), ("Set-Cookie", cookie)))
            failed = True
        page = UiPage(title="Log in to kafkakit", active="login", sections=(), status=401 if failed else 200)
        body = self._look.render(page, PageFrame(failed=failed))
        return HttpPage(body=body, media=_HTML, status=page.status, headers=_headers())

    def _page(self, request: HttpRequest) -> UiPage | HttpPage:
        parts = [unquote(part) for part in request.path.strip("/").split("/") if part]
        if parts[:1] == ["c"] and len(parts) > 1:
            watch, base, rest = self._watches.get(parts[1]), "/" + "/".join(request.path.split("/")[1:3]), parts[2:]
            if watch is None:
                return pages.missing_page(None, f"No cluster {parts[1][:100]} is shown here.")
        elif self._only:
            watch, base, rest = self._watches[self._only], "", parts
        elif not parts:
            views = [w.view(f"/c/{uri_part(n)}") for n, w in self._watches.items()]
            return pages.fleet_page(views, read_address(request.query))
        else:
            return pages.missing_page(None, "Nothing is shown at this address.")
        view = watch.view(base)
        try:
            return self._cluster_page(watch, view, rest, request)
        except UsageError as error:
            return pages.missing_page(view, error.message)
        except KafkakitError as error:
            return pages.failed_page(view, error.message, rest[0] if rest else "")

    def _cluster_page(
        self, watch: StatusWatch, view: ClusterView, rest: list[str], request: HttpRequest
    ) -> UiPage | HttpPage:
        address = read_address(request.query)
        match rest:
            case []:
                return pages.overview_page(view)
            case ["brokers"]:
                return pages.brokers_page(view, address, watch.facts())
            case ["topics"]:
                return object_pages.topics_page(view, address, watch.facts(address.text))
            case ["groups"]:
                return object_pages.groups_page(view, address)
            case ["moves"]:
                return pages.moves_page(view, address)
            case ["streams"]:
                return self._streams_page(watch, view, address)
            case ["findings"]:
                return pages.findings_page(view, request.query.get("severity", ""), address)
            case ["plans"]:
                return pages.plans_page(view, self._plans.plans(), self._plans.name, address)
            case ["plans", name] if (body := self._plans.page(name)) is not None:
                return HttpPage(body=body, media=_HTML)
            case ["topics", name] if (number := request.query.get("partition", "")).isdecimal() and len(number) < 10:
                place = link_to(view, "topics", name, str(int(number)))
                return HttpPage(body=b"", media=_HTML, status=303, headers=(("Location", place),))
        return self._object_page(watch, view, rest, address)

    def _object_page(self, watch: StatusWatch, view: ClusterView, rest: list[str], address: Address) -> UiPage:
        source = watch.source
        match rest:
            case ["brokers", number]:
                return self._broker(watch, view, number)
            case ["topics", name]:
                topic = watch.one("topic", name, lambda: source.topic(name))
                return object_pages.topic_page(view, topic, address, watch.facts())
            case ["topics", name, number]:
                key = parse_partition(f"{name}/{number}")
                return object_pages.partition_page(view, watch.one("partition", key, lambda: source.partition(key)))
            case ["groups", name]:
                return object_pages.group_page(view, watch.one("group", name, lambda: source.group(name)), address)
        return pages.missing_page(view, "Nothing is shown at this address.")

    def _broker(self, watch: StatusWatch, view: ClusterView, text: str) -> UiPage:
        rows = view.status.brokers if view.status else ()
        row = next((row for row in rows if str(row.id) == text), None)
        if row is None:
            return pages.missing_page(view, f"There is no broker {text[:20]}.")
        facts = None
        if row.state == "alive":
            facts = watch.one("broker", row.id, lambda: watch.source.broker(row.id))
        return object_pages.broker_page(view, row, facts, watch.facts())

    def _streams_page(self, watch: StatusWatch, view: ClusterView, address: Address) -> UiPage:
        try:
            return pages.streams_page(view, watch.one("streams", "", watch.source.streams), address=address)
        except KafkakitError as error:
            return pages.streams_page(view, None, error.message)

    def _events(self) -> HttpPage:
        if self._streams >= MOST_STREAMS:
            return plain_page(503, "too many browsers listen already")
        self._streams += 1
        headers = (("X-Accel-Buffering", "no"), ("Cache-Control", "no-store"))
        return HttpPage(body=b"", media="text/event-stream", parts=self._follow(), headers=headers)

    async def _follow(self) -> AsyncIterator[bytes]:
        """An event for each new reading of any cluster, and a heartbeat; the first says what is the newest now."""
        try:
            seen, quiet_s = -1, 0.0
            while True:
                newest = self._version()
                if newest != seen:
                    seen, quiet_s = newest, 0.0
                    yield f"event: reading\ndata: {newest}\n\n".encode()
                elif quiet_s >= HEARTBEAT_S:
                    quiet_s = 0.0
                    yield b"event: heartbeat\ndata:\n\n"
                await asyncio.sleep(LOOK_S)
                quiet_s += LOOK_S
        finally:
            self._streams -= 1


def _headers() -> tuple[tuple[str, str], ...]:
    return (("Content-Security-Policy", _POLICY), ("Referrer-Policy", "no-referrer"), ("X-Frame-Options", "DENY"))


class SharedStore:
    """A store that is opened when it is read first, and stays open until a read of it fails."""

    def __init__(self, opened: Callable[[], ControlStore]) -> None:
        self._open, self._store, self._lock = opened, cast("ControlStore | None", None), threading.Lock()

    def read(self, work: Callable[[ControlStore], T]) -> T:
        """What `work` reads; not for two threads at once."""
        with self._lock:
            store = self._store = self._store or self._open()
        try:
            return work(store)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Drop the connection."""
        with self._lock:
            store, self._store = self._store, None
        if store is not None:
            with suppress(KafkakitError):
                store.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class UiStores:
    """Where streams and tags of a cluster are kept: `tags_root` is the path of the tags by the cluster's id."""

    open_control: Callable[[], ControlStore]
    open_tags: Callable[[], ControlStore]
    tags_root: Callable[[str], str] = cluster_tags_root


class LiveCluster:
    """A cluster through its own clients: one set for its status, and one for what single pages need."""

    def __init__(self, reader: Reader, history: HistoryFile, sources: StatusSources, stores: UiStores) -> None:
        self._reader, self._history, self._sources = reader, history, sources
        self._clients = ClientSets(
            lambda: ClientSet(open_admin=sources.open_admin, open_groups=sources.open_groups, open_log=sources.open_log)
        )
        self._control, self._tags = SharedStore(stores.open_control), SharedStore(stores.open_tags)
        self._tags_root, self._cluster_id = stores.tags_root, ""

    def read(self) -> ClusterStatus:
        """Its status; `TryLaterError` where nothing of it answers, so that the figures before are kept as old ones."""
        reading = self._reader.read()
        if reading.info is None:
            raise TryLaterError(reading.failure_of(PartName.BROKERS) or "the cluster does not answer")
        self._cluster_id = reading.info.cluster_id
        return self._history.judge(reading)

    def glance(self) -> object:
        """That of its reader."""
        return self._reader.glance()

    def topic(self, name: str) -> TopicDetail:
        """One topic."""
        with self._clients.lend() as clients:
            return read_topic(clients.admin, clients.groups, self._sources.clock, name)

    def partition(self, key: TopicPartition) -> PartitionDetail:
        """One partition."""
        with self._clients.lend() as clients:
            return read_partition(clients.admin, clients.log, key)

    def broker(self, number: int) -> BrokerDetail:
        """One live broker."""
        with self._clients.lend() as clients:
            return read_broker(clients.admin, number)

    def group(self, name: str) -> GroupDetail:
        """One group."""
        with self._clients.lend() as clients:
            return read_group(clients.groups, clients.log, name)

    def topics(self, *, sizes: bool) -> Mapping[str, TopicRow]:
        """All topics with their settings."""
        with self._clients.lend() as clients:
            return read_queried_topics(clients.admin, self._sources.clock, sizes=sizes)

    def streams(self) -> Sequence[StreamEntry]:
        """The streams of the profile's control store."""
        return self._control.read(_read_streams)

    def tags(self) -> TagSet:
        """The tags of the cluster, which are found by its id."""
        if not self._cluster_id:
            raise TryLaterError("the cluster was not read yet")
        return self._tags.read(lambda store: read_tags(store, self._tags_root(self._cluster_id)))

    def close(self) -> None:
        """Drop all connections, and keep what the memory has not written yet."""
        self._reader.close()
        self._clients.close()
        self._control.close()
        self._tags.close()
        self._history.save()


def _read_streams(control: ControlStore) -> Sequence[StreamEntry]:
    store, found = RouteStore(control), []
    for name in store.names()[:MOST_STREAMS_SHOWN]:
        read = store.read(name)
        if read is not None:
            found.append(stream_entry(read.route))
    return found


_FileStamp = tuple[int, int]
"""When a file was written, and its size."""


class PlanFiles:
    """The plan files of a folder, `*.json` in it; what is no plan is left out."""

    def __init__(self, folder: Path | None, read_file: Callable[[Path, int], bytes]) -> None:
        self._folder, self._read_file = folder, read_file
        self._known: dict[str, tuple[_FileStamp, PlanEntry | None]] = {}
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The folder; empty for none."""
        return "" if self._folder is None else str(self._folder)

    def plans(self) -> Sequence[PlanEntry]:
        """Newest first, of the `MOST_PLANS` files that were written last; each is decoded once."""
        files = self._files()
        found = [entry for name, stamp in files.items() if (entry := self._entry(name, stamp)) is not None]
        with self._lock:
            self._known = {name: known for name, known in self._known.items() if name in files}
        return sorted(found, key=lambda entry: (entry.made_at, entry.name), reverse=True)

    def page(self, name: str) -> bytes | None:
        """A plan with its proof; only names that the folder lists are opened."""
        plan = self._plan(name) if name in self._files() else None
        return None if plan is None else report_page(plan)

    def _files(self) -> dict[str, _FileStamp]:
        """Newest first."""
        found: dict[str, _FileStamp] = {}
        for path in () if self._folder is None else self._folder.glob("*.json"):
            with suppress(OSError):  # it may go meanwhile
                about = path.stat()
                if S_ISREG(about.st_mode):
                    found[path.name] = (about.st_mtime_ns, about.st_size)
        return dict(sorted(found.items(), key=lambda file: (file[1], file[0]), reverse=True)[:MOST_PLANS])

    def _entry(self, name: str, stamp: _FileStamp) -> PlanEntry | None:
        with self._lock:  # two pages that are asked for at once share the work
            known = self._known.get(name)
            if known is None or known[0] != stamp:
                plan, entry = self._plan(name), None
                if plan is not None:
                    words = f"{plan.request.get('command', 'plan')} for cluster {plan.cluster_id}"
                    entry = PlanEntry(name=name, title=words, made_at=plan.created_at, partitions=len(plan.moves))
                known = self._known[name] = (stamp, entry)
            return known[1]

    def _plan(self, name: str) -> Plan | None:
        if self._folder is None:
            return None
        try:
            return decode_plan(self._read_file(self._folder / name, PLAN_LIMIT_BYTES), name)
        except (InputError, OSError):
            return None
