#!/usr/bin/env bash
# Fuzzes every target for SECONDS (600 when not given), one after the other. Stops at the first
# input for which something does not hold; it lies in artifacts/<target>.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds="${1:-600}"

# The flags of the fuzzer are unstable ones, and this makes the stable compiler take them. Without a
# sanitizer: the crate has no unsafe code, and runs several times as fast.
export RUSTC_BOOTSTRAP=1
for target in kineto json header nsys xla et pickle bench; do
    length=4096
    case "$target" in nsys | xla) length=32768 ;; esac

    # What the fuzzer finds goes into the first folder, which is not committed.
    mkdir -p "tests/fuzz/work/$target"
    cargo fuzz run --fuzz-dir tests/fuzz --sanitizer none "$target" \
        "tests/fuzz/work/$target" "tests/fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len="$length" \
        -print_final_stats=1
done
