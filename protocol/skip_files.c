#include "protocol/decoder_state.h"

#include <string.h>

/*
 * Files whose functions wrap single instructions. The official server drops such a frame when it
 * was inlined into another one. A file matches by its suffix. The headers below, each followed by
 * "intrin.h" and preceded by "/include/", are most of the list. Source:
 * public/common/TracyStackFrames.cpp, the same in v0.9.1 … v0.14.0.
 */
static const char *const intrinsics[] = {
    "adx",
    "amm",
    "amxbf16",
    "amxint8",
    "amxtile",
    "avx2",
    "avx5124fmaps",
    "avx5124vnniw",
    "avx512bf16",
    "avx512bf16vl",
    "avx512bitalg",
    "avx512bw",
    "avx512cd",
    "avx512dq",
    "avx512er",
    "avx512f",
    "avx512ifma",
    "avx512ifmavl",
    "avx512pf",
    "avx512vbmi2",
    "avx512vbmi2vl",
    "avx512vbmi",
    "avx512vbmivl",
    "avx512vlbw",
    "avx512vldq",
    "avx512vl",
    "avx512vnni",
    "avx512vnnivl",
    "avx512vp2intersect",
    "avx512vp2intersectvl",
    "avx512vpopcntdq",
    "avx512vpopcntdqvl",
    "avx",
    "avxvnni",
    "bmi2",
    "bmi",
    "bmm",
    "cet",
    "cldemote",
    "clflushopt",
    "clwb",
    "clzero",
    "emm",
    "enqcmd",
    "f16c",
    "fma4",
    "fma",
    "fxsr",
    "gfni",
    "hreset",
    "ia32",
    "imm",
    "keylocker",
    "lwp",
    "lzcnt",
    "mm",
    "movdir",
    "mwaitx",
    "nmm",
    "pconfig",
    "pku",
    "pmm",
    "popcnt",
    "prfchw",
    "rdseed",
    "rtm",
    "serialize",
    "sgx",
    "sha",
    "smm",
    "tbm",
    "tmm",
    "tsxldtrk",
    "uintr",
    "vaes",
    "vpclmulqdq",
    "waitpkg",
    "wbnoinvd",
    "wmm",
    "x86gpr",
    "x86",
    "xmm",
    "xop",
    "xsavec",
    "xsave",
    "xsaveopt",
    "xsaves",
    "xtest",
};

static const char *const others[] = {"/include/arm_neon.h", "/bits/atomic_base.h", "/atomic"};

/* Strips the suffix `end` from *text if present. */
static bool strip_end(struct view *text, struct view end)
{
    if (text->len < end.len || memcmp(text->p + text->len - end.len, end.p, end.len) != 0)
        return false;
    text->len -= end.len;
    return true;
}

bool skip_file(struct view file)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct view whole = file;
        if (strip_end(&whole, view_of(others[i])))
            return true;
    }
    if (!strip_end(&file, view_of("intrin.h")))
        return false;
    for (size_t i = 0; i < sizeof intrinsics / sizeof *intrinsics; i++) {
        struct view stem = file;
        if (strip_end(&stem, view_of(intrinsics[i])) && strip_end(&stem, view_of("/include/")))
            return true;
    }
    return false;
}
