/* coord_gather.c - gathers: barriers that every trainer brings bytes to, and
 * that all of them leave with the bytes of all.
 *
 * Names and bytes come from peers. A trainer waits at one generation of a name
 * at a time, and what they bring together has a limit: beyond it nothing is
 * kept, and the gather is over with an error, for everybody alike.
 */
#include "ps/coord/coord_inside.h"

#include <inttypes.h>
#include <string.h>

#define HEAD_BYTES 8     /* of a reply, before the first part */
#define RECORD_BYTES 128 /* about what a record takes besides its reply */
#define RECORDS_MAX_BYTES (UINT64_C(64) << 20)

/* --- what is brought ------------------------------------------------------ */

static void drop_all(const fl_coord *c, fl_barrier *b)
{
    b->is_too_large = true;
    for (uint32_t rank = 0; rank < c->n_trainers; rank++)
        fl_gather_part_release(&b->by_rank[rank].part);
}

void fl_coord_keep_part(const fl_coord *c, fl_barrier *b, fl_asked *asked)
{
    uint64_t max = c->o.max_gathered_bytes;

    if (b->kind != FL_BARRIER_GATHER)
        return;
    b->bytes += asked->part.bytes;
    if (max && b->bytes + HEAD_BYTES > max)
        drop_all(c, b);
    if (b->is_too_large)
        fl_gather_part_release(&asked->part);
}

void fl_coord_drop_part(fl_barrier *b, fl_asked *asked)
{
    b->bytes -= asked->part.bytes;
    fl_gather_part_release(&asked->part);
}

/* --- what is remembered --------------------------------------------------- */

static void drop_oldest(fl_passed *p)
{
    fl_gather_record *r = p->records.data;

    fl_gathered_unref(r->gathered);
    p->record_bytes -= r->bytes + RECORD_BYTES;
    p->records.len--;
    memmove(r, r + 1, p->records.len * sizeof(*r));
}

void fl_coord_release_records(fl_passed *p)
{
    while (p->records.len)
        drop_oldest(p);
    fl_vec_release(&p->records);
}

static uint64_t max_record_bytes(const fl_coord *c)
{
    return c->o.max_record_bytes ? c->o.max_record_bytes : RECORDS_MAX_BYTES;
}

void fl_coord_remember_parts(const fl_coord *c, fl_barrier *b, fl_passed *p)
{
    fl_gather_record r = { .generation = b->generation,
                           .bytes = b->bytes + HEAD_BYTES };

    if (!b->is_too_large)
        r.gathered = fl_gathered_new(b->n_came);
    for (uint32_t rank = 0; r.gathered && rank < c->n_trainers; rank++)
        if (b->by_rank[rank].came)
            fl_gathered_add(r.gathered, &b->by_rank[rank].part);
    fl_vec_push(&p->records, r);
    p->record_bytes += r.bytes + RECORD_BYTES;
    while (p->records.len > 1 && p->record_bytes > max_record_bytes(c))
        drop_oldest(p);
}

static const fl_gather_record *find_record(const fl_passed *p,
                                           uint64_t generation)
{
    for (size_t i = p->records.len; i--;)
        if (p->records.data[i].generation == generation)
            return &p->records.data[i];
    return NULL;
}

/* --- questions and answers ------------------------------------------------ */

static fl_status check_record(const fl_coord *c, const fl_passed *p,
                              const fl_gather_record *r, uint64_t generation)
{
    if (!r)
        FL_FAIL(FL_ERR_CLOSED,
                "generation %" PRIu64 " of gather \"%s\" is over, and what was "
                "brought to it is gone: the trainers are at generation "
                "%" PRIu64 ", and %" PRIu64 " MB are remembered, back to "
                "generation %" PRIu64 "; a trainer that starts again cannot "
                "catch up with them here",
                generation, p->name, p->generation, max_record_bytes(c) >> 20,
                p->records.data[0].generation);
    if (!r->gathered)
        FL_FAIL(FL_ERR_INVAL,
                "the trainers have brought %" PRIu64 " bytes to gather \"%s\", "
                "more than a reply may have (max_message_bytes is %" PRIu64
                "): bring them in several gathers, or raise it on all members",
                r->bytes, p->name, c->o.max_gathered_bytes);
    return FL_OK;
}

void fl_coord_answer_gather(const fl_coord *c, const fl_passed *p,
                            uint64_t generation, void *question)
{
    const fl_gather_record *r = find_record(p, generation);
    fl_status st = check_record(c, p, r, generation);

    c->e.gathered(c->arg, question, st, st ? NULL : r->gathered);
}

fl_status fl_coord_check_gather(const fl_coord *c, uint32_t rank,
                                const fl_barrier_id *id)
{
    const fl_barrier *at = fl_coord_waits_by_name(c, rank, id);

    if (at && at->generation != id->generation)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %" PRIu32 " asks for generation %" PRIu64
                " of gather \"%s\" while it waits at generation %" PRIu64
                ": one has to be over before the next",
                rank, id->generation, id->name, at->generation);
    return FL_OK;
}

void fl_coord_gather(fl_coord *c, const fl_coord_asker *who, const char *name,
                     uint64_t generation, fl_gather_part *part)
{
    fl_barrier_id id = { FL_BARRIER_GATHER, name, generation };
    fl_asked asked = { .part = *part };

    *part = (fl_gather_part){ 0 };
    fl_coord_enter_barrier(c, who, &id, &asked);
}
