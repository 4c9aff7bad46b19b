"""Real Kafka clusters for the tests: leased from the pool of the run, or started by the sandbox, always taken down.

`cluster` (3 brokers, racks a to c, two log dirs each), `cluster6` (6 brokers) and `lease(SINGLE)` and the like are a
file's own for as long as it runs, and empty at the beginning (`tests/rigs/cluster_pool.py`). `sandbox_cluster` starts
one, for tests of the sandbox itself, of other Kafka versions and of what breaks a whole cluster. Where a test
fails, its report shows what brokers logged meanwhile.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from kafkakit.adapters.kafka import log as log_fetch_connection
from kafkakit.core.errors import TryLaterError, UsageError
from kafkakit.ports.services import Machine, NodeFailedError
from kafkakit.sandbox import lifecycle as run
from kafkakit.sandbox.decide.spec import ClientSecurity, MetadataMode, SandboxSpec, SandboxState, build_spec
from kafkakit.sandbox.folders import Store
from kafkakit.wiring import this_machine
from tests.rigs.cluster_pool import SIX, TRIO, Pool, Shape
from tests.rigs.required import missing
from tests.rigs.run_folder import KEY, RunFolder
from tests.rigs.sandbox_cluster import Home, SandboxCluster, SettledAdmin, SilentReporter
from tests.rigs.warm_start import warm_starts

__all__ = ["Home", "SandboxCluster", "SettledAdmin", "SilentReporter", "StartCluster"]

LeaseClusters = Callable[..., list[SandboxCluster]]
"""Takes shapes, and gives a cluster for each until the file ends."""


class StartCluster(Protocol):
    """What the `sandbox_cluster` fixture gives."""

    def __call__(
        self,
        *,
        brokers: int = 3,
        racks: int = 3,
        log_dirs: tuple[int, ...] = (2,),
        mode: str = "kraft",
        secure: str = "none",
        kafka: str | None = None,
        offsets_partitions: int = 1,
    ) -> SandboxCluster: ...


# The files that take longest, first: the others fill what is left of the workers' time.
LONGEST = (
    "test_stream_failover", "test_stream_failover_faults", "test_runbook_streams", "test_packages",
    "test_runbook_failover", "test_runbook_restart",
    "test_stream_moves", "test_runbooks_brokers", "test_stream_client", "test_autothrottle", "test_reassign_faults",
    "test_reassign_narrow_network", "test_config_rollout", "test_registry", "test_stream_faults",
    "test_stream_consumer", "test_reassign_lost", "test_stream_assigner", "test_runbooks", "test_demo",
    "test_streams_demo", "test_reassign", "test_reassign_faults_control", "test_broker", "test_doctor", "test_sandbox",
    "test_kafka_versions", "test_segment_files", "test_streams_lag_faults", "test_bare_install", "test_rights",
    "test_streams_lag", "test_zookeeper_metrics", "test_streams_producer", "test_rebalance", "test_reassign_eta",
    "test_streams_dlq", "test_lint_differential", "test_control_stores", "test_throttles", "test_admin_contract",
    "test_streams_commits", "test_streams_contract",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers each of them runs whole files (`--dist loadfile`), so that clusters are started once."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))  # brokers beside other work, on slow machines
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


def started(machine: Machine, store: Store, spec: SandboxSpec) -> SandboxState:
    """Bring a sandbox up; the test is skipped where it cannot be, or fails where it must be."""
    try:
        return run.start_sandbox(machine, store, spec, SilentReporter())[0]
    except (UsageError, TryLaterError) as error:
        missing("zookeeper" if spec.mode is MetadataMode.ZOOKEEPER else "kafka", str(error))
        raise
    except NodeFailedError as error:
        raise AssertionError("\n".join((error.message, *error.tail))) from error


@pytest.fixture(scope="session", autouse=True)
def commands_start_warm() -> Iterator[None]:
    """Commands that are run to their end cost no imports: a test of them is what tests of brokers wait for."""
    with warm_starts():
        yield


@pytest.fixture(scope="session")
def run_folder(pytestconfig: pytest.Config) -> RunFolder:
    folder = pytestconfig.stash[KEY]
    folder.count_jvms()
    return folder


@pytest.fixture(scope="module")
def home(run_folder: RunFolder) -> Iterator[Home]:
    """A file's own: its routes, leases, plans and profiles are no other file's."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkakit"
    folder = run_folder.new_home()
    yield Home(folder=folder, cache=cache)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def machine() -> Machine:
    return this_machine(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkakit")


@pytest.fixture(scope="session")
def pool(run_folder: RunFolder, machine: Machine) -> Pool:
    return Pool(folder=run_folder, machine=machine, start=started)


@pytest.fixture(scope="module")
def lease(pool: Pool, home: Home) -> Iterator[LeaseClusters]:
    """Leases clusters until the file ends; ask for all of them at once, or else some are started beyond the pool."""
    with ExitStack() as stack:

        def take(*shapes: Shape) -> list[SandboxCluster]:
            return stack.enter_context(pool.lease(home, *shapes))

        yield take


@pytest.fixture(scope="module")
def sandbox_cluster(home: Home, machine: Machine) -> Iterator[StartCluster]:
    stores: list[Store] = []

    def start(
        *,
        brokers: int = 3,
        racks: int = 3,
        log_dirs: tuple[int, ...] = (2,),
        mode: str = "kraft",
        secure: str = "none",
        kafka: str | None = None,
        offsets_partitions: int = 1,
    ) -> SandboxCluster:
        spec = build_spec(
            name=f"t{len(stores)}",
            brokers=brokers,
            racks=racks,
            log_dirs=log_dirs,
            kafka=kafka,
            mode=MetadataMode(mode),
            secure=ClientSecurity(secure),
            offsets_partitions=offsets_partitions,
        )
        store = home.store(spec.name)
        stores.append(store)
        return SandboxCluster(machine=machine, store=store, home=home, state=started(machine, store, spec))

    yield start
    for store in stores:
        run.stop_sandbox(machine, store)


@pytest.fixture(scope="module")
def slow_brokers_answer() -> Iterator[None]:
    """Brokers that pause on a busy machine are waited for: one that owes an answer for 3 s counts as silent else."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(log_fetch_connection, "SILENT_AFTER_S", 60.0)
        yield


@pytest.fixture(scope="module")
def cluster(lease: LeaseClusters) -> SandboxCluster:
    """Three brokers in three racks, two log dirs each; leased."""
    return lease(TRIO)[0]


@pytest.fixture(scope="module")
def cluster6(lease: LeaseClusters) -> SandboxCluster:
    """Six brokers in three racks, two log dirs each; leased."""
    return lease(SIX)[0]
