/* model_ls.c - flotilla model ls: what a model has. */
#include "model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void print_head(const fl_saved_view *v)
{
    time_t when = (time_t)v->time;
    char bytes[MODEL_TEXT_MAX], at[64] = "";
    struct tm tm;

    if (gmtime_r(&when, &tm))
        strftime(at, sizeof(at), "%Y-%m-%d %H:%M:%S UTC", &tm);
    printf("version %s: %s%s%s, step %" PRIu64 "%s%s, %s, %s in %zu files\n",
           v->id, v->kind, v->base ? " of " : "", v->base ? v->base : "",
           v->step, v->mode && *v->mode ? ", mode " : "",
           v->mode ? v->mode : "", at, model_bytes_text(v->bytes, bytes),
           v->n_files);
}

static void print_others(const fl_saved *s, const char *id)
{
    const char *other;

    for (size_t i = 0; (other = fl_saved_version(s, i)); i++)
        if (strcmp(other, id))
            printf("version %s: beside it\n", other);
}

static void print_names(const char *what,
                        const char *(*at)(const fl_saved *, size_t),
                        const fl_saved *s, size_t n)
{
    if (!n)
        return;
    fputs(what, stdout);
    for (size_t i = 0; i < n; i++)
        printf(" %s", at(s, i));
    putchar('\n');
}

static int print_tensors(const char *self, const fl_saved *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char type[MODEL_TEXT_MAX];
        const char *name;
        fl_tensor t;

        if (fl_saved_tensor(s, i, &name, &t))
            return cmd_failed(self, "%s", fl_last_error());
        printf("var %s : %s\n", name, model_type_text(&t, type));
    }
    return CMD_OK;
}

static int print_tables(const char *self, const fl_saved *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fl_saved_table t = FL_INIT(fl_saved_table);

        if (fl_saved_table_at(s, i, &t))
            return cmd_failed(self, "%s", fl_last_error());
        printf("table %s : %" PRIu64 " rows, %" PRIu64 " short, %" PRIu64
               " candidates, epoch %" PRIu32 ", %s\n",
               t.name, t.rows, t.short_rows, t.candidates, t.epoch, t.settings);
    }
    return CMD_OK;
}

int model_ls(const model_args *a)
{
    fl_saved_view v = FL_INIT(fl_saved_view);
    model_file m;
    int code = model_open(a->self, a->words[0], &m);

    if (!code && fl_saved_look(m.saved, &v))
        code = cmd_failed(a->self, "%s", fl_last_error());
    if (!code) {
        print_head(&v);
        print_others(m.saved, v.id);
        print_names("feeds", fl_saved_feed, m.saved, v.n_feeds);
        print_names("targets", fl_saved_target, m.saved, v.n_targets);
        code = print_tensors(a->self, m.saved, v.n_tensors);
    }
    if (!code)
        code = print_tables(a->self, m.saved, v.n_tables);
    model_close(&m);
    return code;
}
