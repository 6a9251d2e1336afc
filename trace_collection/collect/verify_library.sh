#!/usr/bin/env bash
# Checks before a run that a process will load the communication library that is meant: `verify_library.sh
# -h` says how; ../README.md says what the traces tell of it afterwards. Nothing of the library is run.
set -euo pipefail

usage() {
    cat <<'USAGE'
Usage: verify_library.sh [-b BRANCH SOURCES] DIR [VERSION]

Checks, where the run will run (on its node, inside its container):
  1. DIR holds librccl.so or libnccl.so
  2. the loader looks into DIR first: it is the first folder of $LD_LIBRARY_PATH that holds the
     library, or $LD_PRELOAD names the library itself
  3. the library says VERSION of itself (without VERSION: what it says is printed)
  4. with -b, the git repository SOURCES, which it was built from, is on BRANCH

A line per check, `ok` or `FAILED`, goes to stdout. Programs that link the library statically, as some
builds of PyTorch do, load none: `python -c "import torch; print(torch.cuda.nccl.version())"` asks them.
Exit code: 0 all checks hold, 1 one does not, 2 wrong command line.

  verify_library.sh /opt/rccl-warpspeed/lib 2.27
  verify_library.sh -b warp_speed_v1 /opt/rccl /opt/rccl-warpspeed/lib
USAGE
}

wrong() {
    printf 'verify_library.sh: %s\nTry: verify_library.sh --help\n' "$1" >&2
    exit 2
}

branch='' sources=''
while (($# > 0)); do
    case $1 in
        -h | --help)
            usage
            exit 0
            ;;
        -b)
            (($# > 2)) || wrong "-b needs a branch and a folder"
            branch=$2 sources=$3
            shift 3
            ;;
        --)
            shift
            break
            ;;
        -*) wrong "unknown option $1" ;;
        *) break ;;
    esac
done
(($# == 1 || $# == 2)) || wrong "give the folder of the library, and the version if it matters"
folder=$1 version=${2-}
failed=0

# said WHETHER WHAT: a line per check.
said() {
    if (($1)); then
        printf 'ok      %s\n' "$2"
    else
        printf 'FAILED  %s\n' "$2"
        failed=1
    fi
}

# Sets REPLY to the library of a folder, or to nothing.
library_in() {
    local file
    REPLY=''
    for file in "$1"/librccl.so* "$1"/libnccl.so*; do
        if [[ -f $file ]]; then
            REPLY=$file
            return
        fi
    done
}

library_in "$folder"
library=$REPLY
if [[ -z $library ]]; then
    said 0 "path: $folder holds neither librccl.so nor libnccl.so"
    exit 1
fi
said 1 "path: $(readlink -f -- "$library")"

loaded='' by=LD_LIBRARY_PATH
IFS=': ' read -r -d '' -a preloaded < <(printf '%s\0' "${LD_PRELOAD-}") || true
for file in "${preloaded[@]}"; do
    case ${file##*/} in
        librccl.so* | libnccl.so*)
            loaded=$file by=LD_PRELOAD
            break
            ;;
    esac
done
if [[ -z $loaded ]]; then
    IFS=: read -r -d '' -a searched < <(printf '%s\0' "${LD_LIBRARY_PATH-}") || true
    for place in "${searched[@]}"; do
        # An empty entry is the working directory.
        library_in "${place:-.}"
        if [[ -n $REPLY ]]; then
            loaded=$REPLY
            break
        fi
    done
fi
if [[ -z $loaded ]]; then
    said 0 "order: neither LD_LIBRARY_PATH nor LD_PRELOAD leads to a library; the loader takes another one"
else
    is_meant=0
    [[ $(readlink -f -- "$loaded") != "$(readlink -f -- "$library")" ]] || is_meant=1
    said "$is_meant" "order: $by leads to $loaded"
fi

# The banner that the library prints with NCCL_DEBUG=VERSION is a text in it.
stated=$(LC_ALL=C grep -a -o -m 1 -E '(NCCL|RCCL) version[ :]+[0-9]+(\.[0-9]+)+' -- "$library" | head -n 1 || true)
stated=${stated##*[ :]}
if [[ -z $stated ]]; then
    holds=1
    [[ -z $version ]] || holds=0
    said "$holds" "version: the file states none; run with NCCL_DEBUG=VERSION"
else
    holds=0
    [[ -n $version && $stated != "$version" && $stated != "$version".* ]] || holds=1
    said "$holds" "version: $stated${version:+, asked for: $version}"
fi

if [[ -n $branch ]]; then
    now=$(git -C "$sources" branch --show-current 2>/dev/null || true)
    holds=0
    [[ $now != "$branch" ]] || holds=1
    said "$holds" "branch: ${now:-none} in $sources, asked for: $branch"
fi
exit "$failed"
