/* sign.h - what a call is, for the other ranks: they compare it with theirs. */
#ifndef FL_COLL_SIGN_H
#define FL_COLL_SIGN_H

#include "coll/coll.h"

typedef struct fl_coll_sign {
    uint8_t kind, op, dtype;
    uint8_t is_ragged; /* an allgather of unequal numbers */
    uint32_t root;
    uint64_t n;
} fl_coll_sign;

#define FL_COLL_SIGN_TEXT_MAX 96

/* Whether numbers are combined. */
bool fl_coll_combines(fl_coll_kind k);

fl_coll_sign fl_coll_sign_of(const fl_coll_call *call);
/* "allreduce of 8 f32 (sum)". */
const char *fl_coll_sign_text(const fl_coll_sign *s,
                              char buf[FL_COLL_SIGN_TEXT_MAX]);

/* A call among all of them. */
typedef struct fl_coll_place {
    uint32_t ring;
    uint64_t number;
} fl_coll_place;

/* FL_ERR_INVAL names both ranks and what each of them calls there. */
FL_MUST_CHECK
fl_status fl_coll_sign_match(fl_coll_place at, int rank,
                             const fl_coll_sign *mine, int other,
                             const fl_coll_sign *theirs);

#endif
