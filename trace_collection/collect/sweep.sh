#!/usr/bin/env bash
# Runs a command once per configuration of a communication library, each into a folder of its own with
# its settings in a workload card. `sweep.sh -h` says how; ../README.md has the whole flow.
#
# No value is ever evaluated: settings reach the command through env(1), and the card as quoted text.
set -euo pipefail

usage() {
    cat <<'USAGE'
Usage: sweep.sh [OPTION]... -- COMMAND [ARGUMENT]...

Runs COMMAND once per configuration, with the configuration in its environment, into
  DIR/NAME_YYYYMMDD_HHMMSS/<cu>cu_<threads>threads/
COMMAND finds that folder in $SWEEP_DIR and writes its traces below it, best as
  $SWEEP_DIR/torch_profiler/rank<N>/trace.json
After a run that succeeded, workload_card.yaml beside them holds its settings.

  -p, --pairs LIST      configurations, separated by white space; the values of one by
                        commas [56,256 37,384 32,512]; may be repeated
      --one VALUES      one configuration; white space belongs to its values; may be repeated
  -d, --delimiter C     between the values of a configuration, in place of the comma
  -v, --variables A,B   the variables that the values are of
                        [RCCL_WARP_SPEED_CU_COUNT,RCCL_THREADS_PER_BLOCK, and then also
                        RCCL_WARP_SPEED_ENABLE=1 and RCCL_UNROLL_FACTOR=1 in every run]
  -e, --env KEY=VALUE   one more variable of every run; may be repeated. It goes into the card:
                        export what is secret instead
  -n, --name NAME       of the sweep [rccl_warp_speed; sweep with -v]
  -o, --output DIR      [experiments]
  -c, --card FILE       a card to keep, with the settings in place of its line `# sweep` below `env:`
  -I, --replace STRING  put the folder in place of STRING in the arguments of COMMAND
  -t, --timeout SECONDS stop a run after that time; it has failed then
  -x, --stop            stop at the first run that fails; else the others still run
      --dry-run         say what would run, and make nothing
  -h, --help            this text

The log of a run is sweep.log in its folder. A run that fails (exit code, time, or not one file
written) keeps its log and files, and gets no card. Nothing that exists is overwritten.
The folder of the sweep goes to stdout, all else to stderr.
Exit code: 0 all runs succeeded, 1 one failed, 2 wrong command line, 128+N stopped by signal N.

  sweep.sh -p "56,256 37,384" -- torchrun --nproc-per-node 8 train.py
  sweep.sh -v NCCL_ALGO,NCCL_MAX_NCHANNELS -p "Ring,4 Tree,8" -I {} -- ./train.sh --traces {}
USAGE
}

say() {
    printf '%s\n' "$*" >&2
}

wrong() {
    say "sweep.sh: $1"
    say "Try: sweep.sh --help"
    exit 2
}

