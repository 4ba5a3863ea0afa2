/* draw.c - flotilla draw: a program text as a picture, before and after the
 * optimise passes if it is asked for. */
#include "cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "sink.h"

typedef struct draw_args {
    const char *path, *out; /* out NULL: stdout */
    bool passes;            /* before and after */
    bool dot;               /* the text for Graphviz */
} draw_args;

static int read_args(int argc, char **argv, const char **rest, draw_args *a)
{
    const option all[] = {
        { "-o", OPTION_TEXT, &a->out, 0, 0, 0 },
        { "--passes", OPTION_FLAG, &a->passes, 0, 0, 0 },
        { "--dot", OPTION_FLAG, &a->dot, 0, 0, 0 },
    };
    const options o = { .all = all,
                        .n = sizeof(all) / sizeof(all[0]),
                        .self = argv[0] };
    size_t n = 0;
    int code = options_read(&o, argc, argv, rest, &n, NULL);

    if (code)
        return code;
    if (!n)
        return cmd_misused(argv[0], "which file?");
    if (n > 1)
        return cmd_misused(argv[0], "'%s' is too much", rest[1]);
    a->path = rest[0];
    return CMD_OK;
}

static int write_text(const char *self, const char *path, char *text)
{
    sink to;
    bool good =
        sink_open(&to, path, "-o") && sink_write(&to, text, strlen(text));

    fl_text_free(text);
    if (good && sink_close(&to))
        return CMD_OK;
    sink_abandon(&to);
    return sink_failed(&to, self);
}

/* "model.svg" gives "model.dot"; malloc'ed, NULL for stdout. */
static char *dot_path(const char *out)
{
    const char *dot = out ? strrchr(out, '.') : NULL;
    size_t len = out ? strlen(out) : 0;
    size_t cap = len + sizeof(".dot");
    char *path = out ? malloc(cap) : NULL;

    if (dot && !strchr(dot, '/'))
        len = (size_t)(dot - out);
    if (path)
        snprintf(path, cap, "%.*s.dot", (int)len, out);
    return path;
}

/* Without Graphviz: what it would lay out, for where it is. */
static int write_instead(const char *self, const draw_args *a,
                         const fl_drawn *drawn, size_t n)
{
    char *path = dot_path(a->out && strcmp(a->out, "-") ? a->out : NULL);
    char *text;
    int code;

    (void)cmd_failed(self, "%s; what it would draw is in %s", fl_last_error(),
                     path ? path : "the output");
    if (fl_programs_draw(&text, FL_DRAWING_DOT, drawn, n))
        code = cmd_failed(self, "%s", fl_last_error());
    else
        code = write_text(self, path, text);
    free(path);
    return code ? code : CMD_FAILED;
}

static int draw_all(const char *self, const draw_args *a, const fl_drawn *drawn,
                    size_t n)
{
    char *text;
    fl_status st = fl_programs_draw(
        &text, a->dot ? FL_DRAWING_DOT : FL_DRAWING_SVG, drawn, n);

    if (!st)
        return write_text(self, a->out, text);
    if (st == FL_ERR_NOTFOUND)
        return write_instead(self, a, drawn, n);
    return cmd_failed(self, "%s", fl_last_error());
}

static int draw(const char *self, const draw_args *a, const cmd_program *p)
{
    fl_drawn drawn[] = { { .program = p->program }, { 0 } };
    fl_program *after;
    int code;

    if (!a->passes)
        return draw_all(self, a, drawn, 1);
    if (fl_program_after_passes(&after, p->ctx, p->program))
        return cmd_failed(self, "%s: %s", a->path, fl_last_error());
    drawn[0].title = "as it is written";
    drawn[1] = (fl_drawn){ .program = after, .title = "as it is run" };
    code = draw_all(self, a, drawn, 2);
    fl_program_free(after);
    return code;
}

static int run(int argc, char **argv)
{
    const char **rest = calloc((size_t)argc, sizeof(*rest));
    draw_args args = { 0 };
    cmd_program p;
    int code;

    if (!rest)
        return cmd_failed(argv[0], "no memory for the arguments");
    code = read_args(argc, argv, rest, &args);
    if (!code)
        code = cmd_open(argv[0], args.path, &p);
    if (!code) {
        code = draw(argv[0], &args, &p);
        cmd_close(&p);
    }
    free(rest);
    return code;
}

const cmd cmd_draw = {
    .name = "draw",
    .args = "FILE [-o OUT.svg] [--passes] [--dot]",
    .doc = "draw a program text as SVG",
    .more = "FILE may be -, for stdin. Without -o the drawing goes to stdout."
            " Operators that\ndo the same are one box with a count; a box shows"
            " its operators with all\nattributes under the pointer, and a line"
            " leads to where it comes from.\nGraphviz (dot) lays it out;"
            " without it the text for dot is written.\n"
            "\n"
            "  --passes   the program as it is written, and beside it as it is"
            " run, after the\n"
            "             optimise passes; what is new there has a red frame\n"
            "  --dot      the text for dot",
    .run = run,
};
