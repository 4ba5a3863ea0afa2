/* format.h - a format of data of your own. Experimental: it may change with any
 * version.
 *
 * A format turns lines of text into values of slots. Reading, decompressing,
 * threads, batches, bad lines, shuffling and dealing files to workers are the
 * data set's, as with Flotilla's own formats:
 *
 *     fl_format_add(&my_format);
 *     fl_dataset_set_format(d, "mine:sep=tab");
 */
#ifndef FLOTILLA_EXPERIMENTAL_FORMAT_H
#define FLOTILLA_EXPERIMENTAL_FORMAT_H

#include "flotilla/data.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FL_FORMAT_OPTIONS_MAX 16
#define FL_FORMAT_SLOTS_MAX 256

typedef struct fl_format_option {
    const char *name, *doc;
    const char *otherwise; /* its value when it is not given */
} fl_format_option;

/* The record of a line, while it is read. */
typedef struct fl_format_record fl_format_record;

/* The n values of a slot (its number in the descriptor), once per line at most.
   They are copied. */
FL_API void fl_format_put_ids(fl_format_record *r, size_t slot,
                              const uint64_t *ids, size_t n);
FL_API void fl_format_put_floats(fl_format_record *r, size_t slot,
                                 const float *x, size_t n);

/* Why the line is not good; always false, for the line function to return. */
FL_API bool fl_format_bad(fl_format_record *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

typedef struct fl_format_def {
    uint32_t size;
    /* Goes up when the same text begins to give other values: what was cached of
       it is made anew. */
    uint32_t version;
    const char *name, *doc;
    /* What a line gives; width 0: lists of any length. */
    const fl_slot *slots;
    size_t n_slots;
    const fl_format_option *options; /* NULL: there are none */
    size_t n_options;
    /* Values of the options, in their order, become a state, which the others
       get; may be NULL. */
    fl_status (*open)(const char *const *values, void **state);
    void (*close)(void *state);
    /* A line [at, end), without its newline. Puts the values of the record; a
       line that puts none has no record (a comment). Called by several threads
       at a time. False: see fl_format_bad. */
    bool (*line)(void *state, const char *at, const char *end,
                 fl_format_record *r);
} fl_format_def;

/* For all data sets of this process. The descriptor and all it points to must
   stay. A name that another format has is refused; the same descriptor may be
   added again. Any thread. */
FL_API FL_MUST_CHECK
fl_status fl_format_add(const fl_format_def *def);

#ifdef __cplusplus
}
#endif
#endif
