/* dispatch.c - the files of a dataset, dealt to trainers by server 0
 * (ps/coord/coord.h) as they ask for more.
 *
 * In a mode whose trainers wait for one another (sync) a trainer cannot wait
 * for the files that others still have: they would not get on without it.
 */
#include <stdatomic.h>

#include "dist/transpile.h"
#include "data/dataset/dataset.h"

/* The coordinator's limit. */
#define NAME_MAX_BYTES 63

_Static_assert(FL_DEALER_NONE == FL_DEAL_NONE &&
                   FL_DEALER_LATER == FL_DEAL_LATER,
               "answers of the coordinator are those of a dealer");

typedef struct dealing {
    fl_transpiler *t;
    fl_deal_name *name;      /* the transpiler's */
    _Atomic uint64_t number; /* of the pass, among those by this name */
    uint64_t pass, question; /* of who asks, one at a time */
} dealing;

typedef struct dealt {
    uint64_t item;
    bool is_good;
} dealt;

static void on_dealt(void *arg, int server, const void *payload, uint64_t len)
{
    dealt *d = arg;
    fl_unpack u = { .at = payload };

    (void)server;
    u.end = len ? u.at + len : u.at;
    d->item = fl_unpack_u64(&u);
    d->is_good = !u.bad && u.at == u.end;
}

/* What all questions of a pass have in common comes with a number, or a file
   that is finished. */
static fl_status ask(const dealing *g, uint64_t n_files, uint64_t question,
                     uint64_t finished, uint64_t *item)
{
    fl_pack p = { 0 };
    dealt d = { 0 };
    fl_status st;

    fl_pack_text(&p, g->name->name);
    fl_pack_u64(&p, g->number);
    fl_pack_u64(&p, n_files);
    fl_pack_u64(&p, question);
    fl_pack_u64(&p, finished);
    fl_pack_u32(&p, !strcmp(g->t->mode->name, "sync"));
    st = fl_cluster_ask(g->t->cluster, 0, FL_TYPE_DEAL, false, p.data, p.len,
                        on_dealt, &d);
    fl_pack_release(&p);
    FL_TRY(st);
    if (!d.is_good)
        FL_FAIL(FL_ERR_CORRUPT, "server 0 deals something that is no file");
    *item = d.item;
    return FL_OK;
}

/* Passes are counted by name, whatever datasets make them: every trainer makes
   the same ones. */
static void begin_pass(dealing *g, uint64_t pass)
{
    uint64_t more = pass - g->pass;

    g->number = atomic_fetch_add(&g->name->n_passes, more) + more;
    g->pass = pass;
    g->question = 0;
}

static fl_status next_file(void *arg, uint64_t pass, uint64_t n_files,
                           uint64_t *file)
{
    dealing *g = arg;

    if (g->pass != pass)
        begin_pass(g, pass);
    return ask(g, n_files, ++g->question, FL_DEAL_NONE, file);
}

static fl_status finish_file(void *arg, uint64_t pass, uint64_t n_files,
                             uint64_t file)
{
    uint64_t none;

    (void)pass;
    return ask(arg, n_files, 0, file, &none);
}

static fl_deal_name *name_of(fl_transpiler *t, const char *name)
{
    fl_deal_name *n = t->deals;

    while (n && strcmp(n->name, name))
        n = n->next;
    if (n)
        return n;
    n = fl_alloc(sizeof(*n));
    n->name = fl_strdup(name);
    n->next = t->deals;
    t->deals = n;
    return n;
}

void fl_deal_names_free(fl_deal_name *first)
{
    while (first) {
        fl_deal_name *next = first->next;

        fl_free(first->name);
        fl_free(first);
        first = next;
    }
}

fl_status fl_transpiler_deal_files(fl_transpiler *t, fl_dataset *d,
                                   const char *pass_name)
{
    size_t len = pass_name ? strlen(pass_name) : 0;
    fl_dealer dealer = { .next = next_file,
                         .finished = finish_file,
                         .free = fl_free };
    dealing *g;

    if (len < 1 || len > NAME_MAX_BYTES)
        FL_FAIL(FL_ERR_INVAL,
                "fl_transpiler_deal_files: a pass has a name of 1 to %d "
                "characters, the same for all trainers",
                NAME_MAX_BYTES);
    g = fl_alloc(sizeof(*g));
    g->t = t;
    g->name = name_of(t, pass_name);
    dealer.arg = g;
    return fl_dataset_set_dealer(d, &dealer);
}
