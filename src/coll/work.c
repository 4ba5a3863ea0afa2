/* work.c - what algorithms have in common: chunks, and parts that are not what
 * they should be. */
#include "coll/builtin.h"

#include <inttypes.h>

int fl_run_ranks(const fl_run *r)
{
    return r->group->n;
}

int fl_run_me(const fl_run *r)
{
    return r->group->me;
}

int fl_run_rank_at(const fl_run *r, int from, int places)
{
    int n = fl_run_ranks(r), at = (from + places) % n;

    return at < 0 ? at + n : at;
}

/* --- memory ---------------------------------------------------------------- */

size_t fl_run_bytes(const fl_run *r, size_t n)
{
    return n * fl_dtype_bytes(r->call.dtype);
}

const uint8_t *fl_run_in(const fl_run *r, size_t at)
{
    return (const uint8_t *)r->call.in + fl_run_bytes(r, at);
}

fl_status fl_run_reserve(fl_run *r, size_t bytes)
{
    if (bytes && !fl_buf_reserve(&r->scratch, bytes))
        FL_FAIL(
            FL_ERR_NOMEM,
            "worker %d has no memory for the %zu bytes of a collective call",
            r->b->base.rank, bytes);
    return FL_OK;
}

/* --- pieces ---------------------------------------------------------------- */

static size_t chunk_len(const fl_run *r)
{
    return FL_COLL_CHUNK_BYTES / fl_dtype_bytes(r->call.dtype);
}

size_t fl_run_chunks(const fl_run *r, fl_coll_span s)
{
    size_t each = chunk_len(r);

    return (s.hi - s.lo + each - 1) / each;
}

fl_coll_span fl_run_chunk(const fl_run *r, fl_coll_span s, size_t i)
{
    size_t each = chunk_len(r), lo = s.lo + i * each;

    return (fl_coll_span){ lo, s.hi - lo < each ? s.hi : lo + each };
}

void fl_run_send_all(fl_run *r, int to, uint32_t step, fl_coll_span all,
                     const void *from)
{
    size_t n = fl_run_chunks(r, all);

    for (size_t i = 0; i < n; i++)
        fl_run_send(r, to, step, i, fl_run_chunk(r, all, i), from);
}

/* --- parts that come ------------------------------------------------------- */

fl_status fl_run_unexpected(const fl_run *r, const fl_coll_part *p)
{
    char text[FL_COLL_SIGN_TEXT_MAX];

    FL_FAIL(FL_ERR_CORRUPT,
            "worker %d sends worker %d chunk %" PRIu64 " of step %" PRIu32
            " of call %" PRIu64 " of ring %" PRIu32 " (%s) with %zu bytes, "
            "which does not belong there: all workers must run the same "
            "version",
            r->group->ranks[p->from], r->b->base.rank, p->chunk, p->step,
            r->at.number, r->at.ring, fl_coll_sign_text(&r->sign, text), p->n);
}

fl_status fl_run_expect(const fl_run *r, const fl_coll_part *p,
                        fl_coll_span all, fl_coll_span *out)
{
    if (!r->n_left || p->chunk >= fl_run_chunks(r, all))
        return fl_run_unexpected(r, p);
    *out = fl_run_chunk(r, all, (size_t)p->chunk);
    if (p->n != fl_run_bytes(r, out->hi - out->lo))
        return fl_run_unexpected(r, p);
    return FL_OK;
}
