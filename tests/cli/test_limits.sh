#!/bin/sh
# Limits of the process that are too low for Open MPI or PoCL: one line says which, with exit code 2, before MPI starts. With
# 32 open files or files of 250 KiB the ranks of a job hung; on a stack of 256 KiB kernels crashed, or computed NaN.
. "$(dirname "$0")/charl.sh"
checks=1
train=$bin/charl-train
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

"$charl" data make digits digits.h5 -t 64 -v 20 >/dev/null || exit 1
cat >mlp.ini <<'INI'
[data]
path = digits.h5
[model]
type = mlp
hidden = 8
[train]
max_steps = 4
batch_size = 16
[device]
share = yes
INI
"$train" mlp.ini -o run >/dev/null || exit 1

# with LIMIT VALUE COMMAND...: COMMAND under `ulimit -LIMIT VALUE`
with() {
    limit=$1 value=$2
    shift 2
    (ulimit -"$limit" "$value" && exec "$@") >out 2>err </dev/null
}

# refused LIMIT VALUE WHAT COMMAND...
refused() {
    limit=$1 value=$2 what=$3
    shift 3
    with "$limit" "$value" "$@"
    code=$?
    [ $code -eq 2 ] || { echo "ulimit -$limit $value, $*: exit $code, want 2"; failures=$((failures + 1)); }
    grep -q "^charl[a-z-]*: error: $what limited to .*, at least .* needed" err || {
        echo "ulimit -$limit $value, $*: no message:"
        cat err
        failures=$((failures + 1))
    }
    hint "ulimit -$limit"
    [ "$(grep -c 'error:' err)" -eq 1 ] || { echo "ulimit -$limit $value, $*: not one message:"; cat err; failures=$((failures + 1)); }
}

# in_job LIMIT VALUE WHAT: the ranks of a job have it, the launcher has not
in_job() {
    # shellcheck disable=SC2016
    timeout -k 1 1500 mpirun -q --oversubscribe --bind-to none -n 2 sh -c 'ulimit "-$0" "$1"; exec "$2" mlp.ini -o job' \
        "$1" "$2" "$train" >out 2>err
    code=$?
    [ $code -eq 2 ] || { echo "ulimit -$1 $2, two ranks: exit $code, want 2"; failures=$((failures + 1)); }
    [ "$(grep -c "^charl-train: error: $3 limited to" err)" -eq 1 ] || { echo "ulimit -$1 $2, two ranks:"; cat err; failures=$((failures + 1)); }
}

refused n 32 'open files are' "$train" mlp.ini -o run
refused n 32 'open files are' "$charl" eval mlp.ini run/last.h5
in_job n 32 'open files are'
refused f 250 'the size of a file is' "$train" mlp.ini -o run
in_job f 250 'the size of a file is'
refused s 256 'the stack is' "$train" mlp.ini -o run
refused s 256 'the stack is' "$charl" selftest --op relu
in_job s 256 'the stack is'
for case in 'v 800000 virtual memory is' 'd 100000 the memory for data is'; do
    # shellcheck disable=SC2086
    set -- $case
    if { with "$1" "$2" "$charl" --version; } 2>/dev/null; then
        limit=$1 value=$2
        shift 2
        refused "$limit" "$value" "$*" "$train" mlp.ini -o run
    else
        skipped "ulimit -$1 $2" "AddressSanitizer needs more"
    fi
done

# A home directory that cannot be written to, or none: PoCL had no device, or shared /tmp/pocl with all users.
for home in /proc/nowhere ''; do
    mkdir -p tmp
    (
        unset CHARL_CACHE_DIR POCL_CACHE_DIR XDG_CACHE_HOME HOME
        [ -z "$home" ] || export HOME="$home"
        TMPDIR=$dir/tmp exec "$charl" devices
    ) >out 2>err || { echo "HOME=$home:"; cat err; failures=$((failures + 1)); }
    # shellcheck disable=SC2012
    if ls -ld tmp/charl-*/ 2>/dev/null | grep -v '^drwx------'; then
        echo "HOME=$home: the cache is not private"
        failures=$((failures + 1))
    fi
    if grep -q 'Portable Computing Language' out && [ ! -d "tmp/charl-$(id -u)" ]; then
        echo "HOME=$home: no cache for PoCL in TMPDIR"
        failures=$((failures + 1))
    fi
    rm -rf tmp
done

# A soft limit is raised, and the threads that run kernels have stacks of their own size.
for limit in 'n 32' 's 256'; do
    # shellcheck disable=SC2086
    (ulimit -S -${limit% *} ${limit#* } && exec "$train" mlp.ini -o raised --overwrite) >out 2>&1 || {
        echo "soft limit $limit:"
        cat out
        failures=$((failures + 1))
    }
done
timeout -k 1 1500 mpirun -q --oversubscribe --bind-to none -n 2 sh -c 'ulimit -s 1024; exec "$0" mlp.ini -o small' "$train" \
    >out 2>&1 || { echo "a stack of 1 MiB:"; cat out; failures=$((failures + 1)); }
if "$charl" checkpoint diff small/last.h5 run/last.h5 | grep -v '^config/\|^all tensors are equal$'; then
    echo "a stack of 1 MiB: the ranks computed something else"
    failures=$((failures + 1))
fi
finish
