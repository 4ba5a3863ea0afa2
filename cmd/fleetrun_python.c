/* fleetrun_python.c - scripts of Python: who runs them, and where they find the
 * names of PaddlePaddle.
 *
 * The package flotilla has a folder with a package paddle in it. It is first on
 * the path of a script that is started here, and on no other. Interpreters are
 * asked whether they have flotilla and numpy, which imports nothing; where none
 * has, the first runs its script as it is.
 */
#include "fleetrun.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MS 60000
#define ANSWER_BYTES 4096

/* "1 FOLDER" with numpy, "0 FOLDER" without, nothing without flotilla. */
static char question[] =
    "import importlib.util, os\n"
    "found = importlib.util.find_spec('flotilla')\n"
    "numpy = importlib.util.find_spec('numpy') is not None\n"
    "for at in found and found.submodule_search_locations or ():\n"
    "    at = os.path.join(os.path.abspath(at), 'compat')\n"
    "    if os.path.isdir(at):\n"
    "        print(int(numpy), at)\n"
    "        break\n";

static void become(char *python, int out)
{
    char flag[] = "-c", *words[] = { python, flag, question, NULL };

    if (dup2(out, STDOUT_FILENO) >= 0)
        execv(python, words);
    _exit(RUN_FAILED);
}

/* What it prints, up to its end; false when that does not come in time. */
static bool read_all(int fd, char *text, size_t cap)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    size_t n = 0;

    while (n + 1 < cap) {
        int ready = poll(&p, 1, ANSWER_MS);
        ssize_t got;

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return false;
        got = read(fd, text + n, cap - n - 1);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return true;
}

/* Its answer, or "" when it has none. */
static int ask(char *python, char *answer, size_t cap)
{
    int fds[2];
    bool is_answered;
    pid_t pid;

    if (pipe2(fds, O_CLOEXEC))
        return run_failed("cannot make a pipe: %s", strerror(errno));
    pid = fork();
    if (!pid)
        become(python, fds[1]);
    close(fds[1]);
    is_answered = pid > 0 && read_all(fds[0], answer, cap);
    close(fds[0]);
    if (pid > 0) {
        if (!is_answered)
            (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    if (!is_answered)
        return run_failed("%s does not say within %d s which packages it has; "
                          "try: %s -c 'import flotilla'",
                          python, ANSWER_MS / 1000, python);
    return RUN_OK;
}

/* --- which one ------------------------------------------------------------ */

/* What was asked so far. */
typedef struct candidates {
    char *first, *without_numpy; /* NULL: there was none */
    char *tried;                 /* all of them, for people */
} candidates;

/* Takes it for the job, as words[0], if it has what scripts need. */
static int consider(job *j, candidates *c, char *python)
{
    room *r = j->room;
    char answer[ANSWER_BYTES] = "";
    int code = ask(python, answer, sizeof(answer));

    if (code)
        return code;
    if (!c->first)
        c->first = python;
    if (answer[0] == '0' && !c->without_numpy)
        c->without_numpy = python;
    c->tried = c->tried ? room_text(r, "%s, %s", c->tried, python) : python;
    if (answer[0] == '1') {
        j->words[0] = python;
        j->paddle = room_text(r, "%s", answer + strlen("1 "));
    }
    return RUN_OK;
}

/* A script that uses neither flotilla nor paddle is run by any Python. */
static int do_without(job *j, const candidates *c)
{
    if (c->without_numpy)
        return run_failed(
            "%s has flotilla and no numpy; try: %s -m pip install "
            "numpy",
            c->without_numpy, c->without_numpy);
    j->words[0] = c->first;
    run_say("%s has no flotilla, so %s runs without it and paddle; pip install "
            "it, or name a Python that has it by FLOTILLA_PYTHON",
            c->tried, j->o->program[0]);
    return RUN_OK;
}

static int choose_given(job *j, const char *given)
{
    char *python = room_text(j->room, "%s", given);
    candidates c = { .first = NULL };
    int code;

    if (access(python, X_OK))
        return run_failed("FLOTILLA_PYTHON=%s: %s; give the path of a Python",
                          python, strerror(errno));
    code = consider(j, &c, python);
    return code || j->words[0] ? code : do_without(j, &c);
}

/* The folders of PATH, and that of the launcher, beside which an environment of
   Python has its own. */
static char *folders(room *r)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *path = path_folders(r);

    if (n <= 0)
        return path;
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    return room_text(r, "%s:%s", path, self);
}

int python_choose(job *j)
{
    const char *given = getenv("FLOTILLA_PYTHON");
    char *rest = folders(j->room), *python;
    candidates c = { .first = NULL };
    int code = RUN_OK;

    if (given)
        return choose_given(j, given);
    while (!code && !j->words[0] &&
           (python = path_next(j->room, &rest, "python3")))
        code = consider(j, &c, python);
    if (code || j->words[0])
        return code;
    if (!c.first)
        return run_failed("%s needs python3, which is in no folder of PATH",
                          j->o->program[0]);
    return do_without(j, &c);
}

void python_names(job *j)
{
    const char *path = getenv("PYTHONPATH");

    if (!j->paddle)
        return;
    env_set(j, "PYTHONPATH",
            path && *path ? room_text(j->room, "%s:%s", j->paddle, path)
                          : j->paddle);
}
