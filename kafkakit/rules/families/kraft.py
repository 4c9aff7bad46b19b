"""Q: rules of KRaft: controllers, voters, listeners, leftovers of ZooKeeper, metadata."""

from collections.abc import Iterator

from kafkakit.core.findings import Place, minor_version
from kafkakit.core.quantities import count_of
from kafkakit.rules.cluster_facts import PROTOCOLS, listeners_of, protocol_map
from kafkakit.rules.config_defs import WITHOUT_ZOOKEEPER, minor_key
from kafkakit.rules.effective import BrokerConfig, InputMissing, to_int, to_items, to_pairs
from kafkakit.rules.rule import (
    CORE,
    ERROR,
    NOTE,
    STRICT,
    WARNING,
    Edit,
    Fix,
    Limits,
    Needs,
    Violation,
    Violations,
    broker_rule,
    cluster_rule,
)
from kafkakit.rules.subjects import LintBroker, LintCluster, require_known
from kafkakit.rules.values import holds_placeholder, is_reference

_NAMING = (
    "process.roles", "listeners", "advertised.listeners", "controller.listener.names", "inter.broker.listener.name",
    "listener.security.protocol.map", "controller.quorum.voters", "controller.quorum.bootstrap.servers",
    "security.inter.broker.protocol",
)  # fmt: skip
"""Keys that name roles, listeners and voters: nothing is known of the names if a template gives one of the values."""
UNFINISHED_UPGRADE_DAYS = 14.0
KRAFT = (3, 3)
"""The first version whose KRaft was meant for production; what earlier ones refuse is not judged."""
DYNAMIC_QUORUM = (3, 9)
VOTERS, BOOTSTRAP = "controller.quorum.voters", "controller.quorum.bootstrap.servers"
CONTROLLER_LISTENERS = "controller.listener.names"
PROTOCOLS_OF_LISTENERS = "listener.security.protocol.map"
PROTOCOL_VERSION = "inter.broker.protocol.version"
LEFTOVERS = (PROTOCOL_VERSION, "control.plane.listener.name")


