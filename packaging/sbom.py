"""A CycloneDX list of what is in a wheel and what is installed with it (`make sbom`).

`python packaging/sbom.py dist/bitgrove-*.whl` writes the list beside the wheel. It names the wheel
by its hash; what is compiled into its core; and the packages that a user's pip brings along, in the
versions of this environment. The same wheel and environment give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import nanobind
from packaging.requirements import Requirement

PROJECT = "bitgrove"


def component(name: str, version: str, license_id: str, **more: Any) -> dict[str, Any]:
    purl = f"pkg:pypi/{name.lower()}@{version}"
    licenses = [{"expression": license_id}] if license_id else []
    head = {"type": "library", "bom-ref": purl, "name": name, "version": version}
    return {**head, "purl": purl, **({"licenses": licenses} if licenses else {}), **more}


def embedded() -> list[dict[str, Any]]:
    """Compiled into the core: nanobind and the hash map that it brings along."""
    header = next(Path(nanobind.include_dir()).parent.rglob("robin_growth_policy.h")).read_text()
    parts = [
        re.search(rf"define TSL_RH_VERSION_{part} (\d+)", header)
        for part in ("MAJOR", "MINOR", "PATCH")
    ]
    version = ".".join(part[1] for part in parts if part) or "unknown"
    robin_map = component("robin-map", version, "MIT", scope="required")
    robin_map["purl"] = robin_map["bom-ref"] = f"pkg:github/Tessil/robin-map@v{version}"
    return [
        component("nanobind", nanobind.__version__, "BSD-3-Clause", scope="required"),
        robin_map,
    ]


def installed(name: str, seen: dict[str, dict[str, Any]], edges: dict[str, list[str]]) -> str:
    """Adds a package of this environment and all that it requires; returns its reference."""
    found = distribution(name)
    given = found.metadata.get("License-Expression") or ""
    here = component(found.metadata["Name"], found.version, given, scope="required")
    reference = here["bom-ref"]
    if reference in seen:
        return reference
    seen[reference] = here
    wanted = [Requirement(line) for line in found.requires or []]
    names = [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    edges[reference] = sorted(installed(one, seen, edges) for one in names)
    return reference


def describe(wheel: Path) -> dict[str, Any]:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    own = component(PROJECT, distribution(PROJECT).version, "Apache-2.0")
    own |= {"hashes": [{"alg": "SHA-256", "content": digest}], "components": embedded()}
    seen: dict[str, dict[str, Any]] = {}
    edges: dict[str, list[str]] = {}
    installed(PROJECT, seen, edges)
    seen.pop(own["bom-ref"])
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {"component": own},
        "components": [seen[reference] for reference in sorted(seen)],
        "dependencies": [
            {"ref": reference, "dependsOn": edges[reference]} for reference in sorted(edges)
        ],
    }


if __name__ == "__main__":
    path = Path(sys.argv[1])
    to = path.with_name("-".join(path.name.split("-")[:2]) + ".cdx.json")
    to.write_text(json.dumps(describe(path), indent=1) + "\n")
    print(to)
