/* sign.c - calls compared, and in words. */
#include "coll/sign.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const kinds[] = {
#define X(NAME, name) name,
    FL_COLL_KINDS(X)
#undef X
};

static const char *const ops[] = { "sum", "max", "min", "prod" };
_Static_assert(FL_LEN(ops) == FL_COLL_OP_COUNT, "every operation has a name");

bool fl_coll_combines(fl_coll_kind k)
{
    return k == FL_COLL_ALLREDUCE || k == FL_COLL_REDUCE ||
           k == FL_COLL_REDUCESCATTER;
}

static bool has_root(fl_coll_kind k)
{
    return k == FL_COLL_BROADCAST || k == FL_COLL_REDUCE;
}

/* What a kind does not have is 0, so that signs can be compared. */
fl_coll_sign fl_coll_sign_of(const fl_coll_call *call)
{
    bool is_barrier = call->kind == FL_COLL_BARRIER;

    return (fl_coll_sign){
        .kind = (uint8_t)call->kind,
        .op = fl_coll_combines(call->kind) ? (uint8_t)call->op : 0,
        .dtype = is_barrier ? 0 : (uint8_t)call->dtype,
        .is_ragged = call->kind == FL_COLL_ALLGATHER && call->room,
        .root = has_root(call->kind) ? (uint32_t)call->root : 0,
        .n = is_barrier ? 0 : call->n,
    };
}

/* Those of peers may be anything. */
static const char *name_of(const char *const *names, size_t n, unsigned i)
{
    return i < n ? names[i] : "?";
}

const char *fl_coll_sign_text(const fl_coll_sign *s,
                              char buf[FL_COLL_SIGN_TEXT_MAX])
{
    const char *kind = name_of(kinds, FL_LEN(kinds), s->kind);
    int at = snprintf(buf, FL_COLL_SIGN_TEXT_MAX, "%s", kind);
    size_t room = FL_COLL_SIGN_TEXT_MAX - (size_t)at;

    if (s->kind == FL_COLL_BARRIER)
        return buf;
    at = snprintf(buf + at, room, " of %" PRIu64 " %s", s->n,
                  s->dtype <= FL_DTYPE_U8 ? fl_dtype_text((fl_dtype)s->dtype)
                                          : "?") +
         at;
    room = FL_COLL_SIGN_TEXT_MAX - (size_t)at;
    if (fl_coll_combines((fl_coll_kind)s->kind) && s->kind != FL_COLL_REDUCE)
        (void)snprintf(buf + at, room, " (%s)",
                       name_of(ops, FL_LEN(ops), s->op));
    else if (s->kind == FL_COLL_REDUCE)
        (void)snprintf(buf + at, room, " (%s, to worker %" PRIu32 ")",
                       name_of(ops, FL_LEN(ops), s->op), s->root);
    else if (s->kind == FL_COLL_BROADCAST)
        (void)snprintf(buf + at, room, " (from worker %" PRIu32 ")", s->root);
    else if (s->is_ragged)
        (void)snprintf(buf + at, room, " (of any number)");
    return buf;
}

static bool is_same(const fl_coll_sign *a, const fl_coll_sign *b)
{
    return a->kind == b->kind && a->op == b->op && a->dtype == b->dtype &&
           a->is_ragged == b->is_ragged && a->root == b->root &&
           (a->n == b->n || a->is_ragged);
}

fl_status fl_coll_sign_match(fl_coll_place at, int rank,
                             const fl_coll_sign *mine, int other,
                             const fl_coll_sign *theirs)
{
    char a[FL_COLL_SIGN_TEXT_MAX], b[FL_COLL_SIGN_TEXT_MAX];

    if (is_same(mine, theirs))
        return FL_OK;
    FL_FAIL(FL_ERR_INVAL,
            "call %" PRIu64 " of ring %" PRIu32 " is %s on worker %d and %s on "
            "worker %d: all workers must make the same calls in the same order",
            at.number, at.ring, fl_coll_sign_text(mine, a), rank,
            fl_coll_sign_text(theirs, b), other);
}
