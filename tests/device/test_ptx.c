/* Retargeting PTX: a matter of text. */
#include "support/support.h"

#include <string.h>

#include "device/nvidia/ptx.h"

#define HEAD "//\n// Generated\n//\n\n.version 8.8\n"
#define ENTRY ".visible .entry k(\n\t.param .u64 .ptr .global .align 2 k_param_0\n)\n{\n"
#define BODY                                                                                                           \
    "\tmov.u32 %r1, k_$_tile;\n\tst.shared.v4.b32 [%r1], {%r2, %r3, %r4, %r5};\n"                                      \
    "\tcp.async.cg.shared.global [%r1], [%rd1], 16;\n\tret;\n}\n"
#define SHARED(n) "\t.shared .align 1024 .b8 k_$_tile[" n "];\n"

static void expect_groups(const char *ptx, int64_t bytes, int groups, const char *want)
{
    charl__text got = {0};

    charl_assert_ok(charl__ptx_retarget(ptx, bytes, groups, &got));
    assert_string_equal(charl__text_string(&got), want);
    charl__text_fini(&got);
}

static void expect(const char *ptx, int64_t bytes, const char *want)
{
    expect_groups(ptx, bytes, 0, want);
}

static void refuse(const char *ptx, int64_t bytes, const char *words)
{
    charl__text got = {0};

    charl_assert_status(charl__ptx_retarget(ptx, bytes, 0, &got), CHARL_ERR_KERNEL);
    charl_assert_message(words);
    assert_int_equal(got.length, 0);
    charl__text_fini(&got);
}

static void target_and_shared_memory(void **state)
{
    (void)state;
    expect(HEAD ".target sm_90, texmode_independent\n.address_size 64\n" ENTRY SHARED("49152") BODY, 98304,
           HEAD ".target sm_90a, texmode_independent\n.address_size 64\n" ENTRY SHARED("98304") BODY);
    expect(HEAD ".target sm_90\n" ENTRY SHARED("48") BODY, 0, HEAD ".target sm_90a\n" ENTRY SHARED("48") BODY);
    expect(HEAD ".target sm_90a\n" SHARED("16") SHARED("32") ENTRY BODY, 196608,
           HEAD ".target sm_90a\n" SHARED("196608") SHARED("32") ENTRY BODY);
}

#define SIZED(directives) ".visible .entry k(\n\t.param .u64 k_param_0\n)\n" directives "{\n"
#define EXTENT ".reqntid 128, 1, 1\n"
#define FIT EXTENT ".minnctapersm 3\n"

/* Room for work-groups, with the array in front of the kernel, in it, and left alone; a text that
 * does not tell how large they are stays. */
static void registers(void **state)
{
    (void)state;
    expect_groups(HEAD ".target sm_90\n" SIZED(EXTENT) SHARED("48") BODY, 96, 3,
                  HEAD ".target sm_90a\n" SIZED(FIT) SHARED("96") BODY);
    expect_groups(HEAD ".target sm_90\n" SHARED("48") SIZED(EXTENT) BODY, 96, 3,
                  HEAD ".target sm_90a\n" SHARED("96") SIZED(FIT) BODY);
    expect_groups(HEAD ".target sm_90\n" SIZED(EXTENT) BODY, 0, 3, HEAD ".target sm_90a\n" SIZED(FIT) BODY);
    expect_groups(HEAD ".target sm_90\n" SHARED("48") SIZED("") BODY, 96, 3,
                  HEAD ".target sm_90a\n" SHARED("96") SIZED("") BODY);
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    refuse("", 0, "no PTX for sm_90");
    refuse("\177ELF", 0, "no PTX for sm_90");
    refuse(HEAD ".target sm_89\n" ENTRY SHARED("48") BODY, 0, "no PTX for sm_90");
    refuse(HEAD ".target sm_900\n" ENTRY BODY, 0, "no PTX for sm_90");
    refuse(HEAD "//.target sm_90\n" ENTRY BODY, 0, "no PTX for sm_90");
    refuse(HEAD ".target sm_90", 1024, "no array");
    refuse(HEAD ".target sm_90\n" ENTRY BODY, 1024, "no array");
    refuse(HEAD ".target sm_90\n\t.shared .align 4 .b32 one;\n" ENTRY BODY, 1024, "no array");
    refuse(HEAD ".target sm_90\n\t.extern .shared .b8 any[];\n" ENTRY BODY, 1024, "no array");
}

#define FOR_CUDA_HEAD ".version 9.0\n.target sm_90, texmode_independent\n.address_size 64\n"

static void expect_for_cuda(const char *ptx, const char *want)
{
    charl__text got = {0};

    charl_assert_ok(charl__ptx_for_cuda(ptx, &got));
    assert_string_equal(charl__text_string(&got), want);
    charl__text_fini(&got);
}

