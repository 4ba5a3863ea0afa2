/* data_split.c - flotilla data split: files of lines, cut into parts. */
#include "data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flotilla/experimental/split.h"

#define NAME_PLACE "{}"

typedef struct plan {
    const data_args *args;
    char *text; /* of --parts, cut up */
    fl_split_part parts[FL_SPLIT_PARTS_MAX];
    char *paths[FL_SPLIT_PARTS_MAX];
    size_t n;
} plan;

static void free_plan(plan *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->paths[i]);
    free(p->text);
}

/* The pattern of -o with the part's name in it. */
static char *make_path(const char *pattern, const char *name)
{
    const char *at = strstr(pattern, NAME_PLACE);
    char *path = NULL;

    if (asprintf(&path, "%.*s%s%s", (int)(at - pattern), pattern, name,
                 at + strlen(NAME_PLACE)) < 0)
        return NULL;
    return path;
}

static int add_part(plan *p, char *word)
{
    char *share = strchr(word, '='), *end = NULL;

    if (p->n == FL_SPLIT_PARTS_MAX)
        return cmd_misused(p->args->self, "--parts: there are more than %d",
                           FL_SPLIT_PARTS_MAX);
    if (share) {
        *share++ = '\0';
        p->parts[p->n].share = strtod(share, &end);
    }
    if (!share || !*word || end == share || *end)
        return cmd_misused(p->args->self,
                           "--parts: part %zu is not NAME=SHARE; say "
                           "train=0.8,test=0.2 for example",
                           p->n + 1);
    p->paths[p->n] = make_path(p->args->out, word);
    if (!p->paths[p->n])
        return cmd_failed(p->args->self, "no memory for a path");
    p->parts[p->n].path = p->paths[p->n];
    p->n++;
    return CMD_OK;
}

static int read_parts(plan *p)
{
    char *rest, *word;
    int code = CMD_OK;

    p->text = rest = strdup(p->args->parts);
    if (!rest)
        return cmd_failed(p->args->self, "no memory for the parts");
    while (!code && (word = strsep(&rest, ",")))
        code = add_part(p, word);
    return code;
}

static int split(plan *p)
{
    const data_args *a = p->args;

    if (fl_split_files(a->files, a->n_files, p->parts, p->n,
                       .format = a->format, .key = a->key, .time = a->time,
                       .by_file = a->by_file, .header = a->header,
                       .pipe_command = a->pipe))
        return cmd_failed(a->self, "%s", fl_last_error());
    for (size_t i = 0; i < p->n; i++)
        printf("%s\t%" PRIu64 " lines\n", p->parts[i].path,
               p->parts[i].n_lines);
    return CMD_OK;
}

int data_split(const data_args *a)
{
    plan p = { .args = a };
    int code;

    if (!a->parts)
        return cmd_misused(a->self, "split needs --parts NAME=SHARE,...");
    if (!a->out || !strstr(a->out, NAME_PLACE))
        return cmd_misused(a->self, "split needs -o PATTERN, where " NAME_PLACE
                                    " stands for the name of a part: -o "
                                    "'" NAME_PLACE ".txt'");
    code = read_parts(&p);
    if (!code)
        code = split(&p);
    free_plan(&p);
    return code;
}
