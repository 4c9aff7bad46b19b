"""`streams commits` as an operator runs it: strings and files without a cluster, and groups over fakes."""

import json
import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kafkakit import wiring
from kafkakit.adapters.read_only import ReadOnlyGroups
from kafkakit.core.cluster_facts import CommittedOffset, GroupType, ItemError
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import GroupAdmin, LogReader
from kafkakit.streams.model.commit import CommitIdentity, CommitState, Mark, MarkState, OffsetRanges, Watermark
from kafkakit.streams.model.dialects.parallel_consumer import write_parallel_consumer
from kafkakit.streams.model.kkm1.encode import encode_commit
from tests.clusters.streams_batches import Rec, batch
from tests.fakes.admin import FakeClock, FakeCluster
from tests.fakes.groups import FakeGroups
from tests.fakes.log_reader import FakeLogReader
from tests.rigs.command_line import ClusterDesk

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1000)
MINUTE = 60_000
ORDERS = TopicPartition("orders", 0)
CLUSTER = "fake-cluster"
TOPIC_ID = bytes(range(16))
IDENTITY = ("--cluster-id", "prod-a-0001", "--topic-id", "00010203-0405-0607-0809-0a0b0c0d0e0f", "--partition", "3",
            "--group", "orders")  # fmt: skip
VECTOR = "~bEBiF-6gBB2QKAAECAgUCCLawy6eWM-gHBAIHAgYGAgEQAAIj"
PILL = "ZQAAAAEAAMNL"  # parallel-consumer: 1 pending, then 49,995 done
CHECKPOINT_TOPIC = "source.checkpoints.internal"
SYNC_TOPIC = "mm2-offset-syncs.source.internal"


class CommitsDesk(ClusterDesk):
    """A cluster with the topic `orders` of 200 records, one a second, the first of them 10 minutes old."""

    command = ("streams", "commits")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, FakeCluster({1: "a", 2: "b"}, cluster_id=CLUSTER), FakeClock(NOW))
        self.cluster.static_settings["offset.metadata.max.bytes"] = "4096"
        self.groups = FakeGroups()
        self.log = FakeLogReader(CLUSTER)
        self.log.add_topic("orders", 2, topic_id=TOPIC_ID)
        records = [Rec(None, b"v", delta_ms=1_000 * i) for i in range(200)]
        self.log.append(ORDERS, batch(0, records, base_ms=NOW_MS - 10 * MINUTE))

    def open_groups(self, settings: Any, *, read_only: bool = False) -> GroupAdmin:
        del settings
        return ReadOnlyGroups(self.groups) if read_only else self.groups

    def seed(self, state: CommitState, *, group: str = "pay", bound_to: str = "") -> None:
        """Commit a state as a member would; `bound_to` names another group that the payload is bound to."""
        identity = CommitIdentity(cluster_id=CLUSTER, topic_id=TOPIC_ID, partition=0, group=bound_to or group)
        self.groups.seed(group, ORDERS, state.base, encode_commit(state, identity, limit_chars=4095).text)

    def open_log(self, settings: Any) -> LogReader:
        del settings
        return self.log


class ReadingDesk(CommitsDesk):
    """Edits write commits and change nothing else."""

    def open_admin(self, settings: Any, *, read_only: bool = False, **_: Any) -> ClusterAdmin:
        assert read_only
        return super().open_admin(settings, read_only=True)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommitsDesk:
    return CommitsDesk(tmp_path).sit(monkeypatch)


def pill(base: int = 60, end: int = 160) -> CommitState:
    """One record pending, all after it up to `end` done; the watermark agrees with the log of the desk."""
    oldest = NOW_MS - 10 * MINUTE + 1_000 * base
    return CommitState(
        base=base,
        done=OffsetRanges(((base + 1, end),)),
        watermark=Watermark(oldest_ms=oldest, newest_done_ms=oldest + 1_000 * (end - 1 - base)),
    )


