/* client_coalesce.c - small requests that leave as one.
 *
 * What a message costs is its way, not its few bytes. A client that may
 * coalesce holds small pulls and pushes back for a moment: the next of a kind
 * is added to the last one, with an ending of its own, until somebody flushes
 * (fl_client_poller), the loop gets to it, or it is no longer small.
 *
 * All requests about dense blocks go through one list, in their order, though
 * only pushes are added to each other: what is pulled or assigned after a push
 * must not go before it.
 *
 * `coalesce_mu` guards what is coalesced, and what is added to it.
 */
#include "ps/client/client_inside.h"

static bool is_of_blocks(uint16_t type)
{
    return type != FL_MSG_PUSH && type != FL_MSG_PULL;
}

/* Half a message, lest heads and padding make it too long for one. */
static uint64_t small_bytes(const fl_client *c, uint16_t type)
{
    uint64_t half = c->o.max_message_bytes / 2;
    uint64_t most =
        is_of_blocks(type) ? FL_SMALL_BLOCKS_BYTES : FL_SMALL_ROWS_BYTES;

    return half < most ? half : most;
}

static fl_request_list *list_of(fl_client *c, uint16_t type)
{
    if (is_of_blocks(type))
        return &c->blocks;
    return type == FL_MSG_PUSH ? &c->pushes : &c->pulls;
}

static void send_list(fl_request *first)
{
    fl_request *next;

    for (fl_request *r = first; r; r = next) {
        fl_status st;

        next = r->next;
        st = fl_request_fill_and_try(r);
        if (st)
            fl_request_fail(r, st);
    }
}

/* In the loop, where requests end: also those that cannot be sent. Pushes
   first: what is pulled with them shall know them. */
static void send_coalesced(void *arg)
{
    fl_client *c = arg;
    fl_request *pushes, *blocks, *pulls;

    fl_lock(&c->coalesce_mu);
    pushes = c->pushes.first;
    blocks = c->blocks.first;
    pulls = c->pulls.first;
    c->pushes = c->blocks = c->pulls = (fl_request_list){ 0 };
    fl_unlock(&c->coalesce_mu);
    send_list(pushes);
    send_list(blocks);
    send_list(pulls);
}

/* So few bytes have fewer items than a request may. */
static bool can_join(const fl_request *r, const fl_request_spec *a)
{
    bool may = a->type == FL_MSG_PULL || a->type == FL_MSG_PUSH ||
               a->type == FL_MSG_PUSH_DENSE;

    return may && r->type == a->type &&
           r->coalesced_bytes + a->bytes <= small_bytes(r->client, r->type);
}

/* The last one that is coalesced, or a new one behind it. Under coalesce_mu. */
static fl_status coalesce(fl_client *c, const fl_request_spec *a,
                          fl_request **out)
{
    fl_request_list *list = list_of(c, a->type);
    bool is_idle = !c->pushes.first && !c->blocks.first && !c->pulls.first;
    fl_request *r = list->last;

    if (r && can_join(r, a)) {
        fl_vec_push(&r->endings, a->ending);
    } else {
        FL_TRY(fl_request_new(c, a->type, a->ending, &r));
        r->is_coalesced = true;
        r->coalesced_bytes = 0;
        r->next = NULL;
        if (list->last)
            list->last->next = r;
        else
            list->first = r;
        list->last = r;
    }
    r->coalesced_bytes += a->bytes;
    if (is_idle)
        fl_loop_post_deferred(c->loop, send_coalesced, c);
    *out = r;
    return FL_OK;
}

fl_status fl_request_begin(fl_client *c, const fl_request_spec *a,
                           fl_request **out)
{
    fl_status st;

    if (!c->o.may_coalesce ||
        (!is_of_blocks(a->type) && a->bytes > small_bytes(c, a->type)))
        return fl_request_new(c, a->type, a->ending, out);
    fl_lock(&c->coalesce_mu);
    st = coalesce(c, a, out);
    if (st)
        fl_unlock(&c->coalesce_mu);
    return st;
}

fl_status fl_request_end(fl_request *r)
{
    fl_status st;

    if (r->is_coalesced) {
        fl_unlock(&r->client->coalesce_mu);
        return FL_OK;
    }
    st = fl_request_fill_and_try(r);
    if (st)
        fl_request_free(r);
    return st;
}
