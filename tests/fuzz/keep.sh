#!/usr/bin/env bash
# Keeps what the fuzzer has found of the targets that are named: keep.sh TARGET ...
# Of the files in work/<target> those go into corpus/<target>.tar.gz that run code which neither the
# files of corpus/<target> nor fewer of them run.
set -euo pipefail
cd "$(dirname "$0")/../.."
export RUSTC_BOOTSTRAP=1
kept="$(mktemp -d)"
trap 'rm -rf "$kept"' EXIT

for target in "$@"; do
    archive="tests/fuzz/corpus/$target.tar.gz"
    found="tests/fuzz/work/$target"
    mkdir -p "$kept/$target" "$found"
    if [[ -e "$archive" ]]; then
        tar -xzf "$archive" -C "$found"
    fi
    if [[ -d "tests/fuzz/corpus/$target" ]]; then
        cp "tests/fuzz/corpus/$target"/* "$kept/$target"
    fi
    # How often a line runs makes no difference here.
    cargo fuzz run --fuzz-dir tests/fuzz --sanitizer "${SANITIZER:-none}" "$target" \
        "$kept/$target" "$found" -- -set_cover_merge=1 -use_counters=0 -rss_limit_mb=2048

    # Those have a place already.
    for file in "$kept/$target"/*; do
        if [[ -e "tests/fuzz/corpus/$target/$(basename "$file")" ]]; then
            rm "$file"
        fi
    done
    # The same files are the same archive.
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=644 \
        -C "$kept/$target" -cf - --no-recursion -T <(ls "$kept/$target") | gzip -9n > "$archive"
done