def test_decode_tells_everything_the_payload_says(desk: CommitsDesk) -> None:
    ran = desk.run("decode", VECTOR, "--offset", "100", *IDENTITY, "--ascii", "--width", "70")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout == (
        "commit of group orders: committed 100\n"
        "  metadata      kkm1, runs, alphabet b; 50 of 4,096 characters (1.2%, Kafka's default limit)\n"
        "  bound         to this cluster, topic, partition and group\n"
        "  done above    6 + 1 rejected; up to 109\n"
        "  pending       3: 100, 103-104\n"
        "  oldest        100, written 2025-09-20T02:27:40.726Z, 103d 9h ago (by the payload's watermark)\n"
        "  newest done   written 2025-09-20T02:27:41.226Z, 103d 9h ago\n"
        "  route         epoch 7, segment 2\n"
        "  retrying      103-104 (3 tries)\n"
        "  rejected      1: 102\n"
        "  on a restart  none of the done records comes again to kafkakit's client, "
        "7 to a client that ignores metadata\n"
        "\n"
        "  100 .#xrr#####\n"
        "  # done  . pending  x rejected  r retrying  (one offset each)\n"
        "\n"
        "  note: rejected-without-ledger: 1 rejected offset known only to this\n"
        "    commit: once the committed offset is past, no record shows that\n"
        "    they were rejected\n"
        "    do: let the group keep a reject ledger or a dead letter lane\n"
        "        before it moves on\n"
    )


def test_what_decode_prints_encode_reads(desk: CommitsDesk) -> None:
    decoded = desk.run("decode", VECTOR, "--offset", "100", *IDENTITY, "-o", "json")
    for form, expected in (("b", VECTOR), ("pc", "bwAAAArmAwA=")):
        written = desk.run("encode", "-", "--as", form, stdin=decoded.stdout)
        assert (written.code, written.stdout) == (0, f"{expected}\n")
    again = desk.run("encode", "-", "--as", "j", stdin=decoded.stdout).stdout.strip()
    told = desk.run("decode", again, "--offset", "100", *IDENTITY, "-o", "json").json
    assert told["state"] == decoded.json["state"]
    small = desk.run("encode", "-", "--limit", "40", stdin=decoded.stdout)
    assert small.code == 0
    assert len(small.stdout) <= 41
    assert "come again" in small.stderr or "left out" in small.stderr
    none = desk.run("encode", "-", "--limit", "3", stdin=decoded.stdout)
    assert (none.code, none.stdout) == (4, "")


def test_encode_refuses_what_makes_no_sense(desk: CommitsDesk) -> None:
    good = {"offset": 5, "state": {"base": 5, "done": [[7, 9]]}}
    wrong: list[tuple[object, str]] = [
        ({"offset": 6, "state": {"base": 5}}, "the state is for base 5, the commit for 6"),
        ({"offset": 5, "state": {"base": 5, "done": [[5, 9]]}}, "done range [5, 9] is out of order or empty"),
        ({"offset": 5, "state": {"base": 5, "done": [[9, 7]]}}, "done range [9, 7]"),
        ({"offset": 5, "state": {"base": 5, "marks": [{"start": 6, "end": 7, "state": "odd"}]}}, "mark 'odd'"),
        ({"offset": 5, "state": {"base": 5, "marks": [{"start": 6, "end": 7, "state": "rejected"}]}}, "not agree"),
        ({"offset": 5, "state": {"base": 5, "done": "x"}}, "Expected `array`"),
        ({"offset": 5}, "missing required field `state`"),
        (good, "KKM1 payload is bound"),
    ]
    for document, told in wrong:
        ran = desk.run("encode", "-", stdin=json.dumps(document))
        assert (ran.code, ran.stdout) == (2, ""), document
        assert told in ran.stderr, ran.stderr
    assert desk.run("encode", "-", "--as", "pc", stdin=json.dumps(good)).stdout.strip()


@pytest.mark.parametrize(
    ("text", "dialect"),
    [("", "plain"), ("hello", "opaque"), (PILL, "parallel-consumer"), ("AQAAAZlk8tg2", "kafka-streams"),
     ("\x1b[31mred", "opaque"), ("~b!!!", "kkm1"), ("~", "kkm1"), ("\N{GRINNING FACE}", "opaque")],
)  # fmt: skip
def test_decode_takes_any_string(desk: CommitsDesk, text: str, dialect: str) -> None:
    for form in ("text", "json", "tsv"):
        ran = desk.run("decode", "-", "--offset", "5", "-o", form, stdin=text)
        assert (ran.code, ran.stderr) == (0, "")
        assert "\x1b" not in ran.stdout
        assert dialect in ran.stdout


