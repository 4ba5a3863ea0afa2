/* fleetrun_python.c - scripts of Python: who runs them, and where they find the
 * names of PaddlePaddle.
 *
 * The package flotilla has a folder with a package paddle in it. It is first on
 * the path of a script that is started here, and on no other. The interpreter is
 * asked where its flotilla is, which imports nothing; one that has none runs its
 * script as it is.
 */
#include "fleetrun.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MS 60000
#define ANSWER_BYTES 4096

static char question[] =
    "import importlib.util, os\n"
    "found = importlib.util.find_spec('flotilla')\n"
    "for at in found and found.submodule_search_locations or ():\n"
    "    at = os.path.join(os.path.abspath(at), 'compat')\n"
    "    if os.path.isdir(at):\n"
    "        print(at)\n"
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

int python_names(job *j)
{
    const char *path = getenv("PYTHONPATH");
    char folder[ANSWER_BYTES] = "";
    int code = ask(j->words[0], folder, sizeof(folder));

    if (code || !*folder)
        return code;
    env_set(j, "PYTHONPATH",
            path && *path ? room_text(j->room, "%s:%s", folder, path) : folder);
    return RUN_OK;
}
