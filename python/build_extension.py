"""Builds `ccl_sql.duckdb_extension`, with no more than Python and cargo.

The extension is the Rust library of the project as a shared library, with DuckDB's footer behind
it. The wheel holds it (`hatch_build.py`); by itself it is made so:

    python3 python/build_extension.py -o ccl_sql.duckdb_extension

The footer says for which hosts a file is. DuckDB reads it before the file is loaded, see its
`ExtensionHelper::ParseExtensionMetaData`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

#: The file's name, from which DuckDB takes the name of the entry point.
NAME = "ccl_sql.duckdb_extension"
#: What must be in the library: the entry point, and the program.
SYMBOLS = ("ccl_sql_init_c_api", "ccl_sql_main")

#: The version of DuckDB's C API whose functions the extension calls. Every DuckDB from 2.0 on has
#: them: those that were unstable before are stable since this version.
C_API = "v1.5.6"
#: The rules by which a host may load the file: any with that version of the C API.
ABI = "C_STRUCT"
#: The version of the footer itself.
MAGIC = "4"
#: Bytes of a field, and of the signature behind the fields.
FIELD, SIGNATURE = 32, 256
#: Bytes of the footer: eight fields and the signature.
FOOTER = 8 * FIELD + SIGNATURE

#: Platforms, as DuckDB and as wheels name them, by the target of the Rust compiler.
PLATFORMS = {
    "x86_64-unknown-linux-gnu": ("linux_amd64", "linux_x86_64"),
    "aarch64-unknown-linux-gnu": ("linux_arm64", "linux_aarch64"),
    "x86_64-unknown-linux-musl": ("linux_amd64_musl", "linux_x86_64"),
    "aarch64-unknown-linux-musl": ("linux_arm64_musl", "linux_aarch64"),
    "x86_64-apple-darwin": ("osx_amd64", "macosx_{macos}_x86_64"),
    "aarch64-apple-darwin": ("osx_arm64", "macosx_{macos}_arm64"),
    "x86_64-pc-windows-msvc": ("windows_amd64", "win_amd64"),
    "aarch64-pc-windows-msvc": ("windows_arm64", "win_arm64"),
}

#: A time after that of the files of source distributions, 2020-02-02, and before any of our own.
LONG_AGO = 1_600_000_000

#: The libraries that every Linux with glibc has, so that a manylinux wheel may need them.
ON_EVERY_LINUX = re.compile(
    r"(libc|libm|libdl|librt|libpthread|libgcc_s|ld-linux-[a-z0-9-]+)\.so\.\d+"
)


class BuildError(Exception):
    """A build that cannot be done, with what to do about it."""


def crate() -> Path:
    """The folder of the Rust sources: above this one, or inside it in a source distribution."""
    here = Path(__file__).resolve().parent
    for folder in (here / "crate", here.parent):
        if (folder / "Cargo.toml").is_file() and (folder / "src").is_dir():
            return folder
    raise BuildError(
        f"the Rust sources are neither in {here / 'crate'} nor in {here.parent}: "
        "build from a checkout of the project or from its source distribution (a pip older than "
        "21.3 copies this folder alone: raise it with `pip install -U pip`)"
    )


def manifest() -> dict[str, Any]:
    """`Cargo.toml`."""
    with open(crate() / "Cargo.toml", "rb") as file:
        return tomllib.load(file)


def version() -> str:
    """The version of the project, for which `Cargo.toml` is the one place."""
    return str(manifest()["package"]["version"])


def sources() -> list[Path]:
    """The files and folders that a build needs, relative to the folder of the Rust sources."""
    root, read = crate(), manifest()
    found = [Path(name) for name in ("Cargo.toml", "Cargo.lock", "src", "sql")]
    found += [Path(path.name) for path in sorted(root.glob("LICENSE*"))]
    if isinstance(readme := read["package"].get("readme"), str):
        found.append(Path(readme))
    # Cargo reads no manifest that names a target without its file.
    folders = {"test": "tests", "bench": "benches", "example": "examples"}
    for kind, folder in folders.items():
        for target in read.get(kind, []):
            name = target["name"]
            places = [Path(folder, f"{name}.rs"), Path(folder, name, "main.rs")]
            if "path" in target:
                places = [Path(target["path"])]
            found += [place for place in places if (root / place).is_file()][:1]
    return found


def commit() -> str | None:
    """The commit of the checkout; None where git does not say it."""
    root = crate()
    note = root / ".cargo_vcs_info.json"
    if note.is_file():
        return str(json.loads(note.read_bytes())["git"]["sha1"])
    if not (root / ".git").exists():
        return None
    try:
        return output("git", "rev-parse", "--verify", "HEAD").strip()
    except (BuildError, OSError):
        return None


def number(text: str) -> tuple[int, ...]:
    """The numbers of a version, up to the first that is none."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def tool(name: str) -> str:
    """A program of the Rust toolchain: the one on the PATH, or where rustup puts it."""
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    found = shutil.which(name) or shutil.which(name, path=str(home / "bin"))
    if found:
        return found
    wanted = manifest()["package"].get("rust-version", "")
    raise BuildError(
        f"ccl-sql is built with Rust {wanted} or newer, and there is no `{name}` here: "
        "install Rust from https://rustup.rs (no C++ compiler is needed), and try again"
    )


