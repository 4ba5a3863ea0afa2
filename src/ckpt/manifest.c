/* manifest.c - manifests in memory: made, filled, merged, printed. */
#include "ckpt/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

/* The largest number that every reader of JSON has exactly. */
#define EXACT_MAX ((uint64_t)1 << 53)

static const char *const kinds[] = {
    [FL_MANIFEST_FULL] = "full",
    [FL_MANIFEST_DELTA] = "delta",
    [FL_MANIFEST_INFERENCE] = "inference",
    [FL_MANIFEST_PART] = "part",
};

const char *fl_manifest_kind_text(fl_manifest_kind k)
{
    return kinds[k];
}

void fl_manifest_init(fl_manifest *m, fl_manifest_kind kind)
{
    *m = (fl_manifest){ .kind = kind, .id = "", .mode = "", .writer = "" };
    fl_arena_init(&m->arena, 4096);
}

void fl_manifest_release(fl_manifest *m)
{
    fl_vec_release(&m->files);
    fl_vec_release(&m->tables);
    fl_map_release(&m->by_file);
    fl_map_release(&m->by_table);
    fl_arena_release(&m->arena);
}

/* --- filling -------------------------------------------------------------- */

const char *fl_manifest_text(fl_manifest *m, const char *text)
{
    return fl_arena_strdup(&m->arena, text);
}

/* A copy of n elements in the arena; NULL of none. */
static void *copy_of(fl_manifest *m, const void *from, size_t n, size_t each)
{
    void *to = n ? fl_arena_alloc(&m->arena, n * each) : NULL;

    if (n)
        memcpy(to, from, n * each);
    return to;
}

static const char *const *copy_names(fl_manifest *m, const char *const *names,
                                     size_t n)
{
    const char **to = copy_of(m, names, n, sizeof(*to));

    for (size_t i = 0; i < n; i++)
        to[i] = fl_manifest_text(m, names[i]);
    return to;
}

void fl_manifest_set_inference(fl_manifest *m, const char *const *feeds,
                               size_t n_feeds, const char *const *targets,
                               size_t n_targets)
{
    m->feeds = copy_names(m, feeds, n_feeds);
    m->n_feeds = n_feeds;
    m->targets = copy_names(m, targets, n_targets);
    m->n_targets = n_targets;
}

/* A map has pointers for values: the place of an entry, counted from 1. */
static void *place(size_t n)
{
    return (void *)(uintptr_t)n;
}

void fl_manifest_take_file(fl_manifest *m, const fl_manifest_file *f)
{
    fl_vec_push(&m->files, *f);
    fl_map_put(&m->by_file, f->name, place(m->files.len));
}

void fl_manifest_take_table(fl_manifest *m, const fl_manifest_table *t)
{
    fl_vec_push(&m->tables, *t);
    fl_map_put(&m->by_table, t->name, place(m->tables.len));
}

void fl_manifest_add_file(fl_manifest *m, const char *name, uint64_t bytes,
                          uint64_t xxh3)
{
    fl_manifest_file f = { .name = fl_manifest_text(m, name),
                           .bytes = bytes,
                           .xxh3 = xxh3 };

    fl_manifest_take_file(m, &f);
}

void fl_manifest_add_tensors(fl_manifest *m, const fl_manifest_file *file,
                             const uint64_t *sums)
{
    fl_st_tensor *to = copy_of(m, file->tensors, file->n_tensors, sizeof(*to));
    fl_manifest_file f = { .name = fl_manifest_text(m, file->name),
                           .bytes = file->bytes,
                           .has_tensors = true,
                           .tensors = to,
                           .n_tensors = file->n_tensors };

    for (size_t i = 0; i < f.n_tensors; i++) {
        to[i].name = fl_manifest_text(m, to[i].name);
        to[i].xxh3 = sums[i];
    }
    fl_manifest_take_file(m, &f);
}

static const fl_manifest_field *copy_fields(fl_manifest *m,
                                            const fl_manifest_table *t)
{
    fl_manifest_field *to = copy_of(m, t->fields, t->n_fields, sizeof(*to));

    for (size_t i = 0; i < t->n_fields; i++)
        to[i].name = fl_manifest_text(m, to[i].name);
    return to;
}

/* Those of a behind those of b, in the order of their shards. */
static const fl_manifest_shards *join_shards(fl_manifest *m,
                                             const fl_manifest_table *a,
                                             const fl_manifest_table *b)
{
    size_t n = a->n_files + b->n_files, na = 0, nb = 0;
    fl_manifest_shards *to = fl_arena_alloc(&m->arena, n * sizeof(*to) + 1);

    for (size_t i = 0; i < n; i++) {
        bool is_a =
            nb == b->n_files ||
            (na < a->n_files && a->files[na].first < b->files[nb].first);

        to[i] = is_a ? a->files[na++] : b->files[nb++];
        to[i].file = fl_manifest_text(m, to[i].file);
    }
    return to;
}

