#!/usr/bin/env bash
# Makes the pictures of the README: the first screen of a report, light and dark.
#
#     docs/picture.sh [BINARY]
#
# BINARY is `ccl-sql`, as cargo built it unless it is given. The trace is an example of
# trace_collection. Needs chromium (CHROMIUM=PATH names another), and Python with Pillow, which
# reduces the colours: the pictures lie in git.
set -euo pipefail
cd "$(dirname "$0")/.."

target="${CARGO_TARGET_DIR:-target}"
binary="$(realpath "${1:-$target/release/ccl-sql}")"
chromium="${CHROMIUM:-chromium}"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT

"$binary" --data "$folder/data" -q report --trace trace_collection/llama-tiny-fsdp2-tp2-4 \
    -o "$folder/report.html"

# Blink's numbers of the two schemes. The height ends below the timeline.
for scheme in light=1 dark=0; do
    picture="docs/report-${scheme%=*}.png"
    "$chromium" --headless=new --no-sandbox --disable-gpu --hide-scrollbars \
        --user-data-dir="$folder/profile" --window-size=1400,1268 --virtual-time-budget=5000 \
        --blink-settings="preferredColorScheme=${scheme#*=}" \
        --screenshot="$folder/page.png" "file://$folder/report.html" 2> "$folder/chromium.log"
    python3 - "$folder/page.png" "$picture" <<'PYTHON'
import sys
from PIL import Image

page = Image.open(sys.argv[1]).convert("RGB")
indexed = page.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
indexed.save(sys.argv[2], optimize=True)
PYTHON
    du -b "$picture"
done
