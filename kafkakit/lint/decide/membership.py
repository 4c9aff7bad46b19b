"""Which cluster each part of the files belongs to: by name, namespace, quorum and folder, never by the order of files.

What names a cluster belongs to the one of that name; a resource of Kubernetes to the one in its namespace. The file of
a node (`server.properties`) names none: nodes of one folder, or with one quorum, are one cluster, as long as no two of
them have one id. Other parts without a name join the only cluster of the run, else the only one of their folder or of
the next folder above.

And which version a cluster is judged as: what its files or the caller say, else what its settings show. Versions
without a table of definitions are refused, or, if asked for, judged as the nearest that has one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

from kafkakit.core.errors import UsageError
from kafkakit.core.findings import Place
from kafkakit.core.text import sanitize
from kafkakit.rules.config_defs import MINORS, NEWEST, minor_key, minor_of, minor_or_none, stated_minor
from kafkakit.rules.effective import Configs, to_items
from kafkakit.rules.subjects import LintCluster

T = TypeVar("T")
_QUORUM_KEYS = ("controller.quorum.voters", "controller.quorum.bootstrap.servers", "zookeeper.connect")
_LOOPBACK = ("localhost", "127.", "[::1]", "::1")
_ANY_HOST = frozenset({"", "0.0.0.0", "[::]"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """What a file tells of the node that it configures as a whole.

    `scope` is set if host names mean something only inside a file or namespace. `spot` tells nodes of one file apart.
    """

    id: int | None
    quorum: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    scope: str = ""
    cluster_id: str | None = None
    spot: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMember:
    """What a part of a file tells of its cluster. `path` is None for what a live cluster shows.

    `defines` is True for what describes the cluster or its brokers, so that other parts of the folder belong to it.
    `is_whole` is a resource that declares its cluster as a whole, `watched` a further namespace whose resources it has.
    `declares` names the thing that the part declares, which one cluster has once.
    """

    path: str | None
    name: str | None = None
    namespace: str | None = None
    is_id: bool = False
    defines: bool = False
    is_whole: bool = False
    watched: str | None = None
    node: NodeIdentity | None = None
    declares: str | None = None


@dataclass(frozen=True, slots=True)
class _Key:
    """One cluster: by name and namespace, or without a name by the place of its files."""

    name: str | None
    namespace: str | None = None
    spot: str = ""


def node_identity(
    node_id: int | None, static: Configs, *, scope: str = "", cluster_id: str | None = None, spot: str = ""
) -> NodeIdentity:
    """A node by its configuration: its quorum (or ZooKeeper's) and the addresses that it tells others."""
    return NodeIdentity(
        id=node_id,
        quorum=frozenset(address for key in _QUORUM_KEYS for address in _quorum(key, static)),
        addresses=addresses_of(static),
        scope=scope,
        cluster_id=cluster_id,
        spot=spot,
    )


def _quorum(key: str, static: Configs) -> list[str]:
    found = static.get(key)
    if found is None:
        return []
    servers, slash, root = found.text.partition("/") if key == "zookeeper.connect" else (found.text, "", "")
    return [item.rpartition("@")[2].lower() + slash + root for item in to_items(servers)]


def addresses_of(static: Configs) -> frozenset[str]:
    """The addresses with a host that a node advertises, else those that it listens on."""
    found = static.get("advertised.listeners") or static.get("listeners")
    ends = (item.partition("://")[2].lower() for item in to_items(found.text)) if found is not None else ()
    return frozenset(end for end in ends if end.rpartition(":")[0] not in _ANY_HOST)


def are_apart(one: frozenset[str], other: frozenset[str]) -> bool:
    """True when two sets of addresses are known and have none in common: they are those of two nodes."""
    return bool(one) and bool(other) and one.isdisjoint(other)


def cluster_names(members: Sequence[ClusterMember], given: str | None = None) -> list[str]:
    """The name of the cluster of each member; `given` is the name for what names none.

    Clusters of one name have their namespace, or their folder, in it; those without a name are called by their folder,
    or not at all if there is only one. The order of members changes nothing.
    """
    keys: dict[int, _Key] = {}
    _place_named(members, keys)
    groups = _groups(members)
    if given is None:
        _place_groups(members, keys, groups)
    else:
        keys.update((number, _Key(given)) for group in groups for number in group)
    _join_seen(members, keys)
    rest = [number for number in range(len(members)) if number not in keys]
    _place_rest(members, keys, rest, given)
    names = _displayed_names(members, keys)
    _rename_live(members, keys, names)
    return [names[keys[number]] for number in range(len(members))]


def _folder(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[0]


def _folders_upwards(folder: str) -> Iterable[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
    yield ""


def _place_named(members: Sequence[ClusterMember], keys: dict[int, _Key]) -> None:
    wholes: dict[str, dict[tuple[str | None, str], ClusterMember]] = {}
    spaces: dict[str, set[str]] = {}
    for m in members:
        if m.name is not None and m.is_whole and m.path is not None:
            wholes.setdefault(m.name, {})[(m.namespace, m.path)] = m
        elif m.name is not None and m.namespace is not None:
            spaces.setdefault(m.name, set()).add(m.namespace)
    spots = {name: _spots(found) for name, found in wholes.items()}
    known: dict[tuple[str, str | None, str | None], _Key] = {}
    for number, m in enumerate(members):
        if m.name is None:
            if m.is_whole and m.path is not None:  # a template fills in its name
                keys[number] = _Key(None, m.namespace, m.path)
            continue
        case = (m.name, m.namespace, m.path)
        if case not in known:
            declared = [
                (w, _Key(m.name, w.namespace, spots[m.name][(w.namespace, w.path or "")]))
                for w in wholes.get(m.name, {}).values()
            ]
            fitting = [
                (w, key) for w, key in declared if m.namespace is None or m.namespace in (w.namespace, w.watched)
            ] or [(w, key) for w, key in declared if w.namespace is None]
            own = spaces.get(m.name, set())
            lone = next(iter(own)) if m.namespace is None and len(own) == 1 and not declared else m.namespace
            known[case] = _nearest_key(m.path, fitting) or _Key(m.name, lone)
        keys[number] = known[case]


def _spots(wholes: dict[tuple[str | None, str], ClusterMember]) -> dict[tuple[str | None, str], str]:
    """What tells each declaration of a cluster from others of its name and namespace: nothing, folder or path."""
    found = {}
    for namespace, path in wholes:
        paths = [p for ns, p in wholes if ns == namespace]
        folders = {_folder(p) for p in paths}
        found[(namespace, path)] = "" if len(paths) == 1 else _folder(path) if len(folders) == len(paths) else path
    return found


def _nearest_key(path: str | None, candidates: Sequence[tuple[ClusterMember, _Key]]) -> _Key | None:
    """The candidate of the same file, else the only one of the folder or of the next one above that has one."""
    found = {key for _, key in candidates}
    if len(found) <= 1 or path is None:
        return next(iter(found)) if len(found) == 1 else None
    same = {key for m, key in candidates if m.path == path}
    if len(same) == 1:
        return next(iter(same))
    for folder in _folders_upwards(_folder(path)):
        near = {key for m, key in candidates if m.path is not None and _folder(m.path) == folder}
        if near:
            return next(iter(near)) if len(near) == 1 else None
    return None


def _groups(members: Sequence[ClusterMember]) -> list[list[int]]:
    """The nodes without a name, those of one cluster together."""
    places: dict[tuple[str, str], list[int]] = {}
    for number, m in enumerate(members):
        if m.name is None and m.node is not None and m.path is not None:
            places.setdefault((_folder(m.path), m.node.scope), []).append(number)
    local = [part for numbers in places.values() for part in _of_folder(members, numbers)]
    wide = [group for group in local if all(_node(members[n]).scope == "" for n in group)]
    joined = []
    for component in _components(wide, lambda one, other: _share_quorum(members, one, other)):
        numbers = [n for group in component for n in group]
        ids = [_node(members[n]).id for n in numbers]
        is_one = len(component) > 1 and None not in ids and len(set(ids)) == len(ids)
        joined += [numbers] if is_one else component
    return [*joined, *(group for group in local if group not in wide)]


def _node(member: ClusterMember) -> NodeIdentity:
    return member.node or NodeIdentity(id=None)


def _of_folder(members: Sequence[ClusterMember], numbers: Sequence[int]) -> list[list[int]]:
    told = [n for n in numbers if _node(members[n]).quorum or _node(members[n]).cluster_id]
    untold = [n for n in numbers if n not in told]
    parts = [
        [n for (n,) in part]
        for part in _components([[n] for n in told], lambda a, b: _are_linked(members[a[0]], members[b[0]]))
    ]
    # Without a quorum and an id nothing tells that two files are nodes of one cluster.
    known = [n for n in untold if len(parts) <= 1 and _node(members[n]).id is not None]
    if known:
        parts = [[*(parts[0] if parts else []), *known]]
    parts += [[n] for n in untold if n not in known]
    return [group for part in parts for group in _without_variants(members, sorted(part))]


def _without_variants(members: Sequence[ClusterMember], part: list[int]) -> list[list[int]]:
    """Files of one id and no two addresses are variants of one node: nothing tells which of them go together."""
    by_id: dict[int, list[NodeIdentity]] = {}
    for n in part:
        node = _node(members[n])
        if node.id is not None:
            by_id.setdefault(node.id, []).append(node)
    pairs = (pair for nodes in by_id.values() for pair in combinations(nodes, 2))
    if any(not are_apart(a.addresses, b.addresses) for a, b in pairs):
        return [[n] for n in part]
    return [part]


def _are_linked(one: ClusterMember, other: ClusterMember) -> bool:
    a, b = _node(one), _node(other)
    if a.cluster_id is not None and b.cluster_id is not None:
        return a.cluster_id == b.cluster_id
    return not a.quorum.isdisjoint(b.quorum)


def _share_quorum(members: Sequence[ClusterMember], one: Sequence[int], other: Sequence[int]) -> bool:
    """True when two folders name one quorum by addresses that mean the same on every machine."""
    first, second = (
        {q for n in group for q in _node(members[n]).quorum if not q.startswith(_LOOPBACK)} for group in (one, other)
    )
    return not first.isdisjoint(second)


def _components(items: Iterable[T], linked: Callable[[T, T], bool]) -> list[list[T]]:
    left, found = list(items), list[list[T]]()
    while left:
        component, waiting = [left[0]], [left.pop(0)]
        while waiting:
            item = waiting.pop()
            near = [other for other in left if linked(item, other)]
            left = [other for other in left if other not in near]
            component += near
            waiting += near
        found.append(component)
    return found


def _place_groups(members: Sequence[ClusterMember], keys: dict[int, _Key], groups: Sequence[list[int]]) -> None:
    """Each group of nodes into the named cluster of its folder, unless an operator runs that; else on its own."""
    own = {keys[n] for n, m in enumerate(members) if n in keys and (m.is_whole or m.namespace)}
    apart = _closed_clusters(members, keys) | own
    named = [
        (m, keys[n])
        for n, m in enumerate(members)
        if n in keys and m.defines and not m.is_id and m.path is not None and keys[n] not in apart
    ]
    by_folder: dict[str, set[_Key]] = {}
    for m, key in named:
        by_folder.setdefault(_folder(m.path or ""), set()).add(key)
    wanted: dict[_Key, list[int]] = {}
    for number, group in enumerate(groups):
        near = {_of_next_folder(_folder(members[n].path or ""), by_folder) for n in group}
        only = next(iter(near)) if len(near) == 1 else None
        if only is not None:
            wanted.setdefault(only, []).append(number)
    joined: dict[int, _Key] = {}
    for cluster, numbers in wanted.items():
        ids = [_node(members[n]).id for number in numbers for n in groups[number]]
        if len(numbers) == 1 or (None not in ids and len(set(ids)) == len(ids)):
            joined.update(dict.fromkeys(numbers, cluster))
    for number, group in enumerate(groups):
        first = min((members[n].path or "", _node(members[n]).spot) for n in group)
        keys.update(dict.fromkeys(group, joined.get(number, _Key(None, None, "\n".join(first)))))


def _closed_clusters(members: Sequence[ClusterMember], keys: dict[int, _Key]) -> set[_Key]:
    """The clusters that a file describes for itself alone."""
    return {key for number, key in keys.items() if _node(members[number]).scope}


def _of_next_folder(folder: str, by_folder: dict[str, set[_Key]]) -> _Key | None:
    for part in _folders_upwards(folder):
        found = by_folder.get(part, set())
        if found:
            return next(iter(found)) if len(found) == 1 else None
    return None


def _join_seen(members: Sequence[ClusterMember], keys: dict[int, _Key]) -> None:
    """What shows a cluster, beside files of one cluster, shows that one.

    A snapshot knows its cluster only by id; a live cluster has the name that it was given, which no file needs to know.
    """
    ids = {m.name for m in members if m.is_id}
    seen = ids | {m.name for m in members if m.path is None and m.name is not None}
    others = {key for key in keys.values() if key.name not in seen}
    if len(seen) != 1 or len(others) != 1:
        return
    (other,), (name,) = others, seen
    if other.name is not None and not ids:
        return
    target = other if other.name is not None else _Key(name)
    keys.update((number, target) for number, key in list(keys.items()) if key == other or key.name == name)


def _place_rest(
    members: Sequence[ClusterMember], keys: dict[int, _Key], rest: Sequence[int], given: str | None
) -> None:
    """What names no cluster and is no node: clusters that a file describes for itself alone take in no other file."""
    if given is not None:
        keys.update(dict.fromkeys(rest, _Key(given)))
        return
    by_folder: dict[str, set[_Key]] = {}
    clusters: set[_Key] = set()
    closed = _closed_clusters(members, keys)
    for number, key in keys.items():
        if key not in closed:
            clusters.add(key)
            path = members[number].path
            if path is not None and members[number].defines:
                by_folder.setdefault(_folder(path), set()).add(key)
    nameless = [key for key in clusters if key.name is None]
    common = next(iter(clusters)) if len(clusters) == 1 else nameless[0] if len(nameless) == 1 else None
    left = []
    for number in rest:
        path = members[number].path
        near = _of_next_folder(_folder(path), by_folder) if path is not None and len(clusters) > 1 else None
        if near is not None or common is not None:
            keys[number] = near or common or _Key(None)
        else:
            left.append(number)
    folders: dict[str, set[str]] = {}
    for number in left:
        m = members[number]
        if m.declares is not None and m.path is not None:
            folders.setdefault(m.declares, set()).add(_folder(m.path))
    is_split = any(len(found) > 1 for found in folders.values())
    for number in left:
        path = members[number].path
        keys[number] = _Key(None, None, f"{_folder(path)}/" if is_split and path is not None else "")


def _displayed_names(members: Sequence[ClusterMember], keys: dict[int, _Key]) -> dict[_Key, str]:
    clusters = set(keys.values())
    shared = Counter(key.name for key in clusters)
    folders: dict[_Key, set[str]] = {}
    scoped = _closed_clusters(members, keys)
    for number, key in keys.items():
        folders.setdefault(key, set()).add(_folder(members[number].path or ""))
    nameless = [key for key in clusters if key.name is None]
    open_ = [key for key in nameless if key not in scoped]
    of_folder = Counter(min(folders[key]) for key in nameless if key.spot)
    of_path = Counter(key.spot.partition("\n")[0] for key in nameless)
    found = {}
    for key in clusters:
        if key.name is not None:
            text = key.name
            if shared[key.name] > 1:
                text = f"{key.namespace}/{text}" if key.namespace else text
                text += f" ({key.spot})" if key.spot else ""
        elif len(clusters) == 1 or not key.spot or open_ == [key]:
            text = ""
        else:
            folder = min(folders[key])
            is_alone = of_folder[folder] == 1 and folder and key not in scoped
            path, _, spot = key.spot.partition("\n")
            text = folder if is_alone else path.rstrip("/") if of_path[path] == 1 else f"{path} {spot}"
        found[key] = text
    return found


def _rename_live(members: Sequence[ClusterMember], keys: dict[int, _Key], names: dict[_Key, str]) -> None:
    """What a live cluster shows belongs to the cluster of the files that is called as it was named."""
    by_name = {names[key]: key for number, key in keys.items() if members[number].path is not None}
    for number, m in enumerate(members):
        if m.path is None and m.name is not None and m.name in by_name:
            keys[number] = by_name[m.name]


WITH_ZOOKEEPER = "3.9"
"""The last version that runs with ZooKeeper."""
MIGRATION = "zookeeper.metadata.migration.enable"
_ZOOKEEPER_KEYS = ("zookeeper.connect", "broker.id")
_AUTHORIZER = "authorizer.class.name"
_OF_ZOOKEEPER = frozenset({"kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer"})
"""Authorizers that keep their rules in ZooKeeper."""
NEAREST = "--nearest-version"


@dataclass(frozen=True, slots=True)
class JudgedVersion:
    """The minor version whose table is used. `because` says why it was assumed; `stated` is what was mapped to it."""

    minor: str
    because: str = ""
    stated: str = ""


def version_of(stated: Iterable[str | None], given: str | None, nodes: Iterable[Configs]) -> JudgedVersion:
    """The version of a cluster: of its own texts the first that is one, else the caller's, else by its nodes."""
    texts = [text for text in (*stated, given) if text is not None and minor_or_none(text) is not None]
    if texts:
        minor = minor_of(texts[0])
        own = stated_minor(texts[0])
        return JudgedVersion(minor, stated="" if own == minor else texts[0])
    if given is not None:
        minor_of(given)  # raises, since it is no version
    return _shown_by(nodes)


def _shown_by(nodes: Iterable[Configs]) -> JudgedVersion:
    found = list(nodes)
    for static in found:
        if MIGRATION in static and static[MIGRATION].text.strip().lower() != "false":
            return JudgedVersion(WITH_ZOOKEEPER, f"{MIGRATION} shows a migration from ZooKeeper (3.4 to 3.9)")
    for static in found:
        keys = [*(key for key in _ZOOKEEPER_KEYS if key in static), *(k for k in static if k.startswith("zookeeper."))]
        key = keys[0] if keys else None
        if key is not None and "process.roles" not in static:
            return JudgedVersion(WITH_ZOOKEEPER, f"{key} without process.roles shows ZooKeeper (3.9 or earlier)")
    for static in found:
        authorizer = static.get(_AUTHORIZER)
        if authorizer is not None and authorizer.text.strip() in _OF_ZOOKEEPER and "process.roles" not in static:
            name = authorizer.text.strip().rpartition(".")[2]
            return JudgedVersion(WITH_ZOOKEEPER, f"{name} without process.roles shows ZooKeeper (3.9 or earlier)")
    return JudgedVersion(NEWEST, "the newest that lint knows, since nothing tells the version")


def refuse_unknown_versions(stated: Iterable[tuple[str | None, Place | None]], is_nearest: bool) -> None:
    """Raise `UsageError` for the first text that is a version without a table, unless the nearest may stand for it."""
    if is_nearest:
        return
    for text, place in stated:
        minor = stated_minor(text) if text is not None else None
        if minor is not None and minor not in MINORS:
            where = f"{sanitize(place.path)}:{place.line}: " if place is not None else ""
            raise UsageError(
                f"{where}lint has no table of settings for Kafka {minor}",
                hint=f"known: {', '.join(MINORS)}; {NEAREST} judges it as {minor_of(minor)}, without fixes",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """A version or an environment that was assumed of some clusters, and why; clusters by name, `""` for none."""

    clusters: tuple[str, ...]
    version: str = ""
    env: str = ""
    because: str
    is_mapped: bool = False


def assumptions_of(clusters: Sequence[LintCluster]) -> tuple[Assumption, ...]:
    """Each version and each environment that was assumed, once, by reason."""
    by_reason: dict[tuple[str, str, bool], list[str]] = {}
    for cluster in clusters:
        if cluster.version_because and (cluster.brokers or cluster.topics):
            key = (cluster.table.version, cluster.version_because, cluster.is_version_mapped)
            by_reason.setdefault(key, []).append(cluster.name)
    ordered = sorted(by_reason.items(), key=lambda item: (minor_key(item[0][0]), item[0][1]))
    versions = tuple(
        Assumption(clusters=tuple(sorted(set(names))), version=version, because=because, is_mapped=is_mapped)
        for (version, because, is_mapped), names in ordered
    )
    return (*versions, *_environments(clusters))


def _environments(clusters: Sequence[LintCluster]) -> Iterator[Assumption]:
    by_reason: dict[tuple[str, str], set[str]] = {}
    for cluster in clusters:
        if cluster.env_because and (cluster.brokers or cluster.topics):
            by_reason.setdefault((cluster.env, cluster.env_because), set()).add(cluster.name)
    for (env, because), names in sorted(by_reason.items()):
        yield Assumption(clusters=tuple(sorted(names)), env=env, because=because)


def assumption_lines(assumptions: Sequence[Assumption]) -> Iterator[str]:
    """Each assumption as a line for people."""
    for one in assumptions:
        named = [sanitize(name) for name in one.clusters if name]
        of = f" (cluster {', '.join(named)})" if 0 < len(named) <= 5 else f" ({len(named)} clusters)" if named else ""
        option = "--env NAME" if one.env else "--kafka-version VERSION"
        then = "without fixes" if one.is_mapped else f"{option} says which it is"
        yield f"assumed: {f'environment {one.env}' if one.env else f'Kafka {one.version}'}, {one.because}{of}; {then}"
