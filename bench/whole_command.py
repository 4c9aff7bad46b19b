"""One whole `kafkakit` command in a process of its own: start, snapshot read, planning, report and files."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def run_whole(words: Sequence[str], snapshot: Path, folder: Path) -> dict[str, float]:
    """Plan from the snapshot file, with map files, `plan.json` and a report of text in `folder`.

    Gives its seconds by the clock and of processor time (in the program, in the system for it), and its peak memory.
    """
    maps = folder / "maps"
    maps.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "kafkakit", "topicmappr", *words, "--snapshot", str(snapshot)]
    command += ["--plan", str(folder / "plan.json"), "--out-path", str(maps)]
    began = time.perf_counter()
    with (folder / "report.txt").open("wb") as report:
        process = subprocess.Popen(command, stdout=report, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"{' '.join(words)[:80]} ended with {os.waitstatus_to_exitcode(status)}")
    return {
        "process_seconds": round(seconds, 2),
        "user_seconds": round(usage.ru_utime, 2),
        "system_seconds": round(usage.ru_stime, 2),
        "peak_gib": round(usage.ru_maxrss / (1 << 20), 2),
    }
