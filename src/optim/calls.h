/* calls.h - initialisers, regularizers and clips in words.
 *
 * One notation serves the C API, the text form of programs and messages:
 *   init          constant(v) uniform(lo,hi) normal(mean,std)
 *                 truncated_normal(mean,std)
 *                 xavier xavier_normal, or with fans xavier(in,out)
 *                 msra msra_normal, or with its fan msra(in);
 *                 inside the brackets a seed=N may come last
 *   regularizer   l1(coeff) l2(coeff)
 *   clip          value(min,max) norm(max) global_norm(max)
 *
 * What is between the brackets is a list of conf/words.h.
 */
#ifndef FL_OPTIM_CALLS_H
#define FL_OPTIM_CALLS_H

#include "base/rng.h"
#include "base/status.h"
#include "flotilla/tensor.h"

#define FL_CALL_NUMBERS_MAX 4

/* name(n0,n1,...) or name. */
typedef struct fl_call {
    char name[32];
    double v[FL_CALL_NUMBERS_MAX];
    int n;
    uint64_t seed; /* 0: none given */
} fl_call;

FL_MUST_CHECK
fl_status fl_call_parse(const char *text, fl_call *out);

/* l1 or l2 with its coefficient. */
FL_MUST_CHECK
fl_status fl_decay_parse(const char *text, fl_call *out);

/* A clip; one parameter has no global norm. */
typedef enum fl_clip_scope { FL_CLIP_OF_ALL, FL_CLIP_OF_PARAM } fl_clip_scope;
FL_MUST_CHECK
fl_status fl_clip_parse(const char *text, fl_clip_scope scope, fl_call *out);

/* Resolves an initialiser for a shape: xavier and msra become uniform or
   gaussian by their fans, the shape's unless they are given. stream is the seed
   (0: the program's). */
FL_MUST_CHECK
fl_status fl_init_parse(const char *text, const fl_shape *shape, fl_init *out);

#endif
