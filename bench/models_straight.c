/* models_straight.c - reads samples for the floors of models. */
#include "models_straight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "floor_deepfm.h"
#include "floor_gru4rec.h"
#include "harness.h"

static FILE *open_lines(const char *path)
{
    FILE *file = fopen(path, "r");

    if (file)
        return file;
    perror(path);
    exit(1);
}

/* --- deepfm --------------------------------------------------------------- */

/* The samples of lines "label id:1 id:1 ...". */
typedef struct deepfm {
    int *ids, *labels;
    floor_deepfm *floor;
} deepfm;

static void *deepfm_open(const char *path, size_t most)
{
    deepfm *d = bench_alloc(sizeof *d);
    FILE *file = open_lines(path);
    size_t n = 0;

    d->ids = bench_alloc(most * DEEPFM_FIELDS * sizeof *d->ids);
    d->labels = bench_alloc(most * sizeof *d->labels);
    while (n < most && fscanf(file, "%d", &d->labels[n]) == 1) {
        int *ids = d->ids + n * DEEPFM_FIELDS;

        for (int i = 0; i < DEEPFM_FIELDS; i++)
            if (fscanf(file, "%d:1", &ids[i]) != 1)
                ids[i] = 0;
        d->labels[n] = d->labels[n] > 0;
        n++;
    }
    fclose(file);
    d->floor = floor_deepfm_new(d->ids, d->labels, n);
    return d;
}

static double deepfm_train(void *made)
{
    return floor_deepfm_train(((deepfm *)made)->floor);
}

static void deepfm_close(void *made)
{
    deepfm *d = made;

    floor_deepfm_free(d->floor);
    free(d->ids);
    free(d->labels);
    free(d);
}

/* --- gru4rec -------------------------------------------------------------- */

/* The clicks of lines "item item ...". */
typedef struct gru4rec {
    int *items;
    size_t *offsets;
    floor_gru4rec *floor;
} gru4rec;

static void *gru4rec_open(const char *path, size_t most)
{
    gru4rec *g = bench_alloc(sizeof *g);
    FILE *file = open_lines(path);
    size_t n = 0, at = 0;

    g->items = bench_alloc(most * GRU4REC_LEN_MAX * sizeof *g->items);
    g->offsets = bench_alloc((most + 1) * sizeof *g->offsets);
    while (n < most && fscanf(file, "%d", &g->items[at]) == 1) {
        at++;
        if (getc(file) == '\n')
            g->offsets[++n] = at;
    }
    fclose(file);
    g->floor = floor_gru4rec_new(g->items, g->offsets, n);
    return g;
}

static double gru4rec_train(void *made)
{
    return floor_gru4rec_train(((gru4rec *)made)->floor);
}

static void gru4rec_close(void *made)
{
    gru4rec *g = made;

    floor_gru4rec_free(g->floor);
    free(g->items);
    free(g->offsets);
    free(g);
}

/* --- all of them ---------------------------------------------------------- */

static const models_straight all[] = {
    { "deepfm", deepfm_open, deepfm_train, deepfm_close },
    { "gru4rec", gru4rec_open, gru4rec_train, gru4rec_close },
};

const models_straight *models_straight_find(const char *model)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i].model, model))
            return &all[i];
    return NULL;
}