def output(*command: str) -> str:
    """What a program prints, run in the folder of the Rust sources."""
    run = subprocess.run(command, cwd=crate(), capture_output=True, text=True, check=False)
    if run.returncode:
        raise BuildError(f"`{' '.join(command)}` failed: {run.stderr.strip()}")
    return run.stdout


def check_toolchain() -> None:
    """Fails where there is no Rust, or one that is too old."""
    said = output(tool("cargo"), "--version").split()
    has, wants = said[1] if len(said) > 1 else "", manifest()["package"].get("rust-version", "0")
    if number(has) < number(wants):
        raise BuildError(
            f"ccl-sql is built with Rust {wants} or newer, and cargo here is {has or 'unknown'}: "
            "raise it with `rustup update stable`, and try again"
        )


def target() -> str:
    """The target of the Rust compiler: the one asked for, or that of this machine."""
    if asked := os.environ.get("CARGO_BUILD_TARGET"):
        return asked
    said = re.search(r"^host: (\S+)$", output(tool("rustc"), "-vV"), re.MULTILINE)
    if not said:
        raise BuildError("`rustc -vV` does not say for which machine it builds")
    return said.group(1)


def duckdb_platform(triple: str) -> str:
    """The platform of a target as DuckDB names it."""
    if triple not in PLATFORMS:
        known = ", ".join(PLATFORMS)
        raise BuildError(f"DuckDB has no platform for {triple}; it is known of: {known}")
    return PLATFORMS[triple][0]


def wheel_platform(triple: str, library: Path) -> str:
    """The platform of a wheel: `CCL_SQL_WHEEL_PLATFORM`, or the plain one of the target.

    Raises BuildError where the library needs more than that platform promises.
    """
    duckdb_platform(triple)
    tag = PLATFORMS[triple][1]
    if "{macos}" in tag:
        said = output(tool("rustc"), "--print", "deployment-target", "--target", triple)
        macos = (*number(said.rpartition("=")[2].strip()), 0)[:2]
        # From 11 on Apple counts the first number, and wheels say 0 for the second.
        tag = tag.format(macos=f"{macos[0]}_{0 if macos[0] > 10 else macos[1]}")
    tag = os.environ.get("CCL_SQL_WHEEL_PLATFORM") or tag
    if manylinux := re.fullmatch(r"manylinux_(\d+)_(\d+)_\w+", tag):
        check_manylinux(tag, (int(manylinux[1]), int(manylinux[2])), library)
    return tag


def check_manylinux(tag: str, promised: tuple[int, int], library: Path) -> None:
    """Fails where a library needs a newer glibc, or libraries that not every Linux has."""
    libraries, versions = needed(library.read_bytes())
    needs = max(number(v[6:]) for v in ["GLIBC_2.0", *versions] if v.startswith("GLIBC_2"))
    if needs > promised:
        text = ".".join(map(str, needs))
        raise BuildError(f"{tag} promises too much: {library.name} needs glibc {text}")
    if more := [name for name in libraries if not ON_EVERY_LINUX.fullmatch(name)]:
        raise BuildError(f"{tag} promises too much: {library.name} needs {', '.join(more)}")


