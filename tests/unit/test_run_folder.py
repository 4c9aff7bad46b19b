"""The folder of a run: who is the last to leave, and what a report of brokers' logs shows."""

import subprocess
import sys
from pathlib import Path

from tests.places import ROOT
from tests.rigs.broker_logs import LAST, LOUD, BrokerLogs
from tests.rigs.run_folder import RunFolder, locked

JOIN = "import sys; from pathlib import Path; from tests.rigs.run_folder import RunFolder; "
JOIN += "RunFolder(Path(sys.argv[1])).join(); print('in', flush=True); sys.stdin.read()"


def test_a_lock_is_free_again_when_its_process_is_killed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.join()
    other = subprocess.Popen(
        [sys.executable, "-c", JOIN, str(folder.path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"in\n"
    assert not folder.leave()
    other.kill()
    other.communicate()
    assert folder.is_left()
    folder.take_down()
    assert not folder.path.exists()


def test_a_file_has_one_lock(tmp_path: Path) -> None:
    assert locked(tmp_path / "a") is not None
    assert locked(tmp_path / "a") is None
    assert locked(tmp_path / "none" / "a") is None


def test_a_report_shows_what_was_logged_since_a_test_began(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.join()
    log = folder.new_home() / "state/kafkakit/sandbox/t0/broker-1001/output.log"
    log.parent.mkdir(parents=True)
    log.write_text("before WARN a\n")
    logs = BrokerLogs(folder)
    logs.pytest_runtest_setup()
    with log.open("a") as file:
        file.writelines(f"at {n} ERROR b\n" for n in range(LOUD + 3))
        file.writelines(f"at {n} INFO c\n" for n in range(LAST + 2))
    assert logs.logged() == {
        "t0/broker-1001/output.log": "\n".join(
            ["(3 more warnings and errors before)", *(f"at {n} ERROR b" for n in range(3, LOUD + 3))]
            + [f"at {n} INFO c" for n in range(2, LAST + 2)]
        )
    }
    logs.pytest_runtest_setup()
    assert logs.logged() == {}
    log.rename(log.with_name("output.log.1"))
    log.write_text("of a new life\n")
    assert logs.logged() == {"t0/broker-1001/output.log": "of a new life"}
