/* Whatever the compiler makes of its baseline: SSE2 on x86-64, NEON on AArch64. */
#if defined(__FP_FAST_FMAF) || defined(__aarch64__) /* clang does not say so there */
#define GAF_HAS_FMA
#endif
#define GAF_TABLE gaf_table_portable
#define GAF_STREAM gaf_stream_portable
#define GAF_FIGURES gaf_figures_portable
#define GAF_SGD_STRIP 16
#define GAF_STRIP 16
#include "steps.h"
#include "figures.h"
