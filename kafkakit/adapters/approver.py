"""A command of the operator that reads a plan and answers whether it is approved."""

import json
import shlex
import subprocess
from collections.abc import Mapping

from kafkakit.core.errors import OperationFailedError, RefusedError, UsageError

LIMIT_S = 3600.0
ANSWER_BYTES = 64 * 1024


def ask_approver(command: str, plan: Mapping[str, object]) -> str:
    """The output of the command, which gets the plan as JSON on stdin and runs without a shell.

    Raises `UsageError` for a command that cannot be started, `RefusedError` where it exits with another code than 0,
    `OperationFailedError` where it takes longer than an hour or answers with more than 64 KiB.
    """
    try:
        words, data = shlex.split(command), json.dumps(plan, default=str).encode()
        done = subprocess.run(words, input=data, stdout=subprocess.PIPE, timeout=LIMIT_S, check=False)
    except (ValueError, IndexError, PermissionError, FileNotFoundError, NotADirectoryError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"--approve-with {command!r:.100} cannot be run: {why}") from None
    except subprocess.TimeoutExpired:
        raise OperationFailedError(f"--approve-with {command!r:.100} gave no answer for {LIMIT_S:.0f} s") from None
    if done.returncode != 0:
        raise RefusedError(f"the plan is not approved: {command!r:.100} exits with {done.returncode}")
    if len(done.stdout) > ANSWER_BYTES:
        raise OperationFailedError(f"--approve-with {command!r:.100} answers with more than {ANSWER_BYTES} bytes")
    return done.stdout.decode(errors="replace")
