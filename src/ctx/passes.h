/* passes.h - the passes over data that a context has made: what a save takes
 * with it, and what a run that goes on from one has behind it.
 *
 * Passes that train and passes that infer are counted together, in the order in
 * which the program makes them. A run that goes on makes the same ones: those
 * that were over return at once, the next one goes on where it stood.
 * docs/formats/model.md has the text (trainers/N.json).
 *
 * Owner thread only, except that any thread may print while no thread trains.
 */
#ifndef FL_CTX_PASSES_H
#define FL_CTX_PASSES_H

#include "ctx/ctx.h"
#include "data/dataset/position.h"

/* In a version: where that of a trainer is. One process is trainer 0. */
#define FL_PASSES_FOLDER "trainers"
#define FL_PASSES_FILE FL_PASSES_FOLDER "/0.json"

/* What a pass has counted. */
typedef struct fl_pass_counts {
    bool is_infer;
    uint64_t samples, batches;
    double seconds;
    double loss_sum; /* over samples; NaN: there is no loss */
    double auc;      /* the last value; NaN: there is none */
} fl_pass_counts;

typedef struct fl_passes fl_passes;

fl_passes *fl_passes_new(void);
void fl_passes_free(fl_passes *p);

typedef enum fl_pass_start {
    FL_PASS_NEW,
    FL_PASS_IS_OVER, /* it was made before; the counts are known */
    FL_PASS_GOES_ON  /* some of it was; counts and position are known */
} fl_pass_start;

/* What to do with the next pass. The position is borrowed. Fails when the pass
   that was made before at this place was another one. */
FL_MUST_CHECK
fl_status fl_passes_next(fl_passes *p, bool is_infer, fl_pass_start *out,
                         fl_pass_counts *counts, const fl_position **position);

/* While a pass trains: who knows how far it is. Fills in what is empty. */
typedef struct fl_pass_now {
    fl_status (*ask)(void *arg, fl_pass_counts *counts, fl_position *position);
    void *arg;
} fl_pass_now;
void fl_passes_begin(fl_passes *p, const fl_pass_now *now);
/* It has failed, or is over and counts. */
void fl_passes_leave(fl_passes *p);
void fl_passes_end(fl_passes *p, const fl_pass_counts *counts);

/* Counters of the program (AUC histograms, sums of metrics) as they are in the
   scope now are kept for the pass that is gone on with: the program may clear
   them before it. restore puts them back, once. */
void fl_passes_keep(fl_passes *p, fl_scope *s, const fl_program *program);
FL_MUST_CHECK
fl_status fl_passes_restore(fl_passes *p, fl_scope *s);

/* The text for a save, freed with fl_free. What a run goes on from is kept as
   it is until that is reached. */
FL_MUST_CHECK
fl_status fl_passes_print(fl_passes *p, char **text);

/* Goes on from a text; `where` is how messages call it. The passes of this run
   are forgotten. On error nothing has changed. */
FL_MUST_CHECK
fl_status fl_passes_read(fl_passes *p, const char *text, size_t len,
                         const char *where);

typedef enum fl_passes_of {
    FL_PASSES_PRESENT, /* of a trainer that goes on as well */
    FL_PASSES_GONE     /* of one that does not */
} fl_passes_of;

/* The text of another trainer of the run that is gone on with. Files that the
   two shared go on behind what either has trained. Fails when records would be
   left to nobody: those of a trainer that is gone and had files of its own. */
FL_MUST_CHECK
fl_status fl_passes_join(fl_passes *p, fl_passes_of of, const char *text,
                         size_t len, const char *where);

#endif
