#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#endif
#define GAF_HAS_FMA
#define GAF_TABLE(TYPE) gaf_avx512_##TYPE
#define GAF_STREAM gaf_stream_avx512
#define GAF_FIGURES gaf_figures_avx512
#define GAF_SGD_STRIP 64
#define GAF_STRIP 32
#include "steps.h"
#include "figures.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
