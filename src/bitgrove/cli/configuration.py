"""Other ways to write the options of a command: a file, and LightGBM's key=value.

Receives the words after `bitgrove` and the parsers of the commands; returns words that are all
spelled as options. `--config FILE` (or config=FILE) stands for the options that the file holds,
except those that are written on the command line, too.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from bitgrove.errors import ParameterError
from bitgrove.params import CANONICAL

_PAIR = re.compile(r"([A-Za-z][\w-]*)=(.*)", re.DOTALL)
_TABLES = ("params", "parameters")  # of a file: their keys are as those outside
_SAME_WORDS = {"valid_data": "valid", "train": "data", "output_model": "model", "input_model":
               "init_model", "label_column": "label", "weight_column": "weight", "group_column":
               "group", "ignore_column": "ignore"}  # fmt: skip
_SWITCHES = ("progress", "stratified", "shuffle", "time_order")  # --name or --no-name
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def spelled_out(argv: Sequence[str], commands: Mapping[str, argparse.ArgumentParser]) -> list[str]:
    """The words with pairs and files written as options, for commands that have --config."""
    words = [str(word) for word in argv]
    parser = commands.get(words[0]) if words else None
    if parser is None or not _reads_files(parser):
        return words
    known = _names_of(parser)
    others = {name for one in commands.values() for name in _names_of(one) if _reads_files(one)}
    rest: list[str] = []
    for before, word in pairwise(words):
        if _is_switch(before, known) and word.lower() in _TRUTHS:
            rest[-1:] = _switched(before, _option_name(before[2:]), word)
        elif _takes_one(parser, before):
            rest.append(word)
        else:
            rest += _as_options(word, known)
    path, rest = _without_config(rest)
    if path is None:
        return [words[0], *rest]
    given = {_main_name(word) for word in rest if word.startswith("--")}
    return [words[0], *_options_of(path, given, known, others - known), *rest]


def _reads_files(parser: argparse.ArgumentParser) -> bool:
    return "--config" in parser._option_string_actions


def _names_of(parser: argparse.ArgumentParser) -> set[str]:
    return {name.lstrip("-").replace("-", "_") for name in parser._option_string_actions}


def _is_switch(word: str, known: set[str]) -> bool:
    name = _option_name(word[2:])
    return word.startswith("--") and name in _SWITCHES and name in known


def _takes_one(parser: argparse.ArgumentParser, word: str) -> bool:
    """Whether the next word is the value of this one, such as after --param."""
    action = parser._option_string_actions.get(word)
    return action is not None and action.nargs is None


def _as_options(word: str, known: set[str]) -> list[str]:
    """key=value as --key=value, if there is such an option; a file may have such a name, too."""
    pair = _PAIR.fullmatch(word.removeprefix("--"))
    name = "" if pair is None else _option_name(pair[1])
    if pair is None or name not in known:
        return [word]
    if name in _SWITCHES:
        return _switched(word, name, pair[2])
    return [word] if word.startswith("--") else [f"--{name}={pair[2]}"]


def _option_name(key: str) -> str:
    name = key.replace("-", "_")
    return _SAME_WORDS.get(name, name)


def _without_config(words: Sequence[str]) -> tuple[str | None, list[str]]:
    paths, left, waits = [], [], False
    for word in words:
        if waits:
            paths.append(word)
        elif word.startswith("--config="):
            paths.append(word.partition("=")[2])
        elif word != "--config":
            left.append(word)
        waits = word == "--config" and not waits
    if waits or len(paths) > 1:
        raise ParameterError("--config: one file, e.g. --config train.toml")
    return (paths[0] if paths else None), left


def _main_name(word: str) -> str:
    """Of an option, however it is spelled."""
    name = word.lstrip("-").partition("=")[0].replace("-", "_").removeprefix("no_")
    if name == "param":
        name = word.partition("=")[2].partition("=")[0].strip().replace("-", "_")
    return CANONICAL.get(name, name)


def _options_of(path: str, given: set[str], known: set[str], others: set[str]) -> Iterator[str]:
    """Those of the file; what only `others`, other commands, know is for them."""
    facts = _read(path)
    for table in _TABLES:
        inner = facts.pop(table, {})
        if not isinstance(inner, dict):
            raise ParameterError(f"{path}: {table} must be a table")
        if twice := sorted(facts.keys() & inner.keys()):
            raise ParameterError(f"{path}: {twice[0]} is given twice")
        facts |= inner
    for key, value in facts.items():
        name = _option_name(str(key))
        if name in others:
            continue
        if name not in known or name in ("config", "help"):
            raise ParameterError(f"{path}: unknown option {key!r}")
        if _main_name(f"--{name}") not in given:
            yield from _words_of(path, name, value)


def _words_of(path: str, name: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(item, dict | list) for item in value)
    ):
        raise ParameterError(f"{path}: {name} must be a value or a list of values")
    if name in _SWITCHES:
        yield from _switched(path, name, value)
    elif isinstance(value, list) and name in ("data", "valid", "ignore", "categorical_feature"):
        yield from (f"--{name}={item}" for item in value)
    elif isinstance(value, list):
        yield f"--{name}={','.join(map(_text, value))}"
    else:
        yield f"--{name}={_text(value)}"


def _switched(where: str, name: str, value: Any) -> list[str]:
    if not isinstance(value, bool):
        value = _TRUTHS.get(str(value).lower(), value)
    if not isinstance(value, bool):
        raise ParameterError(f"{where}: {name} must be true or false, got {value!r}")
    if name == "time_order" and not value:
        return []  # there is nothing to switch off
    return [f"--{name}" if value else f"--no-{name}"]


def _text(value: Any) -> str:
    return "none" if value is None else str(value)


def _read(path: str) -> dict[str, Any]:
    ending = os.path.splitext(path)[1].lower()
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except UnicodeDecodeError:
        raise ParameterError(f"{path}: is not UTF-8 text") from None
    if ending == ".toml":
        found = _from_toml(path, text)
    elif ending in (".yaml", ".yml"):
        found = _from_yaml(path, text)
    else:
        found = _from_pairs(path, text)
    if not isinstance(found, dict):
        raise ParameterError(f"{path}: options are written as name: value")
    return found


def _from_toml(path: str, text: str) -> Any:
    reader = _first_of(path, "tomllib", "tomli")  # Python 3.10 has none of its own
    try:
        return reader.loads(text)
    except reader.TOMLDecodeError as error:
        raise ParameterError(f"{path}: {error}") from None


def _first_of(path: str, *modules: str) -> Any:
    for name in modules:
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    raise ImportError(f"{path}: needs {modules[-1]} (pip install bitgrove[cli])")


def _from_yaml(path: str, text: str) -> Any:
    yaml = _first_of(path, "yaml")
    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ParameterError(f"{path}: {' '.join(str(error).split())}") from None


def _from_pairs(path: str, text: str) -> dict[str, Any]:
    """LightGBM's files: key = value, and comments after #."""
    found: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.partition("#")[0].strip()
        key, equals, value = line.partition("=")
        if not line:
            continue
        if not equals:
            raise ParameterError(f"{path}: line {number}: key = value is expected")
        if key.strip() in found:
            raise ParameterError(f"{path}: {key.strip()} is given twice")
        found[key.strip()] = value.strip()
    return found
