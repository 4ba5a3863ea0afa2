/* sim_net.c - listeners and dials of the simulated network.
 *
 * A dial is one event: the moment at which its outcome is known. Whether it is
 * refused or too slow is drawn when it starts; whether somebody listens is seen
 * when it gets there.
 */
#include "rpc/sim/sim_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"

/* What an fl_listener of this net is behind its name. */
struct fl_sim_listener {
    fl_sim *sim;
    fl_sim_place *place;
    fl_accept_fn fn;
    void *arg;
};

typedef enum outcome { REACHES, REFUSED, TOO_LATE } outcome;

typedef struct dial {
    fl_sim *sim;
    fl_dial_fn fn;
    void *arg;
    uint64_t event, timeout_ms;
    outcome outcome;
    char address[FL_ADDRESS_MAX];
} dial;

static fl_sim *sim_of(fl_net *n)
{
    return ((fl_sim_network *)n)->sim;
}

static fl_status check_name(const char *name)
{
    size_t len = strlen(name);

    if (len == 0 || len >= FL_ADDRESS_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "'%s' is no address of the simulated network: give 1 to %d "
                "characters, as in server0:1",
                name, FL_ADDRESS_MAX - 1);
    return FL_OK;
}

fl_sim_place *fl_sim_place_get(fl_sim *s, const char *name)
{
    fl_sim_place *p;

    for (p = s->places; p; p = p->next)
        if (strcmp(p->name, name) == 0)
            return p;
    FL_ASSERT(strlen(name) < FL_ADDRESS_MAX);
    p = fl_alloc(sizeof(*p));
    snprintf(p->name, sizeof(p->name), "%s", name);
    p->next = s->places;
    s->places = p;
    return p;
}

/* --- listeners ----------------------------------------------------------- */

/* "server0:0" becomes "server0:40000" and so on. */
static fl_status choose_port(fl_sim *s, const char *name,
                             char out[FL_ADDRESS_MAX])
{
    size_t len = strlen(name);
    int n;

    if (len < 2 || strcmp(name + len - 2, ":0") != 0)
        n = snprintf(out, FL_ADDRESS_MAX, "%s", name);
    else
        n = snprintf(out, FL_ADDRESS_MAX, "%.*s:%" PRIu32, (int)len - 2, name,
                     s->next_port++);
    if (n < 0 || n >= FL_ADDRESS_MAX)
        FL_FAIL(FL_ERR_INVAL, "address %s has no room for a port: shorten it",
                name);
    return FL_OK;
}

static fl_status net_listen(fl_net *n, const fl_listen_args *a,
                            fl_listener **out, char address_out[FL_ADDRESS_MAX])
{
    fl_sim *s = sim_of(n);
    char name[FL_ADDRESS_MAX];
    fl_sim_place *place;
    fl_sim_listener *l;

    FL_ASSERT(a->loop == &s->loop);
    FL_TRY(check_name(a->address));
    FL_TRY(choose_port(s, a->address, name));
    place = fl_sim_place_get(s, name);
    if (place->listener)
        FL_FAIL(FL_ERR_IO,
                "cannot listen on %s: somebody listens there; choose another "
                "address or end that listener",
                name);
    l = fl_alloc(sizeof(*l));
    *l = (fl_sim_listener){
        .sim = s, .place = place, .fn = a->fn, .arg = a->arg
    };
    place->listener = l;
    snprintf(address_out, FL_ADDRESS_MAX, "%s", name);
    *out = (fl_listener *)l;
    return FL_OK;
}

static void net_unlisten(fl_listener *listener)
{
    fl_sim_listener *l = (fl_sim_listener *)listener;

    l->place->listener = NULL;
    fl_sim_refuse_waiting(l->sim, l->place);
    fl_free(l);
}

void fl_sim_accept(fl_sim_place *p, fl_stream *s)
{
    p->listener->fn(p->listener->arg, s);
}

/* --- dials --------------------------------------------------------------- */

static fl_status reach(const dial *d, fl_stream **out)
{
    fl_sim_place *to;

    if (d->outcome == TOO_LATE)
        FL_FAIL(FL_ERR_TIMEOUT,
                "%s did not answer within %" PRIu64
                " ms: see whether it runs, or wait longer",
                d->address, d->timeout_ms);
    to = fl_sim_place_get(d->sim, d->address);
    if (d->outcome == REFUSED || !to->listener)
        FL_FAIL(FL_ERR_CLOSED,
                "%s refused the connection: see whether it listens there",
                d->address);
    return fl_sim_connect(d->sim, to, out);
}

static void end_dial(void *arg)
{
    dial *d = arg;
    fl_dial_fn fn = d->fn;
    void *fn_arg = d->arg;
    fl_stream *s = NULL;
    fl_status st = reach(d, &s);

    d->sim->n_dials--;
    fl_free(d);
    fn(fn_arg, st ? NULL : s);
}

static fl_status net_dial(fl_net *n, const fl_dial_args *a, void **handle)
{
    fl_sim *s = sim_of(n);
    uint64_t ticks;
    dial *d;

    FL_ASSERT(a->loop == &s->loop);
    FL_TRY(check_name(a->address));
    d = fl_alloc(sizeof(*d));
    *d = (dial){
        .sim = s, .fn = a->fn, .arg = a->arg, .timeout_ms = a->timeout_ms
    };
    snprintf(d->address, sizeof(d->address), "%s", a->address);
    if (fl_rng_unit(s->dice, s->n_drawn++, 0) < s->faults.refuse_share)
        d->outcome = REFUSED;
    ticks = fl_sim_draw_delay(s) + fl_sim_draw_delay(s); /* there and back */
    if (ticks / FL_SIM_TICKS_PER_MS >= a->timeout_ms) {
        d->outcome = TOO_LATE;
        ticks = a->timeout_ms ? a->timeout_ms * FL_SIM_TICKS_PER_MS : 1;
    }
    d->event = fl_sim_at(s, fl_sim_after(s, ticks), end_dial, d);
    s->n_dials++;
    *handle = d;
    return FL_OK;
}

static void net_cancel(void *handle)
{
    dial *d = handle;

    fl_sim_drop(d->sim, &d->event);
    d->sim->n_dials--;
    fl_free(d);
}

const fl_net_ops fl_sim_net_ops = {
    .listen = net_listen,
    .unlisten = net_unlisten,
    .dial = net_dial,
    .cancel = net_cancel,
};
