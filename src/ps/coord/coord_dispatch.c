/* coord_dispatch.c - pieces of work, dispatched to trainers as they ask for
 * more.
 *
 *     on the pile --sent---> with a trainer --it says so--> finished
 *          ^                      |
 *          +-- it left, was lost or was replaced
 *
 * A pass is a name and a number; its items are dispatched in their order. Nobody
 * is told that there is nothing left while somebody else works on an item: that
 * one may come back. Until then questions stay open, but not for long: who asks
 * may have to stop, and is told to ask again. Only who is waited for by those
 * others cannot wait for them: it is hasty, and gets what is there.
 *
 * Questions are numbered, so that a repeated one gets the same answer: the item
 * that was dispatched is the trainer's, even if it has not heard so.
 */
#include "ps/coord/coord_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PASSES_MAX 64
#define ITEMS_MAX (UINT64_C(1) << 20)

/* A question is open for so long at most. */
#define PATIENCE_MS 500

/* Where an item is, unless a trainer (by rank) has it. */
#define ON_THE_PILE UINT32_MAX
#define FINISHED (UINT32_MAX - 1)

/* One trainer in a pass. */
typedef struct player {
    uint32_t incarnation; /* 0: has not asked yet */
    uint64_t number;      /* of its last question */
    uint64_t answer;      /* to that, unless it is open */
    bool is_open, is_hasty;
    void *question; /* while it is open */
    uint64_t asked_ms;
    uint64_t n_held; /* items that it has */
} player;

struct fl_work_pass {
    char name[FL_BARRIER_NAME_MAX + 1];
    uint64_t number;
    uint64_t n, n_finished, n_held;
    uint64_t next;   /* no item before it is on the pile */
    uint32_t *where; /* by item */
    player by_rank[];
};

typedef fl_work_pass pass;

/* --- passes --------------------------------------------------------------- */

static void free_pass(pass *p)
{
    fl_data_free(p->where, ((size_t)p->n + 1) * sizeof(*p->where));
    fl_free(p);
}

void fl_coord_release_work(fl_coord *c)
{
    for (size_t i = 0; i < c->passes.len; i++)
        free_pass(c->passes.data[i]);
    fl_vec_release(&c->passes);
}

static pass *find_pass(const fl_coord *c, const fl_dispatch_request *w)
{
    for (size_t i = 0; i < c->passes.len; i++) {
        pass *p = c->passes.data[i];

        if (p->number == w->number && !strcmp(p->name, w->name))
            return p;
    }
    return NULL;
}

/* Passes of one name come in order: one before a known one was forgotten. */
static bool is_forgotten(const fl_coord *c, const fl_dispatch_request *w)
{
    for (size_t i = 0; i < c->passes.len; i++)
        if (c->passes.data[i]->number > w->number &&
            !strcmp(c->passes.data[i]->name, w->name))
            return !find_pass(c, w);
    return false;
}

static fl_status forget_oldest(fl_coord *c)
{
    for (size_t i = 0; i < c->passes.len; i++) {
        pass *p = c->passes.data[i];

        if (p->n_finished < p->n)
            continue;
        c->passes.len--;
        memmove(&c->passes.data[i], &c->passes.data[i + 1],
                (c->passes.len - i) * sizeof(p));
        free_pass(p);
        return FL_OK;
    }
    FL_FAIL(
        FL_ERR_INVAL,
        "a job has at most %d passes whose files are being dispatched at the "
        "same time; let some of them end first",
        PASSES_MAX);
}