# Sets REPLY to $1 as a double-quoted scalar of YAML. Returns 1 where it is no UTF-8, which no card can
# hold. Bytes are decoded here, because what YAML forbids unescaped (C0, C1, U+FEFF, …) is said in characters.
yaml_quoted() {
    local LC_ALL=C text=$1 at=0 n byte code more escaped
    REPLY='"'
    while ((at < ${#text})); do
        printf -v byte '%d' "'${text:at:1}"
        byte=$((byte & 255))
        if ((byte < 0x80)); then
            more=0 code=$byte
        elif ((byte >= 0xC2 && byte <= 0xDF)); then
            more=1 code=$((byte & 0x1F))
        elif ((byte >= 0xE0 && byte <= 0xEF)); then
            more=2 code=$((byte & 0x0F))
        elif ((byte >= 0xF0 && byte <= 0xF4)); then
            more=3 code=$((byte & 0x07))
        else
            return 1
        fi
        ((at + more < ${#text})) || return 1
        for ((n = 1; n <= more; n++)); do
            printf -v byte '%d' "'${text:at+n:1}"
            byte=$((byte & 255))
            (((byte & 0xC0) == 0x80)) || return 1
            code=$((code << 6 | byte & 0x3F))
        done
        if ((more == 2 && (code < 0x800 || (code >= 0xD800 && code <= 0xDFFF)))); then
            return 1
        elif ((more == 3 && (code < 0x10000 || code > 0x10FFFF))); then
            return 1
        fi
        if ((code == 0x22 || code == 0x5C)); then
            REPLY+=\\${text:at:1}
        elif ((code == 0x0A)); then
            REPLY+='\n'
        elif ((code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x2028 || code == 0x2029 ||
            code == 0xFEFF || code == 0xFFFE || code == 0xFFFF)); then
            printf -v escaped '\\u%04X' "$code"
            REPLY+=$escaped
        else
            REPLY+=${text:at:more+1}
        fi
        at=$((at + more + 1))
    done
    REPLY+='"'
}

# Refuses what can be no variable, or no value in a card.
checked() {
    local LC_ALL=C
    [[ $1 =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || wrong "no name of a variable: $1"
    [[ $1 != SWEEP_DIR ]] || wrong "SWEEP_DIR is where the command writes; it cannot be a setting"
    yaml_quoted "$2" || wrong "the value of $1 is no UTF-8 text"
}

# Sets `fields` to the parts of $1 between delimiters; empty parts count.
split() {
    local rest=$1
    fields=()
    while [[ $rest == *"$delimiter"* ]]; do
        fields+=("${rest%%"$delimiter"*}")
        rest=${rest#*"$delimiter"}
    done
    fields+=("$rest")
}

# Sets `label` to the folder of the configuration in `fields`: 56cu_256threads, algo-Ring_max_nchannels-4.
name_configuration() {
    local LC_ALL=C n variable value part other unique
    label=''
    for n in "${!variables[@]}"; do
        variable=${variables[n]} value=${fields[n]}
        if [[ $variable == RCCL_WARP_SPEED_CU_COUNT && $value =~ ^[0-9]{1,9}$ ]]; then
            part=${value}cu
        elif [[ $variable == RCCL_THREADS_PER_BLOCK && $value =~ ^[0-9]{1,9}$ ]]; then
            part=${value}threads
        else
            variable=${variable#NCCL_}
            variable=${variable#RCCL_}
            value=${value//[!A-Za-z0-9.+]/_}
            part=${variable,,}-${value:0:40}
        fi
        label+=${label:+_}$part
    done
    label=${label:0:120}
    # Folders of these names are taken for those of one rank or process of a job.
    [[ ! $label =~ ^(rank|proc|process|host|worker|node|task)[_-]?[0-9]+$ ]] || label=set_$label
    unique=$label n=1
    for other in "${labels[@]}"; do
        # Compared in small letters: some file systems know no others.
        [[ ${other,,} != "${unique,,}" ]] || unique=${label}_$((n += 1))
    done
    label=$unique
}

# Adds the configuration $1.
add_configuration() {
    local n
    split "$1"
    ((${#fields[@]} == ${#variables[@]})) ||
        wrong "${#fields[@]} value(s) for ${#variables[@]} variable(s) (${variables[*]}): $1"
    for n in "${!fields[@]}"; do
        checked "${variables[n]}" "${fields[n]}"
        if ((is_default)) && [[ ! ${fields[n]} =~ ^[1-9][0-9]{0,8}$ ]]; then
            wrong "no count: ${variables[n]} = ${fields[n]}"
        fi
    done
    name_configuration
    labels+=("$label")
    values+=("${fields[@]}")
}

# Adds KEY=VALUE to what every run gets; a later one replaces an earlier one.
add_constant() {
    local key=${1%%=*} n
    [[ $1 == *=* ]] || wrong "no KEY=VALUE: $1"
    checked "$key" "${1#*=}"
    for n in "${!keys[@]}"; do
        if [[ ${keys[n]} == "$key" ]]; then
            constants[n]=${1#*=}
            return
        fi
    done
    keys+=("$key")
    constants+=("${1#*=}")
}

# Sets `settings` to KEY=VALUE of configuration $1, constants first.
settings_of() {
    local n
    settings=()
    for n in "${!keys[@]}"; do
        settings+=("${keys[n]}=${constants[n]}")
    done
    for n in "${!variables[@]}"; do
        settings+=("${variables[n]}=${values[$1 * ${#variables[@]} + n]}")
    done
}

# Sets `arguments` to the command for the folder $1.
command_of() {
    local argument
    arguments=()
    for argument in "${command[@]}"; do
        if [[ -n $placeholder ]]; then
            argument=${argument//"$placeholder"/"$1"}
        fi
        arguments+=("$argument")
    done
}

# Sets REPLY to the number of white space before line $1 of the card; returns 1 for one that says nothing.
indent_of() {
    local line=${card_lines[$1]%$'\r'}
    [[ ! $line =~ ^[[:space:]]*(#.*)?$ ]] || return 1
    [[ $line =~ ^\ * ]]
    REPLY=${#BASH_REMATCH[0]}
}

# Sets REPLY to the line that line $1, indented by $2, stands below.
parent_of() {
    local n
    for ((n = $1 - 1; n >= 0; n--)); do
        if indent_of "$n" && ((REPLY < $2)); then
            REPLY=$n
            return
        fi
    done
    return 1
}

# Reads the user's card, and finds the line that the settings replace: `# sweep`, by itself, below
# `env:` of the communication library. Lines are only copied: bash has no reader of YAML, so what cannot
# be seen to be right is refused.
read_card() {
    local n line key indent place at path='' seen_indent
    [[ -f $card && -r $card ]] || wrong "cannot read the card $card"
    mapfile -t card_lines <"$card"
    marker=-1
    for n in "${!card_lines[@]}"; do
        line=${card_lines[n]%$'\r'}
        if [[ $line =~ ^(\ +)#\ *sweep\ *$ ]]; then
            ((marker < 0)) || wrong "$card has two lines \`# sweep\`"
            marker=$n card_indent=${BASH_REMATCH[1]}
        fi
        for key in "${keys[@]}" "${variables[@]}"; do
            [[ ! $line =~ (^|[^A-Za-z0-9_])${key}[\"\']?[[:space:]]*: ]] ||
                wrong "$card sets $key itself (line $((n + 1))); remove it there"
        done
    done
    place="below \`Model-executor:\`, \`communication_library:\`, \`env:\`"
    ((marker >= 0)) || wrong "$card has no line \`# sweep\` for the settings, $place"
    at=$marker indent=${#card_indent}
    while parent_of "$at" "$indent"; do
        at=$REPLY
        line=${card_lines[at]%$'\r'}
        [[ $line =~ ^\ *([A-Za-z_-]+):\ *(#.*)?$ ]] || break
        path=${BASH_REMATCH[1]}/$path
        indent_of "$at"
        indent=$REPLY
        ((indent > 0)) || break
    done
    [[ $path == Model-executor/communication_library/env/ ]] ||
        wrong "the line \`# sweep\` of $card does not stand $place"
    # Other entries of `env:` stand as far in as the settings will.
    parent_of "$marker" "${#card_indent}"
    at=$REPLY
    indent_of "$at"
    indent=$REPLY
    for ((n = at + 1; n < ${#card_lines[@]}; n++)); do
        indent_of "$n" || continue
        ((REPLY > indent)) || break
        seen_indent=$REPLY
        ((seen_indent == ${#card_indent})) ||
            wrong "line $((n + 1)) of $card stands further in or out than its line \`# sweep\`"
    done
}

# Prints `settings` as lines of YAML, indented by $1.
settings_as_yaml() {
    local setting
    for setting in "${settings[@]}"; do
        yaml_quoted "${setting#*=}"
        printf '%s"%s": %s\n' "$1" "${setting%%=*}" "$REPLY"
    done
}

# Prints the card of the run $1.
print_card() {
    if [[ -n $card ]]; then
        if ((marker > 0)); then
            printf '%s\n' "${card_lines[@]:0:marker}"
        fi
        settings_as_yaml "$card_indent"
        if ((marker + 1 < ${#card_lines[@]})); then
            printf '%s\n' "${card_lines[@]:marker+1}"
        fi
        return
    fi
    printf 'version: 1\ndescription: "Configuration %s of the sweep %s."\n' "$1" "$sweep"
    printf 'workload: {}\nModel-executor:\n  communication_library:\n'
    if ((is_default)); then
        printf '    name: RCCL\n'
    fi
    printf '    env:\n'
    settings_as_yaml '      '
    printf 'collection_notes:\n  sweep: "%s"\n  configuration: "%s"\n' "$sweep" "$1"
}

# Writes the card of the run $2 into its folder $1: whole, or not at all.
write_card() {
    local path=$1/workload_card.yaml text
    if [[ -e $path || -L $path ]]; then
        path=$1/workload_card.sweep.yaml
        say "  its command wrote a workload_card.yaml, which is kept; the settings are in ${path##*/}"
        [[ ! -e $path && ! -L $path ]] || return 1
    fi
    # In one piece: every line that does not fit on a full disk is noticed.
    text=$(print_card "$2" && printf x) || return 1
    if printf '%s' "${text%x}" >"$1/.card.$$" && mv -n -- "$1/.card.$$" "$path"; then
        return
    fi
    rm -f -- "$1/.card.$$"
    return 1
}

# Ends a run that is going on, then the script. Traps call it.
# shellcheck disable=SC2317
interrupted() {
    trap '' INT TERM HUP
    if [[ -n $child ]]; then
        kill -TERM "$child" 2>/dev/null || true
        wait "$child" || true
        say "stopped during $label; what it wrote is in $run/$label"
    fi
    exit "$1"
}

# Runs configuration $1; returns 1 where it failed.
run_configuration() {
    local folder status=0 began=$SECONDS took
    label=${labels[$1]}
    folder=$run/$label
    settings_of "$1"
    command_of "$folder"
    # `set -e` does not reach into here: the caller asks for the status.
    if ! mkdir -- "$folder"; then
        outcome="failed: its folder cannot be made"
        return 1
    fi
    # The first line keeps a log that begins with `[` from looking like JSON.
    if ! {
        printf 'sweep.sh: %s\n' "$label"
        printf ' %q' env "SWEEP_DIR=$folder" "${settings[@]}" "${arguments[@]}"
        printf '\n'
    } >"$folder/sweep.log"; then
        outcome="failed: its log cannot be written"
        return 1
    fi
    say "$label: running; its log is $folder/sweep.log"
    # timeout(1) makes the run a group of processes that ends together, also without a limit (0).
    timeout -k 60 "$limit" env "SWEEP_DIR=$folder" "${settings[@]}" "${arguments[@]}" \
        </dev/null >>"$folder/sweep.log" 2>&1 &
    child=$!
    wait "$child" || status=$?
    child=''
    took=$((SECONDS - began))
    if ((limit > 0 && took >= limit && (status == 124 || status == 137))); then
        outcome="failed: not done after $limit s"
    elif ((status != 0)); then
        outcome="failed: exit code $status"
    elif [[ -z $(find "$folder" ! -type d ! -name sweep.log -print -quit) ]]; then
        outcome="failed: it wrote no file below \$SWEEP_DIR"
    elif ! write_card "$folder" "$label"; then
        outcome="failed: its card cannot be written"
    else
        outcome="done in $took s"
        say "$label: $outcome"
        return 0
    fi
    say "$label: $outcome; the end of its log:"
    tail -n 5 -- "$folder/sweep.log" | sed 's/^/    /' >&2
    return 1
}

lists=() list_kinds=() environment=() card='' name='' output=experiments delimiter=, placeholder=''
limit=0 stop=0 dry_run=0 variables_given=''
while (($# > 0)); do
    option=$1
    case $option in
        --*=*)
            set -- "${option%%=*}" "${option#*=}" "${@:2}"
            option=$1
            ;;
    esac
    case $option in
        -p | --pairs | --one | -d | --delimiter | -v | --variables | -e | --env | -n | --name | -o | --output | -c | --card | -I | --replace | -t | --timeout)
            (($# > 1)) || wrong "$option needs a value"
            ;;
    esac
    case $option in
        -p | --pairs) lists+=("$2") list_kinds+=(many) ;;
        --one) lists+=("$2") list_kinds+=(one) ;;
        -d | --delimiter) delimiter=$2 ;;
        -v | --variables) variables_given=$2 ;;
        -e | --env) environment+=("$2") ;;
        -n | --name) name=$2 ;;
        -o | --output) output=$2 ;;
        -c | --card) card=$2 ;;
        -I | --replace) placeholder=$2 ;;
        -t | --timeout) limit=$2 ;;
        -x | --stop) stop=1 ;;
        --dry-run) dry_run=1 ;;
        -h | --help)
            usage
            exit 0
            ;;
        --)
            shift
            break
            ;;
        -*) wrong "unknown option $option" ;;
        *) break ;;
    esac
    case $option in
        -x | --stop | --dry-run) shift ;;
        *) shift 2 ;;
    esac
done
command=("$@")

((${#command[@]} > 0)) || wrong "no COMMAND"
[[ ${command[0]} != *=* ]] || wrong "give ${command[0]%%=*} by -e, so that the card has it"
type -P -- "${command[0]}" >/dev/null || wrong "no such command: ${command[0]}"
[[ ${#delimiter} == 1 && $delimiter != [[:space:]] ]] || wrong "the delimiter is one character that is no white space"
[[ $limit =~ ^[0-9]{1,7}$ ]] || wrong "no number of seconds: $limit"
limit=$((10#$limit))
[[ -n $output ]] || wrong "-o needs a folder"
[[ $output == /* ]] || output=$PWD/$output

keys=() constants=() labels=() values=()
is_default=1
variables=(RCCL_WARP_SPEED_CU_COUNT RCCL_THREADS_PER_BLOCK)
if [[ -n $variables_given ]]; then
    is_default=0
    IFS=, read -r -d '' -a variables < <(printf '%s\0' "$variables_given")
    ((${#lists[@]} > 0)) || wrong "-v needs configurations: -p or --one"
else
    add_constant RCCL_WARP_SPEED_ENABLE=1
    add_constant RCCL_UNROLL_FACTOR=1
fi
for setting in "${environment[@]}"; do
    add_constant "$setting"
done
seen=' '
for variable in "${variables[@]}" "${keys[@]}"; do
    checked "$variable" ''
    [[ $seen != *" $variable "* ]] || wrong "$variable is given twice"
    seen+="$variable "
done
if ((${#lists[@]} == 0)); then
    lists=("56,256 37,384 32,512") list_kinds=(many)
fi
for n in "${!lists[@]}"; do
    if [[ ${list_kinds[n]} == one ]]; then
        add_configuration "${lists[n]}"
        continue
    fi
    # `read` ends without a delimiter here, which is no failure; nothing is expanded.
    IFS=$' \t\n' read -r -d '' -a words <<<"${lists[n]}" || true
    for word in "${words[@]}"; do
        add_configuration "$word"
    done
done
((${#labels[@]} > 0)) || wrong "no configuration"
if [[ -z $name ]]; then
    name=sweep
    ((!is_default)) || name=rccl_warp_speed
fi
[[ $name =~ ^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$ ]] || wrong "a name is of letters, digits, \`.\`, \`_\` and \`-\`: $name"
[[ -z $card ]] || read_card

printf -v sweep '%s_%(%Y%m%d_%H%M%S)T' "$name" -1
if ((dry_run)); then
    for n in "${!labels[@]}"; do
        settings_of "$n"
        command_of "$output/$sweep/${labels[n]}"
        printf 'env'
        printf ' %q' "SWEEP_DIR=$output/$sweep/${labels[n]}" "${settings[@]}" "${arguments[@]}"
        printf '\n'
    done
    exit 0
fi

mkdir -p -- "$output"
# Two sweeps that begin in one second are two folders.
base=$sweep n=1
until mkdir -- "$output/$sweep" 2>/dev/null; do
    if [[ ! -e $output/$sweep ]]; then
        say "sweep.sh: cannot make the folder $output/$sweep"
        exit 1
    fi
    sweep=${base}_$((n += 1))
done
run=$output/$sweep

child='' failed=0 outcomes=() compared='' succeeded=0
trap 'interrupted 130' INT
trap 'interrupted 143' TERM
trap 'interrupted 129' HUP
for n in "${!labels[@]}"; do
    if run_configuration "$n"; then
        printf -v quoted ' %q' "$run/$label"
        compared+=$quoted
        ((succeeded += 1))
    else
        failed=1
    fi
    outcomes+=("$label: $outcome")
    if ((failed && stop)); then
        break
    fi
done
say ""
for outcome in "${outcomes[@]}"; do
    say "$outcome"
done
((${#outcomes[@]} == ${#labels[@]})) || say "not run: ${labels[*]:${#outcomes[@]}}"
# One workbook is of one baseline and one test; of several tests each has a folder.
((succeeded < 2)) || say "ccl-sql compare$compared -o comparison$( ((succeeded == 2)) && printf .xlsx || printf / )"
printf '%s\n' "$run"
exit "$failed"
