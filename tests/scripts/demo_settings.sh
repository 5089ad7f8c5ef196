#!/usr/bin/env bash
# The demo on machines that lack something: no AVX-512, no compiler, a compiler that fails, and cores that are shared.
#
#   tests/scripts/demo_settings.sh [SETTING...]     avx2, no-compiler, failing-compiler, two-busy; default: all
#
# Each has a cache of its own, with the model of the user's, which is fetched if it is not there. Exit 1 if one fails.
set -uo pipefail
cd "$(dirname "$0")/../.."

specextend=$PWD/.venv/bin/specextend
python=$PWD/.venv/bin/python
document=docs/samples/flood-warning.pdf
models=${XDG_CACHE_HOME:-$HOME/.cache}/specextend/models
scratch=$(mktemp -d)
busy=()
failed=0

finish() {
    for process in ${busy[@]+"${busy[@]}"}; do kill "$process" 2> /dev/null; done
    rm -rf "$scratch"
}
trap finish EXIT
[ -d "$models" ] || "$specextend" models pull smollm2-135m --quiet

# check NAME COMMAND...: the command must print a summary of the document.
check() {
    local name=$1 began=$SECONDS
    shift
    if "$@" > "$scratch/out" 2> "$scratch/err" && [ "$(grep -ci flood "$scratch/out")" -gt 0 ]; then
        echo "demo, $name: $(wc -w < "$scratch/out") words in $((SECONDS - began)) s"
    else
        echo "demo, $name: FAILED after $((SECONDS - began)) s"
        tail -n 20 "$scratch/err"
        failed=1
    fi
}

# own_cache NAME: where nothing is compiled yet.
own_cache() {
    mkdir -p -m 700 "$scratch/$1/specextend"
    cp -R "$models" "$scratch/$1/specextend/models"
    echo "$scratch/$1"
}

# Our library and torch's own are told to leave AVX-512 out.
avx2() {
    local cache
    cache=$(own_cache avx2)
    without=(env XDG_CACHE_HOME="$cache" SPECEXTEND_ISA=avx2 ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2)
    for mode in extractive abstractive; do
        check "no AVX-512, $mode" "${without[@]}" "$specextend" summarize "$document" --mode "$mode"
    done
    local tests=(tests/pair tests/engine/test_identity.py::test_every_drafter_and_policy_by_our_kernels)
    if ! "${without[@]}" "$python" -m pytest "${tests[@]}"; then failed=1; fi
}

no-compiler() {
    local cache mode
    cache=$(own_cache none)
    for mode in extractive abstractive; do
        check "no compiler, $mode" env -u CXX XDG_CACHE_HOME="$cache" PATH="$PWD/.venv/bin" \
            "$specextend" summarize "$document" --mode "$mode" --length short
    done
}

failing-compiler() {
    mkdir "$scratch/bin"
    printf '#!/bin/sh\necho "g++: fatal error: no input files" >&2\nexit 1\n' > "$scratch/bin/g++"
    chmod +x "$scratch/bin/g++"
    local cache mode
    cache=$(own_cache failing)
    for mode in extractive abstractive; do
        check "a compiler that fails, $mode" env CXX="$scratch/bin/g++" XDG_CACHE_HOME="$cache" \
            PATH="$scratch/bin:$PATH" "$specextend" summarize "$document" --mode "$mode" --length short
    done
}

two-busy() {
    for _ in 1 2; do
        "$python" -c "while True: pass" &
        busy+=($!)
    done
    check "beside two busy programs" "$specextend" summarize --no-cache "$document"
    kill "${busy[@]}"
    busy=()
}

[ $# -gt 0 ] || set -- avx2 no-compiler failing-compiler two-busy
for setting; do
    case $setting in
        avx2 | no-compiler | failing-compiler | two-busy) "$setting" ;;
        *) echo "there is no setting $setting" >&2 && exit 2 ;;
    esac
done
exit "$failed"
