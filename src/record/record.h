/* record.h - what a process tells of its run: how far its passes over data are,
 * what they give, and under which settings.
 *
 * It goes to sinks: lines of JSON for `flotilla report` (docs/formats/record.md)
 * and events for TensorBoard (docs/formats/tensorboard.md), each where its
 * setting says. What cannot be written is told once in the log: a record never
 * ends what it tells of. Any thread.
 */
#ifndef FL_RECORD_RECORD_H
#define FL_RECORD_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"

typedef struct fl_record fl_record;

/* Borrowed for the call. */
typedef struct fl_record_start {
    const fl_conf *conf;  /* asks for it */
    const char *who;      /* "process", or "worker-0", "server-1" of a job */
    const char *versions; /* of the library and what it stands on; NULL: none */
    bool has_no_curves;   /* lines alone: a server trains nothing */
} fl_record_start;

/* Fails where the first line cannot be written. *out is NULL when the settings
   ask for no record. */
FL_MUST_CHECK
fl_status fl_record_open(fl_record **out, const fl_record_start *a);
/* Says that the process came to its end. NULL is fine, here and below. */
void fl_record_close(fl_record *r);

/* How far a pass is; NaN is what is not known. */
typedef struct fl_record_pass {
    const char *phase; /* "train" or "test" */
    uint64_t pass;     /* the how many-th of the process, from 1 */
    bool is_last;      /* it is over: these are its numbers */
    uint64_t step;     /* of the model */
    uint64_t samples, batches;
    double seconds;       /* of the pass, without examinations within it */
    double input_seconds; /* of them waiting for data, by thread on average */
    double peer_seconds;  /* and for other processes, as the mode counts it */
    double loss, auc;     /* of the newest batch; at its end of the pass */
} fl_record_pass;

/* The number of the next pass. */
uint64_t fl_record_next_pass(fl_record *r);
void fl_record_add_pass(fl_record *r, const fl_record_pass *p);

/* What a program has to say of its own: numbers over steps, texts. */
void fl_record_add_number(fl_record *r, const char *name, uint64_t step,
                          double value);
void fl_record_add_note(fl_record *r, const char *name, const char *text);

/* Counters of a server, an object as JSON. */
void fl_record_add_server(fl_record *r, const char *json);

#endif