@cluster_rule("KKQ851", WARNING, CORE, Needs.FILE)
def even_controllers(cluster: LintCluster, limits: Limits) -> Violations:
    """The number of controllers is even.

    Why: a majority must agree, so 2N + 1 controllers survive the loss of N: 4 survive no more losses than 3, and of 2
    none may be lost.
    Source: Kafka documentation, "KRaft, Deploying Considerations"; Strimzi `KafkaSpecChecker`.

    Bad:
        config: {controller.quorum.voters: "1@a:9093,2@b:9093"}

    Good:
        config: {controller.quorum.voters: "1@a:9093,2@b:9093,3@c:9093"}
    """
    number = cluster.derive(_controllers)
    if number and number % 2 == 0:
        survived = count_of((number - 1) // 2, "failure") if number > 2 else "no failure"
        yield Violation(
            message=f"{number} controllers tolerate {survived}, exactly like {number - 1}",
            place=_first_controller(cluster),
            expected=f"{number + 1} controllers",
        )


@cluster_rule("KKQ852", WARNING, CORE, Needs.FILE)
def single_controller(cluster: LintCluster, limits: Limits) -> Violations:
    """A production cluster has one controller.

    Why: while it is away no leader is elected, no topic changed and no broker can join; with its disk the cluster's
    metadata is lost.
    Source: Kafka documentation, "KRaft, Deploying Considerations".

    Bad:
        config: {controller.quorum.voters: "1@a:9093"}

    Good:
        config: {controller.quorum.voters: "1@a:9093,2@b:9093,3@c:9093"}
    """
    if cluster.is_prod and cluster.derive(_controllers) == 1:
        yield Violation(
            message="there is one controller: while it is away nothing of the cluster's metadata changes",
            place=_first_controller(cluster),
            expected="3 controllers",
        )


def _first_controller(cluster: LintCluster) -> Place | None:
    listed = (b.place for b in cluster.brokers if "controller" in _roles(b))
    return next((place for place in listed if place is not None), None)


def _controllers(cluster: LintCluster) -> int:
    """How many controllers there are, 0 with ZooKeeper; `InputMissing` where no file tells."""
    configs = [b.config for b in cluster.brokers]
    voters = next((items for c in configs if (items := c.items(VOTERS))), ())
    if any(is_reference(voter) for voter in voters):
        raise InputMissing("controllers")
    if voters:
        return len({voter.partition("@")[0] for voter in voters})
    if any(c.declared("zookeeper.connect") for c in configs):
        return 0
    listed = [b for b in cluster.brokers if "controller" in _roles(b)]
    number = sum(b.count for b in listed) if all(b.count for b in listed) else 0
    servers = max((len(c.items(BOOTSTRAP)) for c in configs), default=0)
    if not number or servers > number:
        raise InputMissing("controllers")
    return number


def _roles(broker: LintBroker) -> tuple[str, ...]:
    return broker.config.items("process.roles") or broker.roles


@broker_rule("KKQ853", WARNING, CORE)
def combined_mode(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A node of a production cluster is broker and controller at once.

    Why: load on the broker then slows the controller, neither can be restarted or sized without the other, and each
    rolling restart of brokers also moves the metadata leader: the mode "should be avoided in critical deployment
    environments".
    Source: Kafka documentation, "KRaft, Process Roles".

    Bad:
        brokers: [{id: 1, config: {process.roles: "broker,controller"}}]

    Good:
        brokers: [{id: 1, config: {process.roles: "broker"}}]
    """
    if cluster.is_prod and {"broker", "controller"} <= set(_roles(broker)):
        yield Violation(
            message="the node is broker and controller at once: neither can be restarted or sized without the other",
            key="process.roles" if broker.config.declared("process.roles") else None,
            expected="nodes of their own for controllers",
        )


@broker_rule("KKQ854", ERROR, CORE)
def voter_mismatch(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A node's id, voters and listeners do not fit its roles, and it does not start.

    Why: Kafka checks at the start that voters or bootstrap servers are given, that controllers are among the voters
    and brokers are not, that only controllers have the controllers' listeners, that each listener has a security
    protocol that exists, that the listener between brokers is named once and advertised, and that only existing
    listeners are advertised.
    Source: Kafka, `KafkaConfig.validateValues`.

    Bad:
        brokers:
          - id: 3
            config: {process.roles: controller, node.id: "3", controller.quorum.voters: "1@a:9093,2@b:9093"}

    Good:
        brokers:
          - id: 1
            roles: [controller]
            config:
              process.roles: controller
              node.id: "1"
              controller.quorum.voters: "1@a:9093"
              listeners: "CONTROLLER://:9093"
              controller.listener.names: CONTROLLER
              listener.security.protocol.map: "CONTROLLER:SSL"
    """
    config = broker.config
    declared = config.declared("process.roles")
    if declared is None or minor_key(config.table.version) < KRAFT:
        return
    if not declared.text.strip() and (4, 0) <= minor_key(config.table.version) < (4, 2):
        yield from protocol_faults(config)  # a node of no role, of which Kafka looks at nothing else
        return
    require_names(config)
    roles = frozenset(config.given().items("process.roles"))
    own_id = config.declared("node.id") or config.declared("broker.id")
    yield from _voter_faults(config, roles, to_int(own_id.text) if own_id is not None else None)
    yield from _version_faults(config, roles)
    yield from protocol_faults(config)
    yield from _listener_faults(config, roles)


def require_names(config: BrokerConfig) -> None:
    """`InputMissing` if a template gives one of the values that name roles, listeners and voters."""
    for key in _NAMING:
        found = config.declared(key)
        if found is not None and any(is_reference(item) for item in (found.text, *config.items(key))):
            raise InputMissing(f"the value of {key}")


def _voter_faults(config: BrokerConfig, roles: frozenset[str], node_id: int | None) -> Iterator[Violation]:
    voters = {item.partition("@")[0] for item in config.items(VOTERS)}
    is_dynamic = minor_key(config.table.version) >= DYNAMIC_QUORUM
    if not voters and not (is_dynamic and config.items(BOOTSTRAP)):
        unset = f"neither {VOTERS} nor {BOOTSTRAP} is set" if is_dynamic else f"{VOTERS} is not set"
        yield Violation(f"{unset}: the node does not start", VOTERS, refused=True)
    if not voters or node_id is None:
        return
    is_voter = str(node_id) in voters
    nowhere = [item for item in config.items(VOTERS) if item.partition("@")[2].startswith("0.0.0.0:")]
    is_advertised = bool(config.text("advertised.listeners"))
    if nowhere and "controller" in roles and not is_advertised and minor_key(config.table.version) >= (4, 2):
        yield Violation(
            message=f"the voter {nowhere[0]} has an address that nobody can connect to: a controller without "
            "advertised.listeners does not start",
            key=VOTERS,
            subject="address",
            refused=True,
        )
    if "controller" in roles and not is_voter:
        yield Violation(
            message=f"the node {node_id} is a controller, but not among the voters "
            f"({', '.join(sorted(voters))}): it does not start",
            key=VOTERS,
            subject="controller",
            refused=True,
        )
    if "controller" in roles and is_voter:
        yield from _port_faults(config, str(node_id))
    if "controller" not in roles and is_voter:
        yield Violation(
            message=f"the node {node_id} is only a broker, but among the voters: it does not start",
            key=VOTERS,
            subject="broker",
            refused=True,
        )


def _port_faults(config: BrokerConfig, node_id: str) -> Iterator[Violation]:
    ports = [item.rpartition(":")[2] for item in config.items(VOTERS) if item.partition("@")[0] == node_id]
    names = {name.upper() for name in config.items(CONTROLLER_LISTENERS)}
    listening = [listener.port for listener in listeners_of(config) if listener.name.upper() in names]
    if listening and not set(ports) & set(listening):
        yield Violation(
            message=f"{VOTERS} sends the other nodes to port {ports[0]} of this controller, which listens on "
            f"{', '.join(listening)}: unless something forwards it, they cannot connect",
            key=VOTERS,
            severity=WARNING,
            subject="port",
        )


def protocol_faults(config: BrokerConfig) -> Iterator[Violation]:
    """What is wrong with the protocols of listeners, with ZooKeeper or without."""
    declared = config.declared(PROTOCOLS_OF_LISTENERS)
    used = frozenset(protocol_map(config).values() if declared is not None else ())
    wrong = sorted(name for name in used if name not in PROTOCOLS and not holds_placeholder(name))
    if wrong:
        yield Violation(
            message=f"{', '.join(wrong)} is not a security protocol: the node does not start",
            key=PROTOCOLS_OF_LISTENERS,
            expected=", ".join(PROTOCOLS),
            refused=True,
        )
    unmapped = [item for item in to_pairs(config.text(PROTOCOLS_OF_LISTENERS)) if ":" not in item]
    if unmapped:
        yield Violation(
            message=f"{PROTOCOLS_OF_LISTENERS} has {unmapped[0]!r:.60} without a protocol: the node does not start",
            key=PROTOCOLS_OF_LISTENERS,
            expected="NAME:PROTOCOL",
            subject="no protocol",
            refused=True,
        )
    between = "inter.broker.listener.name", "security.inter.broker.protocol"
    named = config.declared(between[0])
    if named is not None and not named.text.strip():
        yield Violation(f"{between[0]} is empty: the node does not start", between[0], subject="empty", refused=True)
    elif named is not None and named.text.strip().upper() not in protocol_map(config):
        yield Violation(
            message=f"{between[0]} {named.text!r:.60} has no protocol in {PROTOCOLS_OF_LISTENERS}: "
            "the node does not start",
            key=between[0],
            subject="unmapped",
            refused=True,
        )
    if all(config.declared(key) is not None for key in between):
        yield Violation(
            message=f"both {between[0]} and {between[1]} are set, but only one of them may be: the node does not start",
            key=between[1],
            expected=f"not set beside {between[0]}",
            subject="both",
            refused=True,
        )


def _listener_faults(config: BrokerConfig, roles: frozenset[str]) -> Iterator[Violation]:
    of_controllers = set(config.items(CONTROLLER_LISTENERS))  # as written: Kafka capitalises names of listeners alone
    names = {found.name.upper() for found in listeners_of(config)}
    yield from early_faults(config, names)
    if not of_controllers:
        yield Violation(
            f"{CONTROLLER_LISTENERS} is not set: the node does not start", CONTROLLER_LISTENERS, refused=True
        )
    elif "controller" in roles and not of_controllers <= names:
        yield Violation(
            message=f"{CONTROLLER_LISTENERS} names {_join(of_controllers - names)}, "
            f"which is not in listeners ({_join(names)})",
            key="listeners",
            subject="controller",
            refused=True,
        )
    declared = config.declared("advertised.listeners")
    given = listeners_of(config, "advertised.listeners") if declared is not None and declared.text else ()
    named = {name.upper() for name in (*of_controllers, *(listener.name for listener in given))}
    unmapped = (named | names) - protocol_map(config).keys()
    if unmapped:
        yield Violation(
            message=f"the listener {_join(unmapped)} has no protocol in listener.security.protocol.map: "
            "the node does not start",
            key="listener.security.protocol.map",
            refused=True,
        )
    if "broker" not in roles:
        if of_controllers and names - of_controllers:
            yield Violation(
                message=f"listeners of a node that is only a controller has {_join(names - of_controllers)}, "
                f"which {CONTROLLER_LISTENERS} does not name",
                key="listeners",
                subject="controller alone",
                refused=True,
            )
        between = config.text("inter.broker.listener.name").strip()
        if between and between.upper() in of_controllers and minor_key(config.table.version) >= (4, 0):
            yield Violation(
                message=f"inter.broker.listener.name {between} is a listener of controllers, "
                "which a node that is only a controller does not start with",
                key="inter.broker.listener.name",
                refused=True,
            )
        return
    if "controller" not in roles and names & of_controllers:
        yield Violation(
            message=f"listeners of a node that is only a broker has the controllers' {_join(names & of_controllers)}",
            key="listeners",
            subject="broker alone",
            refused=True,
        )
    for key in ("listeners", "advertised.listeners"):
        empty = config.declared(key)
        if empty is not None and not empty.text.strip() and minor_key(config.table.version) < (4, 2):
            yield Violation(f"{key} is empty: the node does not start", key, subject="empty", refused=True)
    advertised = ({found.name.upper() for found in given} or names) - of_controllers
    between = config.text("inter.broker.listener.name").strip() or config.text("security.inter.broker.protocol")
    between = between.upper()
    if between not in advertised:
        yield Violation(
            message=f"the listener between brokers, {between}, is not advertised ({_join(advertised)})",
            key="inter.broker.listener.name",
            refused=True,
        )
    if not advertised <= names:
        yield Violation(
            message=f"{_join(advertised - names)} is advertised, but not in listeners ({_join(names)})",
            key="advertised.listeners",
            refused=True,
        )


def _version_faults(config: BrokerConfig, roles: frozenset[str]) -> Iterator[Violation]:
    """What earlier versions refuse and later ones do not, or do not read any more."""
    minor, items = minor_key(config.table.version), config.items("process.roles")
    if len(items) > len(roles) and minor < (4, 2):
        yield Violation("process.roles names a role twice: the node does not start", "process.roles", refused=True)
    if minor >= WITHOUT_ZOOKEEPER:
        return
    if config.text("control.plane.listener.name"):
        yield Violation(
            message="control.plane.listener.name belongs to ZooKeeper mode: a node with process.roles does not start",
            key="control.plane.listener.name",
            subject="control plane",
            refused=True,
        )
    yield from later_protocol(config, (3, 0))
    protocol = _protocol_version(config)
    if protocol is not None and (3, 0) <= protocol < KRAFT:
        yield Violation(
            message=f"{PROTOCOL_VERSION} {config.text(PROTOCOL_VERSION)} is the metadata version that kafka-storage "
            "formats a node with, and it refuses those before 3.3; a node that is formatted starts and does not "
            "read it",
            key=PROTOCOL_VERSION,
            expected="not set, or 3.3 or later",
            severity=WARNING,
            subject="metadata version",
            refused=True,
        )
    if minor < DYNAMIC_QUORUM:
        yield from _advertised_faults(config, roles)


def _protocol_version(config: BrokerConfig) -> tuple[int, int] | None:
    return minor_version(config.text(PROTOCOL_VERSION))


def later_protocol(config: BrokerConfig, least: tuple[int, int]) -> Iterator[Violation]:
    """A protocol version between brokers that the version does not speak."""
    protocol = _protocol_version(config)
    if protocol is not None and not least <= protocol <= minor_key(config.table.version):
        yield Violation(
            message=f"{PROTOCOL_VERSION} {config.text(PROTOCOL_VERSION)} is not one of {least[0]}.{least[1]} to "
            f"{config.table.version}: the node does not start",
            key=PROTOCOL_VERSION,
            subject="protocol version",
            refused=True,
        )


def _advertised_faults(config: BrokerConfig, roles: frozenset[str]) -> Iterator[Violation]:
    """Before 3.9 no controller has an address for others than voters."""
    given = config.declared("advertised.listeners")
    if given is None:
        return
    names = {item.partition("://")[0].upper() for item in to_items(given.text)}
    shown = names & set(config.items(CONTROLLER_LISTENERS))
    if shown or "broker" not in roles:
        yield Violation(
            message=f"advertised.listeners {'has' if 'broker' in roles else 'is set at'} a controller's listeners, "
            f"which Kafka {config.table.version} does not advertise: the node does not start",
            key="advertised.listeners",
            subject="of controllers",
            refused=True,
        )


def early_faults(config: BrokerConfig, names: set[str]) -> Iterator[Violation]:
    """Listeners that are to start early and do not exist."""
    early = set(config.items("early.start.listeners"))  # as written: Kafka capitalises the others only
    if not early <= names:
        yield Violation(
            message=f"early.start.listeners has {_join(early - names)}, which no listener is called "
            f"({_join(names)}): the node does not start",
            key="early.start.listeners",
            subject="early",
            refused=True,
        )


def _join(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


@broker_rule("KKQ855", ERROR, CORE, fix=Fix.SAFE)
def zookeeper_leftovers(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """Settings of ZooKeeper mode stand in the configuration of a node of 4.0 or later.

    Why: ZooKeeper is gone from 4.0 on. The keys do nothing at best; a file that has them was possibly never migrated,
    and its node does not start.
    Source: Kafka documentation, "Upgrading to 4.0"; Strimzi `KafkaSpecChecker`.

    Bad:
        version: "4.0"
        brokers: [{id: 1, config: {zookeeper.connect: "zk1:2181"}}]

    Good:
        version: "4.0"
        brokers: [{id: 1, config: {process.roles: broker}}]
    """
    runs_without = minor_key(cluster.table.version) >= (4, 0)
    if cluster.is_version_mapped:
        return
    if not runs_without and (cluster.target is None or minor_key(cluster.target.version) < (4, 0)):
        return
    for key in sorted({key for key, _ in broker.config.all_declared()}):
        if key in LEFTOVERS or key.startswith("zookeeper."):
            yield Violation(
                message=f"{key} belongs to ZooKeeper mode, which 4.0 and later do not have",
                key=key,
                expected="not set",
                edits=(Edit(key, is_safe=True),) if runs_without else (),
            )


@cluster_rule("KKQ856", WARNING, CORE, Needs.LIVE)
def metadata_version_behind(cluster: LintCluster, limits: Limits) -> Violations:
    """`metadata.version` has been behind the brokers' version for more than two weeks.

    Why: an upgrade ends with `kafka-features upgrade`; until then new features are off, and the next upgrade may be
    refused because the metadata is too old.
    Source: Kafka documentation, "Upgrading"; Strimzi `KafkaSpecChecker`.

    Bad:
        observed: {metadata_behind_days: 30}
        broker_count: 3

    Good:
        observed: {metadata_behind_days: 0}
        broker_count: 3
    """
    days = require_known(cluster.metadata_behind_days, "the live cluster's features")
    if days > UNFINISHED_UPGRADE_DAYS:
        yield Violation(
            message=f"metadata.version has been behind the brokers' version for {count_of(int(days), 'day')}",
            hint=f"kafka-features.sh upgrade --release-version {cluster.table.version}",
        )


@broker_rule("KKQ857", NOTE, STRICT)
def metadata_dir_shared(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """The metadata log shares the first of several log dirs with partitions.

    Why: the node waits for each flush of its metadata, and on a disk that is busy with partitions that takes long;
    without `metadata.log.dir` it is the first of `log.dirs`.
    Source: Kafka documentation, `metadata.log.dir`.

    Bad:
        brokers: [{id: 1, config: {process.roles: broker, log.dirs: "/d1,/d2"}}]

    Good:
        brokers: [{id: 1, config: {process.roles: broker, log.dirs: "/d1,/d2", metadata.log.dir: /meta}}]
    """
    config = broker.config.given()
    dirs = config.items("log.dirs")
    if broker.is_broker and len(dirs) > 1 and not config.text("metadata.log.dir") and config.items("process.roles"):
        yield Violation(
            message=f"metadata is written to {dirs[0]}, together with partitions",
            key="metadata.log.dir",
            expected="a folder of its own",
        )


@broker_rule("KKQ858", ERROR, CORE)
def unlike_ids(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A node has a node.id and another broker.id.

    Why: broker.id is the old name of node.id, and a node that has both with different values does not start:
    "`node.id` and `broker.id` must be set to the same value".
    Source: Kafka, `KafkaConfig.validateValues`.

    Bad:
        brokers: [{config: {process.roles: broker, node.id: "1", broker.id: "2"}}]

    Good:
        brokers: [{config: {process.roles: broker, node.id: "1"}}]
    """
    config = broker.config.given()
    node, old = config.declared("node.id"), config.declared("broker.id")
    if node is None or old is None or node.text.strip() == old.text.strip():
        return
    if to_int(node.text) != to_int(old.text) and not holds_placeholder(node.text + old.text):
        yield Violation(
            message=f"node.id is {node.text} and broker.id is {old.text}: the node does not start",
            key="broker.id",
            expected=f"{node.text}, or no broker.id",
            refused=True,
        )


@broker_rule("KKQ859", ERROR, CORE)
def incomplete_node(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A node's file does not say what the node is, which one it is, or where its data are.

    Why: a node does not start: "Missing required configuration `process.roles` which has no default value", and the
    same for node.id. Before 4.0 a file without process.roles is one of ZooKeeper mode, which needs zookeeper.connect.
    Only files that a node starts with are looked at for what is missing: other formats leave it to a tool. An empty
    metadata.log.dir is the root of the file system, and a cordoned directory has to be one of log.dirs, as it is
    written there.
    Source: Kafka, `AbstractKafkaConfig.CONFIG_DEF`, `KafkaConfig.validateValues`; the storage tool, measured.

    Bad:
        --- server.properties
        node.id=1
        log.dirs=/data

    Good:
        --- server.properties
        process.roles=broker
        node.id=1
        controller.quorum.bootstrap.servers=c:9093
        controller.listener.names=CONTROLLER
        log.dirs=/data
    """
    config = broker.config
    for key in _missing_keys(config) if config.is_whole else ():
        yield Violation(message=f"{key} is not set: the node does not start", key=key, refused=True)
    minor, has_roles = minor_key(config.table.version), config.declared("process.roles") is not None
    key = "node.id" if config.declared("node.id") is not None else "broker.id"
    number = to_int(config.text(key)) if config.declared(key) is not None else None
    if has_roles and number is not None and number < 0 and (minor < (4, 0) or key == "broker.id"):
        yield Violation(f"{key} is {number}: the node does not start", key, expected="0 or more", refused=True)
    yield from _dir_faults(config, has_roles)
    is_migrating = config.is_true("zookeeper.metadata.migration.enable")
    if config.is_whole and not has_roles and minor < (4, 0) and config.items(CONTROLLER_LISTENERS) and not is_migrating:
        yield Violation(
            message=f"{CONTROLLER_LISTENERS} is set without process.roles: the node does not start",
            key=CONTROLLER_LISTENERS,
            refused=True,
        )


def _dir_faults(config: BrokerConfig, has_roles: bool) -> Iterator[Violation]:
    key = "log.dirs" if config.declared("log.dirs") is not None else "log.dir"
    dirs, metadata = config.declared(key), config.declared("metadata.log.dir")
    if dirs is not None and not dirs.text.strip(" ,") and minor_key(config.table.version) < (4, 2):
        yield Violation(f"{key} is empty: the node does not start", key, subject="dirs", refused=True)
    if has_roles and metadata is not None and not metadata.text.strip():
        yield Violation(
            message="metadata.log.dir is empty: the node's metadata are kept in the root of the file system",
            key="metadata.log.dir",
            expected="a folder, or not set",
            severity=WARNING,
            subject="empty",
        )
    cordoned = config.items("cordoned.log.dirs") if "cordoned.log.dirs" in config.table.broker else ()
    is_told = dirs is not None or config.is_whole
    if not cordoned or not is_told or "broker" not in config.items("process.roles"):
        return
    if any(is_reference(item) or holds_placeholder(item) for item in (*cordoned, *config.items(key))):
        return
    is_every = "*" in cordoned
    unknown = [item for item in cordoned if item not in config.items(key)]
    if len(set(cordoned)) > 1 if is_every else unknown:
        wrong = "* beside other directories" if is_every else f"{', '.join(unknown)}, which {key} does not have"
        yield Violation(
            message=f"cordoned.log.dirs has {wrong}: the broker does not start",
            key="cordoned.log.dirs",
            expected=f"only *, or some of {', '.join(config.items(key))}",
            refused=True,
        )


def _missing_keys(config: BrokerConfig) -> list[str]:
    wanted: tuple[str, ...] = ("process.roles", "node.id")
    if minor_key(config.table.version) < (4, 0):
        wanted = ("node.id",) if _is_given(config, "process.roles") else ("zookeeper.connect",)
    return [key for key in wanted if not _is_given(config, key)]


def _is_given(config: BrokerConfig, key: str) -> bool:
    names = (key, "broker.id") if key == "node.id" else (key,)
    return any(config.declared(name) is not None for name in names)


@cluster_rule("KKQ860", ERROR, CORE)
def shared_node_id(cluster: LintCluster, limits: Limits) -> Violations:
    """Two nodes of one cluster have the same id.

    Why: the cluster takes them for one node. With KRaft the second is refused, or the two push each other out again
    and again; with ZooKeeper it does not start. Mostly the file of one node was copied, and the id was not changed.
    Source: Kafka documentation, `node.id` and `broker.id`: unique in the cluster, controllers included.

    Bad:
        --- server-1.properties
        process.roles=broker
        node.id=1
        controller.quorum.voters=9@c1:9093
        advertised.listeners=SSL://b1:9092
        --- server-2.properties
        process.roles=broker
        node.id=1
        controller.quorum.voters=9@c1:9093
        advertised.listeners=SSL://b2:9092

    Good:
        --- server-1.properties
        process.roles=broker
        node.id=1
        controller.quorum.voters=9@c1:9093
        advertised.listeners=SSL://b1:9092
        --- server-2.properties
        process.roles=broker
        node.id=2
        controller.quorum.voters=9@c1:9093
        advertised.listeners=SSL://b2:9092
    """
    first: dict[int, LintBroker] = {}
    for broker in cluster.brokers:
        if broker.id is None:
            continue
        before = first.setdefault(broker.id, broker)
        if before is broker:
            continue
        key = "node.id" if broker.config.declared("node.id") else "broker.id"
        yield Violation(
            message=f"the node at {_place_of(before)} has the id {broker.id} as well",
            key=key if broker.config.declared(key) else None,
            about=broker,
            expected="an id of its own",
            subject=broker.config.text("advertised.listeners") or broker.config.text("listeners"),
        )


def _place_of(broker: LintBroker) -> str:
    declared = broker.config.declared("node.id") or broker.config.declared("broker.id")
    place = (declared.place if declared is not None else None) or broker.place
    return f"{place.path}:{place.line}" if place is not None else "another address"
