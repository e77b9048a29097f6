"""Names with settings, as CatBoost writes losses and metrics: "Quantile:alpha=0.9".

Receives what the user wrote; returns the name and the settings as text, by the names they have
there. What they are called here is known to the objective or the metric of that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from bitgrove.errors import ParameterError

_SETTING = re.compile(r"\s*(\w+)\s*=\s*([^=]+?)\s*")


def name_and_settings(text: str) -> tuple[str, dict[str, str]]:
    """A text without settings, such as "binary:logistic", is a name as a whole."""
    name, _, rest = text.partition(":")
    pairs = [_SETTING.fullmatch(pair) for pair in rest.split(";")]
    found = {pair[1]: pair[2] for pair in pairs if pair is not None}
    return (name, found) if len(found) == len(pairs) else (text, {})


def check_settings_of(where: str, name: str, settings: Iterable[str], known: Sequence[str]) -> None:
    """ParameterError that tells the settings that nobody knows of, and those that there are."""
    if strange := ", ".join(repr(setting) for setting in settings if setting not in known):
        has = f"has {', '.join(known)}" if known else "has none"
        raise ParameterError(f"{where}: unknown parameter {strange}; {name!r} {has}")
