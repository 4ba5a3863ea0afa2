/* nearest.c - the distance between two words. */
#include "nearest.h"

#include <string.h>

#define WORD_MAX 32

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

int nearest_distance(const char *a, const char *b)
{
    int row[WORD_MAX + 1];
    int n = (int)strnlen(b, WORD_MAX);

    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 0; a[i]; i++) {
        int diagonal = row[0]++;

        for (int j = 0; j < n; j++) {
            int replace = diagonal + (a[i] != b[j]);

            diagonal = row[j + 1];
            row[j + 1] = min_int(replace, min_int(row[j], diagonal) + 1);
        }
    }
    return row[n];
}
