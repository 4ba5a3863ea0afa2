/* util.c - what workers do together: barriers, folds, shares of files.
 *
 * Values are folded in the order of ranks, by every worker for itself: the
 * result has the same bits on all of them, and in every run.
 */
#include "fleet/allgather.h"

#include <math.h>

/* --- values of all workers ------------------------------------------------ */

/* Values lo to lo + n of one worker, in the order of ranks for every lo. */
typedef void (*take_fn)(void *arg, const fl_allgather_part *p, size_t lo,
                        bool is_first);

static fl_status check_parts(const fl_allgather_round *t, size_t n)
{
    for (size_t i = 0; i < t->parts.len; i++)
        if (t->parts.data[i].n != n)
            FL_FAIL(FL_ERR_CORRUPT,
                    "%s: worker %d sends %zu values where %zu are due",
                    fl_fleet_call_name(t->call), t->parts.data[i].rank,
                    t->parts.data[i].n, n);
    return FL_OK;
}

/* Begins anew at 0 when somebody has left meanwhile. */
static fl_status exchange(fl_allgather_round *t, const double *values, size_t n,
                          take_fn take, void *arg)
{
    size_t lo = 0;

    do {
        size_t some = n - lo < t->cap ? n - lo : t->cap;

        if (some)
            memcpy(fl_allgather_words(t), values + lo, some * sizeof(*values));
        FL_TRY(fl_allgather_run_round(t, some, n));
        if (t->is_changed) {
            fl_allgather_restart(t);
            lo = 0;
            continue;
        }
        FL_TRY(check_parts(t, some));
        for (size_t i = 0; i < t->parts.len; i++)
            take(arg, &t->parts.data[i], lo, i == 0);
        lo += some;
    } while (lo < n);
    return FL_OK;
}

/* --- folding -------------------------------------------------------------- */

typedef struct fold {
    fl_reduce_kind kind;
    double *sums;
} fold;

/* A value that is none stays to be seen. */
static double fold_one(fl_reduce_kind kind, double a, double x)
{
    if (kind == FL_REDUCE_SUM)
        return a + x;
    if (isnan(a) || isnan(x))
        return NAN;
    if (kind == FL_REDUCE_MIN)
        return x < a ? x : a;
    return x > a ? x : a;
}

static void fold_part(void *arg, const fl_allgather_part *p, size_t lo,
                      bool is_first)
{
    const fold *f = arg;
    const double *values = p->words;
    double *sums = f->sums + lo;

    for (size_t i = 0; i < p->n; i++)
        sums[i] = is_first ? values[i] : fold_one(f->kind, sums[i], values[i]);
}

static fl_status fold_all(fl_allgather_round *t, fl_reduce_kind kind,
                          double *values, size_t n)
{
    size_t bytes;
    fold f = { .kind = kind };
    fl_status st;

    if (!n)
        return exchange(t, NULL, 0, fold_part, &f);
    if (!fl_mul_overflow(n, sizeof(*values), &bytes))
        f.sums = fl_try_alloc(bytes);
    if (!f.sums)
        FL_FAIL(FL_ERR_NOMEM, "%s: no memory for %zu values",
                fl_fleet_call_name(t->call), n);
    st = exchange(t, values, n, fold_part, &f);
    if (!st)
        memcpy(values, f.sums, bytes);
    fl_data_free(f.sums, bytes);
    return st;
}

fl_status fl_fleet_fold(fl_fleet *f, fl_fleet_call call, fl_reduce_kind kind,
                        double *values, size_t n)
{
    fl_allgather_round t;
    fl_status st = fl_allgather_begin(&t, f, call);

    if (!st)
        st = fold_all(&t, kind, values, n);
    fl_allgather_end(&t);
    return st;
}

fl_status fl_fleet_util_all_reduce(fl_fleet *f, fl_reduce_kind kind,
                                   double *values, size_t n)
{
    static const fl_fleet_call calls[] = {
        [FL_REDUCE_SUM] = FL_CALL_REDUCE_SUM,
        [FL_REDUCE_MIN] = FL_CALL_REDUCE_MIN,
        [FL_REDUCE_MAX] = FL_CALL_REDUCE_MAX,
    };

    if ((size_t)kind >= FL_LEN(calls))
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_util_all_reduce: there is no kind %d; use "
                "FL_REDUCE_SUM, FL_REDUCE_MIN or FL_REDUCE_MAX",
                (int)kind);
    return fl_fleet_fold(f, calls[kind], kind, values, n);
}

/* --- gathering ------------------------------------------------------------ */

typedef struct rows {
    double *out;
    size_t n, n_workers;
} rows;

/* Who has left brings nothing: its values are none. */
static void put_part(void *arg, const fl_allgather_part *p, size_t lo,
                     bool is_first)
{
    const rows *r = arg;

    for (size_t w = 0; is_first && lo == 0 && w < r->n_workers; w++)
        for (size_t i = 0; i < r->n; i++)
            r->out[w * r->n + i] = NAN;
    if (p->n)
        memcpy(r->out + (size_t)p->rank * r->n + lo, p->words,
               p->n * sizeof(*r->out));
}

fl_status fl_fleet_util_all_gather(fl_fleet *f, const double *values, size_t n,
                                   double *out)
{
    rows r = { out, n, (size_t)f->role.n_workers };
    fl_allgather_round t;
    fl_status st = fl_allgather_begin(&t, f, FL_CALL_GATHER);

    if (!st)
        st = exchange(&t, values, n, put_part, &r);
    fl_allgather_end(&t);
    return st;
}

fl_status fl_fleet_util_barrier(fl_fleet *f)
{
    return fl_fleet_barrier_worker(f);
}

/* --- files and lines ------------------------------------------------------ */

/* The first n % workers have one more. */
fl_status fl_fleet_util_get_file_shard(const fl_fleet *f,
                                       const char *const *files, size_t n,
                                       const char *const **out, size_t *n_out)
{
    size_t rank = (size_t)f->role.index, n_workers, more;

    if (!fl_fleet_is_worker(f))
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_util_get_file_shard: this process is server %d; "
                "workers have files, where fl_fleet_is_worker is true",
                f->role.index);
    if (!files && n)
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_util_get_file_shard: there is no list of the %zu "
                "files",
                n);
    n_workers = (size_t)f->role.n_workers;
    more = n % n_workers;
    *out = files;
    if (files)
        *out += rank * (n / n_workers) + (rank < more ? rank : more);
    *n_out = n / n_workers + (rank < more);
    return FL_OK;
}

void fl_fleet_util_print_on_rank(const fl_fleet *f, int rank, const char *line)
{
    if (!fl_fleet_is_worker(f) || f->role.index != rank)
        return;
    (void)fprintf(stdout, "%s\n", line);
    (void)fflush(stdout);
}
