/* io_kit.h - what the tests of saved models share. */
#ifndef FL_TESTS_IO_KIT_H
#define FL_TESTS_IO_KIT_H

#include "api.h"

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/vec.h"

#define IO_LINES_MAX 1000

static inline int io_remove_one(const char *path, const struct stat *is,
                                int type, struct FTW *walk)
{
    (void)is;
    (void)type;
    (void)walk;
    return remove(path);
}

/* A folder with all that is in it. */
static inline void io_remove(const char *path)
{
    nftw(path, io_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline int io_by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Every row of a table with its state and epoch, as sorted lines; the folder is
   for the file in between. Freed with fl_free. */
static inline char *io_rows(fl_table *t, const char *folder)
{
    char path[PATH_MAX], *text = NULL, *lines[IO_LINES_MAX], *rest;
    size_t len, n = 0;
    fl_str out = { 0 };

    snprintf(path, sizeof(path), "%s/rows.txt", folder);
    assert_ok(fl_table_dump(t, path));
    assert_ok(fl_file_read(path, (size_t)1 << 20, &text, &len));
    for (char *at = strtok_r(text, "\n", &rest); at && n < IO_LINES_MAX;
         at = strtok_r(NULL, "\n", &rest))
        lines[n++] = at;
    qsort(lines, n, sizeof(*lines), io_by_text);
    for (size_t i = 0; i < n; i++)
        fl_str_addf(&out, "%s\n", lines[i]);
    fl_free(text);
    return fl_str_take(&out);
}

#endif