def needed(elf: bytes) -> tuple[list[str], list[str]]:
    """The libraries that an ELF file of 64 bits needs, and the versions of their symbols."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise BuildError("the library is no ELF file of 64 bits")
    start, size, count = *struct.unpack_from("<Q", elf, 0x28), *struct.unpack_from("<HH", elf, 0x3A)
    # Of each section: type, place, bytes, the section with its texts, what `sh_info` counts.
    sections = []
    for at in range(start, start + size * count, size):
        kind = struct.unpack_from("<I", elf, at + 4)[0]
        sections.append((kind, *struct.unpack_from("<QQII", elf, at + 24)))

    def text(section: int, offset: int) -> str:
        begin = sections[section][1] + offset
        return elf[begin : elf.index(b"\0", begin)].decode()

    libraries, versions = [], []
    for kind, place, length, link, entries in sections:
        if kind == 6:  # SHT_DYNAMIC
            for at in range(place, place + length, 16):
                what, value = struct.unpack_from("<QQ", elf, at)
                if what == 1:  # DT_NEEDED
                    libraries.append(text(link, value))
        elif kind == 0x6FFFFFFE:  # SHT_GNU_verneed
            for _ in range(entries):
                count, first, after = struct.unpack_from("<2xH4xII", elf, place)
                at = place + first
                for _ in range(count):
                    name, following = struct.unpack_from("<8xII", elf, at)
                    versions.append(text(link, name))
                    at += following
                place += after
    return libraries, versions


def date_sources() -> None:
    """Gives the files of a source distribution the time of now.

    Cargo sees by the times of files what changed since the last build, and checkouts that share
    `CARGO_TARGET_DIR` share it. In a source distribution all files are of one day of long ago: it
    would take what another version has left there.
    """
    root = crate()
    if root.name != "crate":
        return
    for path in root.rglob("*"):
        if path.is_file() and path.stat().st_mtime < LONG_AGO:
            os.utime(path)


def compile_library() -> Path:
    """Runs cargo, and returns the library that it made."""
    date_sources()
    arguments = "rustc --release --locked --lib --crate-type cdylib --no-default-features"
    command = [tool("cargo"), *arguments.split(), "--features", "extension"]
    command += ["--message-format", "json-render-diagnostics"]
    # Only of the library itself: what it depends on stays as any other build made it.
    command += ["--", "-C", "strip=symbols"]
    # Once is enough: what helps the next build, or a debugger, takes a third of the time.
    once = {"CARGO_INCREMENTAL": "0", "CARGO_PROFILE_RELEASE_DEBUG": "0"}
    run = subprocess.run(
        command, cwd=crate(), env=once | os.environ, stdout=subprocess.PIPE, check=False
    )
    if run.returncode:
        raise BuildError(f"cargo failed with exit code {run.returncode}; its messages are above")
    found = None
    for line in run.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact":
            continue
        if Path(message["manifest_path"]).resolve() != crate() / "Cargo.toml":
            continue
        for name in message["filenames"]:
            if name.endswith((".so", ".dylib", ".dll")):
                found = Path(name)
    if not found:
        raise BuildError("cargo made no shared library")
    return found


def footer(platform: str, extension_version: str) -> bytes:
    """What stands behind the library: a header, eight fields, and room for a signature.

    The header makes the footer a section of its own in WebAssembly. DuckDB writes it everywhere.
    """
    payload = b"\x10duckdb_signature\x80\x04"
    header = b"\x00" + bytes([0x93, 0x04]) + payload
    fields = ["", "", "", ABI, extension_version, C_API, platform, MAGIC]
    for field in fields:
        if len(field.encode()) > FIELD:
            raise BuildError(f"{field!r} is longer than a field of DuckDB's footer, {FIELD} bytes")
    out = header + b"".join(field.encode().ljust(FIELD, b"\0") for field in fields)
    return out + bytes(SIGNATURE)


def extension(library: Path, platform: str, place: Path) -> Path:
    """Writes the extension to a place, whole or not at all: the library, and the footer."""
    data = library.read_bytes()
    for symbol in SYMBOLS:
        if symbol.encode() not in data:
            raise BuildError(f"{library} has no symbol {symbol}: it is not the extension")
    beside = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        beside.write_bytes(data + footer(platform, version()))
        os.replace(beside, place)
    finally:
        beside.unlink(missing_ok=True)
    return place


def build(place: Path | None = None) -> tuple[Path, str]:
    """Builds the extension; returns its place and the platform of a wheel with it.

    Without a place it lies beside cargo's library.
    """
    check_toolchain()
    triple = target()
    platform = duckdb_platform(triple)
    library = compile_library()
    tag = wheel_platform(triple, library)
    return extension(library, platform, place or library.with_name(NAME)), tag


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Builds the DuckDB extension of ccl-sql.")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to write it")
    place = parser.parse_args().output
    if place and not place.name.endswith(".duckdb_extension"):
        parser.error("DuckDB loads only files whose names end in .duckdb_extension")
    try:
        built, _ = build(place and place.absolute())
    except (BuildError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(built)
    return 0


if __name__ == "__main__":
    sys.exit(main())
