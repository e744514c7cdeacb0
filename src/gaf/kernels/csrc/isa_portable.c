/* Whatever the compiler makes of its baseline: SSE2 on x86-64, NEON on AArch64. */
#if defined(__FP_FAST_FMAF) || defined(__aarch64__) /* clang does not say so there */
#define GAF_HAS_FMA
#endif
#define GAF_TABLE(TYPE) gaf_portable_##TYPE
#define GAF_STREAM gaf_stream_portable
#define GAF_FIGURES gaf_figures_portable
#define GAF_SGD_STRIP 16
#define GAF_STRIP 16
#define GAF_WITH_F64 /* for every instruction set: most of its time is the C library's */
#include "steps.h"
#include "figures.h"
