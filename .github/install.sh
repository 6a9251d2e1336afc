#!/bin/sh
# Installs ccl-sql: the archive of this platform, checked against SHA256SUMS, into ~/.local/bin.
# The copy of a release knows its version and address. docs/releasing.md says how it is made.
set -eu

version='@VERSION@'
from='@ADDRESS@'
to="${CCL_SQL_BIN:-${HOME:-}/.local/bin}"

usage() {
    cat <<'TEXT'
Usage: install.sh [--to DIR] [--from ADDRESS|DIR] [--version VERSION]

  --to DIR           where ccl-sql goes [default: $CCL_SQL_BIN, else ~/.local/bin]
  --from ADDRESS     where the archives and SHA256SUMS are: an address, or a folder
  --version VERSION  the version to install

An installed ccl-sql is replaced once the new one is checked and runs.
TEXT
}

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    say "error: $1"
    shift
    for hint in "$@"; do say "hint: $hint"; done
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# The target whose archive runs here.
target() {
    system=$(uname -s)
    machine=$(uname -m)
    case $system in
    Linux) ;;
    Darwin)
        # A shell of the other kind of processor hides what the machine is.
        if [ "$(sysctl -n sysctl.proc_translated 2>/dev/null || true)" = 1 ]; then machine=arm64; fi
        ;;
    *) fail "there is no archive for $system" "build it: cargo install --path . in the sources" ;;
    esac
    case $machine in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) fail "there is no archive for $machine" "build it: cargo install --path . in the sources" ;;
    esac
    case $system in
    Darwin) echo "$machine-apple-darwin" ;;
    Linux)
        libc=$(getconf GNU_LIBC_VERSION 2>/dev/null || true)
        case $libc in
        'glibc '[0-9]*.[0-9]*) ;;
        *) fail "this system has no glibc, and the archive needs 2.28 or newer" \
            "build it: cargo install --path . in the sources" ;;
        esac
        libc=${libc#glibc }
        minor=${libc#*.}
        if [ "${libc%%.*}" -lt 2 ] ||
            { [ "${libc%%.*}" -eq 2 ] && [ "${minor%%.*}" -lt 28 ]; }; then
            fail "this system has glibc $libc, and the archive needs 2.28 or newer" \
                "build it: cargo install --path . in the sources"
        fi
        echo "$machine-unknown-linux-gnu"
        ;;
    esac
}

# Gets a file of the release into the folder $2.
get() {
    case $from in
    http://* | https://*)
        # No way from https to plain http.
        allowed='=https'
        case $from in http://*) allowed='=http,https' ;; esac
        if has curl; then
            curl --proto "$allowed" --fail --silent --show-error --location --retry 3 \
                --output "$2/$1" "$from/$1"
        elif has wget; then
            wget --quiet --output-document="$2/$1" "$from/$1"
        else
            fail "neither curl nor wget is installed" "install one of them"
        fi || fail "cannot get $from/$1" "check the address and the network"
        ;;
    *)
        [ -f "$from/$1" ] || fail "there is no file $from/$1" "give the folder of the archives"
        cp "$from/$1" "$2/$1"
        ;;
    esac
}

sha256() {
    if has sha256sum; then
        sha256sum <"$1"
    else
        shasum -a 256 <"$1"
    fi | cut -d ' ' -f 1
}

main() {
    while [ $# -gt 0 ]; do
        case $1 in
        --to | --from | --version)
            [ $# -ge 2 ] || { usage >&2; exit 2; }
            case $1 in --to) to=$2 ;; --from) from=$2 ;; *) version=$2 ;; esac
            shift 2
            ;;
        -h | --help) usage; exit 0 ;;
        *) say "error: $1 is not understood"; usage >&2; exit 2 ;;
        esac
    done
    # The template, not the copy of a release.
    case $version in @*) fail "no version is given" "write --version, e.g. --version 0.1.0" ;; esac
    case $from in @*) fail "no address is given" "write --from ADDRESS or --from DIR" ;; esac
    case $version in *[!0-9A-Za-z.+-]* | '') fail "'$version' is no version" ;; esac
    case $to in
    '') fail "no folder is given" "write --to DIR" ;;
    /.local/bin) fail "HOME is not set" "write --to DIR" ;;
    esac
    has tar || fail "tar is not installed" "install it"
    has sha256sum || has shasum ||
        fail "neither sha256sum nor shasum is installed" "install one of them"

    name="ccl-sql-$version-$(target)"
    new=
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"; [ -z "$new" ] || rm -f "$new"' EXIT
    trap 'exit 130' HUP INT TERM

    get SHA256SUMS "$scratch"
    wanted=$(sed -n "s/^\([0-9a-f]\{64\}\)  $name\.tar\.gz\$/\1/p" "$scratch/SHA256SUMS")
    [ -n "$wanted" ] || fail "SHA256SUMS names no $name.tar.gz" "is $version of this release?"
    say "getting $name.tar.gz"
    get "$name.tar.gz" "$scratch"
    found=$(sha256 "$scratch/$name.tar.gz")
    [ "$found" = "$wanted" ] || fail "the archive is damaged or is another one: \
its SHA-256 is $found, and SHA256SUMS says $wanted" "try again; nothing was installed"
    tar -xzf "$scratch/$name.tar.gz" -C "$scratch" "$name/ccl-sql" ||
        fail "the archive holds no ccl-sql"

    mkdir -p "$to" 2>/dev/null && [ -w "$to" ] || fail "cannot write to $to" "write --to DIR"
    [ ! -d "$to/ccl-sql" ] || fail "$to/ccl-sql is a folder" "write --to DIR"
    # In the folder itself, so that the last step is a rename.
    new="$to/.ccl-sql.$$"
    cp "$scratch/$name/ccl-sql" "$new"
    chmod 755 "$new"
    says=$("$new" -V) || fail "the program does not run here" "nothing was installed"
    mv -f "$new" "$to/ccl-sql"
    new=
    say "installed $says as $to/ccl-sql"
    case ":${PATH:-}:" in
    *":$to:"*) ;;
    *) say "note: $to is not on your PATH: export PATH=\"$to:\$PATH\"" ;;
    esac
}

# Read to its end before it does anything: half a script installs nothing.
main "$@"
