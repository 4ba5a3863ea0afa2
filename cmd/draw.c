/* draw.c - flotilla draw: a program text as a picture. */
#include "cmd.h"

#include <string.h>

#include "sink.h"

typedef struct draw_args {
    const char *path, *out; /* out NULL: stdout */
} draw_args;

static int read_args(int argc, char **argv, draw_args *a)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-o")) {
            if (++i == argc)
                return cmd_misused(argv[0], "-o needs a file");
            a->out = argv[i];
        } else if (argv[i][0] == '-' && argv[i][1]) {
            return cmd_misused(argv[0], "there is no option '%s'", argv[i]);
        } else if (a->path) {
            return cmd_misused(argv[0], "'%s' is too much", argv[i]);
        } else {
            a->path = argv[i];
        }
    }
    if (!a->path)
        return cmd_misused(argv[0], "which file?");
    return CMD_OK;
}

static int write_svg(const char *self, const char *path, char *svg)
{
    sink to;
    bool good = sink_open(&to, path, "-o") && sink_write(&to, svg, strlen(svg));

    fl_text_free(svg);
    if (good && sink_close(&to))
        return CMD_OK;
    sink_abandon(&to);
    return sink_failed(&to, self);
}

static int run(int argc, char **argv)
{
    draw_args args = { 0 };
    cmd_program p;
    char *svg;
    int code = read_args(argc, argv, &args);

    if (code)
        return code;
    code = cmd_open(argv[0], args.path, &p);
    if (code)
        return code;
    svg = fl_program_to_svg(p.program);
    cmd_close(&p);
    return write_svg(argv[0], args.out, svg);
}

const cmd cmd_draw = {
    .name = "draw",
    .args = "FILE [-o OUT.svg]",
    .doc = "draw a program text as SVG",
    .more = "FILE may be -, for stdin. Without -o the drawing goes to stdout.",
    .run = run,
};
