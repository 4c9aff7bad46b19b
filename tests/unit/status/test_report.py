"""The status as text at both widths, as data, as rows and for Nagios."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from kafkakit.cli.output import OutputFormat, colored_text, format_result
from kafkakit.core.cluster_facts import BrokerLogDirs, GroupListing, GroupState, GroupType
from kafkakit.core.findings import FailOn, Severity
from kafkakit.core.lease import Holder, LeaseRecord
from kafkakit.core.model import LogDir, TopicPartition
from kafkakit.status.decide.delays import GroupDelay, MeasuredDelays
from kafkakit.status.decide.history import StatusHistory, with_reading
from kafkakit.status.decide.ignore import parse_ignored
from kafkakit.status.decide.judgement import (
    CHECKS,
    ClusterReading,
    ClusterStatus,
    Health,
    Part,
    PartName,
    judge_cluster,
)
from kafkakit.status.decide.surroundings import SeenService, ServiceName
from kafkakit.status.report.objects import broker_report, brokers_report
from kafkakit.status.report.status import nagios_report, status_report, watch_line
from tests.unit.status.test_judgement import NOW, P7, disk, down, health, healthy, state

TROUBLE = down(
    healthy(
        partitions=health({P7: state((3,), leader=None, replicas=(3,)), TopicPartition("orders", 3): state((1,))}),
        min_isr={"payments": 2, "orders": 2},
        disks={1: disk(1, 0.91), 2: disk(2, 0.4)},
        lag=(GroupDelay(group="fraud-app", status="stopped", time_lag_ms=840_000),),
        certificates={1: NOW + timedelta(days=12)},
    ),
    3,
)
UNKNOWN = healthy(
    info=None, partitions=None, disks=None, quorum=None, groups=None, rates=None,
    parts=tuple(Part(name=name, error="no answer in 3 s") for name in (PartName.BROKERS, PartName.PARTITIONS)),
)  # fmt: skip


def text_of(reading: ClusterReading, width: int = 80) -> str:
    return status_report([judge_cluster(reading)], fail_on=FailOn.ERROR, width=width).text


def full() -> ClusterReading:
    """All that can be on a screen at once, with names as long as they come in practice."""
    old = MeasuredDelays(at=NOW - timedelta(hours=5), groups=TROUBLE.lag or ())
    group = "com.example.payments.settlement-service.production-eu-central-1"
    holder = Holder(host="kafka-operations-eu-central-1a.example.com", user="kafka", command="lag serve", pid=4_194_303)
    lease = LeaseRecord(token=1, beats=1, ttl_s=6.0, taken_at=NOW - timedelta(days=40), renewed_at=NOW, holder=holder)
    gone = replace(lease, holder=None, renewed_at=NOW - timedelta(days=3))
    return replace(
        TROUBLE,
        program="kafkakit --config /etc/kafkakit/clusters/production.yaml --profile production-eu-central-1",
        groups=tuple(GroupListing(group=f"{group}-{s}", type=GroupType.CLASSIC, state=s) for s in GroupState),
        lag=(*(TROUBLE.lag or ()), GroupDelay(group=group, status="ok", lag=10**12, time_lag_ms=10**9)),
        measured=old,
        services=tuple(
            SeenService(name=name, record=lease if name is ServiceName.MONITOR else gone, needs=("orders", "audit"))
            for name in ServiceName
        ),
        disks={b: replace(disk(b, 0.91), log_dirs=(LogDir(path="/var/lib/kafka/data-volume-0001",
               total_bytes=10**14, usable_bytes=10**12),)) for b in (1, 2)},
        partitions=health(
            {TopicPartition(f"{group}.{n}", 0): state((1,)) for n in range(5)}, partitions=200_000, not_preferred=12_345
        ),
        ignore=parse_ignored({"status.ignore": ["certificate"], "--ignore": ["lint"]}, [r.name for r in CHECKS]),
    )  # fmt: skip


@pytest.mark.parametrize(
    "reading", [healthy(), TROUBLE, UNKNOWN, full()], ids=["healthy", "trouble", "unknown", "full"]
)
@pytest.mark.parametrize("width", [80, 120])
def test_no_line_but_a_command_is_longer_than_the_screen(reading: ClusterReading, width: int) -> None:
    lines = text_of(reading, width).splitlines()
    commands = {f.hint for f in judge_cluster(reading).findings if f.severity is not Severity.NOTE}
    assert not [line for line in lines if len(line) > width and line.strip() not in commands]


@pytest.mark.parametrize("width", [80, 120])
def test_each_command_stands_uncut_on_a_line_of_its_own(width: int) -> None:
    status = judge_cluster(full())
    lines = [line.strip() for line in text_of(full(), width).splitlines()]
    told = [f.hint for f in status.findings if f.severity is not Severity.NOTE]
    assert len(told) > 5
    assert [line for line in lines if line.startswith("kafkakit ")] == told


def test_the_first_word_after_the_name_is_the_health() -> None:
    words = [text_of(reading).split()[1] for reading in (healthy(), TROUBLE, UNKNOWN)]
    assert words == ["OK", "ERROR", "UNKNOWN"]


def test_findings_stand_worst_first_each_with_its_command_on_a_line_of_its_own() -> None:
    lines = text_of(TROUBLE).splitlines()
    at = [number for number, line in enumerate(lines) if line.split(" ")[0] in ("error", "warning")]
    severities = [lines[number].split()[0] for number in at]
    assert severities == sorted(severities)  # error comes before warning in the alphabet too
    for number in at:
        following = lines[number + 1 :]
        command = next(line for line in following if line.strip().startswith("kafkakit"))
        assert command.startswith(" " * 9 + "kafkakit --profile prod ")


def test_notes_are_not_on_the_screen_and_are_in_the_data() -> None:
    reading = healthy(partitions=health({}, not_preferred=12))
    assert "not-preferred" not in text_of(reading)
    report = status_report([judge_cluster(reading)], fail_on=FailOn.ERROR, width=80)
    assert "not-preferred" in format_result(report, OutputFormat.JSON)


def test_what_is_not_known_is_a_question_mark_and_null_and_never_a_zero() -> None:
    text = text_of(UNKNOWN)
    figures = dict(line.split(maxsplit=1) for line in text.splitlines()[-7:])
    assert {figures[name] for name in ("brokers", "controller", "partitions", "disk", "groups")} == {"?"}
    report = status_report([judge_cluster(UNKNOWN)], fail_on=FailOn.ERROR, width=80)
    (cluster,) = json.loads(format_result(report, OutputFormat.JSON))["clusters"]
    assert [cluster[name] for name in ("brokers", "partitions", "controller", "groups", "moves", "lint")] == [None] * 6
    assert "unknown  brokers" in text


def test_unwell_brokers_have_rows_on_a_wide_screen_only() -> None:
    assert "BROKER" not in text_of(TROUBLE, 80)
    wide = text_of(TROUBLE, 120)
    rows = [line.split()[:3] for line in wide.splitlines() if line.strip()[:2] in ("1 ", "2 ", "3 ")]
    assert rows == [["1", "a", "alive"], ["2", "b", "alive"], ["3", "c", "down"]]
    full = text_of(healthy(disks={1: disk(1, 0.91), 2: disk(2, 0.4)}), 120)
    assert "and 2 more" in full


def test_how_long_a_finding_stands_is_shown_from_a_minute_on() -> None:
    reading = down(healthy(), 3)
    history = with_reading(StatusHistory(), NOW, judge_cluster(reading).findings, None)
    shown = [
        status_report(
            [judge_cluster(replace(reading, at=NOW + timedelta(seconds=s)), history)], fail_on=FailOn.ERROR, width=120
        ).text
        for s in (59, 61)
    ]
    assert ["; for" in text for text in shown] == [False, True]


def named(name: str, reading: ClusterReading) -> ClusterStatus:
    return judge_cluster(replace(reading, profile=name))


FLEET = [named("eu", healthy()), named("us", TROUBLE), named("dev", UNKNOWN), named("asia", healthy())]


def test_a_fleet_is_one_table_worst_first_and_those_that_are_well_are_one_line() -> None:
    report = status_report(FLEET, fail_on=FailOn.ERROR, width=80, is_fleet=True)
    lines = report.text.splitlines()
    assert lines[0].startswith("fleet  ERROR  4 clusters: 1 error, 1 unknown, 2 ok")
    assert [line.split()[0] for line in lines[2:4]] == ["us", "dev"]
    assert lines[-1] == "ok: asia eu (2)"
    assert report.code == 1


@pytest.mark.parametrize(
    ("reading", "code", "word"), [(healthy(), 0, "OK"), (TROUBLE, 2, "CRITICAL"), (UNKNOWN, 3, "UNKNOWN")]
)
def test_nagios_gets_one_line_with_figures_and_its_own_codes(reading: ClusterReading, code: int, word: str) -> None:
    report = nagios_report([judge_cluster(reading)], fail_on=FailOn.ERROR)
    assert (int(report.code), report.text.split()[0], report.text.count("\n")) == (code, word, 1)
    assert report.text.count("|") == (1 if reading.partitions else 0)


def test_the_line_of_a_watch_stays_the_same_while_nothing_changes() -> None:
    later = replace(TROUBLE, at=NOW + timedelta(minutes=3), took_ms=12)
    assert watch_line([judge_cluster(TROUBLE)]) == watch_line([judge_cluster(later)])
    assert watch_line([judge_cluster(healthy())]) == "prod ok"


def test_rows_are_findings_and_what_could_not_be_read() -> None:
    report = status_report([judge_cluster(UNKNOWN)], fail_on=FailOn.ERROR, width=80)
    assert [row[1:3] for row in report.rows] == [("unknown", "brokers"), ("unknown", "partitions")]


def test_names_from_the_cluster_move_no_cursor() -> None:
    evil = TopicPartition("a\x1b[2Jb\u202ec\n", 0)
    reading = healthy(partitions=health({evil: state((1,))}), profile="p\x1b[1m")
    assert "\x1b" not in text_of(reading)
    assert "\u202e" not in text_of(reading)


def test_colours_are_only_beside_the_words_they_stand_for() -> None:
    colored = colored_text(text_of(TROUBLE))
    assert colored.startswith("prod  \x1b[31mERROR\x1b[0m")
    assert "\n\x1b[33mwarning\x1b[0m " in colored
    plain = colored.replace("\x1b[31m", "").replace("\x1b[33m", "").replace("\x1b[0m", "")
    assert plain == text_of(TROUBLE)


def test_many_findings_of_one_kind_are_cut_on_the_screen_and_counted() -> None:
    disks = {b: disk(b, 0.91) for b in range(30)}
    text = text_of(healthy(disks=disks))
    assert text.count("is 91% full") == 20
    assert "and 10 more" in text


def test_a_list_of_brokers_shows_what_was_not_read_as_unknown_and_no_certificate_without_tls() -> None:
    def cells(reading: ClusterReading) -> list[list[str]]:
        shown = brokers_report(judge_cluster(reading)).text.splitlines()
        return [line.split()[-2:] for line in shown[1:]]

    assert cells(healthy()) == [["-", "-"]] * 3
    assert cells(down(healthy(), 3))[2] == ["?", "?"]
    denied = (Part(name=PartName.THROTTLES, error="denied"), Part(name=PartName.CERTIFICATES, error="no answer"))
    assert cells(healthy(parts=denied, rates=None)) == [["?", "?"]] * 3
    assert cells(healthy(certificates={1: NOW + timedelta(days=12)}))[0] == ["12", "d"]


def test_a_cordoned_broker_shows_in_list_page_and_status_with_its_reason() -> None:
    status = judge_cluster(healthy(cordoned={2: "disk \x1b[2J swap"}))
    shown = brokers_report(status)
    assert [line.split()[:3] for line in shown.text.splitlines()[1:]] == [
        ["1", "a", "alive"],
        ["2", "b", "alive,cordoned"],
        ["3", "c", "alive"],
    ]
    assert [row["cordoned"] for row in shown.data["brokers"]] == [None, "disk \x1b[2J swap", None]  # type: ignore[attr-defined]
    page = broker_report(status, status.brokers[1], None).text
    assert "cordoned (disk \\x1b[2J swap): gets no new replica" in page
    assert page.splitlines()[-1] == "kafkakit --profile prod broker uncordon 2"
    assert "3 of 3 alive in 3 racks; cordoned: 2;" in text_of(healthy(cordoned={2: ""}))
    (found,) = [f for f in status.findings if f.rule == "cordoned"]
    assert (found.severity, found.where, status.health) == (Severity.NOTE, "broker 2", Health.OK)
    unknown = brokers_report(judge_cluster(healthy(cordoned=None)))
    assert "it is not known which brokers are cordoned" in unknown.text
    shut = BrokerLogDirs(broker=3, log_dirs=(LogDir(path="/d", cordoned=True),))
    assert "3  c     alive,cordoned" in brokers_report(judge_cluster(healthy(disks={3: shut}))).text
