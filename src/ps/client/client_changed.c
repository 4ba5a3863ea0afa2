/* client_changed.c - what others changed, asked of all servers at once.
 *
 * An answer may be a page: then its server is asked for the next one, in rounds
 * with the other servers that have more. The rows of a round are borrowed to the
 * caller when all have answered. Pages are of the rows since the caller's
 * cursor, which therefore stays until the last one is there; then all cursors
 * move to what the first answers have said.
 */
#include "ps/client/client_inside.h"

#include <inttypes.h>

#include "base/alloc.h"

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
    fl_ending ending;
    turn turns[]; /* by server */
} pages;

/* --- answers -------------------------------------------------------------- */

static fl_status check_page(fl_request *r, const fl_request_part *p)
{
    const pages *g = r->state;
    uint64_t asked = g->turns[p->server].place;
    fl_changed_reply page;

    FL_TRY(fl_changed_unpack_reply(fl_part_reply(p), g->dim, &page));
    if (page.head.place && page.head.place <= asked)
        FL_FAIL(FL_ERR_CORRUPT,
                "it answers a request (%s) for place %" PRIu64
                " with place %" PRIu64 ", which is not behind it",
                fl_msg_name(r->type), asked, page.head.place);
    return FL_OK;
}

static fl_status give_page(fl_request *r, const fl_request_part *p)
{
    pages *g = r->state;
    turn *t = &g->turns[p->server];
    fl_changed_reply page;

    FL_TRY(fl_changed_unpack_reply(fl_part_reply(p), g->dim, &page));
    if (!t->place)
        t->next = page.head.cursor;
    t->place = page.head.place;
    t->is_over = !page.head.place;
    g->on_rows(g->ending.arg, page.keys, (size_t)page.head.n, page.values);
    return FL_OK;
}

/* --- rounds --------------------------------------------------------------- */

static fl_status ask(pages *g);

static void finish(pages *g, fl_status st)
{
    fl_ending ending = g->ending;

    for (int i = 0; !st && i < g->client->o.n_servers; i++)
        g->cursors[i] = g->turns[i].next;
    fl_free(g);
    ending.done(ending.arg, st);
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

    FL_TRY(fl_request_new(g->client, FL_MSG_CHANGED, (fl_ending){ on_round, g },
                          &r));
    r->state = g;
    r->on_part = check_page;
    r->on_all = give_page;
    for (int i = 0; i < g->client->o.n_servers; i++)
        if (!g->turns[i].is_over)
            fl_part_pack(&r->parts[i],
                         &(fl_changed_request){ .table = (uint32_t)g->table,
                                                .cursor = g->cursors[i],
                                                .place = g->turns[i].place });
    return fl_request_send(r);
}

fl_status fl_client_changed(fl_client *c, const fl_client_changes *what,
                            fl_client_rows on_rows, fl_ending ending)
{
    size_t turns = (size_t)c->o.n_servers * sizeof(turn);
    pages *g = fl_alloc(sizeof(*g) + turns);
    fl_status st;

    *g = (pages){ .client = c,
                  .table = what->table,
                  .dim = what->dim,
                  .cursors = what->cursors,
                  .on_rows = on_rows,
                  .ending = ending };
    st = ask(g);
    if (st)
        fl_free(g);
    return st;
}
