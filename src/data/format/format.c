/* format.c - the list of formats, and opening one from its text. */
#include "data/format/format.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "conf/words.h"
#include "data/format/scan.h"
#include "flotilla/words.h"

/* Goes up when a format begins to read the same text in another way, so that
   what was kept of it is made anew. */
#define PARSER_VERSION 1

#define FL_FORMAT(name) extern const fl_format fl_format_##name;
#include "data/format/formats.def"
#undef FL_FORMAT

static const fl_format *const all[] = {
#define FL_FORMAT(name) &fl_format_##name,
#include "data/format/formats.def"
#undef FL_FORMAT
};

size_t fl_format_count(void)
{
    return FL_LEN(all) + fl_own_format_count();
}

const fl_format *fl_format_at(size_t i)
{
    return i < FL_LEN(all) ? all[i] : fl_own_format_at(i - FL_LEN(all));
}

const fl_format *fl_format_find(const char *name)
{
    for (size_t i = 0; i < fl_format_count(); i++)
        if (!strcmp(fl_format_at(i)->name, name))
            return fl_format_at(i);
    return NULL;
}

/* --- options ------------------------------------------------------------- */

static size_t option_count(const fl_format *f)
{
    size_t n = 0;

    while (n < FL_FORMAT_OPTIONS_MAX && f->options[n].name)
        n++;
    return n;
}

/* Number of the option, or -1. */
static int option_find(const fl_format *f, const char *name)
{
    size_t n = option_count(f);

    for (size_t i = 0; i < n; i++)
        if (!strcmp(f->options[i].name, name))
            return (int)i;
    return -1;
}

static fl_status no_format(const char *name)
{
    FL_VEC(const char *) names = { 0 };
    const char *near;

    for (size_t i = 0; i < fl_format_count(); i++)
        fl_vec_push(&names, fl_format_at(i)->name);
    near = fl_nearest_name(name, names.data, names.len);
    fl_vec_release(&names);
    FL_FAIL(FL_ERR_NOTFOUND, "no format is called '%s'%s%s%s", name,
            near ? "; did you mean " : "", near ? near : "",
            near ? "?" : "; fl_format_help lists them");
}

static fl_status no_option(const fl_format *f, const char *key)
{
    const char *names[FL_FORMAT_OPTIONS_MAX + FL_PART_OPTIONS];
    size_t n = option_count(f);
    const char *near;

    for (size_t i = 0; i < n; i++)
        names[i] = f->options[i].name;
    for (size_t i = 0; i < FL_PART_OPTIONS; i++)
        names[n++] = fl_part_options[i].name;
    near = fl_nearest_name(key, names, n);
    FL_FAIL(FL_ERR_INVAL, "format %s has no option '%s'%s%s%s", f->name, key,
            near ? "; did you mean " : "", near ? near : "",
            near ? "?" : "; fl_format_help lists them");
}

/* Where the value of an option goes; NULL when there is none of that name. */
static const char **option_place(fl_parser *p, const char *name)
{
    int i = option_find(p->format, name);

    if (i >= 0)
        return &p->values[i];
    for (i = 0; i < FL_PART_OPTIONS; i++)
        if (!strcmp(fl_part_options[i].name, name))
            return &p->part_values[i];
    return NULL;
}

static fl_status set_option(fl_parser *p, const fl_word *w)
{
    const char **place = option_place(p, w->name);

    if (!*w->name)
        FL_FAIL(FL_ERR_INVAL,
                "format %s: option '%s' is not of the form name=value",
                p->format->name, w->value);
    if (!place)
        return no_option(p->format, w->name);
    if (*place)
        FL_FAIL(FL_ERR_INVAL, "format %s: option %s is given twice",
                p->format->name, w->name);
    *place = fl_strdup(w->value);
    return FL_OK;
}

static fl_status set_options(fl_parser *p, const char *text)
{
    fl_status st = FL_OK;
    fl_words words;

    FL_TRY(fl_err_ctx(fl_words_read(&words, text, FL_WORDS_LIST), "format %s",
                      p->format->name));
    for (size_t i = 0; i < words.list.len && !st; i++)
        st = set_option(p, &words.list.data[i]);
    fl_words_release(&words);
    return st;
}

