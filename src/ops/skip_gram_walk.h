/* skip_gram_walk.h - the windows of a batch of sentences, one after the other.
 *
 * At each word a window is drawn, uniform in 1 ... window words on each side,
 * and each of the words in it is an input whose target is the word in the
 * middle. Negatives are drawn from the words of a second list: for each input
 * anew, or once for the inputs of a window.
 *
 * Nothing here has a state: a draw depends on the stream, the place of the word
 * in the batch and its number at that word, by counter. So every operator that
 * walks over the same batch meets the same windows. Owner thread only.
 */
#ifndef FL_OPS_SKIP_GRAM_WALK_H
#define FL_OPS_SKIP_GRAM_WALK_H

#include "kernel/skip_gram.h"
#include "ops/kit.h"

#define FL_SKIP_GRAM_WINDOW_MAX 1000
#define FL_SKIP_GRAM_NEGATIVES_MAX 1024

/* Attributes that the operators begin with. */
enum {
    FL_SKIP_GRAM_WINDOW,
    FL_SKIP_GRAM_NEGATIVES,
    FL_SKIP_GRAM_SHARED,
    FL_SKIP_GRAM_SEED,
    FL_SKIP_GRAM_ATTRS
};
#define FL_SKIP_GRAM_ATTR_LIST                                                 \
    { "window", FL_ATTR_INT, "5" }, { "negatives", FL_ATTR_INT, "5" },         \
        { "shared", FL_ATTR_BOOL, "false" },                                   \
    {                                                                          \
        "seed", FL_ATTR_INT, "0"                                               \
    }

typedef struct fl_skip_gram_walk {
    const uint64_t *x, *y, *noise; /* rows of the words, in two arrays */
    const int64_t *starts;         /* of the sentences */
    size_t n_words, n_noise, dim;
    uint32_t window, negatives;
    bool shared;
    uint64_t stream;
    /* Where it is: the sentence, the next word and the one in the middle, the
       words of its window, and the next of them. */
    size_t sentence, word, middle, lo, hi, at;
    uint64_t key, bits, n_drawn;
} fl_skip_gram_walk;

/* A window and its memory. */
typedef struct fl_skip_gram_step {
    uint64_t *in, *target;
    fl_skip_gram_window rows;
} fl_skip_gram_step;

/* Fails when an attribute is out of range. */
FL_MUST_CHECK
fl_status fl_skip_gram_check(const fl_infer *c);
/* Fails unless the slot holds ids, in sentences. */
FL_MUST_CHECK
fl_status fl_skip_gram_check_ids(const fl_infer *c, int slot);
FL_MUST_CHECK
fl_status fl_skip_gram_check_words(const fl_infer *c, int slot);

/* A walk over the words and the list that negatives are drawn from; x, y and
   noise are their ids, and rows have one number. Fails when there is nothing to
   draw from. */
FL_MUST_CHECK
fl_status fl_skip_gram_walk_init(fl_skip_gram_walk *w, const fl_op_ctx *c,
                                 const fl_tensor *words,
                                 const fl_tensor *noise);

/* Memory of the operator for the largest window. */
FL_MUST_CHECK
fl_status fl_skip_gram_step_init(fl_skip_gram_step *s, fl_op_ctx *c,
                                 const fl_skip_gram_walk *w);

/* The most inputs that a window has. */
size_t fl_skip_gram_inputs_max(const fl_skip_gram_walk *w);

/* False when there is no further window. */
bool fl_skip_gram_next(fl_skip_gram_walk *w, fl_skip_gram_step *s);

#endif
