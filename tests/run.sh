#!/usr/bin/env bash
# All tests, without a build of DuckDB: linked with the one of tests/engine.sh. Linux.
#
#   tests/run.sh [WORD...]            unit and integration tests
#   tests/run.sh --wheel [WORD...]    the integration tests, through the program of the wheel
#
# WORDs are for cargo: `golden` runs the tests whose name holds it. The build shares cargo's target
# directory with others, and leaves there a `ccl-sql` that needs that DuckDB.
set -euo pipefail
cd "$(dirname "$0")/.."

targets=()
if [[ "${1:-}" == --wheel ]]; then
    shift
    targets=(--test it)
    python="${CARGO_TARGET_DIR:-target}/wheel"
    # Where the wheel is installed. Python makes it anew where it lacks its pip.
    [[ -x "$python/bin/pip" ]] || python3 -m venv --clear "$python"
    "$python/bin/pip" install --quiet --disable-pip-version-check ./python
    CCL_SQL_PROGRAM="$(realpath -s "$python/bin/ccl-sql")"
    export CCL_SQL_PROGRAM
fi
DUCKDB_LIB_DIR="$(tests/engine.sh)"
export DUCKDB_LIB_DIR
cargo test --release --locked --no-default-features --features engine,object-stores "${targets[@]}" "$@"
