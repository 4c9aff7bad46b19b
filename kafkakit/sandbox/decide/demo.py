"""The demo's cluster, topics and commands as values, and what it found."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafkakit.core.model import TopicPartition
from kafkakit.sandbox.decide.spec import Mode, Secure


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Records by sequence number: `repeated` were read more than once, `lost` acknowledged but never read."""

    acknowledged: int
    read: int
    repeated: int
    lost: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """True when nothing acknowledged was lost."""
        return not self.lost


def tally(acknowledged: Iterable[int], read: Iterable[int]) -> Tally:
    """Compare what producers were told with what consumers saw; O(records)."""
    confirmed = set(acknowledged)
    seen: set[int] = set()
    repeated = count = 0
    for number in read:
        count += 1
        repeated += number in seen
        seen.add(number)
    return Tally(acknowledged=len(confirmed), read=count, repeated=repeated, lost=tuple(sorted(confirmed - seen)))


DEAD, NEW = 1004, 1007
SURVIVORS = (1001, 1002, 1003, 1005, 1006)
PARTITIONS = 12
_RACKS = ((1001, 1004), (1002, 1005), (1003, 1006))
_TOPICS, _TOPIC_PARTITIONS = 6, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRequest:
    """What to show: the sandbox's name and shape, the bytes to load and the throttle of the moves."""

    name: str
    mode: Mode
    secure: Secure
    data: str
    throttle: str

    def up(self, brokers: int) -> list[str]:
        """The command that starts the sandbox, or grows it."""
        shape = ["--racks", "3", "--log-dirs", "2", "--mode", self.mode, "--secure", self.secure, "--name", self.name]
        return ["sandbox", "up", "--brokers", str(brokers), *shape]

    def load(self) -> list[str]:
        """The command that makes topics and fills them."""
        size = ["--topics", str(_TOPICS), "--partitions", str(_TOPIC_PARTITIONS), "--data", self.data, "--seed", "7"]
        return ["sandbox", "load", *size, "--name", self.name]

    def plan(self, folder: str, plan_file: str) -> list[str]:
        """The command that plans the dead broker's replacement."""
        brokers = ",".join(map(str, (*SURVIVORS, NEW)))
        words = ["topicmappr", "rebuild", "--topics", ".*", "--brokers", brokers, "--skip-no-ops"]
        return ["--profile", self.name, *words, "--out-path", folder, "--plan", plan_file]

    def apply(self, plan_file: str) -> list[str]:
        """The command that carries the plan out."""
        return ["--profile", self.name, "reassign", "apply", plan_file, "--yes", "--throttle", self.throttle]

    def verify(self, plan_file: str) -> list[str]:
        """The command that compares the cluster with the plan."""
        return ["--profile", self.name, "reassign", "verify", plan_file]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """The traffic's records, how many records the loaded topics held before and after, and how long it took."""

    traffic: Tally
    loaded_before: int
    loaded_after: int
    seconds: float


def loaded_partitions() -> list[TopicPartition]:
    """The partitions that `sandbox load` fills."""
    return [TopicPartition(f"load-{t:03d}", p) for t in range(_TOPICS) for p in range(_TOPIC_PARTITIONS)]


def traffic_replicas() -> dict[int, tuple[int, ...]]:
    """Replica lists of the traffic's topic: one replica in each rack; every broker leads two partitions."""
    return {n: tuple(_RACKS[(n + k) % 3][(n // 3) % 2] for k in range(3)) for n in range(PARTITIONS)}


def demo_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without addresses and options meant for other clusters, which would win over the profile."""
    kept = "KAFKAKIT_STATE_DIR"
    return {k: v for k, v in environment.items() if k == kept or not k.startswith(("KAFKAKIT_", "TOPICMAPPR_"))}
