/* data.h - the parts of `flotilla data`.
 *
 *   data.c         options, the list of actions
 *   data_open.c    a data set from the options
 *   data_pass.c    one pass over it, with threads
 *   data_write.c   records as lines of a format, to a file
 *   data_print.c   print and convert
 *   data_sample.c  sample
 *   data_split.c   split
 *   data_count.c   count
 *   data_stats.c   its file of statistics
 *   data_check.c   check
 *   data_vocab.c   vocab
 */
#ifndef FL_CMD_DATA_H
#define FL_CMD_DATA_H

#include "cmd.h"
#include "flotilla/data.h"
#include "flotilla/experimental/records.h"
#include "flotilla/features.h"

#define DATA_THREADS_MAX 256

typedef struct data_args {
    const char *self;
    const char *format; /* NULL: the default one */
    const char *slots;  /* NULL: as the format says */
    const char *pipe, *cache, *out, *to, *quarantine;
    const char *stats;              /* where count writes them; NULL: nowhere */
    const char *parts, *key, *time; /* of split */
    bool by_file, header;
    uint64_t threads, batch, seed, lines, min_count;
    double share;
    bool has_lines, has_share, has_seed;
    const char *const *files;
    size_t n_files;
} data_args;

/* --- actions: return the exit code --------------------------------------- */

int data_print(const data_args *a);
int data_convert(const data_args *a);
int data_count(const data_args *a);
int data_check(const data_args *a);
int data_sample(const data_args *a);
int data_split(const data_args *a);
int data_vocab(const data_args *a);
int data_formats(const data_args *a);
int data_features(const data_args *a);

/* --- a data set from the options ----------------------------------------- */

typedef struct data_input {
    fl_ctx *ctx;
    fl_dataset *set;
    const fl_slot *slots;
    size_t n_slots;
} data_input;

/* The context first, for an action that has settings to change. Both say what
   is wrong; the input is the caller's, who gives it to data_close in any case.
 */
int data_open_ctx(const data_args *a, data_input *in);
int data_open(const data_args *a, data_input *in);
void data_close(data_input *in);

/* --- a pass -------------------------------------------------------------- */

#define DATA_WHY_BYTES 4608

typedef enum data_verdict {
    DATA_MORE,
    DATA_ENOUGH, /* this thread asks for no more */
    DATA_FAILED  /* `why` was filled */
} data_verdict;

/* Gets each batch, from thread `worker` in [0, threads). */
typedef data_verdict (*data_on_batch)(void *arg, int worker,
                                      const fl_feed *feeds, size_t n_rows,
                                      char why[DATA_WHY_BYTES]);

/* Reads all there is with a->threads readers and as many callers of `fn`. With
   one of them, batches come in the order of the files. Says what is wrong. */
int data_pass(const data_args *a, data_input *in, data_on_batch fn, void *arg);

/* --- what comes out ------------------------------------------------------ */

/* Records as lines of a->to, written to a->out. Threads gather lines and write
   many at a time, each with a number of its own below a->threads. */
typedef struct data_writer data_writer;

/* NULL after saying what is wrong. */
data_writer *data_writer_open(const data_args *a, const data_input *in);

/* The line of record i, borrowed until the worker's next call; NULL after
   filling `why`. */
const char *data_writer_text(data_writer *w, int worker, const fl_feed *feeds,
                             size_t i, char why[DATA_WHY_BYTES]);

/* Writes a line, now or later. False after filling `why`. */
bool data_writer_add(data_writer *w, int worker, const char *line,
                     char why[DATA_WHY_BYTES]);

/* Writes what is left and frees it. With a `code` other than CMD_OK, what was
   written is removed. Returns the exit code, after saying what is wrong. */
int data_writer_close(data_writer *w, int code);

/* The values of one record in a feed: *n of them, at what is returned. */
const void *data_values(const fl_feed *feed, size_t row, size_t *n);

#endif
