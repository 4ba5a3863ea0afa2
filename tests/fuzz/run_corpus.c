/* run_corpus.c - runs a fuzz target over files, so that a corpus is a plain
 * test with any compiler.
 *
 *     target DIRECTORY|FILE ...
 */
#include "kit.h"

#include <dirent.h>
#include <sys/stat.h>

#include "base/file.h"

#define INPUT_MAX ((size_t)1 << 24)

static bool is_directory(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* 0: not read. */
static size_t run_file(const char *path)
{
    char *text = NULL;
    size_t len;

    if (fl_file_read(path, INPUT_MAX, &text, &len)) {
        fprintf(stderr, "%s\n", fl_last_error());
        return 0;
    }
    (void)LLVMFuzzerTestOneInput((const uint8_t *)text, len);
    fl_free(text);
    return 1;
}

static size_t run_directory(const char *path)
{
    DIR *d = opendir(path);
    char file[PATH_MAX];
    size_t n = 0;

    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
        n += run_file(file);
    }
    if (d)
        closedir(d);
    return n;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        size_t n =
            is_directory(argv[i]) ? run_directory(argv[i]) : run_file(argv[i]);

        printf("%s: %zu inputs\n", argv[i], n);
        if (!n)
            return 1;
    }
    return argc < 2;
}
