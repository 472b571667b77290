"""Reading study files, and turning whatever is wrong with them into one line.

Every error names file, key, value and what is allowed: `config/smoke.yaml: learner.lr: -1: must be
greater than 0`. The command line prints that line and leaves with exit code 2.
"""

from __future__ import annotations

import contextlib
import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

NOTHING = object()  # "there is no value to show", which null is not


class ConfigError(Exception):
    """A study file, or what it points to, cannot be used. The message is one line."""

    def __init__(self, where: str | Path, key: str, value: Any, allowed: str) -> None:
        self.where, self.key, self.value, self.allowed = str(where), key, value, allowed
        parts = [str(where), key, "" if value is NOTHING else show(value), allowed]
        super().__init__(": ".join(p for p in parts if p))


def show(value: Any) -> str:
    """A value on one short line."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


@contextlib.contextmanager
def about(where: str) -> Iterator[None]:
    """Name the study file in a ConfigError of code that knows the settings but not their file."""
    try:
        yield
    except ConfigError as error:
        if error.where:
            raise
        raise ConfigError(where, error.key, error.value, error.allowed) from None


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses duplicate keys, which plain YAML silently lets the last one win."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise yaml.MarkedYAMLError(
                problem=f"key {key!r} is not text", problem_mark=key_node.start_mark
            )
        if key in seen:
            raise yaml.MarkedYAMLError(
                problem=f"key {key!r} occurs twice", problem_mark=key_node.start_mark
            )
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML (or JSON) file; ConfigError if there is no such file or mapping."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(path, "", NOTHING, "no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigError(path, "", NOTHING, f"cannot be read: {reason}") from None
    try:
        data = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = " ".join(str(error.problem or error.context).split())
        raise ConfigError(path, place, NOTHING, f"broken YAML: {problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(
            path, "", NOTHING, f"broken YAML: {' '.join(str(error).split())}"
        ) from None
    if data is None:
        raise ConfigError(
            path, "", NOTHING, "is empty; a study file needs at least the key `study`"
        )
    if not isinstance(data, dict):
        raise ConfigError(path, "", data, "must be a mapping of keys to values")
    return data


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `over` laid on it, mappings merged key by key, anything else replaced."""
    out = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(out.get(key), Mapping):
            out[key] = merge(out[key], value)
        else:
            out[key] = value
    return out


def nested(dotted: str, value: Any) -> dict[str, Any]:
    """`nested("a.b", 1)` is `{"a": {"b": 1}}`."""
    for part in reversed(dotted.split(".")):
        value = {part: value}
    return value


def parse(
    cls: type[BaseModel], data: Any, where: str | Path, names: Mapping[str, str] | None = None
) -> Any:
    """`data` as an instance of `cls`; ConfigError with the first problem, and how many more there are.

    `names` gives other names for dotted keys: a grid block's value is reported under the block.
    """
    try:
        return cls.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        first = problems[0]
        loc = _strip_tags(first["loc"], data)
        key = ".".join(str(part) for part in loc)
        for dotted, name in (names or {}).items():
            if key == dotted or key.startswith(dotted + "."):
                key = name + key[len(dotted) :]
        value = first["input"]
        if first["type"] in ("missing", "union_tag_not_found", "model_type", "dict_type"):
            value = value if not isinstance(value, (dict, BaseModel)) else NOTHING
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ConfigError(where, key, value, _allowed(first, cls, loc) + more) from None


def _strip_tags(loc: Sequence[str | int], data: Any) -> list[str | int]:
    """Pydantic puts a union's tag into the location; keep only parts that are keys of the file."""
    out: list[str | int] = []
    for i, part in enumerate(loc):
        last = i == len(loc) - 1
        inside = (isinstance(data, Mapping) and part in data) or (
            isinstance(data, list) and isinstance(part, int) and part < len(data)
        )
        if inside:
            data = data[part]
        elif not last:
            continue
        out.append(part)
    return out


def _allowed(problem: Any, cls: type[BaseModel], loc: Sequence[str | int]) -> str:
    """What is allowed, in words, from one pydantic problem."""
    kind, ctx = problem["type"], problem.get("ctx", {})
    if kind == "extra_forbidden":
        known = _keys_beside(cls, loc)
        close = difflib.get_close_matches(str(loc[-1]), known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"unknown key; allowed: {', '.join(known)}{hint}"
    words = {
        "missing": "is missing and has no default",
        "greater_than": "must be greater than {gt}",
        "greater_than_equal": "must be at least {ge}",
        "less_than": "must be less than {lt}",
        "less_than_equal": "must be at most {le}",
        "int_type": "must be a whole number",
        "float_type": "must be a number",
        "bool_type": "must be true or false",
        "string_type": "must be text",
        "list_type": "must be a list",
        "dict_type": "must be a mapping of keys to values",
        "model_type": "must be a mapping of keys to values",
        "model_attributes_type": "must be a mapping of keys to values",
        "literal_error": "must be one of {expected}",
        "union_tag_invalid": "must be one of {expected_tags}",
        "union_tag_not_found": "must be a mapping with the key `name`",
        "string_pattern_mismatch": "must match {pattern}",
        "too_short": "must have at least {min_length} value(s)",
        "value_error": "{error}",
    }
    if kind in words:
        return words[kind].format(**{k: _plain(v) for k, v in ctx.items()})
    return " ".join(str(problem["msg"]).split())


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _keys_beside(cls: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """The keys that may stand where `loc` points."""
    here: Any = cls
    for part in loc[:-1]:
        if isinstance(part, int):
            continue  # an entry of a list, whose annotation was unpacked with the list's
        field = getattr(here, "model_fields", {}).get(part)
        if field is None:
            return []
        here = field.annotation
        if not hasattr(here, "model_fields"):  # a list, an optional section, or a union of sections
            args = [a for a in getattr(here, "__args__", ()) if hasattr(a, "model_fields")]
            if len(args) > 1:
                return sorted({k for a in args for k in a.model_fields})
            here = args[0] if args else here
    return sorted(getattr(here, "model_fields", {}))
