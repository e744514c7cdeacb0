#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define GAF_HAS_FMA
#define GAF_TABLE(TYPE) gaf_avx2_##TYPE
#define GAF_STREAM gaf_stream_avx2
#define GAF_FIGURES gaf_figures_avx2
#define GAF_SGD_STRIP 32
#define GAF_STRIP 32
#include "steps.h"
#include "figures.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
