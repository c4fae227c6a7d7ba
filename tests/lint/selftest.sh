#!/bin/sh
# Each check accepts a small clean tree and rejects the same tree with one fault, for the reason expected.
# Usage: selftest.sh DIRECTORY_OF_CHECKS COMPILER
checks=$(cd "$1" && pwd) || exit 2
cc=$2
tree=$(mktemp -d) || exit 2
trap 'rm -rf "$tree"' EXIT
failed=0

clean_tree() {
    rm -rf "$tree"
    mkdir -p "$tree/src/base" "$tree/src/nn" "$tree/src/device" "$tree/src/cli" "$tree/include/charl" \
        "$tree/kernels/prelude" "$tree/tests/nn" "$tree/docs"
    cp "$checks/../../.clang-format" "$tree/"
    cp "$checks/../../src/layers.txt" "$tree/src/"
    printf '#ifndef CHARL_BASE_A_H\n#define CHARL_BASE_A_H\nint a(void);\n#endif\n' >"$tree/src/base/a.h"
    printf '#include "base/a.h"\nint a(void)\n{\n    return 1;\n}\n' >"$tree/src/base/a.c"
    printf '#include <CL/cl.h>\n#include "base/a.h"\n' >"$tree/src/device/d.c"
    printf '#include <charl/graph.h>\n#include <stdio.h>\nint main(void)\n{\n    puts("x");\n}\n' >"$tree/src/cli/m.c"
    printf '#ifndef CHARL_NN_N_H\n#define CHARL_NN_N_H\n#include "charl/graph.h"\n#endif\n' >"$tree/src/nn/n.h"
    cat >"$tree/include/charl/graph.h" <<'H'
#ifndef CHARL_GRAPH_H
#define CHARL_GRAPH_H
/** A header. */
typedef int charl_status;

/** Runs. Async. Local. */
charl_status charl_run(int a, int b);

/** Twice. Blocks. Collective on c. */
charl_status charl_one(int a);
charl_status charl_two(
    int a,
    int b);
int charl_get(void); /* Local. */

void charl_run_destroy(void);
#endif
H
    printf 'static inline int charl_one(void)\n{\n    return 1;\n}\n' >"$tree/kernels/prelude/common.clh"
    printf '/* "prelude/builtins.clh", "prelude/common.clh" */\n' >"$tree/src/device/program.c"
    printf '__kernel void k(__global int *y)\n{\n    y[get_global_id(0)] = charl_one();\n}\n' >"$tree/kernels/k.cl"
    cat >"$tree/src/base/env.h" <<'H'
#ifndef CHARL_BASE_ENV_H
#define CHARL_BASE_ENV_H
#define CHARL_ENV_LIST(X)       \
    X(LOG, LEVEL, OWN, "messages") \
    X(KERNEL_DIR, TEXT, SET,    \
      "read kernels "           \
      "from here")
#endif
H
    printf '# Env\n\n| `CHARL_KERNEL_DIR` | set | read kernels from here |\n| `CHARL_LOG` | own | messages |\n' >"$tree/docs/env.md"
    printf '#include "nn/n.h"\n' >"$tree/tests/nn/a.h"
    printf '#include "nn/a.h"\nint main(void)\n{\n    return 0;\n}\n' >"$tree/tests/nn/test_a.c"
    printf '# why\nnn/test_a  why\n' >"$tree/tests/internal.txt"
    find "$tree" -name '*.[ch]' ! -name env.h -exec clang-format -i {} + 2>/dev/null
    clang-format -i "$tree/src/base/env.h" 2>/dev/null || true
}

run() {
    case $1 in
    headers) sh "$checks/headers.sh" "$tree" "$cc" ;;
    *) sh "$checks/$1.sh" "$tree" ;;
    esac
}

