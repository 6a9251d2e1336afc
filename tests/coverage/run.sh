#!/usr/bin/env bash
# Prints the lines of src that no test runs. Arguments go to the integration tests.
# Only our own crate is built anew, beside what is built: the libraries are not measured.
set -euo pipefail
cd "$(dirname "$0")/../.."
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cargo build --quiet --release --manifest-path tests/coverage/Cargo.toml --target-dir "$work/tool"

export RUSTC_WORKSPACE_WRAPPER="$PWD/tests/coverage/rustc"
export LLVM_PROFILE_FILE="$work/build-%4m.profraw"
test=(cargo test --release --locked --lib --bins --test it)
built="$("${test[@]}" --no-run --message-format=json-render-diagnostics | python3 -c '
import json, sys
for line in sys.stdin:
    one = json.loads(line)
    if one.get("executable"):
        target = one["target"]
        kind = "lib" if "lib" in target["kind"] else target["kind"][0]
        print(kind, one["executable"], "test" if one["profile"]["test"] else "plain")
')"
program() { awk -v kind="$1" -v how="$2" '$1 == kind && $3 == how { print $2 }' <<<"$built"; }
units="$(program lib test)" tests="$(program test test)" binary="$(program bin plain)"

# Programs that run side by side share four profiles.
run() {
    LLVM_PROFILE_FILE="$work/profiles/$1-%4m.profraw" "${@:2}" >&2
}
mkdir "$work/profiles"
export CARGO_MANIFEST_DIR="$PWD"
# What runs in a test that fails counts too.
failed=0
run units "$units" || failed=1
run tests env "CARGO_BIN_EXE_ccl-sql=$binary" "$tests" "$@" || failed=1

# The tests start the program, whose profiles have a number of their own.
of() {
    local all=()
    for file in "$work/profiles/$1"-*.profraw; do
        all+=("$file")
    done
    (IFS=, && printf '%s' "${all[*]}")
}
"$work/tool/release/never_run" "$PWD/src" "$units=$(of units)" "$tests=$(of tests)" \
    "$binary=$(of tests)"
exit "$failed"
