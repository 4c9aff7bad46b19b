"""Profiles from objects of Kubernetes: addresses, logins and certificates as operators and StatefulSets have them.

- Strimzi: a Kafka with the addresses of its listeners in its status, the Secret of a KafkaUser (`user.crt`, `user.key`,
  or `password` with `sasl.jaas.config`), the Secret `CLUSTER-cluster-ca-cert`. `ca.crt` of a user is the CA of clients,
  and `user.password` that of a PKCS12 store: neither is taken.
- Confluent for Kubernetes: `plain.txt`, certificates (`fullchain.pem`, `privkey.pem`, `cacerts.pem`, or the names of
  `kubernetes.io/tls`), and properties of clients in a Secret or ConfigMap.
- A StatefulSet with its headless Service: the address of each pod.

No password and no key becomes part of a profile: it names a variable or a file, and the command that fetches the value
is told.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkakit.config.client_properties import (
    ClientFile,
    ClientProfile,
    LeftOutKey,
    Property,
    SecretPlace,
    read_client_file,
    translate_properties,
)
from kafkakit.config.keys import PROFILE_NAME_HINT, SASL_PASSWORD, ClientFileKind, is_profile_name
from kafkakit.config.security import Mechanism, Protocol, Secret
from kafkakit.core.errors import InputError
from kafkakit.core.quantities import count_of
from kafkakit.core.text import few_of, quote, sanitize
from kafkakit.kubernetes.objects import (
    ConfigMapObject,
    Found,
    KubernetesObject,
    KubernetesObjects,
    KubernetesService,
    SecretObject,
    StatefulSet,
    StrimziKafka,
    read_objects,
)

STRIMZI_KIND = "strimzi.io/kind"
CA_SUFFIX, CLIENTS_CA_SUFFIX = "-cluster-ca-cert", "-clients-ca-cert"
CERTIFICATES = (("user.crt", "user.key"), ("fullchain.pem", "privkey.pem"), ("tls.crt", "tls.key"))
CAS = ("cacerts.pem", "ca.crt", "ca.pem")
CA_FILE, CERT_FILE, KEY_FILE = "security.tls.ca_file", "security.tls.cert_file", "security.tls.key_file"
MOST_ADDRESSES = 10
INSIDE = "svc"
_OBJECT_LINE = re.compile(r"""(?m)^\s*(?:-\s+)?\{?\s*["']?apiVersion["']?\s*:""")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFile:
    """A password, key or certificate that a profile needs: its key there, a name for a file, and what fetches it."""

    key: str
    name: str
    data: Secret
    fetch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodForward:
    """An address inside the Kubernetes cluster, and the pod that it is of."""

    host: str
    port: int
    pod: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesFile(ClientFile):
    """One profile with the files it needs; `forwards` are its addresses that only resolve inside the cluster."""

    files: tuple[KeyFile, ...] = ()
    forwards: tuple[PodForward, ...] = ()
    notes: tuple[str, ...] = ()


def is_objects(data: bytes) -> bool:
    """Whether a file begins as objects of Kubernetes do."""
    return _OBJECT_LINE.search(data[:65_536].decode("utf-8", "replace")) is not None


def read_profile(
    data: bytes, source: str, *, name: str | None, listener: str | None, has_address: bool
) -> KubernetesFile:
    """The profile of a file's objects; with `has_address` the caller has the cluster's address.

    `listener` chooses among Strimzi's listeners, or the ports of a Service, by name. Raises `InputError` for objects of
    several clusters or users, and for addresses that cannot be told.
    """
    found = read_objects(data, source)
    draft = _ProfileDraft(found=found, source=source)
    for config in found.of(ConfigMapObject):
        draft.take_properties(config, {key: text.encode() for key, text in (config.data or {}).items()})
    for secret in found.of(SecretObject):
        draft.take_secret(secret)
    cluster, workload = _only(found.of(StrimziKafka), source), _only(found.of(StatefulSet), source)
    if cluster is not None and workload is not None:
        raise InputError(source, "holds a Kafka and a StatefulSet", hint="give one of them")
    if cluster is not None:
        draft.take_listener(cluster, listener, has_address=has_address)
    elif workload is not None:
        draft.take_pods(workload, listener, has_address=has_address)
    profile = draft.finished(name or draft.name_of(cluster, workload))
    if not profile.values and not has_address:
        raise InputError(source, "holds no address, login or certificate of Kafka", hint=_HINT)
    return KubernetesFile(
        kind=ClientFileKind.KUBERNETES,
        profiles=(profile,),
        left_out=tuple(draft.left_out),
        files=tuple(draft.files),
        forwards=tuple(draft.forwards),
        notes=(*found.notes, *draft.notes),
    )


_HINT = "kubectl get kafka/NAME secret/USER secret/NAME-cluster-ca-cert -o json, or statefulset/NAME service/NAME"


def _only(found: Sequence[Found], source: str) -> Found | None:
    if len(found) > 1:
        names = few_of(_title(each) for each in found)
        raise InputError(source, f"holds {len(found)} of a kind: {names}", hint="give the objects of one cluster")
    return found[0] if found else None


def _title(each: KubernetesObject) -> str:
    return sanitize(f"{each.namespace}/{each.name}".lstrip("/")[:200])


@dataclass(slots=True, kw_only=True)
class _ProfileDraft:
    found: KubernetesObjects
    source: str
    values: dict[str, str] = field(default_factory=dict)
    files: list[KeyFile] = field(default_factory=list)
    inner: list[ClientProfile] = field(default_factory=list)
    left_out: list[LeftOutKey] = field(default_factory=list)
    forwards: list[PodForward] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_tls: bool | None = None
    users: list[str] = field(default_factory=list)

    # -- secrets

    def take_secret(self, secret: SecretObject) -> None:
        """Whatever a client needs of a Secret."""
        keys = secret.keys
        if secret.name.endswith(CLIENTS_CA_SUFFIX) or "ca.key" in keys:
            why = "of the operator itself: no client needs it"
            self.left_out.append(LeftOutKey(name="secret", place=_title(secret), why=why))
            return
        is_user = secret.labels.get(STRIMZI_KIND) == "KafkaUser" or "user.crt" in keys
        pair = next((pair for pair in CERTIFICATES if set(pair) <= keys), None)
        properties = {key: self._value(secret, key) for key in sorted(keys) if key.endswith(".properties")}
        if pair is not None:
            self._take_user(secret)
            self._take_file(CERT_FILE, secret, pair[0])
            self._take_file(KEY_FILE, secret, pair[1])
        if "sasl.jaas.config" in keys:
            self._take_jaas(secret)
        elif "plain.txt" in keys:
            self._take_plain(secret)
        elif properties:
            self.take_properties(secret, properties)
        ca = None if is_user else next((key for key in CAS if key in keys), None)
        if ca is not None:
            self._take_file(CA_FILE, secret, ca)
        if not (pair or properties or ca or keys & {"sasl.jaas.config", "plain.txt"}):
            why = "holds no login or certificate of a client"
            self.left_out.append(LeftOutKey(name="secret", place=_title(secret), why=why))

    def take_properties(self, each: KubernetesObject, texts: Mapping[str, bytes]) -> None:
        """Properties of clients; those of brokers have no addresses of a cluster and are left out."""
        for key, data in texts.items():
            if not key.endswith(".properties"):
                continue
            place = f"{self.source} ({_title(each)} {sanitize(key[:100])})"
            if re.search(rb"(?m)^\s*(?:log\.dirs?|process\.roles|zookeeper\.connect)\s*[=:]", data):
                self.left_out.append(LeftOutKey(name=key, place=_title(each), why="configures a broker"))
                continue
            self._take_user(each)
            kind = ClientFileKind.JAVA
            self.inner += read_client_file(data, place, each.name, kind=kind, name=each.name).profiles

    def _take_user(self, each: KubernetesObject) -> None:
        if _title(each) not in self.users:
            self.users.append(_title(each))
        if len(self.users) > 1:
            raise InputError(self.source, f"holds logins of {few_of(self.users)}", hint="give the Secret of one user")

    def _value(self, secret: SecretObject, key: str) -> bytes:
        return secret.value(key, self.source) or b""

    def _take_file(self, key: str, secret: SecretObject, name: str) -> None:
        if any(each.key == key for each in self.files):
            raise InputError(
                self.source, f"holds several certificates for {key}", hint="name the certificates of one cluster only"
            )
        data = Secret(self._text(secret, name))
        self.files.append(KeyFile(key=key, name=name, data=data, fetch=_fetch(secret, name)))

    def _text(self, secret: SecretObject, key: str) -> str:
        try:
            return self._value(secret, key).decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(self.source, f"{key} of secret {_title(secret)} is not UTF-8 text") from None

    def _take_jaas(self, secret: SecretObject) -> None:
        """Strimzi's login; the mechanism is the one that it has for passwords."""
        self._take_user(secret)
        line = Property(name="sasl.jaas.config", value=self._text(secret, "sasl.jaas.config"), line=1)
        login = translate_properties([line], f"{self.source} ({_title(secret)})").values
        module = Mechanism.PLAIN if "PlainLoginModule" in line.value else Mechanism.SCRAM_SHA_512
        key = "password" if "password" in secret.keys else "sasl.jaas.config"
        fetch = _fetch(secret, key) + ("" if key == "password" else _cut(r's/.*password="\([^"]*\)".*/\1/p'))
        self._take_login(str(login["security.sasl.username"][0]), login["security.sasl.password"][0], module, fetch)

    def _take_plain(self, secret: SecretObject) -> None:
        self._take_user(secret)
        pairs = [line.partition("=") for line in self._text(secret, "plain.txt").splitlines()]
        given = {name.strip(): value.strip() for name, _, value in pairs}
        missing = [name for name in ("username", "password") if not given.get(name)]
        if missing:
            raise InputError(self.source, f"plain.txt of secret {_title(secret)} has no {missing[0]}")
        fetch = _fetch(secret, "plain.txt") + _cut("s/^password=//p")
        self._take_login(given["username"], Secret(given["password"]), Mechanism.PLAIN, fetch)

    def _take_login(self, username: str, password: str | Secret, mechanism: Mechanism, fetch: str) -> None:
        self.values |= {"security.sasl.mechanism": mechanism, "security.sasl.username": username}
        secret = password if isinstance(password, Secret) else Secret(password)
        self.files.append(KeyFile(key=SASL_PASSWORD, name="password", data=secret, fetch=fetch))

    # -- addresses

    def take_listener(self, cluster: StrimziKafka, wanted: str | None, *, has_address: bool) -> None:
        """The addresses of the listener that fits the login, or that is named."""
        specs = {each.name: each for each in cluster.spec.kafka.listeners or ()}
        login = self._login_type()
        open_ = [each for each in cluster.status.listeners or () if each.bootstrap_servers]
        fitting = [each for each in open_ if each.name == wanted] if wanted is not None else open_
        if wanted is None and specs:
            types = {name: each.authentication.type if each.authentication else "" for name, each in specs.items()}
            fitting = [each for each in open_ if types.get(each.name) == login]
        if len(fitting) != 1:
            if has_address and wanted is None:
                return
            names = few_of(sanitize(each.name[:60]) for each in open_)
            which = (
                f"named {sanitize(wanted[:60])}" if wanted is not None else f"for {login or 'clients without a login'}"
            )
            said = f"Kafka {_title(cluster)} has {count_of(len(fitting), 'listener')} {which} with an address"
            raise InputError(self.source, f"{said}; those with one: {names}", hint="choose with --listener, or give -B")
        chosen = fitting[0]
        self.values["bootstrap_server"] = chosen.bootstrap_servers
        if chosen.name in specs:
            self.is_tls = specs[chosen.name].tls
        if chosen.certificates and not any(each.key == CA_FILE for each in self.files):
            path = f'{{.status.listeners[?(@.name=="{chosen.name}")].certificates[*]}}'
            fetch = f"kubectl get kafka {quote(cluster.name)}{_within(cluster)} -o {quote(f'jsonpath={path}')}"
            data = Secret("\n".join(chosen.certificates))
            self.files.append(KeyFile(key=CA_FILE, name="ca.crt", data=data, fetch=fetch))
        if any(f".{INSIDE}" in address for address in chosen.bootstrap_servers.split(",")):
            self.notes.append(
                "the addresses of this listener resolve only inside Kubernetes: run kafkakit in a pod, or choose a "
                "listener of type nodeport, loadbalancer or ingress"
            )

    def _login_type(self) -> str:
        """What Strimzi calls the way in which a client of these objects logs in."""
        if "security.sasl.mechanism" in self.values:
            return "scram-sha-512"
        return "tls" if any(each.key == KEY_FILE for each in self.files) else ""

    def take_pods(self, workload: StatefulSet, wanted: str | None, *, has_address: bool) -> None:
        """The names of the pods in DNS, by the headless Service of their StatefulSet."""
        services = {(each.namespace, each.name): each for each in self.found.of(KubernetesService)}
        service = services.get((workload.namespace, workload.service or ""))
        if service is None or not service.is_headless:
            if has_address:
                return
            name = sanitize((workload.service or "NAME")[:200])
            why = "is not headless" if service is not None else "is not in the file"
            raise InputError(self.source, f"the Service {name} of StatefulSet {_title(workload)} {why}", hint=_HINT)
        ports = [number for name, number in service.ports if wanted in (None, name)]
        if len(ports) != 1:
            told = few_of(f"{sanitize(name[:60]) or 'unnamed'} ({number})" for name, number in service.ports)
            raise InputError(
                self.source,
                f"Service {_title(service)} has {count_of(len(ports), 'port')} to choose from: {told}",
                hint="name the port for clients: --listener NAME",
            )
        domain = ".".join(part for part in (service.name, workload.namespace or "default", INSIDE, "cluster.local"))
        self.forwards = [
            PodForward(host=f"{pod}.{domain}", port=ports[0], pod=pod, namespace=workload.namespace)
            for pod in workload.pod_names[:MOST_ADDRESSES]
        ]
        self.values["bootstrap_server"] = ",".join(f"{each.host}:{each.port}" for each in self.forwards)
        if not self.files and not self.inner:
            self.notes.append("a StatefulSet does not say how clients log in: set it with -X security.protocol=...")

    # -- the profile

    def name_of(self, cluster: StrimziKafka | None, workload: StatefulSet | None) -> str:
        """That of the cluster, else that of the login."""
        found = next((each.name for each in (cluster, workload) if each is not None), None)
        return found or (self.users[0].rpartition("/")[2] if self.users else "kubernetes")

    def finished(self, name: str) -> ClientProfile:
        """The profile; what properties say goes below the other objects."""
        if not is_profile_name(name):
            raise InputError(
                self.source, f"{name[:60]!r} cannot name a profile", hint=f"pass --name; {PROFILE_NAME_HINT}"
            )
        values = {key: value for profile in self.inner for key, value in profile.values.items()}
        secrets = [secret for profile in self.inner for secret in profile.secrets]
        values |= {key: (value, 1) for key, value in self.values.items()}
        has_login = any(each.key == SASL_PASSWORD for each in self.files)
        if self.is_tls is None:
            self.is_tls = True if any(each.key in (CA_FILE, CERT_FILE) for each in self.files) else None
        if has_login:
            variable = f"KAFKA_PASSWORD_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}"
            secrets.append(SecretPlace(key=SASL_PASSWORD, variable=variable, place=f"{self.source} ({self.users[0]})"))
            values[f"{SASL_PASSWORD}_env"] = (variable, 1)
        if has_login or self.is_tls is not None:
            both = Protocol.SASL_SSL if self.is_tls else Protocol.SASL_PLAINTEXT
            alone = Protocol.SSL if self.is_tls else Protocol.PLAINTEXT
            values["security.protocol"] = (both if has_login else alone, 1)
        if not self.is_tls:
            self.files = [each for each in self.files if each.key == SASL_PASSWORD]
        left_out = tuple(key for profile in self.inner for key in profile.left_out)
        return ClientProfile(name=name, values=values, secrets=tuple(secrets), left_out=left_out)


def _within(each: KubernetesObject) -> str:
    return f" -n {quote(each.namespace)}" if each.namespace else ""


def _fetch(secret: SecretObject, key: str) -> str:
    path = key.replace(".", "\\.")
    return (
        f"kubectl get secret {quote(secret.name)}{_within(secret)} -o {quote(f'jsonpath={{.data.{path}}}')} | base64 -d"
    )


def _cut(expression: str) -> str:
    return f" | sed -n {quote(expression)}"


def with_paths(found: KubernetesFile, folder: str, *, with_password: bool) -> KubernetesFile:
    """The profile with the names of its files in a folder; with `with_password` that of the password as well."""
    (profile,) = found.profiles
    values = dict(profile.values)
    secrets = profile.secrets
    for each in found.files:
        path = f"{folder.rstrip('/')}/{each.name}"
        if each.key != SASL_PASSWORD:
            values[each.key] = (path, 1)
        elif with_password:
            values.pop(f"{SASL_PASSWORD}_env", None)
            values[f"{SASL_PASSWORD}_file"] = (path, 1)
            secrets = tuple(secret for secret in secrets if secret.key != SASL_PASSWORD)
    return replace(found, profiles=(replace(profile, values=values, secrets=secrets),))


def forward_lines(forwards: Sequence[PodForward]) -> Iterator[str]:
    """Commands that make pods answer on this host, each at a loopback address of its own."""
    for number, each in enumerate(forwards, 1):
        within = f" -n {quote(each.namespace)}" if each.namespace else ""
        ports = f"{each.port}:{each.port}"
        yield f"kubectl port-forward{within} --address 127.0.1.{number} {quote(f'pod/{each.pod}')} {ports} &"


def host_lines(forwards: Sequence[PodForward]) -> Iterator[str]:
    """Lines of /etc/hosts with which clients find those addresses under the brokers' own names."""
    for number, each in enumerate(forwards, 1):
        yield f"127.0.1.{number} {sanitize(each.host)}"