void fl_manifest_add_table(fl_manifest *m, const fl_manifest_table *t)
{
    static const fl_manifest_table none;
    fl_manifest_table to = *t;

    to.name = fl_manifest_text(m, t->name);
    to.settings = fl_manifest_text(m, t->settings);
    to.accessor = fl_manifest_text(m, t->accessor);
    to.fields = copy_fields(m, t);
    to.days = copy_of(m, t->days, t->n_days, sizeof(*t->days));
    to.scalars = copy_of(m, t->scalars, t->n_scalars, sizeof(*t->scalars));
    to.files = join_shards(m, t, &none);
    fl_manifest_take_table(m, &to);
}

/* --- finding -------------------------------------------------------------- */

const fl_manifest_file *fl_manifest_find_file(const fl_manifest *m,
                                              const char *name)
{
    uintptr_t at = (uintptr_t)fl_map_find(&m->by_file, name);

    return at ? &m->files.data[at - 1] : NULL;
}

static fl_manifest_table *table_of(const fl_manifest *m, const char *name)
{
    uintptr_t at = (uintptr_t)fl_map_find(&m->by_table, name);

    return at ? &m->tables.data[at - 1] : NULL;
}

const fl_manifest_table *fl_manifest_find_table(const fl_manifest *m,
                                                const char *name)
{
    return table_of(m, name);
}

/* --- merging -------------------------------------------------------------- */

static bool same_fields(const fl_manifest_table *a, const fl_manifest_table *b)
{
    if (a->n_fields != b->n_fields)
        return false;
    for (size_t i = 0; i < a->n_fields; i++)
        if (strcmp(a->fields[i].name, b->fields[i].name) != 0 ||
            a->fields[i].len != b->fields[i].len)
            return false;
    return true;
}

/* By bits: a number that is none equals itself. */
static bool same_numbers(const void *a, size_t n_a, const void *b, size_t n_b,
                         size_t each)
{
    return n_a == n_b && (!n_a || !memcmp(a, b, n_a * each));
}

/* What two writers say differently of one table; NULL: nothing. */
static const char *difference(const fl_manifest_table *a,
                              const fl_manifest_table *b)
{
    const struct {
        const char *what;
        bool is_same;
    } checks[] = {
        { "settings", !strcmp(a->settings, b->settings) },
        { "accessor", !strcmp(a->accessor, b->accessor) },
        { "seed", a->seed == b->seed },
        { "fields", same_fields(a, b) },
        { "epoch", a->epoch == b->epoch },
        { "days", same_numbers(a->days, a->n_days, b->days, b->n_days,
                               sizeof(*a->days)) },
        { "scalars", same_numbers(a->scalars, a->n_scalars, b->scalars,
                                  b->n_scalars, sizeof(*a->scalars)) },
    };

    for (size_t i = 0; i < FL_LEN(checks); i++)
        if (!checks[i].is_same)
            return checks[i].what;
    return NULL;
}

static fl_status merge_table(fl_manifest *m, const fl_manifest_table *part)
{
    fl_manifest_table *t = table_of(m, part->name);
    const char *what;

    if (!t) {
        fl_manifest_add_table(m, part);
        return FL_OK;
    }
    what = difference(t, part);
    if (what)
        FL_FAIL(FL_ERR_INVAL,
                "two parts of table %s have different %s; they are not of one "
                "moment",
                part->name, what);
    t->files = join_shards(m, t, part);
    t->n_files += part->n_files;
    t->rows += part->rows;
    t->short_rows += part->short_rows;
    t->candidates += part->candidates;
    return FL_OK;
}

static void merge_file(fl_manifest *m, const fl_manifest_file *f)
{
    FL_VEC(uint64_t) sums = { 0 };

    if (!f->has_tensors) {
        fl_manifest_add_file(m, f->name, f->bytes, f->xxh3);
        return;
    }
    for (size_t i = 0; i < f->n_tensors; i++)
        fl_vec_push(&sums, f->tensors[i].xxh3);
    fl_manifest_add_tensors(m, f, sums.data);
    fl_vec_release(&sums);
}

fl_status fl_manifest_merge(fl_manifest *m, const fl_manifest *part)
{
    for (size_t i = 0; i < part->files.len; i++)
        if (fl_manifest_find_file(m, part->files.data[i].name))
            FL_FAIL(FL_ERR_EXISTS, "two parts have a file called %s",
                    part->files.data[i].name);
    for (size_t i = 0; i < part->tables.len; i++)
        FL_TRY(merge_table(m, &part->tables.data[i]));
    for (size_t i = 0; i < part->files.len; i++)
        merge_file(m, &part->files.data[i]);
    return FL_OK;
}

/* --- printing ------------------------------------------------------------- */

static void print_sum(fl_json *j, uint64_t sum)
{
    char hex[17];

    (void)snprintf(hex, sizeof(hex), "%016" PRIx64, sum);
    fl_json_text(j, "xxh3", hex);
}

/* As text: a reader may keep numbers as doubles. */
static void print_large(fl_json *j, const char *key, uint64_t value)
{
    char digits[24];

    (void)snprintf(digits, sizeof(digits), "%" PRIu64, value);
    fl_json_text(j, key, digits);
}

