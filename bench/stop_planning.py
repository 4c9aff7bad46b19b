"""How long planning commands take to end after a signal at a random moment, and what they leave behind.

Prints JSON: for each try the command, the signal, when it was sent, the seconds until the end, the exit code and what
was written. A try is wrong if a file is neither whole nor as it was, a temporary file is left, or nothing says what
was written.

    python bench/stop_planning.py SNAPSHOT... --tries 200 --seed 1
"""

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ALL = ("--topics", ".*")
COMMANDS = {
    "rebalance": ("rebalance", *ALL, "--brokers", "-2", "--band", "5%"),
    "rebalance by moves": ("rebalance", *ALL, "--brokers", "-2", "--band", "5%", "--minimize", "moves"),
    "rebalance with a page": ("rebalance", *ALL, "--brokers", "-2", "--band", "5%", "--report", "page.html"),
    "rebalance best effort": ("rebalance", *ALL, "--brokers", "-2", "--band", "1%", "--best-effort"),
    "rebuild": ("rebuild", *ALL, "--brokers", "-2", "--force-rebuild"),
    "rebuild by storage": ("rebuild", *ALL, "--brokers", "-2", "--force-rebuild", "--placement", "storage"),
    "set-replication": ("set-replication", "4", *ALL, "--min-rack-ids", "2"),
    "fix-racks": ("fix-racks", *ALL),
    "leaders": ("leaders", *ALL),
    "drain": ("drain", "--brokers", "1001"),
    "rebalance-dirs": ("rebalance-dirs", "--band", "10%", "--brokers", "-2"),
    "frontier": ("frontier", *ALL, "--brokers", "-1", "--bands", "20%,10%"),
}
SAYING = ("nothing was written", "already written", "error: terminated\n", "error: interrupted\n")


def one_try(snapshot: Path, name: str, after_s: float, number: signal.Signals, twice: bool) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        words = ["kafkakit", "topicmappr", *COMMANDS[name], "--snapshot", str(snapshot)]
        if name != "frontier":
            words += ["--plan", "p.json", "--ignore-warns"]
        process = subprocess.Popen(
            words,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(after_s)
        was_over = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        begun, used = time.monotonic(), _processor_s(process.pid)
        os.kill(process.pid, number)
        if twice:
            time.sleep(0.1)
            os.kill(process.pid, number)
        said = process.stderr.read() if process.stderr else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        ended_s = time.monotonic() - begun
        used = usage.ru_utime + usage.ru_stime - used
        left = sorted(p.name for p in Path(folder).iterdir())
        whole = all(_is_whole(Path(folder) / name) for name in left)
        error = [line for line in said.splitlines() if line.startswith("error:")]
        tells = process.returncode == 0 or any(word in said for word in SAYING) or "frontier" in words
        return {
            "command": name,
            "signal": number.name,
            "twice": twice,
            "after_s": round(after_s, 2),
            "was_over": was_over,
            "ended_s": round(ended_s, 2),
            "ended_processor_s": round(used, 2),
            "code": process.returncode,
            "left": left,
            "error": error[:1],
            "wrong": not was_over and not (whole and tells and process.returncode in (0, 4, 130, 143)),
        }


def _processor_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _is_whole(path: Path) -> bool:
    if path.suffix == ".json":
        try:
            json.loads(path.read_bytes())
        except ValueError:
            return False
        return True
    return path.suffix == ".html" and path.read_text().rstrip().endswith("</html>")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("snapshots", type=Path, nargs="+")
    parser.add_argument("--tries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=float, default=12.0, help="latest moment of a signal, in seconds")
    parser.add_argument("--only", choices=sorted(COMMANDS))
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell ignores for what is in the background
    rng = random.Random(given.seed)
    tries = []
    for _ in range(given.tries):
        name = given.only or rng.choice(sorted(COMMANDS))
        number = rng.choice((signal.SIGINT, signal.SIGTERM))
        snapshot = rng.choice(given.snapshots).absolute()
        tries.append(one_try(snapshot, name, rng.uniform(0.3, given.longest), number, rng.random() < 0.1))
        sys.stderr.write(json.dumps(tries[-1]) + "\n")
    during = [t for t in tries if not t["was_over"]]
    ended, used = (sorted(float(str(t[key])) for t in during) for key in ("ended_s", "ended_processor_s"))
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    facts = {
        "cores": os.cpu_count(),
        "tries": len(tries),
        "during": len(ended),
        "median_s": ended[len(ended) // 2] if ended else None,
        "longest_s": ended[-1] if ended else None,
        "median_processor_s": used[len(used) // 2] if used else None,
        "longest_processor_s": used[-1] if used else None,
        "wrong": [t for t in tries if t["wrong"]],
        "processor_s": round(usage.ru_utime + usage.ru_stime, 1),
    }
    sys.stdout.write(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
