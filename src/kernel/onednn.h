/* onednn.h - a call into oneDNN computes on the calling thread alone: the
 * threads are ours, the library's come from OpenMP. */
#ifndef FL_KERNEL_ONEDNN_H
#define FL_KERNEL_ONEDNN_H

#include <dnnl.h>

/* All we need of OpenMP. */
extern int omp_get_max_threads(void);
extern void omp_set_num_threads(int n);

/* Before and after a call or several; what the first gives, the second takes. */
static inline int fl_onednn_enter(void)
{
    int n_threads = omp_get_max_threads();

    if (n_threads != 1)
        omp_set_num_threads(1);
    return n_threads;
}

static inline void fl_onednn_leave(int n_threads)
{
    if (n_threads != 1)
        omp_set_num_threads(n_threads);
}

#endif