static void registers_of_opencl(void **state)
{
    charl__text got = {0};

    (void)state;
    expect_for_cuda(FOR_CUDA_HEAD "mov.b32 %r1, %envreg3;\nadd.s32 %r2, %envreg0, %envreg6; mov.b32 %r3, %envreg8;\n"
                                  "mov.b32 %r4, %envreg9;\n",
                    FOR_CUDA_HEAD "mov.b32 %r1, 0;\nadd.s32 %r2, 0, %nctaid.x; mov.b32 %r3, %nctaid.z;\n"
                                  "mov.b32 %r4, 3;\n");
    charl_assert_status(charl__ptx_for_cuda(FOR_CUDA_HEAD "mov.b32 %r1, %envreg17;\n", &got), CHARL_ERR_KERNEL);
    charl_assert_message("%envreg17");
    charl__text_fini(&got);
    charl_assert_status(charl__ptx_for_cuda("\177ELF", &got), CHARL_ERR_KERNEL);
    charl__text_fini(&got);
}

/* Not for libcuda: arrays of more than 48 KB, and pointers to local memory. */
static const char two_kernels[] =
    FOR_CUDA_HEAD ".entry large(\n\t.param .u64 .ptr .global .align 4 large_param_0,\n"
                  "\t.param .align 8 .b8 large_param_1[8],\n\t.param .u32 large_param_2\n)\n{\n"
                  "\t.shared .align 1024 .b8 large_$_tile[98304];\n"
                  "\t.shared .align 4 .b8 large_$_small[64];\n\tret;\n}\n"
                  ".entry large_local(\n\t.param .u64 .ptr .shared .align 4 large_local_param_0,\n"
                  "\t.param .u64 large_local_param_1\n)\n{\n"
                  "\tld.param.u64 %rd1, [large_local_param_0];\n"
                  "\tld.param.u64 %rd2, [large_local_param_1];\n\tret;\n}\n";

static void local_memory_for_cuda(void **state)
{
    (void)state;
    expect_for_cuda(two_kernels,
                    FOR_CUDA_HEAD ".extern .shared .align 128 .b8 charl_dynamic[];\n"
                                  ".extern .shared .align 1024 .b8 large_$_tile[];\n"
                                  ".entry large(\n\t.param .u64 .ptr .global .align 4 large_param_0,\n"
                                  "\t.param .align 8 .b8 large_param_1[8],\n\t.param .u32 large_param_2\n)\n{\n"
                                  "\t.shared .align 4 .b8 large_$_small[64];\n\tret;\n}\n"
                                  ".entry large_local(\n\t.param .u64 large_local_param_0,\n"
                                  "\t.param .u64 large_local_param_1\n)\n{\n"
                                  "\tld.param.u64 %rd1, [large_local_param_0];\n"
                                  "{ .reg .b64 %charl; mov.u64 %charl, charl_dynamic; add.s64 %rd1, %rd1, %charl; }\n"
                                  "\tld.param.u64 %rd2, [large_local_param_1];\n\tret;\n}\n");
}

static void parameters_of_kernels(void **state)
{
    charl__ptx_kernel k;

    (void)state;
    charl_assert_ok(charl__ptx_kernel_find(two_kernels, "large", &k));
    assert_int_equal(k.params, 3);
    assert_int_equal(k.bytes[0], 8);
    assert_int_equal(k.bytes[1], 8);
    assert_int_equal(k.bytes[2], 4);
    assert_int_equal(k.dynamic_bytes, 98304);
    charl_assert_ok(charl__ptx_kernel_find(two_kernels, "large_local", &k));
    assert_int_equal(k.params, 2);
    assert_int_equal(k.bytes[0], CHARL__PTX_LOCAL_POINTER);
    assert_int_equal(k.dynamic_bytes, 0);
    charl_assert_status(charl__ptx_kernel_find(two_kernels, "larg", &k), CHARL_ERR_KERNEL);
    charl_assert_message("no kernel larg");
    charl_assert_ok(charl__ptx_kernel_find(
        ".entry k(\n\t.param .align 8 .b8 k_param_0[24],\n\t.param .u32 k_param_1\n)\n{\n}\n", "k", &k));
    assert_true(k.params == 2 && k.bytes[0] == 24 && k.bytes[1] == 4);
    charl_assert_status(charl__ptx_kernel_find(".entry k(\n\t.param .align 8 .b8 k_param_0[1024]\n)\n{\n}\n", "k", &k),
                        CHARL_ERR_KERNEL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(registers_of_opencl),
                                       cmocka_unit_test(local_memory_for_cuda),
                                       cmocka_unit_test(parameters_of_kernels),
                                       cmocka_unit_test(target_and_shared_memory),
                                       cmocka_unit_test(registers),
                                       cmocka_unit_test(other_texts_are_refused)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
