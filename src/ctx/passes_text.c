/* passes_text.c - passes as JSON, and back (docs/formats/model.md). */
#include <math.h>

#include "base/json.h"
#include "ckpt/json_in.h"
#include "ctx/passes_inside.h"

#define FORMAT 1

/* --- printing -------------------------------------------------------------- */

static void print_counts(fl_json *j, const char *key, const fl_pass_counts *c)
{
    fl_json_object(j, key);
    fl_json_text(j, "kind", c->is_infer ? "infer" : "train");
    fl_json_u64(j, "samples", c->samples);
    fl_json_u64(j, "batches", c->batches);
    fl_json_f64(j, "seconds", c->seconds);
    fl_json_f64(j, "loss_sum", c->loss_sum);
    fl_json_f64(j, "auc", c->auc);
    fl_json_end(j);
}

static void print_ranges(fl_json *j, const fl_ranges *r)
{
    fl_json_array(j, "trained");
    for (size_t i = 0; i < r->len; i++) {
        fl_json_array(j, NULL);
        fl_json_u64(j, NULL, r->data[i].lo);
        fl_json_u64(j, NULL, r->data[i].hi);
        fl_json_end(j);
    }
    fl_json_end(j);
}

static void print_file(fl_json *j, const fl_file_position *f)
{
    fl_json_object(j, NULL);
    fl_json_text(j, "path", f->path);
    fl_json_bool(j, "done", f->is_done);
    fl_json_bool(j, "cached", f->is_cached);
    print_ranges(j, &f->trained);
    fl_json_end(j);
}

static void print_position(fl_json *j, const fl_position *p)
{
    fl_json_object(j, "data");
    fl_json_text(j, "kind", p->in_memory ? "memory" : "queue");
    fl_json_bool(j, "dispatched", p->is_dispatched);
    fl_json_u64(j, "pass", p->pass);
    fl_json_u64(j, "shuffles", p->n_shuffles);
    fl_json_u64(j, "records", p->n_records);
    print_ranges(j, &p->trained);
    fl_json_array(j, "files");
    for (size_t i = 0; i < p->files.len; i++)
        print_file(j, &p->files.data[i]);
    fl_json_end(j);
    fl_json_end(j);
}

char *fl_passes_state_print(const fl_passes_state *s)
{
    fl_json j = { 0 };

    fl_json_object(&j, NULL);
    fl_json_u64(&j, "format", FORMAT);
    fl_json_array(&j, "passes");
    for (size_t i = 0; i < s->done.len; i++)
        print_counts(&j, NULL, &s->done.data[i]);
    fl_json_end(&j);
    if (s->has_now) {
        print_counts(&j, "now", &s->now);
        print_position(&j, &s->position);
    }
    fl_json_end(&j);
    return fl_json_take(&j);
}

/* --- reading --------------------------------------------------------------- */

/* A word out of two. */
static fl_status read_kind(const cJSON *from, const char *where, const char *no,
                           const char *yes, bool *out)
{
    const char *kind;

    FL_TRY(fl_json_in_text(from, "kind", where, &kind));
    if (strcmp(kind, no) != 0 && strcmp(kind, yes) != 0)
        FL_FAIL(FL_ERR_CORRUPT, "%s: kind \"%s\" is neither %s nor %s", where,
                kind, no, yes);
    *out = !strcmp(kind, yes);
    return FL_OK;
}

/* null is NaN. */
static fl_status read_f64(const cJSON *from, const char *key, const char *where,
                          double *out)
{
    const cJSON *v = fl_json_in_find(from, key);

    if (!v || (!cJSON_IsNumber(v) && !cJSON_IsNull(v)))
        FL_FAIL(FL_ERR_CORRUPT, "%s: \"%s\" is not there, or no number", where,
                key);
    *out = cJSON_IsNull(v) ? (double)NAN : v->valuedouble;
    return FL_OK;
}

static fl_status read_counts(const cJSON *from, const char *where,
                             fl_pass_counts *c)
{
    FL_TRY(read_kind(from, where, "train", "infer", &c->is_infer));
    FL_TRY(fl_json_in_u64(from, "samples", where, &c->samples));
    FL_TRY(fl_json_in_u64(from, "batches", where, &c->batches));
    FL_TRY(read_f64(from, "seconds", where, &c->seconds));
    FL_TRY(read_f64(from, "loss_sum", where, &c->loss_sum));
    return read_f64(from, "auc", where, &c->auc);
}

