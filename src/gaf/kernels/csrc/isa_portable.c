/* Whatever the compiler makes of its baseline: SSE2 on x86-64, NEON on AArch64. */
#if defined(__FP_FAST_FMAF)
#define GAF_HAS_FMA
#endif
#define GAF_TABLE gaf_table_portable
#include "steps.h"
