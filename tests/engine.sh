#!/usr/bin/env bash
# A DuckDB to link with that nobody compiles: the library of PyPI's wheel of the version that
# Cargo.toml names. Prints its folder, for builds with `--no-default-features --features engine`:
#
#   DUCKDB_LIB_DIR="$(tests/engine.sh)" cargo build --release --no-default-features --features engine
#
# Fetched once, into the cache. For Linux: elsewhere the linker asks for other forms.
#
# That library is a module of Python, which exports DuckDB's C API and wants names of Python that
# only its module part uses. `python.o` has them, each an empty block; `libduckdb.so` is a script of
# the linker that takes both. Programs find the library by its path, so the folder must stay.
set -euo pipefail

fail() {
    echo "tests/engine.sh: $*" >&2
    exit 1
}

root="$(cd "$(dirname "$0")/.." && pwd)"
# The crate 1.20000.x is DuckDB 2.0.0: major, two digits of minor, two of patch.
number="$(sed -nE 's/^duckdb = .*version = "=?1\.([0-9]{5,})\..*/\1/p' "$root/Cargo.toml")"
[[ "$number" ]] || fail "Cargo.toml names no version 1.MmmppX.x of the crate duckdb"
version="$((number / 10000)).$((number / 100 % 100)).$((number % 100))"
folder="${XDG_CACHE_HOME:-$HOME/.cache}/ccl-sql/engine-$version"

if [[ ! -e "$folder" ]]; then
    [[ "$(uname -s)" == Linux ]] || fail "this is for Linux; build with the default features here"
    for tool in cc nm python3; do
        command -v "$tool" >/dev/null || fail "$tool is missing: gcc, binutils, python3"
    done
    python3 -m pip --version >/dev/null 2>&1 || fail "pip is missing: python3-pip"
    mkdir -p "$(dirname "$folder")"
    made="$(mktemp -d "$folder.XXXXXX")"
    trap 'rm -rf "$made"' EXIT
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
        --dest "$made" "duckdb==$version" >&2 || fail "PyPI gave no wheel of duckdb $version"
    python3 -m zipfile -e "$made"/duckdb-*.whl "$made/wheel"
    mv "$made"/wheel/_duckdb*.so "$made/engine.so"
    rm -rf "$made"/wheel "$made"/*.whl
    nm -D --defined-only "$made/engine.so" | grep ' duckdb_open_ext$' >/dev/null ||
        fail "the wheel of duckdb $version does not export the C API"
    nm -D --undefined-only "$made/engine.so" | sed -nE 's/^ +U (_?Py\w+)$/char \1[256];/p' |
        cc -x c -c -o "$made/python.o" -
    echo "INPUT(\"$folder/engine.so\" \"$folder/python.o\")" >"$made/libduckdb.so"
    # Another run may have made it meanwhile.
    mv -T "$made" "$folder" 2>/dev/null || [[ -e "$folder/libduckdb.so" ]] ||
        fail "$folder cannot be written"
fi
echo "$folder"
