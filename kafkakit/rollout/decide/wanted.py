"""What is asked for: from words of the command line, from files that lint reads, and from findings."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from kafkakit.core.audit_findings import NAMED_IN_WHERE
from kafkakit.core.cluster_facts import CLUSTER_DEFAULT, ResourceKind
from kafkakit.core.documents import decode_json
from kafkakit.core.errors import InputError, UsageError
from kafkakit.lint.api import Pieces
from kafkakit.rollout.decide.settings import ALL_BROKERS, ClusterConfigs, WantedSetting
from kafkakit.rules.effective import Configs, Source
from kafkakit.rules.engine import Checked
from kafkakit.rules.secrets import HIDDEN
from kafkakit.rules.violation import Edit

FINDINGS_LIMIT_BYTES = 64 << 20
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,200}")
# Of a file, what tells a broker from others; it is no change to make.
IDENTITY = frozenset(
    {
        "broker.id", "node.id", "process.roles", "broker.rack", "listeners", "advertised.listeners", "log.dirs",
        "log.dir", "controller.quorum.voters", "controller.quorum.bootstrap.servers", "controller.listener.names",
        "zookeeper.connect", "metadata.log.dir",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeScope:
    """Where values of the command line are set: topics by name, brokers, each broker, the default."""

    topics: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()
    all_brokers: bool = False
    cluster_default: bool = False

    @property
    def is_given(self) -> bool:
        """True where something is named."""
        return bool(self.topics or self.brokers or self.all_brokers or self.cluster_default)


def wanted_of_words(
    words: Sequence[str], deleted: Sequence[str], scope: ChangeScope, configs: ClusterConfigs
) -> tuple[WantedSetting, ...]:
    """`KEY=VALUE` words and keys to delete, for everything in scope; raises `UsageError` for what cannot be read."""
    values: dict[str, str | None] = {}
    pairs = [(*_pair(word), word) for word in words] + [(key, None, key) for key in deleted]
    for key, value, word in pairs:
        if not _KEY.fullmatch(key):
            raise UsageError(f"{word!r:.80} is not KEY=VALUE")
        if key in values:
            raise UsageError(f"{key} is given twice")
        values[key] = value
    if values and not scope.is_given:
        raise UsageError(
            "no scope is given", hint="add --topics NAME, --brokers ID, --all-brokers or --cluster-default"
        )
    if scope.is_given and not values:
        raise UsageError("a scope is given, but no KEY=VALUE")
    names: list[tuple[ResourceKind, str]] = []
    names += [(ResourceKind.TOPIC, name) for name in scope.topics]
    names += [(ResourceKind.BROKER, str(broker)) for broker in scope.brokers]
    names += [(ResourceKind.BROKER, ALL_BROKERS)] if scope.all_brokers else []
    names += [(ResourceKind.BROKER, CLUSTER_DEFAULT)] if scope.cluster_default else []
    return tuple(
        WantedSetting(kind=kind, name=name, key=key, value=value)
        for kind, name in names
        for key, value in values.items()
    )


def wanted_of_files(files: Iterable[Pieces], cluster: str | None, configs: ClusterConfigs) -> tuple[WantedSetting, ...]:
    """What files set; keys that only the cluster has are left alone, and so are topics that it does not have.

    Raises `UsageError` where the files are of several clusters and none is chosen.
    """
    pieces = tuple(files)
    names = {c.name for p in pieces for c in p.clusters if c.name}
    names |= {b.cluster for p in pieces for b in p.brokers if b.cluster}
    names |= {t.cluster for p in pieces for t in p.topics if t.cluster}
    if cluster is None and len(names) > 1:
        listed = ", ".join(sorted(map(str, names)))
        raise UsageError(f"the files are of several clusters: {listed:.300}", hint="choose one with --cluster-name")
    if cluster is not None and names and cluster not in names:
        raise UsageError(f"no file is of cluster {cluster!r:.80}")
    return tuple(w for p in pieces for w in _of_pieces(p, cluster, configs))


def unmet(files: Iterable[Pieces], configs: ClusterConfigs) -> tuple[str, ...]:
    """Topics of files that the cluster does not have, as warnings; a change of configuration makes none."""
    missing = sorted({t.name for p in files for t in p.topics} - configs.topics.keys())
    return (f"not in the cluster, and left out: topic {', '.join(missing[:20])}",) if missing else ()


def _of_pieces(pieces: Pieces, cluster: str | None, configs: ClusterConfigs) -> Iterator[WantedSetting]:
    def mine(name: str | None) -> bool:
        return cluster is None or name is None or name == cluster

    for each in pieces.clusters:
        if mine(each.name):
            yield from _of_configs(ResourceKind.BROKER, CLUSTER_DEFAULT, each.dynamic_default)
            yield from _of_configs(ResourceKind.BROKER, ALL_BROKERS, each.static or {})
    for broker in pieces.brokers:
        if mine(broker.cluster) and "broker" in broker.roles:
            name = ALL_BROKERS if broker.id is None else str(broker.id)
            yield from _of_configs(ResourceKind.BROKER, name, {**broker.static, **broker.dynamic})
    for topic in pieces.topics:
        if mine(topic.cluster) and topic.name in configs.topics:
            yield from _of_configs(ResourceKind.TOPIC, topic.name, topic.configs)


def _of_configs(kind: ResourceKind, name: str, values: Configs) -> Iterator[WantedSetting]:
    for key, declared in values.items():
        if key not in IDENTITY and declared.text != HIDDEN and "." in key:
            yield WantedSetting(kind=kind, name=name, key=key, value=declared.text)


def wanted_of_live(
    usual: Sequence[Checked], every: Sequence[Checked], chosen: Sequence[str]
) -> tuple[WantedSetting, ...]:
    """The edits that end findings of a live cluster: those of the named rules, or with the named fingerprints.

    A rule means the `usual` findings of it, those that `lint --live` prints; a fingerprint may be that of `every` one.
    Raises `UsageError` for a name that no finding has, and for findings without an edit.
    """
    found: list[WantedSetting] = []
    for name in chosen:
        fits = [c for c in usual if name in (c.finding.rule, c.finding.name)]
        fits += [c for c in every if name == c.finding.fingerprint]
        if not fits:
            raise UsageError(f"no finding of the cluster is {name!r:.60}", hint="kafkakit lint --live lists them")
        edits = [w for c in fits for w in _of_edits(c)]
        if not edits:
            raise UsageError(f"finding {name} has no change of configuration that ends it: {fits[0].finding.message}")
        found += edits
    return tuple(found)


def _of_edits(checked: Checked) -> Iterator[WantedSetting]:
    finding = checked.finding
    subject = subject_of(finding.where)
    if subject is None:
        return
    kind, name = subject
    setting = finding.setting
    if setting is not None and setting.source == Source.DYNAMIC_DEFAULT.value:
        kind, name = ResourceKind.BROKER, CLUSTER_DEFAULT
    for edit in checked.edits:
        yield from _of_edit(kind, name, edit, setting.observed if setting is not None else None)


def _of_edit(kind: ResourceKind, name: str, edit: Edit, observed: str | None) -> Iterator[WantedSetting]:
    if edit.rename is not None:
        yield WantedSetting(kind=kind, name=name, key=edit.key, value=None)
        yield WantedSetting(kind=kind, name=name, key=edit.rename, value=edit.value or observed)
    else:
        yield WantedSetting(kind=kind, name=name, key=edit.key, value=edit.value)


class _FileFinding(msgspec.Struct):
    rule: str
    where: str
    message: str = ""
    fingerprint: str = ""
    cluster: str = ""
    key: str | None = None
    expected: str | None = None
    repair: str = ""


class _FindingsFile(msgspec.Struct):
    findings: list[_FileFinding]


def wanted_of_findings(
    data: bytes, source: str, chosen: Sequence[str], cluster: str | None
) -> tuple[WantedSetting, ...]:
    """The repairs of findings in a file that `lint -o json` or `audit results -o json` wrote.

    `chosen` are rules or fingerprints, all when empty; `cluster` chooses among those of a fleet. Raises `UsageError`
    where none of them has a value to set, and `InputError` for another file.
    """
    findings = decode_json(data, _FindingsFile, source).findings
    asked = [f for f in findings if not chosen or f.rule in chosen or f.fingerprint in chosen]
    clusters = {f.cluster for f in asked if f.cluster}
    if cluster is None and len(clusters) > 1:
        raise UsageError(f"the findings are of {len(clusters)} clusters", hint="choose one with --cluster-name")
    found = [w for f in asked if cluster is None or f.cluster in ("", cluster) for w in _of_finding(f)]
    if not found:
        raise InputError(source, "has no finding of the chosen ones with a value to set")
    return tuple(found)


def _of_finding(finding: _FileFinding) -> Iterator[WantedSetting]:
    subject = subject_of(finding.where)
    if subject is None:
        return
    lines = [line.strip() for line in finding.repair.splitlines()]
    pairs = [line.partition("=") for line in lines if "=" in line and _KEY.fullmatch(line.partition("=")[0])]
    if pairs:
        yield from (WantedSetting(kind=subject[0], name=subject[1], key=k, value=v) for k, _, v in pairs)
    elif finding.key is not None and finding.expected is not None:
        yield WantedSetting(kind=subject[0], name=subject[1], key=finding.key, value=finding.expected)


def subject_of(where: str) -> tuple[ResourceKind, str] | None:
    """The topic or broker that a finding is about, None for others."""
    for kind, named in ((ResourceKind.TOPIC, "topics"), (ResourceKind.BROKER, "brokers")):
        match = re.match(NAMED_IN_WHERE[named], f"{where} of ")
        if match is not None and not where.startswith("controller"):
            return kind, match[1] or match[2]
    return None


def _pair(word: str) -> tuple[str, str]:
    key, _, value = word.partition("=")
    return (key, value) if "=" in word else ("", "")