# expect CHECK TEXT: the check must fail and say TEXT; without TEXT it must pass (or be skipped)
expect() {
    out=$(run "$1" 2>&1)
    rc=$?
    if [ $rc = 77 ]; then
        echo "skipped: $1: $out"
    elif [ $# = 1 ] && [ $rc != 0 ]; then
        echo "$1 rejects a clean tree: $out"
        failed=1
    elif [ $# = 2 ] && { [ $rc = 0 ] || ! printf '%s' "$out" | grep -qF -- "$2"; }; then
        echo "$1 does not say \"$2\" (exit $rc): $out"
        failed=1
    fi
    clean_tree
}

clean_tree
for check in layers headers kernels macros builtins docs paths words env format cleanup interface internal; do
    expect $check
done

echo 'typedef struct charl_thing charl_thing;' >"$tree/include/charl/thing.h"
expect headers 'docs/library.md does not say which threads may use charl_thing'
echo '#include "nn/n.h"' >>"$tree/src/base/a.c"
expect layers 'src/base/a.c:6: base may not include nn: nn/n.h'
echo '#include "charl/graph.h"' >>"$tree/src/device/d.c"
expect layers 'device may not include charl/graph.h of autograd'
echo '#include <CL/cl.h>' >>"$tree/src/nn/n.c"
expect layers '<CL/cl.h> may appear in src/device only'
echo '#include <mpi.h>' >>"$tree/src/cli/m.c"
expect layers '<mpi.h> may appear in src/dist only'
echo '#include "base/a.h"' >>"$tree/include/charl/graph.h"
expect layers 'a public header may not include base/a.h'
echo '#include "a.h"' >>"$tree/src/base/a.c"
expect layers 'include from the root of src'
echo '#include "device/x_private.h"' >>"$tree/src/nn/n.c"
expect layers 'device/x_private.h is private to device'
: >"$tree/include/charl/strange.h" && echo >>"$tree/include/charl/strange.h"
expect layers 'which module this public header belongs to'
echo 'charl     | low      | base config | low' >>"$tree/src/layers.txt"
expect layers 'a module of charl may not use config of train'
mkdir "$tree/src/report" && echo '#include "config/keys.h"' >"$tree/src/report/r.c"
expect layers 'report may not include config: config/keys.h'
mkdir "$tree/src/misc" && echo >"$tree/src/misc/m.c"
expect layers 'no layer is called misc'
mkdir "$tree/bench" && printf '#include <mpi.h>\n#include <charl/graph.h>\n#include "cli/c.h"\n#include "bench/b.h"\n' >"$tree/bench/b.c"
expect layers
mkdir "$tree/bench" && echo '#include "device/d.h"' >"$tree/bench/b.c"
expect layers 'bench/b.c:1: programs include <charl/...> and headers of their own, not device/d.h'
mkdir "$tree/bench" && echo '#include "charl/graph.h"' >"$tree/bench/b.c"
expect layers 'bench/b.c:1: programs include <charl/graph.h>, not "charl/graph.h"'
mkdir "$tree/bench" && echo '#include "bench/b.h"' >>"$tree/src/cli/m.c"
expect layers 'programs include <charl/...> and headers of their own, not bench/b.h'
echo '#include "nn/n.h"' >>"$tree/src/cli/m.c"
expect layers 'src/cli/m.c:7: programs include <charl/...> and headers of their own, not nn/n.h'
echo '#include "charl/graph.h"' >>"$tree/src/cli/m.c"
expect layers 'programs include <charl/graph.h>, not "charl/graph.h"'
echo '#include <base/a.h>' >>"$tree/src/cli/m.c"
expect layers '<base/a.h>: headers of a module are included between quotes'
mkdir "$tree/bench" && printf '#ifndef B_H\n#define B_H\n#endif\n' >"$tree/bench/b.h"
expect headers 'bench/b.h: expected the guard CHARL_BENCH_B_H'
mkdir "$tree/examples" && echo '#include "base/a.h"' >"$tree/examples/e.c"
expect layers 'examples include <charl/...> only'

printf '/** %0130d */\n' 0 >>"$tree/include/charl/graph.h"
expect interface 'include/charl/graph.h:16: 137 columns; at most 120'
printf 'typedef enum charl_kind { CHARL_A } charl_kind;\nstruct s {\n    int kind; /* charl_kind */\n};\n' >>"$tree/include/charl/graph.h"
expect interface 'include/charl/graph.h:18: kind is a charl_kind and declared as int'
printf 'typedef enum charl_kind { CHARL_A } charl_kind;\n/** kind: a charl_kind. */\nint charl_put(int kind);\n' >>"$tree/include/charl/graph.h"
expect interface 'include/charl/graph.h:18: kind is a charl_kind and declared as int'
printf 'typedef struct charl_x_options {\n    int a;\n} charl_x_options;\n' >>"$tree/include/charl/graph.h"
expect interface 'include/charl/graph.h:16: charl_x_options does not begin with size_t struct_size'
printf 'typedef struct charl_x_options {\n    size_t struct_size;\n} charl_x_options;\n' >>"$tree/include/charl/graph.h"
printf 'charl_x_options o = {.a = 1};\n' >>"$tree/src/base/a.c"
expect interface 'src/base/a.c:6: charl_x_options begins with its size: o = {sizeof o, ...}'
printf 'struct s {\n    const char\n        *name; /* of it */\n};\n' >>"$tree/include/charl/graph.h"
expect interface 'include/charl/graph.h:17: a comment breaks the declaration; put it above'

thing='typedef struct charl_thing charl_thing;'
printf "$thing\\nint charl_put(charl_thing *t);\\n" >>"$tree/include/charl/graph.h"
expect interface 'include/charl/graph.h:17: charl_put: its object is a charl_thing, so it is called charl_thing_VERB'
printf "$thing\\nint charl_thing_size(const charl_thing *t);\\n" >>"$tree/include/charl/graph.h"
expect interface 'include/charl/graph.h:17: charl_thing_size gives a property: charl_thing_get_size, or is_ and has_'
printf 'charl_status charl_thing_register(const void *row);\n' >>"$tree/include/charl/graph.h"
expect interface 'charl_thing_register: a function that registers is called charl_register_NOUN'
printf 'charl_status charl_visit(void *ctx, void (*each)(void *ctx));\n' >>"$tree/include/charl/graph.h"
expect interface 'charl_visit: ctx stands behind the callback that gets it'
printf 'charl_status charl_visit(void (*each)(int i), void *ctx);\n' >>"$tree/include/charl/graph.h"
expect interface 'the callback each lacks void *ctx as its first parameter'
printf 'typedef struct charl_visitor {\n    void (*each)(void *ctx);\n} charl_visitor;\n' >>"$tree/include/charl/graph.h"
expect interface 'charl_visitor has no pointer for its callback each'
printf '/** %0130d */\n' 0 >>"$tree/include/charl/version.h.in"
expect interface 'include/charl/version.h.in:1: 137 columns; at most 120'

printf '#ifndef CHARL_NN_B_H\n#define CHARL_NN_B_H\nsize_t b(void);\n#endif\n' >"$tree/src/nn/b.h"
expect headers 'src/nn/b.h: does not compile alone'
printf '#ifndef B_H\n#define B_H\n#endif\n' >"$tree/src/nn/b.h"
expect headers 'src/nn/b.h: expected the guard CHARL_NN_B_H'

printf '\nint c(void)\n{\n    CHARL_TRY(a());\ncleanup:\n    b();\n    return st;\n}\n' >>"$tree/src/base/a.c"
expect cleanup 'src/base/a.c:9: returns past cleanup:'
printf '\nint c(void)\n{\n    CHARL_TRY_CLEANUP(a());\ncleanup:\n    return st;\n}\n' >>"$tree/src/base/a.c"
expect cleanup 'src/base/a.c:10: cleanup: releases nothing'

printf '__kernel void k(__global int *y)\n{\n    y[0] = nothing();\n}\n' >"$tree/kernels/bad.cl"
expect kernels 'kernels/bad.cl: does not compile'
printf 'kernel void wide(global float *y)\n{\n    const double x = (double)y[0];\n\n    y[0] = (float)(x * x);\n}\n' >"$tree/kernels/wide.cl"
expect kernels 'kernels/wide.cl: does not compile where pointers are generic and have 32 bits, without double precision'
# An array of local memory, handed over where one of 64 is used, in the form that a GPU runs: $1 is the parameter, $2 the call.
handed() {
    cat >"$tree/kernels/handed.cl" <<CL
#ifndef CHARL_ROW_ITEMS
#define CHARL_ROW_ITEMS 1
#endif
#if CHARL_ROW_ITEMS > 1
typedef struct {
    int at[64];
} scratch;

static inline int first_of($1)
{
    return *(local int *)x;
}

kernel void handed(global int *y)
{
    $2
}
#else
kernel void handed(global int *y)
{
    y[0] = 0;
}
#endif
CL
}
handed 'local int x[static 64]' 'local int a[64]; y[0] = first_of(a);'
expect kernels
handed 'local int x[static 64]' 'local int a[8]; y[0] = first_of(a);'
expect kernels 'kernels/handed.cl: does not compile with CHARL_VEC=8 -DCHARL_ROW_ITEMS=32'
handed 'local scratch *x' 'local scratch a; y[0] = first_of(&a);'
expect kernels
handed 'local scratch *x' 'local int a[8]; y[0] = first_of(a);'
expect kernels 'kernels/handed.cl: does not compile with CHARL_VEC=8 -DCHARL_ROW_ITEMS=32'
handed 'local int *x' 'local int a[8]; y[0] = first_of(a);'
expect kernels 'kernels/handed.cl: first_of is given all of a: declare x[static SIZE]'
takes() {
    printf '#define PAIR(x) int x##_a, int x##_b\nkernel void taker(global int *y, PAIR(a), PAIR(b), PAIR(c), PAIR(d), PAIR(e), PAIR(f), PAIR(g), %s)\n{\n    y[0] = %s + a_a + a_b + b_a + b_b + c_a + c_b + d_a + d_b + e_a + e_b + f_a + f_b + g_a + g_b;\n}\n' "$1" "$2" >"$tree/kernels/taker.cl"
}
takes 'int h' h
expect kernels
takes 'PAIR(h)' 'h_a + h_b'
expect kernels 'kernels/taker.cl: taker has 17 parameters'
macro() { printf '%b\n' "$1" >>"$tree/kernels/k.cl"; }
macro '#define NEXT(i) ((i) + 1 < WIDTH)\n#define SWAP(x, y) { const int z = x, first = min(z, y); x = first; }\n#define AT(x) x##_at + x'
expect macros
macro '#define NEXT ((i) + 1)'
expect macros 'kernels/k.cl:5: NEXT uses i, which it is not given'
macro '#define ARGS(a) global float *a, \\\n    ulong offset'
expect macros 'kernels/k.cl:5: ARGS uses offset, which it is not given'
macro '#define STORE(x) { const int j = get_local_id(0); out[j] = x; }'
expect macros 'kernels/k.cl:5: STORE uses out, which it is not given'
macro '#define ONE \\\n    1\n#define CLEAR(x) \\\n    (x) = 0'
expect macros 'kernels/k.cl:7: CLEAR is longer than a line'

printf '__attribute__((overloadable)) size_t get_group_id(uint);\n' >"$tree/kernels/prelude/builtins.clh"
expect builtins 'kernels/k.cl: kernels/prelude/builtins.clh lacks a function'
printf '__attribute__((overloadable)) size_t get_global_id(uint);\n' >"$tree/kernels/prelude/builtins.clh"
expect builtins 'kernels/k.cl: kernels/prelude/builtins.clh declares a function otherwise'
printf '__attribute__((overloadable, const)) size_t get_global_id(uint);\n' >"$tree/kernels/prelude/builtins.clh"
expect builtins

printf '\nint charl_bare(void);\n' >>"$tree/include/charl/graph.h"
expect docs 'charl_bare has no comment'
printf '\n/** Something. */\nint charl_bare(void);\n' >>"$tree/include/charl/graph.h"
expect docs 'charl_bare: the comment says neither Local nor Collective'
printf '\n/** Something. Local. */\ncharl_status charl_bare(void);\n' >>"$tree/include/charl/graph.h"
expect docs 'charl_bare: the comment says neither Async nor Blocks'

printf 'See `base/a.c`, `a.h` and [env](env.md).\n' >"$tree/docs/a.md"
expect paths
printf 'See `base/b.c`.\n' >"$tree/docs/a.md"
expect paths 'docs/a.md: there is no base/b.c'
printf 'See `a.cl`.\n' >"$tree/docs/a.md"
expect paths 'docs/a.md: there is no a.cl'
printf '[gone](b.md)\n' >"$tree/docs/a.md"
expect paths 'docs/a.md: links to b.md, which is not there'

echo 'void f(void) { printf("x"); }' >>"$tree/src/nn/n.c"
expect words 'src/nn/n.c:1'
echo 'void f(void) { fputs("x", stderr); }' >>"$tree/src/nn/n.c"
expect words 'only src/cli prints'
echo 'void f(void) { exit(1); }' >>"$tree/src/nn/n.c"
expect words 'only src/cli prints'
echo 'void f(void) { assert(1); }' >>"$tree/src/nn/n.c"
expect words 'only src/cli prints'
echo 'void f(void) { getenv("CHARL_LOG"); }' >>"$tree/src/nn/n.c"
expect words 'base/env.h'
printf '/* %s: later */\n' TO''DO >>"$tree/kernels/k.cl"
expect words 'kernels/k.cl'

: >"$tree/tests/internal.txt"
expect internal 'tests/nn/test_a.c: includes headers of src and is not in tests/internal.txt'
echo 'nn/test_b  why' >>"$tree/tests/internal.txt"
expect internal 'there is no program tests/nn/test_b.c'
echo 'nn/test_a' >"$tree/tests/internal.txt"
expect internal 'say what of the inside nn/test_a tests'
echo '#include "charl/graph.h"' >"$tree/tests/nn/a.h"
expect internal 'nn/test_a includes no header of src: remove the line'

printf '| `CHARL_MORE` | own | more |\n' >>"$tree/docs/env.md"
expect env 'docs/env.md and src/base/env.h differ'
printf '| `CHARL_LOG` | own | messages |\n' >"$tree/docs/env.md"
expect env 'docs/env.md and src/base/env.h differ'

echo 'int  g;' >>"$tree/src/base/a.c"
expect format 'src/base/a.c'

exit $failed
