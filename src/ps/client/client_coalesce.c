/* client_coalesce.c - small requests that leave as one.
 *
 * What a message costs is its way, not its few bytes. A client that may
 * coalesce holds small pulls and pushes back for a moment: the next of a kind
 * is added to the last one, with an ending of its own, until somebody flushes
 * (fl_client_poller), the loop gets to it, or it is no longer small.
 *
 * `coalesce_mu` guards what is coalesced, and what is added to it.
 */
#include "ps/client/client_inside.h"

#define SMALL_BYTES ((uint64_t)64 << 10)

/* Half a message, lest heads and padding make it too long for one. */
static uint64_t small_bytes(const fl_client *c)
{
    uint64_t half = c->o.max_message_bytes / 2;

    return half < SMALL_BYTES ? half : SMALL_BYTES;
}

static fl_request_list *list_of(fl_client *c, uint16_t type)
{
    return type == FL_MSG_PUSH ? &c->pushes : &c->pulls;
}

static void send_list(fl_request *first)
{
    fl_request *next;

    for (fl_request *r = first; r; r = next) {
        fl_status st;

        next = r->next;
        st = fl_request_scatter(r);
        if (st)
            fl_request_fail(r, st);
    }
}

/* In the loop, where requests end: also those that cannot be sent. Pushes
   first: what is pulled with them shall know them. */
static void send_coalesced(void *arg)
{
    fl_client *c = arg;
    fl_request *pushes, *pulls;

    fl_lock(&c->coalesce_mu);
    pushes = c->pushes.first;
    pulls = c->pulls.first;
    c->pushes = c->pulls = (fl_request_list){ 0 };
    fl_unlock(&c->coalesce_mu);
    send_list(pushes);
    send_list(pulls);
}

/* So few bytes have fewer items than a request may. */
static bool has_room(const fl_request *r, uint64_t bytes)
{
    return r->coalesced_bytes + bytes <= small_bytes(r->client);
}

/* The last one that is coalesced, or a new one behind it. Under coalesce_mu. */
static fl_status coalesce(fl_client *c, const fl_request_spec *a,
                          fl_request **out)
{
    fl_request_list *list = list_of(c, a->type);
    bool is_idle = !c->pushes.first && !c->pulls.first;
    fl_request *r = list->last;

    if (r && has_room(r, a->bytes)) {
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

    if (!c->o.may_coalesce || a->bytes > small_bytes(c))
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
    st = fl_request_scatter(r);
    if (st)
        fl_request_free(r);
    return st;
}
