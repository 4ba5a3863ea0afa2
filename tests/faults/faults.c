/* faults.c - the suite of faults: real servers and trainers, killed, stopped,
 * late, missing and talked to by strangers.
 *
 *     faults FLOTILLA TRAINER CASES [WORDS]
 *
 * Plays the cases of a file, or those with WORDS in their names. The first one
 * is played alone, as it gives the undisturbed result; the others a few at a
 * time, since they mostly wait.
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "procs.h"
#include "script.h"

#define CASES_MAX 64
#define AT_ONCE 5
#define CASE_S 120 /* no case takes longer, whatever happens */

typedef struct test {
    char *name, *text;
    int line;
    pid_t pid;
    uint64_t start_ms;
    FILE *out;
} test;

typedef struct suite {
    script script; /* what all cases have in common */
    test tests[CASES_MAX];
    int n, n_failed;
} suite;

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t room = 0;

    if (!f || getdelim(&text, &room, '\0', f) < 0)
        give_up(path);
    fclose(f);
    return text;
}

/* Cuts the text at its lines "case: NAME". */
static void read_cases(suite *s, char *text)
{
    char *line = text;

    for (int number = 1; line; number++) {
        char *next = strchr(line, '\n');

        if (!strncmp(line, "case: ", 6) && next && s->n < CASES_MAX) {
            if (line > text)
                line[-1] = '\0';
            *next = '\0';
            s->tests[s->n++] = (test){ .name = line + 6,
                                       .text = next + 1,
                                       .line = number + 1 };
        }
        line = next ? next + 1 : NULL;
    }
}

static void start_case(suite *s, int i)
{
    test *t = &s->tests[i];
    pid_t parent = getpid();

    t->out = tmpfile();
    if (!t->out)
        give_up("tmpfile");
    t->start_ms = now_ms();
    fflush(NULL);
    t->pid = fork();
    if (t->pid < 0)
        give_up("fork");
    if (t->pid)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    alarm(CASE_S);
    dup2(fileno(t->out), STDOUT_FILENO);
    s->script.text = t->text;
    s->script.line = t->line;
    s->script.number = i;
    exit(script_play(&s->script) ? 0 : 1);
}

static void end_case(suite *s, test *t, int status)
{
    bool ok = WIFEXITED(status) && !WEXITSTATUS(status);
    char bytes[4096];
    size_t n;

    printf("%s %s (%.1f s)%s\n", ok ? "ok  " : "FAIL", t->name,
           (double)(now_ms() - t->start_ms) / 1e3,
           WIFSIGNALED(status) ? ": it took too long" : "");
    rewind(t->out);
    while ((n = fread(bytes, 1, sizeof(bytes), t->out)))
        fwrite(bytes, 1, n, stdout);
    fflush(stdout);
    fclose(t->out);
    s->n_failed += !ok;
    t->pid = 0;
}

static void await_one(suite *s)
{
    int status;
    pid_t pid = wait(&status);

    if (pid < 0)
        give_up("wait");
    for (int i = 0; i < s->n; i++)
        if (s->tests[i].pid == pid)
            end_case(s, &s->tests[i], status);
}

static int play(suite *s, const char *words)
{
    int n_played = 0, n_running = 0;

    for (int i = 0; i < s->n; i++) {
        if (i && words && !strstr(s->tests[i].name, words))
            continue;
        for (; n_running >= AT_ONCE; n_running--)
            await_one(s);
        start_case(s, i);
        n_running++;
        n_played++;
        if (i)
            continue;
        await_one(s);
        n_running--;
    }
    for (; n_running; n_running--)
        await_one(s);
    printf("%d of %d cases failed\n", s->n_failed, n_played);
    return s->n_failed ? 1 : 0;
}

/* What a sanitizer finds must not look like a failure that is expected. */
static void set_sanitizers(void)
{
    setenv("ASAN_OPTIONS", "exitcode=99", 0);
    setenv("UBSAN_OPTIONS", "exitcode=99", 0);
    setenv("TSAN_OPTIONS", "exitcode=99", 0);
}

int main(int argc, char **argv)
{
    static suite s;
    char *result, *text;
    int code;

    if (argc < 4) {
        fputs("usage: faults FLOTILLA TRAINER CASES [WORDS]\n", stderr);
        return 2;
    }
    result = mmap(NULL, RESULT_ROOM, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (result == MAP_FAILED)
        give_up("mmap");
    set_sanitizers();
    s.script =
        (script){ .flotilla = argv[1], .trainer = argv[2], .result = result };
    text = read_file(argv[3]);
    read_cases(&s, text);
    code = play(&s, argc > 4 ? argv[4] : NULL);
    free(text);
    return code;
}
