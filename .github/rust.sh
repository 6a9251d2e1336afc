#!/usr/bin/env bash
# Installs the toolchain $1 of Rust for the later steps of a job, in a container too.
set -euo pipefail

if ! command -v rustup >/dev/null; then
    curl --proto '=https' --tlsv1.2 --fail --silent --show-error --retry 3 https://sh.rustup.rs |
        sh -s -- -y --no-modify-path --profile minimal --default-toolchain none
fi
folder="${CARGO_HOME:-$HOME/.cargo}/bin"
export PATH="$folder:$PATH"
rustup toolchain install "${1:?write a version of Rust}" --profile minimal
rustup default "$1"
echo "$folder" >> "${GITHUB_PATH:?the runner sets it}"
# The Python of the manylinux containers is too old for the scripts; they bring others.
if [ -d /opt/python/cp312-cp312/bin ]; then
    echo /opt/python/cp312-cp312/bin >> "$GITHUB_PATH"
fi
