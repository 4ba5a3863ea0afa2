/* client_changed.c - what others changed, asked of all servers at once.
 *
 * Answers are kept until the last one is there: then all rows are lent to the
 * caller and all cursors move, or none.
 */
#include "ps/client_inside.h"

#include <inttypes.h>
#include <string.h>

#define HEAD_BYTES 16 /* of an answer: cursor and number of rows */

static uint64_t row_bytes(const fl_request *r)
{
    return sizeof(uint64_t) + r->dim * sizeof(float);
}

fl_status fl_request_check_rows(const fl_request *r, const fl_part *p)
{
    uint64_t len = p->payload ? fl_payload_len(p->payload) : 0;
    uint64_t n = 0;

    if (len >= HEAD_BYTES)
        memcpy(&n, fl_payload_data(p->payload) + sizeof(n), sizeof(n));
    if (len < HEAD_BYTES || (len - HEAD_BYTES) % row_bytes(r) ||
        (len - HEAD_BYTES) / row_bytes(r) != n)
        FL_FAIL(FL_ERR_CORRUPT,
                "it answers a request (%s) with %" PRIu64
                " bytes, which are not %" PRIu64 " rows of %" PRIu32 " floats",
                fl_frame_type_name(r->type), len, n, r->dim);
    return FL_OK;
}

/* The number of rows follows from the length, which does not change in shared
   memory. */
static void give_part(const fl_request *r, const fl_part *p)
{
    const uint8_t *at = fl_payload_data(p->payload);
    uint64_t n = (fl_payload_len(p->payload) - HEAD_BYTES) / row_bytes(r);
    const uint64_t *keys = (const uint64_t *)(at + HEAD_BYTES);

    memcpy(&r->cursors[p->server], at, sizeof(*r->cursors));
    r->on_rows(r->arg, keys, (size_t)n, (const float *)(keys + n));
}

void fl_request_give_rows(const fl_request *r)
{
    for (int i = 0; i < r->client->o.n_servers; i++)
        give_part(r, &r->parts[i]);
}

fl_status fl_client_changed(fl_client *c, int table, uint32_t dim,
                            uint64_t *cursors, fl_client_rows on_rows,
                            fl_client_done done, void *arg)
{
    fl_request *r;

    FL_TRY(fl_request_new(c, FL_TYPE_CHANGED, false, done, arg, &r));
    r->dim = dim;
    r->cursors = cursors;
    r->on_rows = on_rows;
    for (int i = 0; i < c->o.n_servers; i++) {
        fl_part *p = &r->parts[i];

        fl_pack_u32(&p->head, (uint32_t)table);
        fl_pack_u32(&p->head, 0);
        fl_pack_u64(&p->head, cursors[i]);
        fl_part_add(p, p->head.data, p->head.len);
    }
    return fl_request_send(r);
}