static void set_the_rest(fl_parser *p)
{
    for (size_t i = 0; i < option_count(p->format); i++) {
        const char *otherwise = p->format->options[i].otherwise;

        if (!p->values[i] && otherwise)
            p->values[i] = fl_strdup(otherwise);
    }
}

/* `text` is NAME or NAME:options, and is cut in two; `more` may be NULL. */
static fl_status read_spec(fl_parser *p, char *text, const char *more)
{
    char *options = strchr(text, ':');

    if (options)
        *options++ = '\0';
    p->format = fl_format_find(text);
    if (!p->format)
        return no_format(text);
    if (options)
        FL_TRY(set_options(p, options));
    if (more)
        FL_TRY(set_options(p, more));
    set_the_rest(p);
    return FL_OK;
}

const char *fl_parser_option(const fl_parser *p, const char *name)
{
    int i = option_find(p->format, name);

    FL_ASSERT(i >= 0);
    return p->values[i];
}

fl_status fl_parser_option_bool(const fl_parser *p, const char *name, bool *out)
{
    const char *text = fl_parser_option(p, name);
    bool yes = text && !strcmp(text, "yes");

    if (!text || (!yes && strcmp(text, "no") != 0))
        FL_FAIL(FL_ERR_INVAL, "format %s: %s=%s is neither yes nor no",
                p->format->name, name, text ? text : "");
    *out = yes;
    return FL_OK;
}

fl_status fl_parser_option_int(const fl_parser *p, const char *name, int64_t lo,
                               int64_t hi, int64_t *out)
{
    const char *text = fl_parser_option(p, name);
    const char *at = text ? text : "";
    int64_t x;

    if (!fl_scan_i64(&at, at + strlen(at), &x) || *at || x < lo || x > hi)
        FL_FAIL(FL_ERR_INVAL,
                "format %s: %s=%s is no whole number from %lld to %lld",
                p->format->name, name, text ? text : "", (long long)lo,
                (long long)hi);
    *out = x;
    return FL_OK;
}

/* --- opening ------------------------------------------------------------- */

static fl_status open_parser(fl_parser *p, const fl_parser_args *args)
{
    char *text = fl_strdup(args->spec);
    fl_status st = read_spec(p, text, args->options);

    fl_free(text);
    if (st)
        return st;
    if (args->n_wanted)
        FL_TRY(fl_schema_init(&p->wanted, args->wanted, args->n_wanted));
    p->draws = p->format->draws;
    FL_TRY(p->format->open(p, args->sample));
    FL_ASSERT(p->schema.n_slots > 0);
    return fl_part_open(&p->part, p, p->part_values);
}

fl_status fl_parser_new(fl_parser **out, const fl_parser_args *args)
{
    fl_parser *p = fl_alloc(sizeof(*p));
    fl_status st;

    p->spec = fl_strdup(args->spec);
    p->empty_slots = args->empty_slots;
    p->seed = args->seed;
    st = open_parser(p, args);
    if (st) {
        fl_parser_free(p);
        return st;
    }
    *out = p;
    return FL_OK;
}

void fl_parser_free(fl_parser *p)
{
    if (!p)
        return;
    if (p->state && p->format->close)
        p->format->close(p);
    for (size_t i = 0; i < FL_FORMAT_OPTIONS_MAX; i++)
        fl_free((void *)(uintptr_t)p->values[i]);
    for (size_t i = 0; i < FL_PART_OPTIONS; i++)
        fl_free((void *)(uintptr_t)p->part_values[i]);
    fl_schema_release(&p->wanted);
    fl_schema_release(&p->schema);
    fl_free(p->spec);
    fl_free(p);
}

uint64_t fl_parser_hash(const fl_parser *p)
{
    uint64_t h = fl_mix64(PARSER_VERSION ^ fl_hash_str(p->format->name));

    h += p->format->version;
    for (size_t i = 0; i < option_count(p->format); i++) {
        const char *value = p->values[i] ? p->values[i] : "";

        h = fl_mix64(h ^ fl_hash_str(value)) + i;
    }
    for (size_t i = 0; i < FL_PART_OPTIONS; i++)
        if (p->part_values[i])
            h = fl_mix64(h ^ fl_hash_str(p->part_values[i])) + ~i;
    h = fl_mix64(h ^ fl_schema_hash(&p->schema));
    return fl_mix64(h ^ (uint64_t)p->empty_slots);
}

