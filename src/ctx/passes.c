/* passes.c - the passes over data that a context has made. */
#include "ctx/passes_inside.h"

static void release_state(fl_passes_state *s)
{
    fl_vec_release(&s->done);
    fl_position_release(&s->position);
    *s = (fl_passes_state){ 0 };
}

fl_passes *fl_passes_new(void)
{
    fl_passes *p = fl_alloc(sizeof(*p));

    fl_mutex_init(&p->mu);
    return p;
}

void fl_passes_free(fl_passes *p)
{
    fl_vec_release(&p->done);
    fl_passes_drop_kept(p);
    release_state(&p->before);
    fl_mutex_release(&p->mu);
    fl_free(p);
}

/* --- making them ----------------------------------------------------------- */

static fl_status check_kind(const fl_passes *p, bool was_infer, bool is_infer)
{
    if (was_infer != is_infer)
        FL_FAIL(FL_ERR_INVAL,
                "pass %zu of the run that is gone on with was one that %s, and "
                "this one %s: the program makes other passes than before; "
                "begin without the setting resume",
                p->done.len + 1, was_infer ? "infers" : "trains",
                is_infer ? "infers" : "trains");
    return FL_OK;
}

fl_status fl_passes_next(fl_passes *p, bool is_infer, fl_pass_start *out,
                         fl_pass_counts *counts, const fl_position **position)
{
    const fl_passes_state *b = &p->before;
    size_t n = p->done.len;

    if (n < b->done.len) {
        FL_TRY(check_kind(p, b->done.data[n].is_infer, is_infer));
        *counts = b->done.data[n];
        *out = FL_PASS_IS_OVER;
    } else if (n == b->done.len && b->has_now) {
        FL_TRY(check_kind(p, b->now.is_infer, is_infer));
        *counts = b->now;
        *position = &b->position;
        *out = FL_PASS_GOES_ON;
    } else {
        *out = FL_PASS_NEW;
    }
    return FL_OK;
}

void fl_passes_begin(fl_passes *p, const fl_pass_now *now)
{
    fl_lock(&p->mu);
    p->now = *now;
    fl_unlock(&p->mu);
}

void fl_passes_leave(fl_passes *p)
{
    fl_lock(&p->mu);
    p->now = (fl_pass_now){ 0 };
    fl_unlock(&p->mu);
}

void fl_passes_end(fl_passes *p, const fl_pass_counts *counts)
{
    fl_lock(&p->mu);
    p->now = (fl_pass_now){ 0 };
    fl_vec_push(&p->done, *counts);
    fl_unlock(&p->mu);
}

/* --- saving and going on --------------------------------------------------- */

/* Has this run made something that the one before had not? */
static bool is_further(const fl_passes *p)
{
    const fl_passes_state *b = &p->before;

    if (p->done.len != b->done.len)
        return p->done.len > b->done.len;
    return !b->has_now || p->now.ask;
}

static fl_status print_run(const fl_passes *p, char **text)
{
    fl_passes_state s = { .has_now = p->now.ask != NULL };

    if (s.has_now)
        FL_TRY(p->now.ask(p->now.arg, &s.now, &s.position));
    s.done.data = p->done.data;
    s.done.len = p->done.len;
    *text = fl_passes_state_print(&s);
    fl_position_release(&s.position);
    return FL_OK;
}

fl_status fl_passes_print(fl_passes *p, char **text)
{
    fl_status st = FL_OK;

    fl_lock(&p->mu);
    if (is_further(p))
        st = print_run(p, text);
    else
        *text = fl_passes_state_print(&p->before);
    fl_unlock(&p->mu);
    return st;
}

static fl_status join(fl_passes_state *mine, fl_passes_of of,
                      const fl_passes_state *other, const char *where)
{
    bool is_shared =
        other->position.is_dispatched && !other->position.in_memory;

    if (!other->has_now)
        return FL_OK;
    if (of == FL_PASSES_GONE && !is_shared)
        FL_FAIL(FL_ERR_INVAL,
                "%s: this trainer was in the midst of a pass over files of its "
                "own, which nobody would go on with; go on with as many "
                "trainers as before",
                where);
    if (is_shared && mine->has_now && mine->position.is_dispatched &&
        mine->position.pass == other->position.pass)
        fl_position_unite(&mine->position, &other->position);
    return FL_OK;
}

fl_status fl_passes_join(fl_passes *p, fl_passes_of of, const char *text,
                         size_t len, const char *where)
{
    fl_passes_state other = { 0 };
    fl_status st = fl_passes_state_read(&other, text, len, where);

    if (!st)
        st = join(&p->before, of, &other, where);
    release_state(&other);
    return st;
}

fl_status fl_passes_read(fl_passes *p, const char *text, size_t len,
                         const char *where)
{
    fl_passes_state s = { 0 };
    fl_status st = fl_passes_state_read(&s, text, len, where);

    if (st) {
        release_state(&s);
        return st;
    }
    fl_lock(&p->mu);
    release_state(&p->before);
    p->before = s;
    p->done.len = 0;
    fl_unlock(&p->mu);
    return FL_OK;
}
