/* round_came.c - ROUND_CAME: another server tells server 0 who has come to a round
 * there, and is told when all have come everywhere. */
#include <inttypes.h>

#include "base/alloc.h"
#include "ps/server/server_inside.h"

#define GUEST_BYTES UINT64_C(8)

typedef struct came_request {
    uint64_t round;
    uint32_t n;
    fl_msg_bytes guests;
} came_request;

static const fl_field request[] = {
    FL_FIELD(U64, came_request, round),
    FL_FIELD(U32, came_request, n),
    FL_FIELD_GAP,
    FL_FIELD(REST, came_request, guests),
    FL_FIELDS_END,
};

const fl_msg_payload fl_msg_round_came_request = { .fields = request };

void fl_round_came_pack(fl_pack *p, uint64_t round,
                        const fl_round_guests *guests)
{
    came_request r = { .round = round, .n = (uint32_t)guests->len };

    (void)fl_fields_pack(p, request, &r);
    for (size_t i = 0; i < guests->len; i++) {
        fl_pack_u32(p, guests->data[i].rank);
        fl_pack_u32(p, guests->data[i].incarnation);
    }
}

/* --- server 0 ------------------------------------------------------------- */

static fl_status unpack(const came_request *r, fl_round_guests *out)
{
    fl_unpack u = fl_unpack_from(r->guests.data, r->guests.len);

    if (r->guests.len != r->n * GUEST_BYTES)
        FL_FAIL(FL_ERR_CORRUPT,
                "a request (round_came) for %" PRIu32 " trainers has %" PRIu64
                " bytes for them",
                r->n, r->guests.len);
    for (uint32_t i = 0; i < r->n; i++) {
        fl_round_guest g = { .rank = fl_unpack_u32(&u) };

        g.incarnation = fl_unpack_u32(&u);
        fl_vec_push(out, g);
    }
    return FL_OK;
}

void fl_server_round_came(fl_server *s, const fl_server_request *r)
{
    const came_request *a = r->request;
    fl_coord_asker who = fl_server_asker(s, r);
    fl_round_guests guests = { 0 };
    fl_status st = fl_server_check_member(s, r);

    if (!st)
        st = unpack(a, &guests);
    s->level = FL_LOG_INFO;
    if (st) {
        fl_reply_error(r->reply, st);
    } else {
        who.question = fl_barrier_question_new(r->reply);
        fl_coord_round_came(s->coord, &who, a->round, &guests);
    }
    fl_vec_release(&guests);
}
