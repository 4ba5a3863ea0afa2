/* new.c - flotilla new: a small project that trains at once. Its files are those
 * of cmd/new, kept in the command itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd.h"
#include "nearest.h"
#include "new_files.h"
#include "options.h"

/* Stands in the files for the name of the project. */
#define MARK "@NAME@"
#define PATH_BYTES 4096

typedef struct project {
    const char *self, *kind, *path, *name;
    const char *language; /* "c" or "python" */
} project;

/* --- files ---------------------------------------------------------------- */

static bool put_text(FILE *f, const char *text, const char *name)
{
    const char *mark;

    for (; (mark = strstr(text, MARK)) != NULL; text = mark + strlen(MARK))
        if (fprintf(f, "%.*s%s", (int)(mark - text), text, name) < 0)
            return false;
    return fputs(text, f) >= 0;
}

static int write_file(const project *p, const new_file *from)
{
    char path[PATH_BYTES];
    bool good;
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", p->path, from->path);
    f = fopen(path, "wx");
    if (!f)
        return cmd_failed(p->self, "cannot write %s: %s", path,
                          strerror(errno));
    good = put_text(f, from->text, p->name);
    good &= fclose(f) == 0;
    return good ? CMD_OK
                : cmd_failed(p->self, "cannot write %s: %s", path,
                             strerror(errno));
}

/* Does the file belong to the project? Some serve both languages. */
static bool is_of(const new_file *f, const project *p)
{
    return !strcmp(f->kind, p->kind) &&
           (!*f->language || !strcmp(f->language, p->language));
}

static int write_all(const project *p)
{
    size_t n = 0;
    int code = CMD_OK;

    for (size_t i = 0; i < new_file_count && !code; i++)
        if (is_of(&new_files[i], p)) {
            code = write_file(p, &new_files[i]);
            n++;
        }
    if (!code)
        printf("%s has %zu files. Train the model:\n\n    cd %s\n    make\n",
               p->path, n, p->path);
    return code;
}

/* --- arguments ------------------------------------------------------------ */

static int check_kind(const project *p)
{
    const char *nearest = NULL;

    for (size_t i = 0; i < new_file_count; i++) {
        if (!strcmp(new_files[i].kind, p->kind))
            return CMD_OK;
        nearest = nearer_name(p->kind, nearest, new_files[i].kind);
    }
    return cmd_misused(p->self, "there is no project '%s'%s%s", p->kind,
                       nearest ? "; the nearest is " : ", but ctr",
                       nearest ? nearest : "");
}

/* The name becomes that of a program. */
static int check_name(const project *p)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

    if (*p->name && p->name[strspn(p->name, letters)] == 0 && *p->name != '-')
        return CMD_OK;
    return cmd_misused(p->self,
                       "'%s' cannot be a name: letters, digits, _ and - can",
                       p->name);
}

static int make(const project *p)
{
    int code = check_kind(p);

    if (!code)
        code = check_name(p);
    if (code)
        return code;
    if (mkdir(p->path, 0777))
        return cmd_failed(p->self, "cannot make the folder %s: %s", p->path,
                          strerror(errno));
    return write_all(p);
}

static int read_args(int argc, char **argv, const char **rest)
{
    bool python = false;
    const option all[] = { { "--python", OPTION_FLAG, &python, 0, 0, 0 } };
    const options o = { .all = all, .n = 1, .self = argv[0] };
    size_t n = 0;
    project p = { .self = argv[0] };
    int code = options_read(&o, argc, argv, rest, &n, NULL);
    const char *slash;

    if (code)
        return code;
    if (n != 2)
        return cmd_misused(argv[0], "give a kind and a name: ctr my_model");
    p.kind = rest[0];
    p.path = rest[1];
    slash = strrchr(p.path, '/');
    p.name = slash ? slash + 1 : p.path;
    p.language = python ? "python" : "c";
    return make(&p);
}

static int run(int argc, char **argv)
{
    const char **rest = calloc((size_t)argc + 1, sizeof(*rest));
    int code;

    if (!rest)
        return cmd_failed(argv[0], "no memory for the arguments");
    code = read_args(argc, argv, rest);
    free(rest);
    return code;
}

const cmd cmd_new = {
    .name = "new",
    .args = "ctr NAME [--python]",
    .doc = "make a small project of one's own that trains at once",
    .more =
        "\n"
        "The folder NAME gets a network in C, or with --python in Python, the"
        " format of\n"
        "its data, a Makefile and a README. `make` there trains and judges it "
        "on"
        " data\n"
        "that is made for it, `make job` does so on a server and two "
        "workers.\n",
    .run = run,
};