def test_a_foreign_payload_is_not_used_and_its_claim_is_shown(desk: CommitsDesk) -> None:
    ran = desk.run("decode", VECTOR, "--offset", "100", *IDENTITY[:-1], "other", "-o", "json")
    assert (ran.json["bound"], ran.json["problem"], ran.json["state"]["done"]) == (False, "bound to something else", [])
    assert ran.json["claimed"]["done"] == [[101, 103], [105, 110]]
    assert ran.json["duplicates"]["high"] == 7


def test_an_identity_is_given_whole_or_not_at_all(desk: CommitsDesk) -> None:
    ran = desk.run("decode", VECTOR, "--offset", "100", "--group", "orders")
    assert (ran.code, ran.stdout) == (2, "")
    assert "four parts" in ran.stderr


def test_diff_of_two_strings(desk: CommitsDesk) -> None:
    ran = desk.run("diff", f"5:{PILL}", "5:ZQAAAAEAAMNM")
    assert (ran.code, ran.stdout) == (0, "  became done: 1: 50001\n")
    assert desk.run("diff", "7:", "7:").stdout == "1 commit unchanged\n"
    assert desk.run("diff", "9:", "7:", "-o", "tsv").stdout == "-\tcommitted\t9\t7\t-\n-\treopened\t7\t9\t-\n"
    assert desk.run("diff", "7:", "file.json").code == 2


def test_diff_refuses_a_string_that_cannot_be_used(desk: CommitsDesk) -> None:
    """It would look as if everything was forgotten."""
    ran = desk.run("diff", f"5:{PILL}", "5:~bnonsense")
    assert (ran.code, ran.stdout) == (2, "")
    assert "5:~bnonsense: the kkm1 payload cannot be used: unknown version" in ran.stderr
    assert "streams commits decode '~bnonsense' --offset 5" in ran.stderr


def test_diff_of_two_looks(desk: CommitsDesk) -> None:
    desk.seed(pill())
    desk.groups.seed("pay", TopicPartition("orders", 1), 3)
    desk.run("show", "pay", "-o", "json", "--output-file", "before.json")
    desk.seed(
        CommitState(base=60, done=OffsetRanges(((61, 180),)), marks=(Mark(start=90, end=91, state=MarkState.REJECTED),))
    )
    del desk.groups._groups["pay"].offsets[TopicPartition("orders", 1)]
    desk.run("show", "pay", "-o", "json", "--output-file", "after.json")
    ran = desk.run("diff", "before.json", "after.json")
    assert ran.stdout == (
        "orders-0:\n  became done: 20: 160-179\n  rejected: 1: 90\norders-1:\n  no commit any more (it was at 3)\n"
    )
    desk.groups.seed("other", ORDERS, 3)
    desk.run("show", "other", "-o", "json", "--output-file", "other.json")
    assert desk.run("diff", "before.json", "other.json").code == 2


def test_show_a_poison_pill(desk: CommitsDesk) -> None:
    desk.seed(pill())
    desk.groups.join("pay", ORDERS, client_id="app")
    ran = desk.run("show", "pay", "--ascii", "--width", "80")
    assert (ran.code, ran.stderr) == (0, "")
    assert "pending       1: 60\n" in ran.stdout
    assert "oldest        60, written 2026-01-01T11:51:00.000Z, 9m ago (by the payload's watermark)\n" in ran.stdout
    assert "log           0 to 200, 40 not touched yet\n" in ran.stdout
    assert "held by       app on /127.0.0.1\n" in ran.stdout
    assert "bound         to this cluster, topic, partition and group\n" in ran.stdout
    told = desk.run("show", "pay", "-o", "json").json
    (commit,) = told["commits"]
    assert (told["limit_chars"], told["limit_known"]) == (4096, True)
    assert commit["oldest_pending"]["written"]["age_s"] == [540.0, 540.0]
    assert commit["counts"]["untouched"] == 40
    assert [hazard["rule"] for hazard in commit["hazards"]] == []


def test_show_dates_a_plain_commit_by_its_record(desk: CommitsDesk) -> None:
    desk.groups.seed("plain", ORDERS, 100)
    commit = desk.run("show", "plain", "-o", "json").json["commits"][0]
    assert commit["oldest_pending"]["offset"] == 100
    assert commit["oldest_pending"]["written"]["source"] == "its record in the log"
    assert commit["oldest_pending"]["written"]["low_ms"] == NOW_MS - 10 * MINUTE + 100_000
    desk.groups.seed("plain", ORDERS, 200)
    desk.log.fetches.clear()
    assert desk.run("show", "plain", "-o", "json").json["commits"][0]["oldest_pending"] is None
    assert desk.log.fetches == [], "there is no record to date"