static fl_status open_pass(fl_coord *c, const fl_dispatch_request *w,
                           pass **out)
{
    size_t bytes = ((size_t)w->n + 1) * sizeof(uint32_t);
    uint32_t *where;
    pass *p;

    if (c->passes.len == PASSES_MAX)
        FL_TRY(forget_oldest(c));
    where = fl_try_alloc(bytes);
    if (!where)
        FL_FAIL(FL_ERR_NOMEM, "no memory to dispatch %" PRIu64 " items", w->n);
    for (uint64_t i = 0; i < w->n; i++)
        where[i] = ON_THE_PILE;
    p = fl_alloc(sizeof(*p) + c->n_trainers * sizeof(*p->by_rank));
    (void)snprintf(p->name, sizeof(p->name), "%.*s", FL_BARRIER_NAME_MAX,
                   w->name);
    p->number = w->number;
    p->n = w->n;
    p->where = where;
    fl_vec_push(&c->passes, p);
    *out = p;
    return FL_OK;
}

/* --- items ---------------------------------------------------------------- */

static bool take_item(pass *p, uint32_t rank, uint64_t *item)
{
    while (p->next < p->n && p->where[p->next] != ON_THE_PILE)
        p->next++;
    if (p->next == p->n)
        return false;
    *item = p->next++;
    p->where[*item] = rank;
    p->by_rank[rank].n_held++;
    p->n_held++;
    return true;
}

/* Somebody who was thought to be lost may still bring an item to its end. */
static void finish_item(pass *p, uint32_t rank, uint64_t item)
{
    uint32_t *where = &p->where[item];

    if (*where == rank) {
        p->by_rank[rank].n_held--;
        p->n_held--;
    } else if (*where != ON_THE_PILE) {
        return;
    }
    *where = FINISHED;
    p->n_finished++;
}

static void give_back(pass *p, uint32_t rank)
{
    for (uint64_t i = 0; p->by_rank[rank].n_held && i < p->n; i++) {
        if (p->where[i] != rank)
            continue;
        p->where[i] = ON_THE_PILE;
        p->by_rank[rank].n_held--;
        p->n_held--;
        if (i < p->next)
            p->next = i;
    }
}

/* --- answers -------------------------------------------------------------- */

static void answer(const fl_coord *c, player *who, uint64_t item)
{
    who->is_open = false;
    who->answer = item;
    c->e.dispatched(c->arg, who->question, FL_OK, item);
}

/* An open question, if it can be answered now. */
static void serve(const fl_coord *c, pass *p, uint32_t rank)
{
    player *who = &p->by_rank[rank];
    uint64_t item;

    if (!who->is_open)
        return;
    if (take_item(p, rank, &item))
        answer(c, who, item);
    else if (who->is_hasty || p->n_held == who->n_held)
        answer(c, who, FL_DISPATCH_NONE);
}

static void serve_all(fl_coord *c)
{
    for (size_t i = 0; i < c->passes.len; i++)
        for (uint32_t rank = 0; rank < c->n_trainers; rank++)
            serve(c, c->passes.data[i], rank);
}

void fl_coord_tick_work(fl_coord *c, uint64_t now_ms)
{
    for (size_t i = 0; i < c->passes.len; i++)
        for (uint32_t rank = 0; rank < c->n_trainers; rank++) {
            player *who = &c->passes.data[i]->by_rank[rank];

            if (who->is_open &&
                fl_coord_between(who->asked_ms, now_ms) >= PATIENCE_MS)
                answer(c, who, FL_DISPATCH_LATER);
        }
}

/* With an error that was saved. */
static void refuse(const fl_coord *c, player *who, const fl_err *why)
{
    if (!who->is_open)
        return;
    who->is_open = false;
    who->answer = FL_DISPATCH_LATER;
    c->e.dispatched(c->arg, who->question, fl_err_restore(why), 0);
}

void fl_coord_withdraw_work(fl_coord *c, uint32_t rank, fl_status st)
{
    fl_err why;

    fl_err_save(&why, st);
    for (size_t i = 0; i < c->passes.len; i++) {
        pass *p = c->passes.data[i];

        give_back(p, rank);
        refuse(c, &p->by_rank[rank], &why);
    }
    serve_all(c);
}

