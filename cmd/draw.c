/* draw.c - flotilla draw: a program text as a picture. */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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

/* A drawing that could not be written whole is removed, unless it went to a
   device or a pipe, which is not ours to remove. */
static void remove_half(const char *path)
{
    struct stat st;

    if (!stat(path, &st) && S_ISREG(st.st_mode))
        remove(path);
}

static int write_file(const char *name, const char *path, char *svg)
{
    FILE *f = fopen(path, "w");
    int err = 0;

    if (!f || fputs(svg, f) < 0)
        err = errno;
    if (f && fclose(f) && !err)
        err = errno;
    fl_text_free(svg);
    if (!err)
        return CMD_OK;
    if (f)
        remove_half(path);
    return cmd_failed(name, "cannot write %s: %s; name another file with -o",
                      path, strerror(err));
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
    return args.out ? write_file(argv[0], args.out, svg) : cmd_print(svg);
}

const cmd cmd_draw = {
    .name = "draw",
    .args = "FILE [-o OUT.svg]",
    .doc = "draw a program text as SVG",
    .more = "FILE may be -, for stdin. Without -o the drawing goes to stdout.",
    .run = run,
};