static fl_status read_range(const cJSON *pair, const char *where,
                            fl_ranges *out)
{
    uint64_t after = out->len ? out->data[out->len - 1].hi + 1 : 0;
    uint64_t lo, hi;

    if (!cJSON_IsArray(pair) || cJSON_GetArraySize(pair) != 2)
        FL_FAIL(FL_ERR_CORRUPT, "%s: a range in \"trained\" is not two numbers",
                where);
    FL_TRY(fl_json_in_number(pair->child, "trained", where, &lo));
    FL_TRY(fl_json_in_number(pair->child->next, "trained", where, &hi));
    if (lo < after || lo >= hi)
        FL_FAIL(FL_ERR_CORRUPT,
                "%s: the ranges in \"trained\" are not in ascending order",
                where);
    fl_ranges_add(out, lo, hi);
    return FL_OK;
}

static fl_status read_ranges(const cJSON *from, const char *where,
                             fl_ranges *out)
{
    const cJSON *list, *pair;

    FL_TRY(fl_json_in_array(from, "trained", where, &list));
    cJSON_ArrayForEach(pair, list) FL_TRY(read_range(pair, where, out));
    return FL_OK;
}

static fl_status read_bool(const cJSON *from, const char *key,
                           const char *where, bool *out)
{
    const cJSON *v = fl_json_in_find(from, key);

    if (!v || !cJSON_IsBool(v))
        FL_FAIL(FL_ERR_CORRUPT, "%s: \"%s\" is not there, or no boolean", where,
                key);
    *out = cJSON_IsTrue(v);
    return FL_OK;
}

static fl_status read_file(const cJSON *from, const char *where, fl_position *p)
{
    fl_file_position *f;
    const char *path;

    FL_TRY(fl_json_in_text(from, "path", where, &path));
    f = fl_position_add(p, path);
    FL_TRY(read_bool(from, "done", where, &f->is_done));
    FL_TRY(read_bool(from, "cached", where, &f->is_cached));
    return read_ranges(from, where, &f->trained);
}

static fl_status read_position(const cJSON *from, const char *where,
                               fl_position *p)
{
    const cJSON *list, *file;

    FL_TRY(read_kind(from, where, "queue", "memory", &p->in_memory));
    FL_TRY(read_bool(from, "dispatched", where, &p->is_dispatched));
    FL_TRY(fl_json_in_u64(from, "pass", where, &p->pass));
    FL_TRY(fl_json_in_u64(from, "shuffles", where, &p->n_shuffles));
    FL_TRY(fl_json_in_u64(from, "records", where, &p->n_records));
    FL_TRY(read_ranges(from, where, &p->trained));
    FL_TRY(fl_json_in_array(from, "files", where, &list));
    cJSON_ArrayForEach(file, list) FL_TRY(read_file(file, where, p));
    return FL_OK;
}

static fl_status read_now(const cJSON *root, const char *where,
                          fl_passes_state *s)
{
    const cJSON *now, *data;

    s->has_now = fl_json_in_find(root, "now") != NULL;
    if (!s->has_now)
        return FL_OK;
    FL_TRY(fl_json_in_object(root, "now", where, &now));
    FL_TRY(read_counts(now, where, &s->now));
    FL_TRY(fl_json_in_object(root, "data", where, &data));
    return read_position(data, where, &s->position);
}

static fl_status read_state(const cJSON *root, const char *where,
                            fl_passes_state *s)
{
    const cJSON *list, *one;
    uint64_t format;

    FL_TRY(fl_json_in_u64(root, "format", where, &format));
    if (format != FORMAT)
        FL_FAIL(FL_ERR_CORRUPT,
                "%s: positions of format %llu cannot be read, only those of "
                "format %d; take a newer version of the library",
                where, (unsigned long long)format, FORMAT);
    FL_TRY(fl_json_in_array(root, "passes", where, &list));
    cJSON_ArrayForEach(one, list)
    {
        fl_pass_counts c;

        FL_TRY(read_counts(one, where, &c));
        fl_vec_push(&s->done, c);
    }
    return read_now(root, where, s);
}

fl_status fl_passes_state_read(fl_passes_state *s, const char *text, size_t len,
                               const char *where)
{
    cJSON *root = NULL;
    fl_status st;

    FL_TRY(fl_json_in_parse(&root, text, len, where));
    st = read_state(root, where, s);
    cJSON_Delete(root);
    return st;
}