/* --- lines --------------------------------------------------------------- */

fl_status fl_parse_row(const fl_parser *p, const fl_line *l, fl_records *room,
                       const uint32_t **row)
{
    fl_row_writer w = { .schema = &p->schema, .rows = room };
    fl_status st = FL_OK;
    fl_bad bad;
    bool good;

    fl_records_clear(room);
    good = p->format->line(p, l, &w, &bad, &st);
    *row = good && room->n ? fl_records_at(room, 0) : NULL;
    return st;
}

/* One line; of a bad one no record is kept. */
static fl_status parse_line(const fl_parser *p, const fl_line *l,
                            fl_row_writer *w, fl_on_bad on_bad, void *arg)
{
    fl_records *rows = w->rows;
    size_t n = rows->n, len = rows->len;
    fl_status st = FL_OK;
    fl_bad bad;

    if (p->format->line(p, l, w, &bad, &st)) {
        rows->n_skipped += rows->n == n;
        return FL_OK;
    }
    rows->n = n;
    rows->len = len;
    w->at = NULL;
    return st ? st : on_bad(arg, l, &bad);
}

/* Where the line behind this one begins; NULL when it was not taken. */
static const char *take_line(const fl_parser *p, const fl_line *l,
                             fl_row_writer *w, fl_status *st)
{
    const char *next = p->format->take ? p->format->take(p, l, w, st) : NULL;

    if (!next)
        fl_row_drop(w);
    return next;
}

const char *fl_line_cut(fl_line *l)
{
    const char *stop = memchr(l->at, '\n', (size_t)(l->end - l->at));
    const char *next = stop ? stop + 1 : l->end;

    stop = stop ? stop : l->end;
    l->end = stop > l->at && stop[-1] == '\r' ? stop - 1 : stop;
    return next;
}

/* A line that has its own end already. */
static fl_status parse_chosen(const fl_parser *p, const fl_line *l,
                              fl_row_writer *w, fl_on_bad on_bad, void *arg)
{
    size_t n = w->rows->n;
    fl_status st = FL_OK;

    if (fl_part_leaves_out(p, l)) {
        w->rows->n_skipped++;
        return FL_OK;
    }
    if (!take_line(p, l, w, &st) && !st)
        st = parse_line(p, l, w, on_bad, arg);
    if (!st)
        fl_part_keep(p, l, w->rows, n);
    return st;
}

/* The lines are cut before they are read, since their bytes decide. */
static fl_status parse_part(const fl_parser *p, fl_line first, fl_row_writer *w,
                            fl_on_bad on_bad, void *arg)
{
    fl_line l = first;

    while (l.at < first.end) {
        const char *next;

        l.end = first.end;
        next = fl_line_cut(&l);
        if (l.number != 1 || !l.head)
            FL_TRY(parse_chosen(p, &l, w, on_bad, arg));
        l.at = next;
        l.number++;
    }
    return FL_OK;
}

fl_status fl_parse_lines(const fl_parser *p, fl_line first, fl_records *to,
                         fl_on_bad on_bad, void *arg)
{
    fl_row_writer w = { .schema = &p->schema, .rows = to };
    fl_line l = first;

    if (!fl_part_is_all(&p->part))
        return parse_part(p, first, &w, on_bad, arg);
    while (l.at < first.end) {
        bool is_head = l.number == 1 && l.head;
        const char *next;
        fl_status st = FL_OK;

        l.end = first.end;
        next = is_head ? NULL : take_line(p, &l, &w, &st);
        if (st)
            return st;
        if (!next) {
            next = fl_line_cut(&l);
            if (!is_head)
                FL_TRY(parse_line(p, &l, &w, on_bad, arg));
        }
        l.at = next;
        l.number++;
    }
    return FL_OK;
}
