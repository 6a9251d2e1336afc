#!/usr/bin/env python3
"""The licences of what the program is made of.

    .github/notices.py check         whether each crate may be passed on, and comes from crates.io
    .github/notices.py write FILE    the notices of third parties that go with a release

What may be used stands in `.cargo/deny.toml`. `cargo deny` reads the same file and asks for more;
this needs nothing but Python 3.11 and the crates that a build has.
"""

import json
import re
import subprocess
import sys
import tarfile
import tomllib
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
#: Files of a crate that say its licence.
NAMES = re.compile(r"(licen[cs]e|copying|notice|unlicense|copyright)", re.IGNORECASE)


def metadata():
    """What cargo knows of all crates that any feature or system brings."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def fits(expression, allowed):
    """Whether an SPDX expression can be met with licences that are allowed."""
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def either():
        met = both()
        while words and words[0] == "OR":
            words.pop(0)
            met = both() or met
        return met

    def both():
        met = one()
        while words and words[0] == "AND":
            words.pop(0)
            met = one() and met
        return met

    def one():
        word = words.pop(0)
        if word == "(":
            met = either()
            words.pop(0)
            return met
        if words and words[0] == "WITH":
            word = f"{word} WITH {words[1]}"
            del words[:2]
        return word in allowed

    return either()


def check(packages):
    """Says which crates may not be used; the exit status."""
    licences = tomllib.loads((ROOT / ".cargo/deny.toml").read_text())["licenses"]
    excepted = {entry["name"]: entry["allow"] for entry in licences["exceptions"]}
    faults = []
    for package in packages:
        name, said = f"{package['name']} {package['version']}", package["license"]
        if package["source"] not in (None, CRATES_IO):
            faults.append(f"{name} comes from {package['source']}")
        allowed = [*licences["allow"], *excepted.pop(package["name"], [])]
        if not said or not fits(said, allowed):
            faults.append(f"{name} is under {said or 'no licence that it names'}")
    faults += [f"{name} has an exception, and is not used" for name in excepted]
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    print(f"licences of {len(packages)} crates: {len(faults)} faults")
    return 1 if faults else 0


def shipped(found):
    """The crates that are in the program: no tools of a build, none of the tests."""
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    waiting, out = [found["resolve"]["root"]], set()
    while waiting:
        at = waiting.pop()
        if at not in out:
            out.add(at)
            waiting += [dep["pkg"] for dep in nodes[at]["deps"]
                        if any(kind["kind"] is None for kind in dep["dep_kinds"])]
    of = [p for p in found["packages"] if p["id"] in out and p["id"] != found["resolve"]["root"]]
    return sorted(of, key=lambda package: (package["name"], package["version"]))


def write(packages, path):
    """Writes each licence once, with the crates that it is of."""
    texts = defaultdict(list)
    lines = ["ccl-sql is made of the following works of others.", ""]
    for package in packages:
        name = f"{package['name']} {package['version']}"
        lines.append(f"- {name}: {package['license']}")
        folder = Path(package["manifest_path"]).parent
        for file in sorted(folder.iterdir()):
            if file.is_file() and NAMES.search(file.name):
                texts[file.read_text(errors="replace").strip()].append(f"{name}: {file.name}")
        if package["name"] == "libduckdb-sys":
            with tarfile.open(folder / "duckdb.tar.gz") as archive:
                names = "\n".join(archive.getnames())
            inside = sorted(set(re.findall(r"third_party/(\w+)/", names)))
            lines.append("  It holds DuckDB, and with it: " + ", ".join(inside))
    vendored = ROOT / "src/report/html/vendor"
    for file in sorted(vendored.rglob("*")):
        if file.is_file() and (NAMES.search(file.name) or file.parent.name == "licenses"):
            title = str(file.relative_to(vendored))
            texts[file.read_text(errors="replace").strip()].append(title)
    lines.append("- Apache ECharts, in reports: Apache-2.0")
    for text, of in texts.items():
        lines += ["", "=" * 80, "; ".join(of), "=" * 80, "", text]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def main():
    """Reads the command line."""
    match sys.argv[1:]:
        case ["check"]:
            return check(metadata()["packages"])
        case ["write", path]:
            return write(shipped(metadata()), Path(path))
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