static void print_u64(fl_json *j, const char *key, uint64_t value)
{
    if (value > EXACT_MAX)
        print_large(j, key, value);
    else
        fl_json_u64(j, key, value);
}

static void print_tensor(fl_json *j, const fl_st_tensor *t)
{
    fl_json_object(j, NULL);
    fl_json_text(j, "name", t->name);
    fl_json_text(j, "type", fl_st_type_text(t->type));
    fl_json_array(j, "shape");
    for (int i = 0; i < t->shape.rank; i++)
        fl_json_i64(j, NULL, t->shape.dim[i]);
    fl_json_end(j);
    print_sum(j, t->xxh3);
    fl_json_end(j);
}

static void print_file(fl_json *j, const fl_manifest_file *f)
{
    fl_json_object(j, NULL);
    fl_json_text(j, "name", f->name);
    print_u64(j, "bytes", f->bytes);
    if (f->has_tensors) {
        fl_json_array(j, "tensors");
        for (size_t i = 0; i < f->n_tensors; i++)
            print_tensor(j, &f->tensors[i]);
        fl_json_end(j);
    } else {
        print_sum(j, f->xxh3);
    }
    fl_json_end(j);
}

static void print_row(fl_json *j, const fl_manifest_table *t)
{
    fl_json_array(j, "fields");
    for (size_t i = 0; i < t->n_fields; i++) {
        fl_json_object(j, NULL);
        fl_json_text(j, "name", t->fields[i].name);
        fl_json_u64(j, "len", t->fields[i].len);
        fl_json_end(j);
    }
    fl_json_end(j);
    print_u64(j, "rows", t->rows);
    print_u64(j, "short_rows", t->short_rows);
    print_u64(j, "candidates", t->candidates);
}

static void print_state(fl_json *j, const fl_manifest_table *t)
{
    fl_json_u64(j, "epoch", t->epoch);
    fl_json_array(j, "days");
    for (size_t i = 0; i < t->n_days; i++)
        fl_json_u64(j, NULL, t->days[i]);
    fl_json_end(j);
    fl_json_array(j, "scalars");
    for (size_t i = 0; i < t->n_scalars; i++)
        fl_json_f64(j, NULL, t->scalars[i]);
    fl_json_end(j);
}

static void print_table(fl_json *j, const fl_manifest_table *t)
{
    fl_json_object(j, NULL);
    fl_json_text(j, "name", t->name);
    fl_json_text(j, "settings", t->settings);
    fl_json_text(j, "accessor", t->accessor);
    print_large(j, "seed", t->seed);
    print_row(j, t);
    print_state(j, t);
    fl_json_array(j, "files");
    for (size_t i = 0; i < t->n_files; i++) {
        fl_json_object(j, NULL);
        fl_json_text(j, "name", t->files[i].file);
        fl_json_u64(j, "first", t->files[i].first);
        fl_json_u64(j, "last", t->files[i].last);
        fl_json_end(j);
    }
    fl_json_end(j);
    fl_json_end(j);
}

static void print_names(fl_json *j, const char *key, const char *const *names,
                        size_t n)
{
    fl_json_array(j, key);
    for (size_t i = 0; i < n; i++)
        fl_json_text(j, NULL, names[i]);
    fl_json_end(j);
}

static void print_head(fl_json *j, const fl_manifest *m)
{
    fl_json_u64(j, "format", FL_MANIFEST_FORMAT);
    fl_json_text(j, "kind", kinds[m->kind]);
    fl_json_text(j, "id", m->id);
    if (m->kind == FL_MANIFEST_DELTA)
        fl_json_text(j, "base", m->base);
    fl_json_text(j, "writer", m->writer);
    print_u64(j, "time", m->time);
    print_u64(j, "step", m->step);
    fl_json_text(j, "mode", m->mode);
    print_large(j, "seed", m->seed);
    fl_json_object(j, "program_versions");
    print_u64(j, "main", m->main_version);
    print_u64(j, "startup", m->startup_version);
    fl_json_end(j);
    if (m->kind != FL_MANIFEST_INFERENCE)
        return;
    print_names(j, "feeds", m->feeds, m->n_feeds);
    print_names(j, "targets", m->targets, m->n_targets);
    fl_json_text(j, "passes", m->passes ? m->passes : "");
}

char *fl_manifest_print(const fl_manifest *m)
{
    fl_json j = { 0 };

    fl_json_object(&j, NULL);
    print_head(&j, m);
    fl_json_array(&j, "files");
    for (size_t i = 0; i < m->files.len; i++)
        print_file(&j, &m->files.data[i]);
    fl_json_end(&j);
    fl_json_array(&j, "tables");
    for (size_t i = 0; i < m->tables.len; i++)
        print_table(&j, &m->tables.data[i]);
    fl_json_end(&j);
    fl_json_end(&j);
    fl_str_add(&j.out, "\n");
    return fl_json_take(&j);
}
