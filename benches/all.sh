#!/usr/bin/env bash
# Measures everything in one go, and writes what it found into docs/performance.md.
#
#   benches/all.sh [--runs N] [--dir DIR] [--binary PATH] [--quick]
#
# Real traces make the figures better: KINETO, NSYS and XPLANE name a Kineto file or a folder of
# them, an Nsight Systems export, and an XLA profile. What is not named is left out, but Kineto's
# examples of this repository. It takes half an hour on two cores, and wants a machine that does
# nothing else.
set -euo pipefail
cd "$(dirname "$0")"

page=$(mktemp)
trap 'rm -f "$page"' EXIT
echo "$(nproc) cores, $(uname -m), $(date -u +%Y-%m-%d)." > "$page"
echo >> "$page"

python3 run.py --page "$page" --growth "$@"
if [[ -n "${KINETO:-}" ]]; then
    python3 run.py --page "$page" --source "$KINETO" "$@"
fi
if [[ -n "${NSYS:-}" ]]; then
    python3 nsys.py "$NSYS" --page "$page" "$@"
fi
if [[ -n "${XPLANE:-}" ]]; then
    python3 xplane.py "$XPLANE" --page "$page" "$@"
fi
python3 ranks.py --page "$page" "$@"
python3 metrics.py --page "$page" "$@"
python3 questions.py --page "$page" "$@"

# What stands behind the mark was measured; what stands before it is written by hand.
mark='<!-- Measured by benches/all.sh -->'
document=../docs/performance.md
grep -qxF "$mark" "$document"
{
    sed "/^$mark\$/q" "$document"
    echo
    cat -s "$page"
} > "$document.new"
mv "$document.new" "$document"