def test_a_map_with_a_nul_is_told_as_what_its_client_makes_of_it(desk: CommitsDesk) -> None:
    """The defect: "none of the done records comes again", and below it that all of them are processed again."""
    readable = write_parallel_consumer(CommitState(base=100, done=OffsetRanges.of([(101, 150)])))
    desk.groups.seed("pay", ORDERS, 100, f"{readable}\0")
    text = desk.run("show", "pay").stdout
    assert "on a restart  49 of the done records come again\n" in text
    assert "parallel-consumer cannot read metadata that ends with a NUL: it knows of nothing done" in text
    assert "none of the done records" not in text
    assert "--to pc" in text
    desk.groups.seed("pay", ORDERS, 100, PILL + "\0")
    shifted = " ".join(desk.run("show", "pay").stdout.split())
    assert "without the NUL at its end parallel-consumer would skip up to 99 records never processed" in shifted
    assert "--to pc" not in shifted, "that would make the map readable"


def test_show_names_what_is_dangerous(desk: CommitsDesk) -> None:
    def rules(state: CommitState) -> list[str]:
        desk.seed(state)
        return [hazard["rule"] for hazard in desk.run("show", "pay", "-o", "json").json["commits"][0]["hazards"]]

    assert rules(pill(60, 250)) == ["done-beyond-log-end"]
    assert rules(CommitState(base=300)) == ["committed-beyond-log-end"]
    desk.log.trim(ORDERS, 200)
    assert rules(CommitState(base=150)) == ["committed-below-log-start"]
    desk.log.delete_topic("orders")
    assert rules(CommitState(base=150)) == ["topic-gone"]


def test_show_tells_whose_a_foreign_payload_is(desk: CommitsDesk) -> None:
    desk.groups.add_group("billing")
    desk.seed(pill(), bound_to="billing")
    commit = desk.run("show", "pay", "-o", "json").json["commits"][0]
    assert "group billing" in commit["owner"]
    assert [hazard["rule"] for hazard in commit["hazards"]] == ["foreign-payload"]
    assert (commit["duplicates"]["low"], commit["duplicates"]["high"]) == (0, 99)


