"""Answers that approve a plan: a line `approved SHA256`, with who approved it behind it if that is wanted."""

from kafkakit.core.errors import RefusedError

WORD = "approved"
WHO_LIMIT = 200


def read_approval(answer: str, sha256: str) -> str:
    """Who or what approved the plan of this hash, in the words of the answer; `RefusedError` for any other answer.

    The first line that begins with `approved` counts, and must name the whole hash.
    """
    lines = (line.split(maxsplit=2) for line in answer.splitlines())
    found = next((words for words in lines if words and words[0].lower() == WORD), None)
    if found is None:
        raise RefusedError("the plan is not approved", hint=f"an approval is a line: {WORD} {sha256}")
    if len(found) < 2 or found[1].lower() != sha256:
        named = found[1][:64] if len(found) > 1 else "none"
        raise RefusedError(
            f"another plan is approved: the answer names {named}, this one is {sha256}",
            hint="the plan has changed since it was approved: look at it again",
        )
    return found[2].strip()[:WHO_LIMIT] if len(found) > 2 else WORD
