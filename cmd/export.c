/* export.c - flotilla export: a saved model for programs of others. */
#include "model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "options.h"
#include "scoring.h"
#include "sink.h"

typedef struct export_args {
    const char *self, *model;
    const char *safetensors, *tsv, *out;
    const char *redis, *name;
} export_args;

/* --- a table as lines ----------------------------------------------------- */

#define LINE_BYTES_MAX ((size_t)1 << 20)

/* A line under construction; what is too long is cut off and told. */
typedef struct line {
    char *text;
    size_t len;
    bool is_full;
} line;

__attribute__((format(printf, 2, 3))) static void add(line *l, const char *fmt,
                                                      ...)
{
    size_t room = LINE_BYTES_MAX - l->len;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(l->text + l->len, room, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= room)
        l->is_full = true;
    else
        l->len += (size_t)n;
}

static void add_row(line *l, const fl_saved_row *r)
{
    add(l, "%" PRIu64 "\t%s\t%" PRIu32, r->key, r->kind, r->epoch);
    for (uint32_t f = 0; f < r->n_fields; f++) {
        add(l, "\t%s=", r->fields[f].name);
        for (uint32_t i = 0; i < r->fields[f].len; i++)
            add(l, "%s%.9g", i ? "," : "", (double)r->fields[f].values[i]);
    }
    add(l, "\n");
}

static bool write_rows(fl_saved_rows *rows, line *l, sink *to)
{
    static const char head[] = "key\tkind\tepoch\tfields\n";
    fl_saved_row r = FL_INIT(fl_saved_row);
    bool good = sink_write(to, head, sizeof(head) - 1);

    while (good && fl_saved_rows_next(rows, &r)) {
        l->len = 0;
        add_row(l, &r);
        good = !l->is_full && sink_write(to, l->text, l->len);
    }
    return good;
}

static int export_rows(const export_args *a, fl_saved_rows *rows)
{
    line l = { .text = malloc(LINE_BYTES_MAX) };
    sink to;
    int code = CMD_OK;

    if (!l.text)
        return cmd_failed(a->self, "no memory for a line");
    if (!sink_open(&to, a->out, "-o") || !write_rows(rows, &l, &to) ||
        !sink_close(&to))
        code = l.is_full ? cmd_failed(a->self,
                                      "a row has more than %zu bytes of text",
                                      LINE_BYTES_MAX)
                         : sink_failed(&to, a->self);
    if (code)
        sink_abandon(&to);
    free(l.text);
    return code;
}

static int export_tsv(const export_args *a, const fl_saved *s)
{
    fl_saved_rows *rows = NULL;
    int code;

    if (fl_saved_rows_open(&rows, s, a->tsv))
        return cmd_failed(a->self, "%s", fl_last_error());
    code = export_rows(a, rows);
    fl_saved_rows_close(rows);
    return code;
}

/* --- the command ---------------------------------------------------------- */

static int export_safetensors(const export_args *a, const fl_saved *s)
{
    if (fl_saved_export(s, a->safetensors))
        return cmd_failed(a->self, "%s", fl_last_error());
    return CMD_OK;
}

static bool bring_and_export(const export_args *a, const fl_redis_args *redis,
                             fl_redis_report *r)
{
    fl_ctx *c = NULL;
    char *path = fl_ctx_new(&c) ? NULL : fl_saved_fetch(c, a->model);
    bool good = path && !fl_redis_export_with(path, r, redis);

    fl_text_free(path);
    fl_ctx_free(c);
    return good;
}

static int export_redis(const export_args *a)
{
    fl_redis_args redis = scoring_redis(a->redis, a->name);
    fl_redis_report r = FL_INIT(fl_redis_report);

    if (!bring_and_export(a, &redis, &r))
        return cmd_failed(a->self, "%s", fl_last_error());
    printf("%s%" PRIu64 " rows, %" PRIu64 " bytes, %" PRIu64
           " rows gone, %" PRIu64 " old versions removed\n",
           r.is_delta ? "delta: " : "", r.rows, r.bytes, r.gone,
           r.removed_versions);
    return CMD_OK;
}

static int export_model(const export_args *a)
{
    model_file m;
    int code;

    if (a->redis)
        return export_redis(a);
    code = model_open(a->self, a->model, &m);
    if (!code)
        code = a->tsv ? export_tsv(a, m.saved) : export_safetensors(a, m.saved);
    model_close(&m);
    return code;
}

static int check(const export_args *a, size_t n_models)
{
    if (n_models != 1)
        return cmd_misused(a->self,
                           n_models ? "one model at a time" : "which model?");
    if (!!a->safetensors + !!a->tsv + !!a->redis != 1)
        return cmd_misused(a->self,
                           "--safetensors FILE, --tsv TABLE or --redis "
                           "ADDRESS?");
    if (a->name && !a->redis)
        return cmd_misused(a->self, "--redis-name goes with --redis");
    if (a->out && !a->tsv)
        return cmd_misused(a->self, "-o goes with --tsv");
    return CMD_OK;
}

static int run(int argc, char **argv)
{
    export_args a = { .self = argv[0] };
    const option all[] = {
        { "--safetensors", OPTION_TEXT, &a.safetensors, 0, 0, 0 },
        { "--tsv", OPTION_TEXT, &a.tsv, 0, 0, 0 },
        { "--redis", OPTION_TEXT, &a.redis, 0, 0, 0 },
        { "--redis-name", OPTION_TEXT, &a.name, 0, 0, 0 },
        { "-o", OPTION_TEXT, &a.out, 0, 0, 0 },
    };
    const options o = { .all = all,
                        .n = sizeof(all) / sizeof(*all),
                        .self = a.self };
    const char **rest = calloc((size_t)argc, sizeof(*rest));
    size_t n = 0;
    int code;

    if (!rest)
        return cmd_failed(a.self, "no memory for the arguments");
    code = options_read(&o, argc, argv, rest, &n, NULL);
    if (!code)
        code = check(&a, n);
    a.model = rest[0];
    if (!code)
        code = export_model(&a);
    free(rest);
    return code;
}

const cmd cmd_export = {
    .name = "export",
    .args = "MODEL --safetensors FILE | --tsv TABLE [-o FILE] |\n"
            "       --redis ADDRESS [--redis-name NAME]",
    .doc = "write a saved model for programs of others",
    .more =
        "  --safetensors FILE  all of it: variables under their names, the"
        " columns of a\n"
        "                      table as TABLE.key and TABLE.FIELD\n"
        "  --tsv TABLE         a line per row: key, kind, epoch and the fields,"
        " to -o FILE\n"
        "                      or stdout\n"
        "  --redis ADDRESS     rows of its tables into Redis at HOST:PORT or"
        " unix:PATH, for\n"
        "                      `flotilla predict --redis`; a delta alone when"
        " its base is\n"
        "                      there. The password is REDISCLI_AUTH\n"
        "  --redis-name NAME   of the model there (model)\n"
        "\n"
        "MODEL is as for `flotilla model`.",
    .run = run,
};