def test_another_cluster_is_asked_for_the_owner(desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.home.write_config("bootstrap_server: other:1\n", "profiles.d/q.yaml")
    other = FakeLogReader("other-cluster")
    other.add_topic("orders", 1, topic_id=bytes(16))
    monkeypatch.setattr(wiring, "open_log", lambda s: other if "other" in s.bootstrap_servers else desk.log)
    identity = CommitIdentity(cluster_id="other-cluster", topic_id=bytes(16), partition=0, group="pay")
    desk.groups.seed("pay", ORDERS, 60, encode_commit(pill(), identity, limit_chars=4095).text)
    assert "nothing that is known here" in desk.run("show", "pay", "-o", "json").json["commits"][0]["owner"]
    owner = desk.run("show", "pay", "--also", "q", "-o", "json").json["commits"][0]["owner"]
    assert "of cluster other-cluster: another cluster, topic id" in owner
    assert desk.run("show", "pay", "--also", "nobody").code == 2
    assert (other.closed, desk.log.closed) == (True, True)


def test_owners_are_looked_for_once_a_look(desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.log.add_topic("many", 30, topic_id=bytes(16))
    for partition in range(30):
        identity = CommitIdentity(cluster_id=CLUSTER, topic_id=bytes(16), partition=partition, group="other")
        text = encode_commit(CommitState(base=0), identity, limit_chars=4095).text
        desk.groups.seed("pay", TopicPartition("many", partition), 0, text)
    requested: list[object] = []
    places = desk.log.places

    def remembered(topics: object = None) -> object:
        requested.append(topics)
        return places(topics)  # type: ignore[arg-type]

    monkeypatch.setattr(desk.log, "places", remembered)
    commits = desk.run("show", "pay", "-o", "json").json["commits"]
    assert {commit["problem"] for commit in commits} == {"bound to something else"}
    assert sum(commit["owner"] is not None for commit in commits) == 20
    assert requested.count(None) == 1


def _string(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def mirror(desk: CommitsDesk, *, true_place: int | None) -> list[dict[str, Any]]:
    """MirrorMaker 2 copied a map from offset 1,000 to offset 60; an offset sync tells where 1,000 truly stands."""
    key = _string("pay") + _string("orders") + (0).to_bytes(4, "big")
    value = bytes(2) + (1_000).to_bytes(8, "big") + (60).to_bytes(8, "big") + _string("bAAK5gMA")
    desk.log.add_topic(CHECKPOINT_TOPIC)
    desk.log.append(TopicPartition(CHECKPOINT_TOPIC, 0), batch(0, [Rec(key, None)]), batch(0, [Rec(key, value)]))
    desk.groups.seed("pay", ORDERS, 60, "bAAK5gMA")
    if true_place is not None:
        desk.log.add_topic(SYNC_TOPIC)
        where = _string("orders") + (0).to_bytes(4, "big")
        sync = Rec(where, (1_000).to_bytes(8, "big") + true_place.to_bytes(8, "big"))
        desk.log.append(TopicPartition(SYNC_TOPIC, 0), batch(0, [sync]))
    commit = desk.run("show", "pay", "-o", "json").json["commits"][0]
    assert commit["copied_from"]["upstream_offset"] == 1_000
    hazards: list[dict[str, Any]] = commit["hazards"]
    return hazards


@pytest.mark.parametrize(
    ("true_place", "told"), [(None, "up to 7 records"), (63, "up to 2 records"), (60, None), (70, None)]
)
def test_a_map_that_mirrormaker_shifted(desk: CommitsDesk, true_place: int | None, told: str | None) -> None:
    hazards = mirror(desk, true_place=true_place)
    assert [hazard["rule"] for hazard in hazards] == ([] if told is None else ["shifted-map"])
    assert all(told is not None and told in hazard["message"] for hazard in hazards)


def test_a_commit_made_after_the_copy_is_not_the_copy(desk: CommitsDesk) -> None:
    mirror(desk, true_place=None)
    for offset, metadata in ((61, "bAAK5gMA"), (60, "bgABAAIAAgAF")):
        desk.groups.seed("pay", ORDERS, offset, metadata)
        commit = desk.run("show", "pay", "-o", "json").json["commits"][0]
        assert (commit["dialect"], commit["copied_from"], commit["hazards"]) == ("parallel-consumer", None, [])
    desk.groups.seed("pay", ORDERS, 60, "bAAK5gMA\0")
    assert desk.run("show", "pay", "-o", "json").json["commits"][0]["copied_from"] is not None


def test_a_map_beyond_the_log_was_shifted_by_somebody(desk: CommitsDesk) -> None:
    desk.groups.seed("pay", ORDERS, 195, "bAAK5gMA")
    commit = desk.run("show", "pay", "-o", "json").json["commits"][0]
    assert [hazard["rule"] for hazard in commit["hazards"]] == ["shifted-map"]


def test_a_group_that_is_not_there(desk: CommitsDesk) -> None:
    desk.groups.seed("payments", ORDERS, 3)
    ran = desk.run("show", "paymets")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: group paymets does not exist\nhint: is it payments?")
    ran = desk.run("show", "payments", "--topic", "order")
    assert ran.code == 2
    assert "it committed for orders" in ran.stderr
    assert "it committed for orders" in desk.run("show", "payments", "--topic", "zzz").stderr
    ran = desk.run("explain", "payments", "--topic", "orders", "--partition", "7")
    assert (ran.code, ran.stdout) == (2, "")


def test_a_cluster_or_coordinator_that_does_not_answer(desk: CommitsDesk) -> None:
    desk.groups.seed("pay", ORDERS, 3)
    desk.groups.lost.add("pay")
    assert desk.run("show", "pay").code == 75
    desk.groups.lost.clear()
    desk.groups.unreachable = True
    assert desk.run("show", "pay").code == 75
    assert desk.run("verify", "--all").code == 75


def test_a_share_group_and_a_first_commit_in_a_transaction_are_shown_as_what_they_are(
    desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.groups.add_group("shared", kind=GroupType.SHARE)
    shared = desk.run("show", "shared")
    assert shared.code == 1
    assert shared.stderr.startswith("error: group shared is a share group: it commits no offsets\nhint: brokers ")
    desk.groups.seed("pay", ORDERS, 100)
    pending = ItemError(name="UnstableOffsetCommitError")
    none = CommittedOffset(offset=-1)
    monkeypatch.setattr(
        desk.groups, "committed", lambda group, keys=None, stable=True: {ORDERS: pending if stable else none}
    )
    text = desk.run("show", "pay").stdout
    assert "pending: orders-0: a transaction that commits offsets is open, and there is no commit before it" in text


def test_without_rights(desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.seed(pill())
    hidden = ItemError(name="TopicAuthorizationFailedError", message="grant DESCRIBE on the topic to this user")
    with monkeypatch.context() as patched:
        patched.setattr(desk.log, "places", lambda topics=None: {})
        patched.setattr(desk.log, "spans", lambda keys: dict.fromkeys(keys, hidden))
        ran = desk.run("show", "pay", "-o", "json")
        assert (ran.code, ran.json["commits"][0]["bound"], ran.json["commits"][0]["hazards"]) == (0, None, [])
        assert "TopicAuthorizationFailedError" in ran.json["notes"][0]
        assert "note: the log of orders-0 cannot be read" in desk.run("show", "pay").stdout
        assert "group-unread" in desk.run("verify", "pay").stdout
    denied = ItemError(name="GroupAuthorizationFailedError")
    with monkeypatch.context() as patched:
        patched.setattr(desk.groups, "describe", lambda groups: dict.fromkeys(groups, denied))
        ran = desk.run("show", "pay")
        assert (ran.code, ran.stdout) == (1, "")
        assert "the right DESCRIBE" in ran.stderr
    with monkeypatch.context() as patched:

        def refuse(brokers: object, keys: object) -> None:
            raise OperationFailedError("no right to read configurations")

        patched.setattr(desk.cluster, "broker_settings", refuse)
        assert "no broker reports offset.metadata.max.bytes" in desk.run("limits").stdout
        assert desk.run("show", "pay", "-o", "json").json["limit_known"] is False


def test_a_commit_in_an_open_transaction_is_shown_as_the_one_before(desk: CommitsDesk) -> None:
    desk.groups.seed("pay", ORDERS, 3)
    desk.groups.open_transaction("pay", ORDERS, 9)
    commit = desk.run("show", "pay", "-o", "json").json["commits"][0]
    assert commit["offset"] == 3
    assert [hazard["rule"] for hazard in commit["hazards"]] == ["open-transaction"]


def test_explain_the_oldest_and_any_other_offset(desk: CommitsDesk) -> None:
    desk.seed(pill())
    ran = desk.run("explain", "pay")
    assert ran.stdout == (
        "cluster fake-cluster (profile p)\n"
        "group pay, orders-0, offset 60: pending\n"
        "\n"
        "  Offset 60 is pending: it is the oldest record that is not done, and others after it are done.\n"
        "  Its record was written 2026-01-01T11:51:00.000Z, 9m ago (by its record in the log).\n"
        "  The committed offset cannot pass it; the 99 done after it are kept in the metadata.\n"
        "  On a restart kafkakit's client gets it again.\n"
        "  No member of the group holds the partition.\n"
        "\n"
        "to look at the record, and to let the group pass it:\n"
        "  kafka-console-consumer.sh --bootstrap-server fake:1 --topic orders --partition 0 --offset 60 "
        "--max-messages 1\n"
        "  kafkakit --profile p streams commits skip pay --topic orders --partition 0 --offsets 60\n"
    )
    standings = {n: desk.run("explain", "pay", str(n), "-o", "json").json["standing"] for n in (5, 61, 180, 999)}
    assert standings == {5: "done", 61: "done", 180: "untouched", 999: "unwritten"}
    desk.groups.seed("pay", TopicPartition("orders", 1), 0)
    assert desk.run("explain", "pay").code == 2


def test_verify_exits_by_findings(desk: CommitsDesk) -> None:
    desk.seed(pill())
    assert desk.run("verify", "pay").code == 0
    assert desk.run("verify", "--all", "--max-age", "9m").code == 0, "it is 9 minutes old, and no more"
    late = desk.run("verify", "--all", "--max-age", "5m")
    assert late.code == 1
    assert "pending-too-long" in late.stdout
    assert "kafkakit --profile p streams commits explain pay --topic orders --partition 0" in late.stdout
    desk.seed(pill(60, 250))
    found = desk.run("verify", "--all", "-o", "json")
    assert found.code == 1
    assert [finding["rule"] for finding in found.json["findings"]] == ["done-beyond-log-end"]
    assert desk.run("verify", "--all", "--fail-on", "never").code == 0
    assert desk.run("verify").code == 2
    assert desk.run("verify", "pay", "--all").code == 2
    assert desk.run("verify", "nobody").code == 2


def test_verify_names_a_group_that_it_cannot_read(desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.groups.seed("good", ORDERS, 3)
    desk.groups.seed("pay", ORDERS, 3)
    listed = desk.groups.groups()
    monkeypatch.setattr(desk.groups, "groups", lambda: listed)
    desk.groups.lost.add("pay")
    ran = desk.run("verify", "--all", "-o", "json")
    assert ran.code == 1
    (finding,) = ran.json["findings"]
    assert (finding["rule"], finding["where"]) == ("group-unread", "group pay")
    assert "cannot be read: group pay" in desk.run("limits").stdout
    assert "DESCRIBE" not in finding["hint"], "a coordinator that does not answer is not a missing right"


@pytest.mark.parametrize(
    ("error", "rule", "hint"),
    [
        ("LeaderNotAvailableError", "no-leader", "start one of the brokers"),
        ("LEADER_NOT_AVAILABLE", "no-leader", "start one of the brokers"),
        ("KafkaTimeoutError", "group-unread", "look again"),
        ("UnknownTopicIdError", "group-unread", "look again"),
        ("TopicAuthorizationFailedError", "group-unread", "the right DESCRIBE"),
    ],
)
def test_a_log_that_cannot_be_read_is_told_as_what_it_is(
    desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch, error: str, rule: str, hint: str
) -> None:
    other = TopicPartition("orders", 1)
    desk.groups.seed("pay", ORDERS, 300)
    desk.groups.seed("pay", other, 0)
    spans = desk.log.spans
    monkeypatch.setattr(desk.log, "spans", lambda keys: {**spans(keys), other: ItemError(name=error)})
    ran = desk.run("verify", "pay", "-o", "json")
    found = {finding["rule"]: finding for finding in ran.json["findings"]}
    assert (ran.code, set(found)) == (1, {rule, "committed-beyond-log-end"}), "the other partition is checked"
    assert hint in found[rule]["hint"]
    assert ("DESCRIBE" in found[rule]["hint"]) == ("DESCRIBE" in hint)
    assert "orders-1" in found[rule]["message"]


def test_what_members_own_without_a_commit_is_shown_and_found(desk: CommitsDesk) -> None:
    other = TopicPartition("orders", 1)
    desk.groups.join("pay", ORDERS, other)
    ran = desk.run("verify", "pay", "-o", "json")
    (finding,) = ran.json["findings"]
    assert (ran.code, finding["rule"], finding["count"]) == (1, "no-commit", 2)
    assert "members own orders-0, orders-1; 200 records there" in finding["message"]
    shown = desk.run("show", "pay")
    assert (shown.code, "no commit: members own orders-0, orders-1; 200 records there" in shown.stdout) == (0, True)
    assert desk.run("show", "pay", "-o", "json").json["uncommitted"] == [
        {"topic": "orders", "partition": 0, "log_start": 0, "log_end": 200},
        {"topic": "orders", "partition": 1, "log_start": 0, "log_end": 0},
    ]
    explained = desk.run("explain", "pay", "--topic", "orders", "--partition", "0")
    assert (explained.code, explained.stdout) == (1, "")
    assert "group pay has no commit for orders-0" in explained.stderr
    desk.groups.seed("pay", ORDERS, 200)
    assert desk.run("verify", "pay").code == 0, "nothing lies in the other one"
    assert desk.run("explain", "pay", "--topic", "orders", "--partition", "1").code == 1


def test_verify_tells_a_first_commit_in_a_transaction(desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.groups.seed("pay", ORDERS, 100)
    pending, none = ItemError(name="UnstableOffsetCommitError"), CommittedOffset(offset=-1)
    monkeypatch.setattr(
        desk.groups, "committed", lambda group, keys=None, stable=True: {ORDERS: pending if stable else none}
    )
    ran = desk.run("verify", "pay", "-o", "json")
    (finding,) = ran.json["findings"]
    assert (ran.code, finding["rule"]) == (0, "open-transaction")


def test_limits_of_brokers_and_headroom_of_groups(desk: CommitsDesk) -> None:
    desk.seed(pill())
    desk.groups.seed("full", ORDERS, 3, "x" * 4000)
    desk.groups.seed("empty", ORDERS, 3)
    desk.groups.add_group("shared", kind=GroupType.SHARE)
    ran = desk.run("limits")
    assert ran.stdout.splitlines()[0] == (
        "cluster fake-cluster (profile p): offset.metadata.max.bytes is 4,096 characters on all brokers that report it"
    )
    rows = desk.run("limits", "-o", "tsv").stdout.splitlines()
    assert [row.split("\t")[0] for row in rows] == ["full", "pay", "empty"]
    assert rows[0].split("\t")[5:] == ["4000", "4096", "0.9766", "96"]
    desk.cluster.brokers[2].configs["offset.metadata.max.bytes"] = "8192"
    assert "DIFFERS: 4,096 on broker 1, 8,192 on broker 2; 4,096 is what holds" in desk.run("limits").stdout
    verified = desk.run("verify", "--all").stdout
    assert "limits-differ" in verified
    assert "3 groups" in verified, "a share group commits nothing"


def test_watch_tells_changes_and_goes_on_without_the_cluster(desk: CommitsDesk) -> None:
    desk.seed(pill())
    seconds: list[float] = []

    def pass_time(_: float) -> None:
        seconds.append(_)
        desk.log.unreachable = len(seconds) in (2, 3)
        if len(seconds) == 5:
            desk.seed(pill(60, 170))

    desk.clock.on_sleep.append(pass_time)
    ran = desk.run("watch", "pay", "--interval", "2s", "--count", "4")
    assert ran.code == 0
    assert ran.stderr.splitlines() == [
        "warning: cannot connect to the fake cluster; the figures shown are of 2026-01-01T12:00:02.000Z; trying again",
        "warning: the cluster answers again",
        "2026-01-01T12:00:10.000Z orders-0: became done: 10: 160-169",
    ]
    assert "up to 169" in ran.stdout


def test_watch_ends_with_ctrl_c(desk: CommitsDesk) -> None:
    desk.seed(pill())

    def press(_: float) -> None:
        raise KeyboardInterrupt

    desk.clock.on_sleep.append(press)
    ran = desk.run("watch", "pay")
    assert (ran.code, ran.stdout) == (130, "")
    assert "nothing was changed" in ran.stderr


def test_names_from_outside_cannot_move_the_cursor(desk: CommitsDesk) -> None:
    name = "evil\x1b[2J"
    desk.groups.seed(name, ORDERS, 300, "x")
    for words in (("show", name), ("limits",), ("verify", "--all"), ("explain", name)):
        ran = desk.run(*words)
        assert "\x1b" not in ran.stdout + ran.stderr, words
        assert "evil\\x1b[2J" in ran.stdout


def test_time_is_the_clocks(desk: CommitsDesk) -> None:
    desk.seed(pill())
    desk.clock.advance(timedelta(hours=1).total_seconds())
    assert "1h 9m ago" in desk.run("show", "pay").stdout


def next_commands(desk: CommitsDesk, group: str) -> list[list[str]]:
    """The lines that the hazards of a group end with, as words behind `streams commits`."""
    commits = desk.run("show", group, "-o", "json").json["commits"]
    hints = [hazard["hint"] for commit in commits for hazard in commit["hazards"]]
    lines = [re.search(r"kafkakit --profile p streams commits ([^,;)]*)", hint) for hint in hints]
    return [shlex.split(line[1].strip()) for line in lines if line is not None]


def test_the_command_that_a_hazard_names_is_one_that_works(desk: CommitsDesk) -> None:
    # The desk's groups have no members, and nothing is written by a dry run.
    desk.groups.add_topic("orders", 2)
    cases: dict[str, Callable[[], None]] = {
        "translate": lambda: desk.groups.seed("pay", ORDERS, 195, "bAAK5gMA"),
        "unack": lambda: desk.seed(pill(60, 250)),
        "reset": lambda: desk.seed(pill(60), bound_to="other"),
        "explain": lambda: desk.groups.seed("pay", ORDERS, 60, "x" * 4000),
    }
    for verb, arrange in cases.items():
        arrange()
        (words, *_) = next_commands(desk, "pay")
        assert words[:2] == [verb, "pay"]
        ran = desk.run(*words, *(["--dry-run"] if verb != "explain" else []))
        assert ran.code == 0, ran.stderr
    desk.seed(pill())
    skip = desk.run("explain", "pay").stdout.splitlines()[-1].split("streams commits ")[1]
    assert desk.run(*shlex.split(skip), "--dry-run").code == 0
    assert desk.groups.commits == []
