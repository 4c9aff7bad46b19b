"""What `topicmappr audit` holds against a map: each rule with what it means, what happens, and what helps."""

from collections.abc import Iterable
from dataclasses import dataclass

from kafkakit.core.findings import Finding, Rule, Severity, shown
from kafkakit.core.quantities import agreeing, counted

MAX_SUBJECTS = 10_000


_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
_OUT = "take the entry out of the map, or correct it"
_REFUSED = "Kafka refuses the entry; the others are carried out, so the map is done in part"
_WHOLE = "Kafka's own tool refuses the whole file"
RULES = (
    Rule("unreadable", _E, "cannot be read", _WHOLE, _OUT),
    Rule("version", _E, "is not of version 1", _WHOLE, 'write "version": 1'),
    Rule("listed-twice", _E, "are listed again", _WHOLE, "keep one entry a partition"),
    Rule("unknown-partition", _E, "do not exist", _REFUSED, _OUT),
    Rule("empty-list", _E, "get an empty list", _REFUSED, _OUT),
    Rule("repeated-broker", _E, "name a broker twice", _REFUSED, _OUT),
    Rule("unknown-broker", _E, "name a broker that the cluster does not have", _REFUSED, _OUT),
    Rule("dead-broker", _E, "get a copy on a broker that is not alive",
         "Kafka refuses the entry, or starts a move that cannot end before the broker is back", _OUT),
    Rule("closed-broker", _E, "get a copy on a broker whose every log dir is cordoned or broken",
         "no log dir takes the copy, so the move does not end", _OUT),
    Rule("no-source", _E, "are to move, and no live copy is in sync",
         "there is nothing to copy from: the move never ends, and what only the dead copies hold is lost if they go",
         "bring a broker with a copy in sync back first"),
    Rule("below-min-isr", _E, "get fewer replicas than min.insync.replicas",
         "producers that ask for acks=all are refused when the move is done", _OUT),
    Rule("rack-rule-broken", _E, "break the rack rule, and did not before",
         "one rack that fails takes more copies with it than it must",
         "plan with kafkakit topicmappr rebalance, or repair with kafkakit topicmappr fix-racks"),
    Rule("constraint-broken", _E, "get a copy that a constraint by tags forbids",
         "the copy lies where its topic should not, or beside one of the same power, room or kind",
         "plan with the same constraints: kafkakit topicmappr rebalance"),
    Rule("disk-full", _E, "", "the disk runs full and its log dir goes offline, with every copy in it",
         "make the map in parts, or choose other brokers: kafkakit topicmappr rebalance --max-disk-use"),
    Rule("disk-over-limit", _E, "", "little free space is left for new records",
         "choose other brokers: kafkakit topicmappr rebalance --max-disk-use"),
    Rule("log-dirs", _E, "name log dirs that do not fit the list", _WHOLE, "give one path, or any, for each broker"),
    Rule("unknown-log-dir", _W, "name a log dir that the broker does not have, or that takes nothing",
         "the copy goes to another dir, or waits", "take the path from kafkakit snapshot"),
    Rule("loses-in-sync", _W, "lose every copy that is in sync today",
         "nothing is lost while new copies are made, but no proven copy is left to go back to", "keep one old copy"),
    Rule("fewer-replicas", _W, "get fewer replicas", "fewer brokers may fail before data is lost",
         "kafkakit topicmappr set-replication changes the factor on purpose"),
    Rule("being-moved", _W, "are being reassigned now",
         "Kafka drops the running move for this one; what was copied may be thrown away",
         "wait: kafkakit reassign status --watch"),
    Rule("disk-peak", _W, "", "while both copies are there, the disk is fuller than the limit",
         "make the map in parts: kafkakit reassign apply sends batches"),
    Rule("goal-missed", _W, "", "the map does not reach the requested balance", "kafkakit topicmappr rebalance"),
    Rule("rack-rule-stays", _N, "broke the rack rule before and still do", "as before: a rack holds too many copies",
         "kafkakit topicmappr fix-racks"),
    Rule("dead-broker-stays", _N, "keep a copy on a broker that is not alive", "that copy stays out of sync",
         "kafkakit topicmappr drain"),
    Rule("more-replicas", _N, "get more replicas", "every listed broker gets a full copy",
         "leave the new brokers out if this is not meant"),
    Rule("leader-moves", _N, "get another preferred leader",
         "leadership follows when preferred leaders are elected; clients reconnect",
         "keep the first broker of a list first where it is to stay leader"),
)  # fmt: skip
BY_NAME = {rule.name: rule for rule in RULES}


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing in the map that breaks a rule: where (a topic, a broker), its name there, and more words."""

    rule: str
    where: str
    subject: str
    detail: str = ""


def findings_of(issues: Iterable[Issue]) -> list[Finding]:
    """One finding for each rule and place; all findings of a rule together carry up to 10,000 names."""
    groups: dict[tuple[str, str], list[Issue]] = {}
    for issue in issues:
        groups.setdefault((issue.rule, issue.where), []).append(issue)
    room = dict.fromkeys(BY_NAME, MAX_SUBJECTS)
    found = []
    for (name, where), group in groups.items():
        rule = BY_NAME[name]
        subjects = tuple(issue.subject for issue in group[: room[name]])
        room[name] -= len(subjects)
        first = shown([f"{issue.subject}{issue.detail}" for issue in group[:3]], len(group))
        noun = "entry" if name == "unreadable" else "partition"
        entries = counted(len(group), noun, "entries" if noun == "entry" else None)
        words = f"{entries} {agreeing(len(group), rule.about)}: {first}"
        found.append(rule.finding(where, words if rule.about else first, None, len(group), subjects))
    return found