void fl_coord_drop_work(fl_coord *c, fl_status st)
{
    fl_err why;

    fl_err_save(&why, st);
    for (size_t i = 0; i < c->passes.len; i++)
        for (uint32_t rank = 0; rank < c->n_trainers; rank++)
            refuse(c, &c->passes.data[i]->by_rank[rank], &why);
}

/* --- questions ------------------------------------------------------------ */

static fl_status check_work(const fl_coord *c, const fl_dispatch_request *w)
{
    const pass *p = find_pass(c, w);

    FL_TRY(fl_coord_check_name("a pass", w->name));
    if (p && p->n != w->n)
        FL_FAIL(FL_ERR_INVAL,
                "pass \"%s\" has %" PRIu64 " files for some trainers and "
                "%" PRIu64 " for others: give all of them the same list",
                w->name, p->n, w->n);
    if (w->n > ITEMS_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "pass \"%s\" has %" PRIu64 " files, and at most %" PRIu64
                " can be dispatched",
                w->name, w->n, ITEMS_MAX);
    if (w->finished != FL_DISPATCH_NONE && w->finished >= w->n)
        FL_FAIL(FL_ERR_CORRUPT,
                "file %" PRIu64 " of pass \"%s\" is finished, which has only "
                "%" PRIu64,
                w->finished, w->name, w->n);
    return FL_OK;
}

static fl_status check_number(const pass *p, uint32_t rank, uint64_t number)
{
    const player *who = &p->by_rank[rank];

    if (number < who->number)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %" PRIu32 " asks question %" PRIu64 " of pass \"%s\" "
                "after question %" PRIu64,
                rank, number, p->name, who->number);
    return FL_OK;
}

/* Its last answer was lost, or the way of its question. */
static void ask_again(fl_coord *c, player *who, void *question)
{
    void *was = who->question;

    if (!who->is_open) {
        c->e.dispatched(c->arg, question, FL_OK, who->answer);
        return;
    }
    who->question = question;
    c->e.dispatched(c->arg, was,
                    fl_err_set(FL_ERR_CLOSED, "a question was asked again"), 0);
}

static fl_status begin(fl_coord *c, const fl_coord_asker *a,
                       const fl_dispatch_request *w, pass **out)
{
    uint32_t rank = a->rank, incarnation = a->incarnation;
    pass *p = find_pass(c, w);

    if (!p)
        FL_TRY(open_pass(c, w, &p));
    if (p->by_rank[rank].incarnation != incarnation)
        p->by_rank[rank] = (player){ .incarnation = incarnation };
    *out = p;
    return check_number(p, rank, w->question ? w->question : UINT64_MAX);
}

/* The pass goes on with this question. */
static void go_on(fl_coord *c, pass *p, const fl_coord_asker *a,
                  const fl_dispatch_request *w)
{
    player *who = &p->by_rank[a->rank];

    if (w->finished != FL_DISPATCH_NONE)
        finish_item(p, a->rank, w->finished);
    if (!w->question) {
        c->e.dispatched(c->arg, a->question, FL_OK, FL_DISPATCH_NONE);
    } else if (w->question == who->number) {
        ask_again(c, who, a->question);
    } else {
        who->number = w->question;
        who->is_open = true;
        who->is_hasty = w->is_hasty;
        who->question = a->question;
        who->asked_ms = a->now_ms;
    }
    serve_all(c);
}

void fl_coord_dispatch(fl_coord *c, const fl_coord_asker *a,
                       const fl_dispatch_request *w)
{
    fl_status st = fl_coord_check_asker(c, a->rank, a->incarnation, "work");
    pass *p = NULL;

    if (!st)
        st = check_work(c, w);
    if (!st && is_forgotten(c, w)) {
        c->e.dispatched(c->arg, a->question, FL_OK, FL_DISPATCH_NONE);
        return;
    }
    if (!st)
        st = begin(c, a, w, &p);
    if (st) {
        c->e.dispatched(c->arg, a->question, st, 0);
        return;
    }
    c->members[a->rank].uses_incarnation = true;
    go_on(c, p, a, w);
}
