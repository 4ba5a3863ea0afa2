/* hot.h - what the loops of *_hot.c are written with. */
#ifndef FL_KERNEL_HOT_H
#define FL_KERNEL_HOT_H

#include <stddef.h>

/* Tells the compiler that the outputs of a loop are its inputs or do not
   overlap them: element i is written after it was read, and read no more. */
#if defined(__clang__)
#define FL_IN_PLACE_OK _Pragma("clang loop vectorize(assume_safety)")
#else
#define FL_IN_PLACE_OK _Pragma("GCC ivdep")
#endif

/* A loop over the elements; its body is the statement behind them, which may
   have commas. */
#define FL_FOR_EACH(i, n, ...)                                                 \
    FL_IN_PLACE_OK                                                             \
    for (size_t i = 0; i < (n); i++)                                           \
    __VA_ARGS__

#endif
