/* status.c - one error per thread: a code and a sentence.
 *
 * The sentence has a fixed room, so that reporting never needs memory. What
 * does not fit is cut at a character, never inside one, and ends in "...".
 * A code whose sentence was never set falls back to its general text: a stale
 * sentence of an older failure must not explain a new one.
 */
#include "base/status.h"

#include "base/args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A context may take a quarter of the room; the cause keeps the rest. */
#define CONTEXT_MAX (FL_ERR_TEXT_MAX / 4)

static _Thread_local fl_err last;

static bool is_error(fl_status st)
{
    return st != FL_OK && st != FL_PENDING;
}

/* Ends a full buffer in "...", before the UTF-8 character that would break. */
static void mark_cut(char *text, size_t size)
{
    size_t end = size - sizeof("...");

    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    memcpy(text + end, "...", sizeof("..."));
}

static void format(char *text, size_t size, const char *fmt, va_list ap)
{
    int n = vsnprintf(text, size, fmt, ap);

    if (n < 0)
        text[0] = '\0';
    else if ((size_t)n >= size)
        mark_cut(text, size);
}

/* Goes through a buffer of its own: an argument may be the old sentence. */
static void set_last(fl_status st, const char *fmt, va_list ap)
{
    char text[FL_ERR_TEXT_MAX];

    format(text, sizeof(text), fmt, ap);
    last.status = st;
    last.place = (fl_err_place){ 0 };
    memcpy(last.text, text, sizeof(last.text));
}

/* The sentence that belongs to `st`. */
static const char *cause_of(fl_status st)
{
    return last.status == st ? last.text : fl_status_text(st);
}

static fl_err_place place_of(fl_status st)
{
    return last.status == st ? last.place : (fl_err_place){ 0 };
}

const char *fl_status_text(fl_status st)
{
    if (st == FL_PENDING)
        return "not done yet";
    switch (st) {
    case FL_OK:
        return "no error";
#define X(name, value, text)                                                   \
    case FL_ERR_##name:                                                        \
        return text;
        FL_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}

const char *fl_last_error(void)
{
    return last.text;
}

fl_status fl_last_status(void)
{
    return last.status;
}

fl_status fl_err_set(fl_status st, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    set_last(st, fmt, ap);
    va_end(ap);
    return st;
}

fl_status fl_err_ctx(fl_status st, const char *fmt, ...)
{
    char context[CONTEXT_MAX];
    fl_err_place place;
    va_list ap;

    if (!is_error(st))
        return st;
    place = place_of(st);
    va_start(ap, fmt);
    format(context, sizeof(context), fmt, ap);
    va_end(ap);
    (void)fl_err_set(st, "%s: %s", context, cause_of(st));
    last.place = place;
    return st;
}

/* --- places --------------------------------------------------------------- */

fl_status fl_err_at_op(fl_status st, uint64_t tag, const char *type)
{
    fl_err_place *p = &last.place;

    if (!is_error(st) || last.status != st || *p->op)
        return st;
    p->op_tag = tag;
    snprintf(p->op, sizeof(p->op), "%s", type);
    return st;
}

fl_status fl_err_at_var(fl_status st, uint64_t tag, const char *name)
{
    fl_err_place *p = &last.place;

    if (!is_error(st) || last.status != st || *p->var)
        return st;
    p->var_tag = tag;
    snprintf(p->var, sizeof(p->var), "%s", name);
    return st;
}

fl_status fl_err_at_feed(fl_status st, uint64_t tag, const char *name)
{
    if (!is_error(st))
        return st;
    (void)fl_err_at_var(st, tag, name);
    last.place.is_feed = true;
    return st;
}

bool fl_last_error_place(fl_error_place *out)
{
    const fl_err_place *p = &last.place;
    fl_error_place found = { .op_tag = p->op_tag,
                             .op = *p->op ? p->op : NULL,
                             .var_tag = p->var_tag,
                             .var = *p->var ? p->var : NULL,
                             .is_feed = p->is_feed };

    return (found.op || found.var) &&
           !FL_ARGS_FILL(fl_error_place, out, &found);
}

/* --- between threads ------------------------------------------------------ */

void fl_err_save(fl_err *out, fl_status st)
{
    out->status = st;
    out->place = is_error(st) ? place_of(st) : (fl_err_place){ 0 };
    snprintf(out->text, sizeof(out->text), "%s",
             is_error(st) ? cause_of(st) : "");
}

fl_status fl_err_restore(const fl_err *e)
{
    if (!is_error(e->status))
        return e->status;
    (void)fl_err_set(e->status, "%s", e->text);
    last.place = e->place;
    return e->status;
}

/* Most threads have had no error: what is behind the sentence stays behind. */
static void copy(fl_err *to, const fl_err *from)
{
    to->status = from->status;
    to->place = from->place;
    memcpy(to->text, from->text, strlen(from->text) + 1);
}

void fl_err_keep(fl_err *out)
{
    copy(out, &last);
}

void fl_err_put_back(const fl_err *e)
{
    copy(&last, e);
}

void fl_die(const char *file, int line, const char *fmt, ...)
{
    char text[FL_ERR_TEXT_MAX];
    va_list ap;

    va_start(ap, fmt);
    format(text, sizeof(text), fmt, ap);
    va_end(ap);
    dprintf(STDERR_FILENO, "flotilla: %s:%d: %s\n", file, line, text);
    abort();
}
