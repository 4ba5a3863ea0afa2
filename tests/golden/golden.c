/* golden.c - runs recorded cases through the library and compares.
 *
 *     golden FILE-OR-DIRECTORY...
 *
 * Every *.safetensors file is a case, its kind told by what it holds; names
 * that end in _asis record what is not to be imitated and are skipped. A line
 * is printed for every number that is wrong; the last line counts the cases.
 * The exit status is 0 only when none failed.
 */
#include "golden.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENDING ".safetensors"

typedef struct runner {
    pool pool;
    int passed, failed, skipped;
} runner;

void case_fail(golden_case *c, const char *fmt, ...)
{
    va_list ap;

    c->n_failures++;
    if (c->is_quiet)
        return;
    printf("%s: ", c->path);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

cJSON *case_json(golden_case *c, const char *key)
{
    const char *source = st_meta_find(&c->file, key);
    cJSON *json = source ? cJSON_Parse(source) : NULL;

    if (cJSON_IsObject(json))
        return json;
    case_fail(c, "the metadata has no JSON object '%s'", key);
    cJSON_Delete(json);
    return NULL;
}

double json_number(const cJSON *object, const char *key, double otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

/* --- one file ------------------------------------------------------------ */

typedef void (*run_fn)(golden_case *c);

/* NULL for files that belong to other cases, such as shared inputs. */
static run_fn kind_of(const st_file *f)
{
    const char *op = st_meta_find(f, "op");

    if (st_meta_find(f, "order_in_one_file"))
        return run_model;
    if (op && !strcmp(op, "auc") && st_find(f, "in.p"))
        return run_metric;
    if (op)
        return run_op;
    if (st_meta_find(f, "optimizer"))
        return run_optim;
    if (st_meta_find(f, "schedule"))
        return run_lr;
    if (st_meta_find(f, "initializer"))
        return run_init;
    if (st_find(f, "loss"))
        return run_train;
    if (st_find(f, "fleet_sync.trainer0.loss"))
        return run_dist;
    return NULL;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), n_end = strlen(end);

    return n >= n_end && !strcmp(s + n - n_end, end);
}

static const char *case_name(pool *p, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *file = slash ? slash + 1 : path;

    return pool_strndup(p, file, strlen(file) - strlen(ENDING));
}

/* Exit statuses that nothing but a case gives. */
enum outcome { PASSED = 40, FAILED, NO_CASE };

static enum outcome run_case(const char *path)
{
    golden_case c = { .path = path };
    const char *wrong = st_read(&c.file, path, &c.pool);
    run_fn run = wrong ? NULL : kind_of(&c.file);
    enum outcome outcome = run ? PASSED : NO_CASE;

    c.name = case_name(&c.pool, path);
    if (wrong)
        case_fail(&c, "%s", wrong);
    else if (run)
        run(&c);
    if (c.n_failures)
        outcome = FAILED;
    pool_release(&c.pool);
    return outcome;
}

/* In a process of its own, so that a case that ends it does not end the
   others. What it printed is out before the next line is. */
static enum outcome run_apart(const char *path)
{
    int status = 0;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (!pid)
        exit(run_case(path));
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        printf("%s: there is no process for it\n", path);
        return FAILED;
    }
    if (WIFSIGNALED(status))
        printf("%s: ended by signal %d (%s)\n", path, WTERMSIG(status),
               strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) >= PASSED && WEXITSTATUS(status) <= NO_CASE)
        return (enum outcome)WEXITSTATUS(status);
    else
        printf("%s: ended with status %d\n", path, WEXITSTATUS(status));
    return FAILED;
}

static void run_file(runner *r, const char *path)
{
    if (ends_with(case_name(&r->pool, path), "_asis")) {
        r->skipped++;
        return;
    }
    switch (run_apart(path)) {
    case PASSED:
        r->passed++;
        break;
    case FAILED:
        r->failed++;
        break;
    case NO_CASE:
        break;
    }
}

/* --- directories --------------------------------------------------------- */

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool walk(runner *r, const char *path)
{
    struct dirent **entries;
    struct stat st;
    int n;

    if (stat(path, &st)) {
        fprintf(stderr, "golden: %s: there is no such file\n", path);
        return false;
    }
    if (!S_ISDIR(st.st_mode)) {
        if (ends_with(path, ENDING))
            run_file(r, path);
        return true;
    }
    n = scandir(path, &entries, NULL, by_name);
    if (n < 0) {
        fprintf(stderr, "golden: %s: the directory cannot be read\n", path);
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.')
            walk(r, pool_printf(&r->pool, "%s%s%s", path,
                                ends_with(path, "/") ? "" : "/",
                                entries[i]->d_name));
        free(entries[i]);
    }
    free(entries);
    return true;
}

/* --- the command --------------------------------------------------------- */

static int usage(void)
{
    fprintf(stderr, "usage: golden FILE-OR-DIRECTORY...\n");
    return 2;
}

int main(int argc, char **argv)
{
    runner r = { 0 };
    bool good = true;

    if (argc < 2 || argv[1][0] == '-')
        return usage();
    for (int i = 1; i < argc; i++)
        good &= walk(&r, argv[i]);
    if (good && !(r.passed + r.failed + r.skipped)) {
        fprintf(stderr, "golden: there is no case to run\n");
        good = false;
    }
    printf("%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped);
    pool_release(&r.pool);
    return good && !r.failed ? 0 : 1;
}
