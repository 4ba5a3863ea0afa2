/* model_import.c - flotilla model import: what PaddlePaddle 1.8 saved. */
#include "model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_BYTES_MAX ((size_t)16 << 20)
#define NAME_BLANKS " \t\r\n"

/* The names in a file, apart by blanks. */
typedef struct name_list {
    char *text;
    const char **names;
    size_t n;
} name_list;

static void release(name_list *l)
{
    free(l->text);
    free(l->names);
}

static bool read_text(FILE *f, name_list *l)
{
    size_t len;

    l->text = malloc(NAMES_BYTES_MAX + 1);
    if (!l->text)
        return false;
    len = fread(l->text, 1, NAMES_BYTES_MAX, f);
    l->text[len] = '\0';
    return !ferror(f);
}

static bool cut_names(name_list *l)
{
    char *at = l->text, *name;

    l->names = calloc(strlen(l->text) / 2 + 1, sizeof(*l->names));
    while (l->names && (name = strsep(&at, NAME_BLANKS)))
        if (*name)
            l->names[l->n++] = name;
    return l->names != NULL;
}

static int read_names(const model_args *a, name_list *l)
{
    FILE *f;
    bool good;

    if (!a->names)
        return CMD_OK;
    f = fopen(a->names, "r");
    if (!f)
        return cmd_failed(a->self, "cannot read %s: %s; check the path",
                          a->names, strerror(errno));
    good = read_text(f, l) && cut_names(l);
    fclose(f);
    if (!good)
        return cmd_failed(a->self, "cannot read %s: %s", a->names,
                          strerror(errno));
    if (!l->n)
        return cmd_failed(a->self, "%s has no names", a->names);
    return CMD_OK;
}

static int import(const model_args *a, const name_list *l)
{
    fl_import_args args =
        FL_INIT(fl_import_args, .program = a->program, .params = a->params,
                .names = l->names, .n_names = l->n);
    fl_ctx *c = NULL;
    int code = CMD_OK;

    if (fl_ctx_new(&c) || fl_import_paddle(c, a->words[0], a->words[1], &args))
        code = cmd_failed(a->self, "%s", fl_last_error());
    fl_ctx_free(c);
    return code;
}

int model_import(const model_args *a)
{
    name_list l = { 0 };
    int code = read_names(a, &l);

    if (!code)
        code = import(a, &l);
    release(&l);
    return code;
}
