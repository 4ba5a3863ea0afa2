/* client_changed.c - what others changed, asked of all servers at once.
 *
 * An answer may be a page: then its server is asked for the next one, in rounds
 * with the other servers that have more. The rows of a round are lent to the
 * caller when all have answered. Pages are of the rows since the caller's
 * cursor, which therefore stays until the last one is there; then all cursors
 * move to what the first answers have said.
 */
#include "ps/client/client_inside.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"

#define HEAD_BYTES 24 /* of an answer: cursor, place and number of rows */

/* Of one server. */
typedef struct turn {
    uint64_t next;  /* cursor for the next time */
    uint64_t place; /* of the page that is asked for; 0: the first */
    bool is_over;
} turn;

typedef struct pages {
    fl_client *client;
    int table;
    uint32_t dim;
    uint64_t *cursors;
    fl_client_rows on_rows;
    fl_client_done done;
    void *arg;
    turn turns[]; /* by server */
} pages;

/* --- answers -------------------------------------------------------------- */

typedef struct head {
    uint64_t cursor, place, n;
} head;

_Static_assert(sizeof(head) == HEAD_BYTES, "a head is three numbers");

static uint64_t row_bytes(const fl_request *r)
{
    return sizeof(uint64_t) + r->dim * sizeof(float);
}

fl_status fl_request_check_rows(const fl_request *r, const fl_part *p)
{
    const pages *g = fl_request_arg(r);
    uint64_t asked = g->turns[p->server].place;
    uint64_t len = p->payload ? fl_payload_len(p->payload) : 0;
    head h = { 0 };

    if (len >= HEAD_BYTES)
        memcpy(&h, fl_payload_data(p->payload), HEAD_BYTES);
    if (len < HEAD_BYTES || (len - HEAD_BYTES) % row_bytes(r) ||
        (len - HEAD_BYTES) / row_bytes(r) != h.n)
        FL_FAIL(FL_ERR_CORRUPT,
                "it answers a request (%s) with %" PRIu64
                " bytes, which are not %" PRIu64 " rows of %" PRIu32 " floats",
                fl_frame_type_name(r->type), len, h.n, r->dim);
    if (h.place && h.place <= asked)
        FL_FAIL(FL_ERR_CORRUPT,
                "it answers a request (%s) for place %" PRIu64
                " with place %" PRIu64 ", which is not behind it",
                fl_frame_type_name(r->type), asked, h.place);
    return FL_OK;
}

/* The number of rows follows from the length, which does not change in shared
   memory. */
static void give_part(const fl_request *r, const fl_part *p)
{
    pages *g = fl_request_arg(r);
    turn *t = &g->turns[p->server];
    const uint8_t *at = fl_payload_data(p->payload);
    uint64_t n = (fl_payload_len(p->payload) - HEAD_BYTES) / row_bytes(r);
    const uint64_t *keys = (const uint64_t *)(at + HEAD_BYTES);
    head h;

    memcpy(&h, at, HEAD_BYTES);
    if (!t->place)
        t->next = h.cursor;
    t->place = h.place;
    t->is_over = !h.place;
    g->on_rows(g->arg, keys, (size_t)n, (const float *)(keys + n));
}

void fl_request_give_rows(const fl_request *r)
{
    for (int i = 0; i < r->client->o.n_servers; i++)
        if (r->parts[i].is_used)
            give_part(r, &r->parts[i]);
}

/* --- rounds --------------------------------------------------------------- */

static fl_status ask(pages *g);

static void finish(pages *g, fl_status st)
{
    fl_client_done done = g->done;
    void *arg = g->arg;

    for (int i = 0; !st && i < g->client->o.n_servers; i++)
        g->cursors[i] = g->turns[i].next;
    fl_free(g);
    done(arg, st);
}

static bool has_more(const pages *g)
{
    for (int i = 0; i < g->client->o.n_servers; i++)
        if (!g->turns[i].is_over)
            return true;
    return false;
}

static void on_round(void *arg, fl_status st)
{
    pages *g = arg;

    if (!st && has_more(g)) {
        st = ask(g);
        if (!st)
            return;
    }
    finish(g, st);
}

/* All servers that have more. */
static fl_status ask(pages *g)
{
    fl_request *r;

    FL_TRY(fl_request_new(g->client, FL_TYPE_CHANGED, false,
                          (fl_ending){ on_round, g }, &r));
    r->dim = g->dim;
    r->on_rows = g->on_rows;
    for (int i = 0; i < g->client->o.n_servers; i++) {
        fl_part *p = &r->parts[i];

        if (g->turns[i].is_over)
            continue;
        fl_pack_u32(&p->head, (uint32_t)g->table);
        fl_pack_u32(&p->head, 0);
        fl_pack_u64(&p->head, g->cursors[i]);
        fl_pack_u64(&p->head, g->turns[i].place);
        fl_part_add(p, p->head.data, p->head.len);
    }
    return fl_request_send(r);
}

fl_status fl_client_changed(fl_client *c, int table, uint32_t dim,
                            uint64_t *cursors, fl_client_rows on_rows,
                            fl_client_done done, void *arg)
{
    size_t turns = (size_t)c->o.n_servers * sizeof(turn);
    pages *g = fl_alloc(sizeof(*g) + turns);
    fl_status st;

    *g = (pages){ .client = c,
                  .table = table,
                  .dim = dim,
                  .cursors = cursors,
                  .on_rows = on_rows,
                  .done = done,
                  .arg = arg };
    st = ask(g);
    if (st)
        fl_free(g);
    return st;
}
