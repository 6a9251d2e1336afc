#!/usr/bin/env bash
# Fuzzes every target, or those that are named, for SECONDS (600 when not given), one after the
# other: run.sh [SECONDS [TARGET ...]]. Stops at the first input for which something does not hold;
# it lies in artifacts/<target>. keep.sh keeps what the others have found.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds="${1:-600}"
targets=("${@:2}")
if [[ ${#targets[@]} == 0 ]]; then
    targets=(kineto json header nsys xla et pickle bench
        kineto_shaped nsys_shaped xla_shaped pickle_shaped)
fi

# The flags of the fuzzer are unstable ones, and this makes the stable compiler take them. Without a
# sanitizer: the crate has no unsafe code, and runs several times as fast. SANITIZER=address has one.
export RUSTC_BOOTSTRAP=1
for target in "${targets[@]}"; do
    length=4096
    case "$target" in nsys | xla) length=32768 ;; esac

    # What the fuzzer finds goes into the first folder, which is not committed. It begins with what
    # earlier runs have found.
    corpus=("tests/fuzz/work/$target")
    mkdir -p "${corpus[0]}"
    if [[ -e "tests/fuzz/corpus/$target.tar.gz" ]]; then
        tar -xzf "tests/fuzz/corpus/$target.tar.gz" -C "${corpus[0]}"
    fi
    grow=100
    if [[ "$target" == *_shaped ]]; then
        # Every choice is one, so the first ones may be any. Short inputs choose next to nothing.
        grow=0
        for seed in {1..32}; do
            head -c 2048 /dev/urandom > "${corpus[0]}/random-$seed"
        done
    else
        corpus+=("tests/fuzz/corpus/$target")
    fi
    cargo fuzz run --fuzz-dir tests/fuzz --sanitizer "${SANITIZER:-none}" "$target" \
        "${corpus[@]}" -- -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
        -max_len="$length" -len_control="$grow" -print_final_stats=1
done
