"""The reference page of the parameters, docs/parameters.md, from the one table."""

from __future__ import annotations

import re

from bitgrove.objectives import OBJECTIVES
from bitgrove.params.parameter import Parameter
from bitgrove.params.reasons import REASONS
from bitgrove.params.table import PARAMETERS


def render_markdown() -> str:
    """The reference page: one anchor per parameter, in the order of the table."""
    groups = list(dict.fromkeys(p.group for p in PARAMETERS))
    lines = [
        "# Parameters",
        "",
        "Every parameter of `train()`, `cv()`, the estimators and the command line. All know",
        "the aliases, too.",
        "",
        "<!-- Made from params/table.py by `python -m bitgrove.params`; do not edit. -->",
    ]
    for group in groups:
        members = [p for p in PARAMETERS if p.group == group]
        links = ", ".join(f"[`{p.name}`](#{p.name})" for p in members)
        lines += ["", f"## {group}", "", links]
        for p in members:
            lines += ["", f'<a id="{p.name}"></a>', f"### {p.name}", "", linked(p.doc), "",
                      *_facts(p)]  # fmt: skip
    return "\n".join(lines) + "\n"


def linked(words: str) -> str:
    """The names of other pages become links to them."""
    return re.sub(r"\b(\w+)\.md\b", r"[\1](\1.md)", words)


def _as_code(words: str) -> str:
    """Quoted values are set as code."""
    return re.sub(r"'([^']*)'", r"`\1`", words)


def _facts(p: Parameter) -> list[str]:
    reason = linked(REASONS[p.name])
    facts = [f"- default: `{p.default!r}`. {reason}", f"- allowed: {_as_code(p.allowed)}"]
    spellings: dict[str, list[str]] = {}
    for other, value in p.synonyms.items():
        if isinstance(other, str):
            spellings.setdefault(f"`{value}`", []).append(f"`{other}`")
    if spellings:
        facts.append("- other spellings:")
        facts += [f"  - of {value}: {', '.join(others)}" for value, others in spellings.items()]
    if p.aliases:
        facts.append(f"- aliases: {', '.join(f'`{alias}`' for alias in p.aliases)}")
    if p.objectives != tuple(OBJECTIVES):
        facts.append(f"- only for: {', '.join(f'`{name}`' for name in p.objectives)}")
    if not p.affects_model:
        facts.append("- never changes the model")
    return facts
