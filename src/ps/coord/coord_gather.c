/* coord_gather.c - gathers: barriers that every trainer brings bytes to, and
 * that all of them leave with the bytes of all.
 *
 * Names and bytes come from peers. A trainer waits at one generation of a name
 * at a time, and what they bring together has a limit: beyond it nothing is
 * kept, and the gather is over with an error, for everybody alike.
 */
#include "ps/coord/coord_inside.h"

#include <inttypes.h>

#define HEAD_BYTES 8 /* of a reply, before the first part */

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

void fl_coord_remember_parts(const fl_coord *c, fl_barrier *b, fl_passed *p)
{
    fl_gathered_unref(p->gathered);
    p->gathered = NULL;
    p->bytes = b->bytes + HEAD_BYTES;
    if (b->is_too_large)
        return;
    p->gathered = fl_gathered_new(b->n_came);
    for (uint32_t rank = 0; rank < c->n_trainers; rank++)
        if (b->by_rank[rank].came)
            fl_gathered_add(p->gathered, &b->by_rank[rank].part);
}

/* --- questions and answers ------------------------------------------------ */

static fl_status check_answer(const fl_coord *c, const fl_passed *p,
                              uint64_t generation)
{
    if (generation != p->generation)
        FL_FAIL(FL_ERR_CLOSED,
                "generation %" PRIu64 " of gather \"%s\" is over, and what was "
                "brought to it is gone: the trainers are at generation "
                "%" PRIu64 ", and only the last one is remembered; a trainer "
                "that starts again cannot catch up with them here",
                generation, p->name, p->generation);
    if (!p->gathered)
        FL_FAIL(FL_ERR_INVAL,
                "the trainers have brought %" PRIu64 " bytes to gather \"%s\", "
                "more than a reply may have (max_message_bytes is %" PRIu64
                "): bring them in several gathers, or raise it on all members",
                p->bytes, p->name, c->o.max_gathered_bytes);
    return FL_OK;
}

void fl_coord_answer_gather(const fl_coord *c, const fl_passed *p,
                            uint64_t generation, void *question)
{
    fl_status st = check_answer(c, p, generation);

    c->e.gathered(c->arg, question, st, st ? NULL : p->gathered);
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
