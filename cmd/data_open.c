/* data_open.c - a data set from the options of `flotilla data`. */
#include "data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH_MAX 1000000

/* Slots as words of --slots; the names point into `text`. */
typedef struct slot_list {
    char *text;
    fl_slot *slots;
    size_t n;
} slot_list;

static void free_slots(slot_list *l)
{
    free(l->text);
    free(l->slots);
}

static bool read_width(const char *text, uint32_t *out)
{
    char *end;
    unsigned long width;

    if (!text) {
        *out = 0;
        return true;
    }
    if (*text < '0' || *text > '9')
        return false;
    width = strtoul(text, &end, 10);
    *out = (uint32_t)width;
    return !*end && width <= WIDTH_MAX;
}

static bool read_kind(const char *text, fl_slot_kind *out)
{
    if (text && !strcmp(text, "u64"))
        *out = FL_SLOT_IDS;
    else if (text && !strcmp(text, "float"))
        *out = FL_SLOT_FLOATS;
    else
        return false;
    return true;
}

/* NAME:KIND[:WIDTH], cut in place. */
static bool read_slot(char *word, fl_slot *out)
{
    const char *kind, *width;

    *out = (fl_slot){ .name = strsep(&word, ":") };
    kind = strsep(&word, ":");
    width = strsep(&word, ":");
    return *out->name && !word && read_kind(kind, &out->kind) &&
           read_width(width, &out->width);
}

static int bad_slot(const data_args *a, size_t i)
{
    return cmd_misused(a->self,
                       "--slots: word %zu is not NAME:u64, NAME:float, or one "
                       "of them with :WIDTH behind it (0..%d values in every "
                       "record, 0 for any number)",
                       i + 1, WIDTH_MAX);
}

static int read_slots(const data_args *a, slot_list *l)
{
    char *rest, *word;

    l->text = strdup(a->slots);
    /* No more slots than every second character. */
    l->slots = calloc(strlen(a->slots) / 2 + 1, sizeof(*l->slots));
    if (!l->text || !l->slots)
        return cmd_failed(a->self, "no memory for the slots");
    rest = l->text;
    while ((word = strsep(&rest, " \t\n"))) {
        if (!*word)
            continue;
        if (!read_slot(word, &l->slots[l->n]))
            return bad_slot(a, l->n);
        l->n++;
    }
    return l->n ? CMD_OK : cmd_misused(a->self, "--slots names no slot");
}

static int failed(const data_args *a)
{
    return cmd_failed(a->self, "%s", fl_last_error());
}

static int set_slots(const data_args *a, fl_dataset *set)
{
    slot_list l = { 0 };
    int code;

    if (!a->slots)
        return CMD_OK;
    code = read_slots(a, &l);
    if (!code && fl_dataset_set_slots(set, l.slots, l.n))
        code = failed(a);
    free_slots(&l);
    return code;
}

/* "-" is the standard input, which can be read once only. */
static int set_files(const data_args *a, fl_dataset *set)
{
    const char **paths = calloc(a->n_files, sizeof(*paths));
    int code = CMD_OK;

    if (!paths)
        return cmd_failed(a->self, "no memory for the list of files");
    for (size_t i = 0; i < a->n_files; i++) {
        bool is_stdin = !strcmp(a->files[i], "-");

        paths[i] = is_stdin ? "/dev/stdin" : a->files[i];
        if (is_stdin && !a->slots && !code)
            code = cmd_misused(a->self,
                               "stdin needs --slots: without them the first "
                               "line is read for itself, to learn the slots");
    }
    if (!code && fl_dataset_set_filelist(set, paths, a->n_files))
        code = failed(a);
    free(paths);
    return code;
}

/* Formats that describe themselves have theirs from the first line. */
static int find_slots(const data_args *a, data_input *in)
{
    in->slots = fl_dataset_slots(in->set, &in->n_slots);
    if (in->slots)
        return CMD_OK;
    return cmd_failed(a->self,
                      "%s; --slots names them, `flotilla help data` "
                      "says how",
                      fl_last_error());
}

int data_open_ctx(const data_args *a, data_input *in)
{
    *in = (data_input){ 0 };
    return fl_ctx_new(&in->ctx) ? failed(a) : CMD_OK;
}

int data_open(const data_args *a, data_input *in)
{
    int code;

    if (fl_dataset_new(&in->set, in->ctx, "QueueDataset"))
        return failed(a);
    fl_dataset_set_thread(in->set, (int)a->threads);
    fl_dataset_set_batch_size(in->set, (size_t)a->batch);
    if (a->has_seed)
        fl_dataset_set_seed(in->set, a->seed);
    fl_dataset_set_pipe_command(in->set, a->pipe);
    fl_dataset_set_cache(in->set, a->cache);
    if (a->format && fl_dataset_set_format(in->set, a->format))
        return cmd_failed(a->self, "%s; `flotilla data formats` lists them",
                          fl_last_error());
    code = set_slots(a, in->set);
    if (!code)
        code = set_files(a, in->set);
    return code ? code : find_slots(a, in);
}

void data_close(data_input *in)
{
    fl_dataset_free(in->set);
    fl_ctx_free(in->ctx);
    *in = (data_input){ 0 };
}
