/* data_write.c - records as lines of a format, to a file or stdout. */
#include "data.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink.h"

/* Lines are gathered to about so many bytes. */
#define GATHER_BYTES ((size_t)256 << 10)

typedef struct gathered {
    fl_record_printer *printer;
    char *text;
    size_t len, cap;
} gathered;

struct data_writer {
    const data_args *args;
    gathered *workers; /* each touches its own */

    pthread_mutex_t mu; /* guards what follows */
    sink to;
};

static void free_writer(data_writer *w)
{
    for (size_t i = 0; w->workers && i < w->args->threads; i++) {
        fl_record_printer_free(w->workers[i].printer);
        free(w->workers[i].text);
    }
    free(w->workers);
    pthread_mutex_destroy(&w->mu);
    free(w);
}

static int make_printers(data_writer *w, const data_input *in)
{
    const data_args *a = w->args;

    w->workers = calloc((size_t)a->threads, sizeof(*w->workers));
    if (!w->workers)
        return cmd_failed(a->self, "no memory for the writers");
    for (size_t i = 0; i < a->threads; i++)
        if (fl_record_printer_new(&w->workers[i].printer, in->slots,
                                  in->n_slots, a->to))
            return cmd_failed(a->self,
                              "--to %s: %s; `flotilla data formats` lists them",
                              a->to, fl_last_error());
    return CMD_OK;
}

/* The file is made last, so that a wrong format leaves none behind. */
static int open_sink(data_writer *w)
{
    const char *head = fl_record_printer_head(w->workers[0].printer);

    if (sink_open(&w->to, w->args->out, "-o") &&
        sink_write(&w->to, head, strlen(head)))
        return CMD_OK;
    sink_abandon(&w->to);
    return sink_failed(&w->to, w->args->self);
}

data_writer *data_writer_open(const data_args *a, const data_input *in)
{
    data_writer *w = calloc(1, sizeof(*w));

    if (!w) {
        cmd_failed(a->self, "no memory for the writer");
        return NULL;
    }
    w->args = a;
    pthread_mutex_init(&w->mu, NULL);
    if (make_printers(w, in) || open_sink(w)) {
        free_writer(w);
        return NULL;
    }
    return w;
}

const char *data_writer_text(data_writer *w, int worker, const fl_feed *feeds,
                             size_t i, char why[DATA_WHY_BYTES])
{
    const char *text = NULL;

    if (!fl_record_printer_line(w->workers[worker].printer, feeds, i, &text))
        return text;
    snprintf(why, DATA_WHY_BYTES, "--to %s: %s", w->args->to, fl_last_error());
    return NULL;
}

static bool write_out(data_writer *w, gathered *g, char why[DATA_WHY_BYTES])
{
    bool good;

    pthread_mutex_lock(&w->mu);
    good = sink_write(&w->to, g->text, g->len);
    if (!good)
        snprintf(why, DATA_WHY_BYTES, "%s", w->to.why);
    pthread_mutex_unlock(&w->mu);
    g->len = 0;
    return good;
}

static bool make_room(gathered *g, size_t more)
{
    size_t need = g->len + more;
    char *text;

    if (need <= g->cap)
        return true;
    need += need / 2;
    text = realloc(g->text, need);
    if (!text)
        return false;
    g->text = text;
    g->cap = need;
    return true;
}

bool data_writer_add(data_writer *w, int worker, const char *line,
                     char why[DATA_WHY_BYTES])
{
    gathered *g = &w->workers[worker];
    size_t len = strlen(line);

    if (!make_room(g, len)) {
        snprintf(why, DATA_WHY_BYTES, "no memory for a line of %zu bytes", len);
        return false;
    }
    memcpy(g->text + g->len, line, len);
    g->len += len;
    return g->len < GATHER_BYTES || write_out(w, g, why);
}

int data_writer_close(data_writer *w, int code)
{
    const char *self = w->args->self;
    char why[DATA_WHY_BYTES];

    for (size_t i = 0; !code && i < w->args->threads; i++)
        if (w->workers[i].len && !write_out(w, &w->workers[i], why))
            code = cmd_failed(self, "%s", why);
    if (code)
        sink_abandon(&w->to);
    else if (!sink_close(&w->to))
        code = sink_failed(&w->to, self);
    free_writer(w);
    return code;
}
