/* util.c - what subcommands share: messages, output, opening a program. */
#include "cmd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"

/* A program text larger than this is no program text. */
#define INPUT_MAX ((size_t)64 << 20)
#define READ_BYTES ((size_t)64 << 10)

static void say(const char *name, const char *fmt, va_list ap)
{
    fprintf(stderr, "flotilla %s: ", name);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
}

int cmd_failed(const char *name, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say(name, fmt, ap);
    va_end(ap);
    return CMD_FAILED;
}

int cmd_misused(const char *name, const char *fmt, ...)
{
    const cmd *c = cmd_find(name);
    va_list ap;

    va_start(ap, fmt);
    say(name, fmt, ap);
    va_end(ap);
    fprintf(stderr, "usage: flotilla %s%s%s\n", name, *c->args ? " " : "",
            c->args);
    return CMD_USAGE;
}

int cmd_unknown(const char *name)
{
    const char *nearest = NULL;

    for (size_t i = 0; i < cmd_count; i++)
        nearest = nearer_name(name, nearest, cmd_all[i]->name);
    fprintf(stderr, "flotilla: there is no command '%s'; ", name);
    if (nearest)
        fprintf(stderr, "did you mean %s? ", nearest);
    fputs("`flotilla help` lists them\n", stderr);
    return CMD_USAGE;
}

int cmd_print(char *text)
{
    fputs(text, stdout);
    fl_text_free(text);
    return CMD_OK;
}

/* All of a stream, NUL-terminated and malloc'ed. NULL with a reason. */
static char *read_all(FILE *f, const char **why)
{
    char *text = NULL;
    size_t len = 0, got = 1;

    while (got && len <= INPUT_MAX) {
        char *more = realloc(text, len + READ_BYTES + 1);

        if (!more)
            break;
        text = more;
        got = fread(text + len, 1, READ_BYTES, f);
        len += got;
    }
    if (got && len <= INPUT_MAX)
        *why = "no memory for it";
    else if (ferror(f))
        *why = strerror(errno);
    else if (len > INPUT_MAX)
        *why = "it is larger than 64 MB";
    else if (memchr(text, '\0', len))
        *why = "it is no text: there is a zero byte in it";
    if (!*why) {
        text[len] = '\0';
        return text;
    }
    free(text);
    return NULL;
}

static char *read_path(const char *path, const char **why)
{
    FILE *f = strcmp(path, "-") ? fopen(path, "r") : stdin;
    char *text;

    if (!f) {
        *why = strerror(errno);
        return NULL;
    }
    text = read_all(f, why);
    if (f != stdin)
        fclose(f);
    return text;
}

/* How messages call it. */
static const char *source_of(const char *path)
{
    return strcmp(path, "-") ? path : "stdin";
}

char *cmd_read(const char *name, const char *path)
{
    const char *why = NULL;
    char *text = read_path(path, &why);

    if (!text)
        (void)cmd_failed(name, "cannot read %s: %s; check the path",
                         source_of(path), why);
    return text;
}

int cmd_open(const char *name, const char *path, cmd_program *out)
{
    char *text = cmd_read(name, path);
    int code = CMD_OK;

    *out = (cmd_program){ 0 };
    if (!text)
        return CMD_FAILED;
    if (fl_ctx_new(&out->ctx))
        code = cmd_failed(name, "%s", fl_last_error());
    else if (fl_program_from_text(&out->program, out->ctx, text))
        code = cmd_failed(name,
                          "%s: %s\n"
                          "docs/formats/ir.md describes the text form, "
                          "`flotilla ops` the operators",
                          source_of(path), fl_last_error());
    free(text);
    if (code)
        cmd_close(out);
    return code;
}

void cmd_close(cmd_program *p)
{
    fl_program_free(p->program);
    fl_ctx_free(p->ctx);
    *p = (cmd_program){ 0 };
}
