/* data_text.h - lines of several formats, like those of a click log. */
#ifndef BENCH_DATA_TEXT_H
#define BENCH_DATA_TEXT_H

#include <stddef.h>

#define TEXT_INTS 13
#define TEXT_CATEGORIES 26

typedef enum text_kind {
    TEXT_MULTISLOT, /* 13 floats, 26 slots with one id, the label */
    TEXT_CRITEO,    /* label, 13 integers, 26 categories, with gaps */
    TEXT_CSV,       /* the same with commas */
    TEXT_LIBSVM     /* label, 39 features, those of the integers with values */
} text_kind;

/* n_lines lines with FLOOR_PADDING zeros behind them; freed with free(). The
   same lines every time. */
char *bench_text(text_kind kind, size_t n_lines, size_t *len);

#endif
