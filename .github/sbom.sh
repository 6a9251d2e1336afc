#!/usr/bin/env bash
# Writes what the program and the extension are made of, as CycloneDX: a JSON file for each, into
# the folder $1. It needs cargo-cyclonedx.
set -euo pipefail
out="$(realpath -m "${1:?write the folder that they go to}")"
cd "$(dirname "$0")/.."
mkdir -p "$out"
version="$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)"

# bom NAME FEATURE...: cargo-cyclonedx writes beside the manifest, so the file is moved. The folder of
# the build is nobody's business.
bom() {
    local name="ccl-sql-$version-$1.cdx"
    shift
    cargo cyclonedx --format json --spec-version 1.5 --no-build-deps --target all \
        --override-filename "$name" "$@"
    sed "s|file://$PWD|file:///ccl-sql|g" "$name.json" > "$out/$name.json"
    rm "$name.json"
}
bom program --features bundled
bom extension --no-default-features --features extension
