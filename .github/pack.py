#!/usr/bin/env python3
"""Makes the files of a release. `docs/releasing.md` says what each is.

Archives are the same bytes for the same content: entries are sorted, and owners, times and modes
are fixed. It needs Python 3.11, and binutils (Linux) or Xcode's tools (macOS) for `program`.
"""

import argparse
import gzip
import hashlib
import io
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTENSION = "ccl_sql.duckdb_extension"
# DuckDB reads what an extension is from its last bytes: 8 fields of 32, the last first, and a
# signature.
FIELDS, SIGNATURE = 32, 256
# By the name of the platform at DuckDB: the target of Rust, and the newest libc that may be needed.
PLATFORMS = {
    "linux_amd64": ("x86_64-unknown-linux-gnu", (2, 28)),
    "linux_arm64": ("aarch64-unknown-linux-gnu", (2, 28)),
    "osx_amd64": ("x86_64-apple-darwin", None),
    "osx_arm64": ("aarch64-apple-darwin", None),
}


class Wrong(Exception):
    """What cannot be released, as a sentence."""


def version():
    """The version of the program."""
    with open(ROOT / "Cargo.toml", "rb") as file:
        return tomllib.load(file)["package"]["version"]


def run(*command):
    """Standard output of a command that must succeed."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE)
    if done.returncode != 0:
        raise Wrong(f"{Path(command[0]).name} failed with exit code {done.returncode}")
    return done.stdout


def archive(path, files):
    """Writes a .tar.gz of (name, bytes, whether it can be run)."""
    folder = path.name.removesuffix(".tar.gz")
    bytes_of_tar = io.BytesIO()
    with tarfile.open(fileobj=bytes_of_tar, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content, runs in sorted(files):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode = len(content), 0o755 if runs else 0o644
            entry.mtime = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
            tar.addfile(entry, io.BytesIO(content))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(bytes_of_tar.getvalue(), 9, mtime=0))
    print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")


def check_libc(path, newest):
    """Refuses a program or library that needs a newer libc than `newest`."""
    names = run("objdump", "-T", path).decode()
    needed = {tuple(map(int, v.split("."))) for v in re.findall(r"\(?GLIBC_(\d+(?:\.\d+)+)", names)}
    if not needed:
        raise Wrong(f"{path.name} names no version of glibc: is it linked?")
    if max(needed) > newest:
        show = ".".join(map(str, max(needed)))
        raise Wrong(f"{path.name} needs glibc {show}, but its platform promises "
                    f"{newest[0]}.{newest[1]}: build it in the manylinux container")


def without_symbols(binary, folder):
    """The program without its symbols, and the files that hold them."""
    stripped = folder / "ccl-sql"
    if platform.system() == "Darwin":
        symbols = folder / "ccl-sql.dSYM"
        run("dsymutil", binary, "-o", symbols)
        run("strip", "-S", "-x", "-o", stripped, binary)
        # A changed file needs its signature anew, else the system does not run it.
        run("codesign", "--force", "--sign", "-", stripped)
        files = [path for path in symbols.rglob("*") if path.is_file()]
        return stripped, [(str(p.relative_to(folder)), p.read_bytes(), False) for p in files]
    symbols = folder / "ccl-sql.debug"
    if b".debug_line" not in run("objdump", "-h", binary):
        raise Wrong(f"{binary} has no debug information: build it with "
                    "CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_SPLIT_DEBUGINFO=off")
    run("objcopy", "--only-keep-debug", "--compress-debug-sections=zlib", binary, symbols)
    run("objcopy", "--strip-all", f"--add-gnu-debuglink={symbols}", binary, stripped)
    return stripped, [(symbols.name, symbols.read_bytes(), False)]


def program(args):
    """The archive of the program, and that of its symbols."""
    target, newest = PLATFORMS[args.platform]
    said = run(args.binary, "-V").decode().strip()
    if said != f"ccl-sql {version()}":
        raise Wrong(f"{args.binary} is {said!r}, and the manifest says {version()}")
    if newest:
        check_libc(args.binary, newest)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        stripped, symbols = without_symbols(args.binary, folder)
        run(stripped, "man", "--quiet", "-o", f"{folder}/man/")
        files = [("ccl-sql", stripped.read_bytes(), True)]
        files += [(f"man/{p.name}", p.read_bytes(), False) for p in (folder / "man").iterdir()]
        scripts = {"bash": "ccl-sql.bash", "fish": "ccl-sql.fish", "zsh": "_ccl-sql"}
        files += [(f"completions/{name}", run(stripped, "completions", shell), False)
                  for shell, name in scripts.items()]
        for name in ["README.md", "docs/CHANGELOG.md"]:
            files.append((Path(name).name, (ROOT / name).read_bytes(), False))
    archive(args.out / f"ccl-sql-{version()}-{target}.tar.gz", files)
    archive(args.out / f"ccl-sql-{version()}-{target}-symbols.tar.gz", symbols)


def extension(args):
    """The archive of the extension that a wheel holds."""
    with zipfile.ZipFile(args.wheel) as wheel:
        if f"ccl_sql/{EXTENSION}" not in wheel.namelist():
            raise Wrong(f"{args.wheel.name} holds no ccl_sql/{EXTENSION}")
        content = wheel.read(f"ccl_sql/{EXTENSION}")
    fields = content[-(SIGNATURE + 8 * FIELDS):-SIGNATURE]
    fields = [fields[at:at + FIELDS].rstrip(b"\0").decode("ascii", "replace")
              for at in range(0, len(fields), FIELDS)][::-1]
    if len(fields) != 8 or fields[0] != "4":
        raise Wrong(f"{EXTENSION} does not end as an extension of DuckDB does")
    if fields[1] != args.platform or fields[4] != "C_STRUCT":
        raise Wrong(f"the extension says {fields[:5]}, and should be of {args.platform}")
    newest = PLATFORMS[args.platform][1]
    if newest:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / EXTENSION
            path.write_bytes(content)
            check_libc(path, newest)
    name = f"ccl-sql-{version()}-duckdb-extension-{args.platform}.tar.gz"
    archive(args.out / name, [(EXTENSION, content, False)])


def notes(args):
    """What the changelog says of this version."""
    text = (ROOT / "docs/CHANGELOG.md").read_text()
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        heading, _, body = part.partition("\n")
        if heading.split(" ")[0] == version():
            if args.dated and not re.fullmatch(r"\S+ · \d{4}-\d\d-\d\d", heading):
                raise Wrong(f"docs/CHANGELOG.md has no date for {version()}: it says {heading!r}")
            print(body.strip())
            return
    raise Wrong(f"docs/CHANGELOG.md says nothing of {version()}")


def tag(args):
    """Whether a tag is that of the version."""
    if args.tag != f"v{version()}":
        raise Wrong(f"the tag is {args.tag}, and the manifest says {version()}")


def finish(args):
    """The installer, the formula and the checksums, beside everything that was built."""
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in args.out.iterdir() if path.is_file() and path.name != "SHA256SUMS"}
    known = {"VERSION": version(), "ADDRESS": args.address,
             "HOMEPAGE": args.address.split("/releases/")[0]}
    for target, _ in PLATFORMS.values():
        name = f"ccl-sql-{version()}-{target}.tar.gz"
        if name not in sums:
            raise Wrong(f"{args.out} has no {name}")
        known[f"SHA256 {target}"] = sums[name]
    for source in ["install.sh", "homebrew/ccl-sql.rb"]:
        text = (ROOT / ".github" / source).read_text()
        text = re.sub(r"@([A-Z0-9]+(?: [a-z0-9_-]+)?)@", lambda found: known[found[1]], text)
        path = args.out / Path(source).name
        path.write_text(text)
        sums[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    lines = [f"{digest}  {name}\n" for name, digest in sorted(sums.items())]
    (args.out / "SHA256SUMS").write_text("".join(lines))
    print("".join(lines), end="")


def address(text):
    """A folder of the web, without what a shell or Ruby could take for its own."""
    if not re.fullmatch(r"https?://[A-Za-z0-9._~:/-]+[A-Za-z0-9]", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no plain address")
    return text


def main():
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)

    def command(function):
        out = commands.add_parser(function.__name__, help=function.__doc__)
        out.set_defaults(function=function)
        return out

    def built(function):
        out = command(function)
        out.add_argument("--platform", choices=PLATFORMS, required=True)
        out.add_argument("--out", type=Path, default=Path("dist"))
        return out

    built(program).add_argument("binary", type=Path)
    built(extension).add_argument("wheel", type=Path)
    command(notes).add_argument("--dated", action="store_true")
    command(tag).add_argument("tag")
    last = command(finish)
    last.add_argument("--address", type=address, required=True)
    last.add_argument("--out", type=Path, default=Path("dist"))
    args = parser.parse_args()
    try:
        args.function(args)
    except (Wrong, OSError, zipfile.BadZipFile) as wrong:
        sys.exit(f"error: {wrong}")


main()
