"""Java properties files: the text format (java.util.Properties, method load) as keys and values."""

from dataclasses import dataclass

from kafkakit.core.errors import InputError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One entry and the line it begins on."""

    name: str
    value: str
    line: int


def parse_properties(data: bytes, source: str) -> tuple[Property, ...]:
    """Read a properties file in UTF-8; of a repeated key the last one counts, as in Java.

    Raises `InputError` for bytes that are not UTF-8, a bad escape and control characters.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(source, f"not valid UTF-8 text (byte {error.start})") from None
    if "\x00" in text:
        raise InputError(source, "contains a zero byte; is this a properties file?")
    found: dict[str, Property] = {}
    for line, logical in _logical_lines(text):
        raw_name, raw_value = _split(logical)
        name = _unescape(raw_name, f"{source}:{line}")
        found.pop(name, None)
        found[name] = Property(name=name, value=_unescape(raw_value, f"{source}:{line}"), line=line)
    return tuple(found.values())


def _logical_lines(text: str) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    pending: list[str] = []
    start = 0
    natural = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in enumerate(natural, start=1):
        content = line.lstrip(_BLANKS)
        if not pending:
            if not content or content[0] in "#!":
                continue
            start = number
        continues = _ends_with_odd_backslash(content)
        pending.append(content[:-1] if continues else content)
        if not continues:
            lines.append((start, "".join(pending)))
            pending = []
    if pending:
        lines.append((start, "".join(pending)))
    return lines


def _ends_with_odd_backslash(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(logical: str) -> tuple[str, str]:
    end = 0
    while end < len(logical):
        if logical[end] == "\\":
            end += 2
            continue
        if logical[end] in "=:" + _BLANKS:
            break
        end += 1
    rest = logical[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return logical[:end], rest


def _unescape(text: str, where: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            out.append(char)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                raise InputError(where, "\\u must be followed by four hexadecimal digits")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    # Java writes characters beyond the basic plane as two escapes; join them, and keep a lone half out.
    joined = "".join(out)
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
