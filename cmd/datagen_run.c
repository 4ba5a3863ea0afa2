/* datagen_run.c - threads that make the lines of `flotilla datagen`.
 *
 * The lines are cut into blocks. A thread takes the number of the next block,
 * makes its lines in memory of its own, waits until all blocks before it are
 * written, and writes it. So the output is in order, whoever makes what, and
 * there are never more blocks in memory than threads.
 *
 * A turn always comes: the thread with the lowest number never waits, and one
 * that fails, or has written enough, says so to all that wait.
 */
#include "datagen.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"

#define BLOCK_LINES 2048

typedef struct block {
    uint64_t number;
    uint64_t first;
    size_t n_lines;
    size_t ends[BLOCK_LINES]; /* bytes up to the end of each line */
    float p[BLOCK_LINES];
    bool click[BLOCK_LINES];
    char text[BLOCK_LINES * DATAGEN_LINE_MAX];
} block;

typedef struct job {
    const datagen_args *args;
    datagen_world world;
    sink *to;
    datagen_counts *counts; /* of what was written */

    pthread_mutex_t mu; /* guards what follows, and what the two point to */
    pthread_cond_t turn;
    uint64_t next_made, next_written; /* blocks */
    bool over;                        /* enough, or failed */
} job;

static void make_block(const job *j, block *b)
{
    uint64_t done = b->number * BLOCK_LINES;
    uint64_t left = j->args->lines - done;
    char *at = b->text;

    b->first = j->args->first + done;
    b->n_lines = left < BLOCK_LINES ? (size_t)left : BLOCK_LINES;
    for (size_t i = 0; i < b->n_lines; i++) {
        datagen_record r;

        datagen_draw(&j->world, b->first + i, &r);
        at = j->args->write(&r, at);
        b->ends[i] = (size_t)(at - b->text);
        b->p[i] = (float)r.p;
        b->click[i] = r.click;
    }
}

/* Lines of the block that are wanted: the one that reaches the number of bytes
   is the last. */
static size_t wanted_lines(const job *j, const block *b)
{
    uint64_t room = j->args->bytes - j->counts->bytes;
    size_t n = 0;

    if (b->ends[b->n_lines - 1] < room)
        return b->n_lines;
    while (b->ends[n] < room)
        n++;
    return n + 1;
}

static void count_lines(datagen_counts *c, const block *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t bin = (size_t)(b->p[i] * DATAGEN_BINS);

        if (bin >= DATAGEN_BINS)
            bin = DATAGEN_BINS - 1;
        c->clicks += b->click[i];
        if (b->click[i])
            c->clicked[bin]++;
        else
            c->passed[bin]++;
    }
    c->lines += n;
    c->bytes += b->ends[n - 1];
}

/* Called in turn, under the lock. */
static void write_block(job *j, const block *b)
{
    size_t n = wanted_lines(j, b);

    if (!sink_write(j->to, b->text, b->ends[n - 1])) {
        j->over = true;
        return;
    }
    count_lines(j->counts, b, n);
    j->over = j->counts->bytes >= j->args->bytes ||
              j->counts->lines >= j->args->lines;
}

/* False when there is none left. */
static bool take_number(job *j, block *b)
{
    bool more;

    pthread_mutex_lock(&j->mu);
    more = !j->over && j->next_made * BLOCK_LINES < j->args->lines;
    b->number = j->next_made;
    j->next_made += more;
    pthread_mutex_unlock(&j->mu);
    return more;
}

static void write_in_turn(job *j, const block *b)
{
    pthread_mutex_lock(&j->mu);
    while (!j->over && j->next_written != b->number)
        pthread_cond_wait(&j->turn, &j->mu);
    if (!j->over)
        write_block(j, b);
    j->next_written++;
    pthread_cond_broadcast(&j->turn);
    pthread_mutex_unlock(&j->mu);
}

typedef struct worker {
    job *job;
    block *block;
    pthread_t thread;
} worker;

static void *work(void *arg)
{
    worker *w = arg;

    while (take_number(w->job, w->block)) {
        make_block(w->job, w->block);
        write_in_turn(w->job, w->block);
    }
    return NULL;
}

/* Starts as many as it can; the first one is the calling thread. */
static void work_together(worker *workers, size_t n)
{
    size_t started = 1;

    while (started < n && !pthread_create(&workers[started].thread, NULL, work,
                                          &workers[started]))
        started++;
    work(&workers[0]);
    while (started-- > 1)
        pthread_join(workers[started].thread, NULL);
}

static void free_workers(worker *workers, size_t n)
{
    for (size_t i = 0; workers && i < n; i++)
        free(workers[i].block);
    free(workers);
}

static worker *new_workers(job *j, size_t n)
{
    worker *workers = calloc(n, sizeof(*workers));

    for (size_t i = 0; workers && i < n; i++) {
        workers[i].job = j;
        workers[i].block = malloc(sizeof(block));
        if (!workers[i].block) {
            free_workers(workers, n);
            return NULL;
        }
    }
    return workers;
}

int datagen_run(const char *self, const datagen_args *args, sink *to,
                datagen_counts *counts)
{
    size_t n = (size_t)args->threads;
    job j = { .args = args, .to = to, .counts = counts };
    worker *workers = new_workers(&j, n);

    if (!workers)
        return cmd_failed(self,
                          "no memory for the blocks of %zu threads; "
                          "ask for fewer with --threads",
                          n);
    memset(counts, 0, sizeof(*counts));
    datagen_world_init(&j.world, args->seed);
    pthread_mutex_init(&j.mu, NULL);
    pthread_cond_init(&j.turn, NULL);
    work_together(workers, n);
    pthread_cond_destroy(&j.turn);
    pthread_mutex_destroy(&j.mu);
    free_workers(workers, n);
    return to->why[0] ? sink_failed(to, self) : CMD_OK;
}
