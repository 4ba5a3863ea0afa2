/* table_map.c - the table of a saved version, searched where it lies.
 *
 * Within a shard n keys are spread evenly over its hashes, so the first guess
 * is off by about the root of n, the second by a few: two lines of memory for
 * each key. Keys of a group are searched in step, a probe each at a time, so
 * that their waits overlap. After some rounds a search only halves what is
 * left, so that keys which were chosen to deceive it cost little more.
 *
 * The number of a row: file << 40 | is_short << 39 | place in its group.
 */
#include "ckpt/table_map.h"

#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "ckpt/table_columns.h"

#define GROUP 32
#define GUESSES 6 /* rounds of interpolation */
#define FILE_BIT 40
#define SHORT_BIT 39
#define PLACE_MASK ((UINT64_C(1) << SHORT_BIT) - 1)
#define FILES_MAX FL_TABLE_SHARDS
#define NO_FILE UINT16_MAX
#define LINE_FLOATS 16

/* A field of the value. */
typedef struct piece {
    int field;
    uint32_t at, len; /* in the value */
} piece;

struct fl_table_map {
    char *name, *settings;
    fl_table_config config;
    const fl_accessor *accessor;
    fl_acc_ctx acc;
    fl_row_file *files;
    size_t n_files;
    uint16_t by_shard[FL_TABLE_SHARDS];
    piece pieces[FL_ROW_FIELDS_MAX];
    int n_pieces;
    uint64_t n_rows;
};

/* --- opening -------------------------------------------------------------- */

static fl_status read_config(fl_table_map *m, const fl_manifest_table *t)
{
    uint32_t at = 0;

    m->name = fl_strdup(t->name);
    m->settings = fl_strdup(t->settings);
    FL_TRY(fl_table_config_parse(&m->config, m->name, m->settings, t->seed));
    m->accessor = fl_accessor_of(&m->config, &m->acc);
    for (int i = 0; i < m->acc.layout.n_fields; i++) {
        const fl_row_field *f = &m->acc.layout.fields[i];

        if (f->role != FL_FIELD_VALUE)
            continue;
        m->pieces[m->n_pieces++] = (piece){ i, at, f->len };
        at += f->len;
    }
    FL_ASSERT(at == m->config.dim);
    return FL_OK;
}

/* Values have the width that the settings say. */
static fl_status check_values(const fl_table_map *m, const fl_row_file *f,
                              fl_cut_kind kind)
{
    const fl_row_group *g = &f->groups[kind];

    for (int i = 0; i < m->n_pieces && g->keys; i++) {
        const fl_row_field *field = &m->acc.layout.fields[m->pieces[i].field];
        bool has_it =
            kind == FL_CUT_FULL || field->offset < m->acc.layout.short_bytes;

        if (has_it && (!g->fields[m->pieces[i].field] ||
                       g->lens[m->pieces[i].field] != field->len))
            FL_FAIL(FL_ERR_CORRUPT, "%s has no %s of %u numbers",
                    fl_st_path(f->file), field->name, field->len);
    }
    return FL_OK;
}

static fl_status claim_shards(fl_table_map *m, size_t file)
{
    const fl_row_file *f = &m->files[file];

    for (uint32_t s = f->first; s <= f->last; s++) {
        if (m->by_shard[s] != NO_FILE)
            FL_FAIL(FL_ERR_CORRUPT, "%s: shard %u is in %s as well",
                    fl_st_path(f->file), s,
                    fl_st_path(m->files[m->by_shard[s]].file));
        m->by_shard[s] = (uint16_t)file;
    }
    return FL_OK;
}

static fl_status open_file(fl_table_map *m, const fl_model_version *v,
                           const fl_manifest_shards *where)
{
    fl_row_file *f = &m->files[m->n_files];

    FL_TRY(fl_row_file_open(f, v, where, &m->acc.layout));
    m->n_files++;
    FL_TRY(check_values(m, f, FL_CUT_FULL));
    FL_TRY(check_values(m, f, FL_CUT_SHORT));
    m->n_rows += f->groups[FL_CUT_FULL].n + f->groups[FL_CUT_SHORT].n;
    return claim_shards(m, m->n_files - 1);
}

static fl_status open_files(fl_table_map *m, const fl_model_version *v,
                            const fl_manifest_table *t)
{
    memset(m->by_shard, 0xff, sizeof(m->by_shard));
    if (t->n_files > FILES_MAX)
        FL_FAIL(FL_ERR_CORRUPT, "%s: table %s has %zu files", v->path, t->name,
                t->n_files);
    m->files = fl_alloc(sizeof(*m->files) * (t->n_files + 1));
    for (size_t i = 0; i < t->n_files; i++)
        FL_TRY(open_file(m, v, &t->files[i]));
    for (uint32_t s = 0; s < FL_TABLE_SHARDS; s++)
        if (m->by_shard[s] == NO_FILE)
            FL_FAIL(FL_ERR_CORRUPT, "%s has no file for shard %u of table %s",
                    v->path, s, t->name);
    return FL_OK;
}

fl_status fl_table_map_open(fl_table_map **out, const fl_model_version *v,
                            const char *name)
{
    const fl_manifest_table *t;
    fl_table_map *m;
    fl_status st;

    FL_TRY(fl_version_table(v, name, &t));
    m = fl_alloc(sizeof(*m));
    st = read_config(m, t);
    if (!st)
        st = open_files(m, v, t);
    if (st)
        fl_table_map_close(m);
    else
        *out = m;
    return st;
}

void fl_table_map_close(fl_table_map *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n_files; i++)
        fl_row_file_close(&m->files[i]);
    fl_free(m->files);
    fl_free(m->name);
    fl_free(m->settings);
    fl_free(m);
}

const fl_table_config *fl_table_map_config(const fl_table_map *m)
{
    return &m->config;
}

uint64_t fl_table_map_rows(const fl_table_map *m)
{
    return m->n_rows;
}

/* --- finding -------------------------------------------------------------- */

/* A key that is looked for: it can only be among keys [lo, hi), which lie
   between the hashes lo_hash and hi_hash. */
typedef struct search {
    const uint64_t *keys;
    uint64_t hash, lo_hash, hi_hash;
    uint64_t lo, hi, at;
    uint32_t number; /* of the key in its batch */
} search;

/* Where the key is by its hash; halfway when that has not led there. Hashes of
   a shard differ by less than the sign, unless the file is damaged: any place
   will do then. */
static inline void guess(search *s, bool halve)
{
    uint64_t n = s->hi - s->lo;
    double part = (double)(int64_t)(s->hash - s->lo_hash) /
                  ((double)(int64_t)(s->hi_hash - s->lo_hash) + 1);
    double off = part * (double)n;

    if (halve)
        s->at = s->lo + n / 2;
    else
        s->at = s->lo +
                (off >= 0 && off < (double)n ? (uint64_t)(int64_t)off : n - 1);
    __builtin_prefetch(&s->keys[s->at]);
}

/* One probe. True when the search has ended, *place says with what. */
static inline bool probe(search *s, bool halve, uint64_t *place)
{
    uint64_t hash = fl_hash_key(s->keys[s->at]);

    *place = hash == s->hash ? s->at : FL_MAP_NONE;
    if (hash == s->hash)
        return true;
    if (hash < s->hash) {
        s->lo = s->at + 1;
        s->lo_hash = hash;
    } else {
        s->hi = s->at;
        s->hi_hash = hash;
    }
    if (s->lo >= s->hi)
        return true;
    guess(s, halve);
    return false;
}

/* False when the group has no keys of that shard. */
static bool start(search *s, const fl_row_file *f, fl_cut_kind kind,
                  uint64_t hash)
{
    const fl_row_group *g = &f->groups[kind];
    uint32_t shard = fl_hash_shard(hash);

    if (!g->keys)
        return false;
    s->keys = g->keys;
    s->hash = hash;
    s->lo = g->shards[shard - f->first];
    s->hi = g->shards[shard - f->first + 1];
    s->lo_hash = shard * FL_SHARD_WIDTH;
    s->hi_hash = s->lo_hash + (FL_SHARD_WIDTH - 1);
    if (s->lo >= s->hi)
        return false;
    guess(s, false);
    return true;
}

static uint64_t row_number(uint64_t file, fl_cut_kind kind, uint64_t place)
{
    if (kind == FL_CUT_GONE)
        return FL_MAP_GONE;
    return file << FILE_BIT | (uint64_t)(kind == FL_CUT_SHORT) << SHORT_BIT |
           place;
}

/* Looks for those keys of a group that have not been found among keys of a
   kind; returns how many of them are. */
static size_t find_kind(const fl_table_map *m, const uint64_t *keys, size_t n,
                        fl_cut_kind kind, uint64_t *rows)
{
    search all[GROUP];
    size_t n_all = 0, n_found = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t hash = fl_hash_key(keys[i]);
        search *s = &all[n_all];

        s->number = i;
        n_all +=
            rows[i] == FL_MAP_NONE &&
            start(s, &m->files[m->by_shard[fl_hash_shard(hash)]], kind, hash);
    }
    for (int round = 0; n_all; round++) {
        size_t left = 0;

        for (size_t i = 0; i < n_all; i++) {
            uint64_t place;

            if (!probe(&all[i], round >= GUESSES, &place)) {
                all[left++] = all[i];
                continue;
            }
            if (place == FL_MAP_NONE)
                continue;
            rows[all[i].number] = row_number(
                m->by_shard[fl_hash_shard(all[i].hash)], kind, place);
            n_found++;
        }
        n_all = left;
    }
    return n_found;
}

void fl_table_map_find(const fl_table_map *m, const uint64_t *keys, size_t n,
                       uint64_t *rows)
{
    static const fl_cut_kind order[] = { FL_CUT_FULL, FL_CUT_SHORT,
                                         FL_CUT_GONE };

    for (size_t lo = 0; lo < n; lo += GROUP) {
        size_t len = n - lo < GROUP ? n - lo : GROUP, left = len;

        for (size_t i = 0; i < len; i++)
            rows[lo + i] = FL_MAP_NONE;
        for (size_t k = 0; k < FL_LEN(order) && left; k++)
            left -= find_kind(m, keys + lo, len, order[k], rows + lo);
    }
}

/* --- values --------------------------------------------------------------- */

static inline const fl_row_group *group_of(const fl_table_map *m, uint64_t row,
                                           uint64_t *place)
{
    const fl_row_file *f = &m->files[row >> FILE_BIT];

    *place = row & PLACE_MASK;
    return &f->groups[row >> SHORT_BIT & 1 ? FL_CUT_SHORT : FL_CUT_FULL];
}

/* A row in its short form has zeros where it has nothing. */
void fl_table_map_value(const fl_table_map *m, uint64_t row, float *out)
{
    uint64_t place;
    const fl_row_group *g = group_of(m, row, &place);

    for (int i = 0; i < m->n_pieces; i++) {
        const piece *p = &m->pieces[i];
        const float *from = g->fields[p->field];

        if (from)
            memcpy(out + p->at, from + place * p->len, p->len * sizeof(*out));
        else
            memset(out + p->at, 0, p->len * sizeof(*out));
    }
}

/* The value of a key without a row: what the table's rule says. */
static void first_values(const fl_table_map *m, uint64_t key, float *out)
{
    m->accessor->pull(&m->acc, key, NULL, false, out);
}

/* NULL: the row is in pieces, or has not all of them. */
static inline const float *whole_value(const fl_table_map *m, uint64_t row)
{
    uint64_t place;
    const fl_row_group *g = group_of(m, row, &place);
    const float *values = g->fields[m->pieces[0].field];

    return m->n_pieces == 1 && values ? values + place * m->pieces[0].len
                                      : NULL;
}

/* A row of up to 64 bytes lies in one line or in two; of a longer one the
   processor fetches the rest itself. */
static inline void ask_value(const float *value, uint32_t dim)
{
    __builtin_prefetch(value);
    __builtin_prefetch(value + (dim < LINE_FLOATS ? dim - 1 : LINE_FLOATS));
}

/* Returns whether the key has a row. */
static inline bool look_one(const fl_table_map *m, uint64_t key, uint64_t row,
                            float *room, const float **value)
{
    bool has_row = row < FL_MAP_GONE;

    *value = has_row ? whole_value(m, row) : NULL;
    if (*value) {
        ask_value(*value, m->config.dim);
        return true;
    }
    *value = room;
    if (has_row)
        fl_table_map_value(m, row, room);
    else
        first_values(m, key, room);
    return has_row;
}

size_t fl_table_map_look(const fl_table_map *m, const uint64_t *keys, size_t n,
                         float *room, const float **values)
{
    size_t n_missing = 0;
    uint64_t rows[GROUP];

    for (size_t lo = 0; lo < n; lo += GROUP) {
        size_t len = n - lo < GROUP ? n - lo : GROUP;

        fl_table_map_find(m, keys + lo, len, rows);
        for (size_t i = lo; i < lo + len; i++)
            n_missing += !look_one(m, keys[i], rows[i - lo],
                                   room + i * m->config.dim, &values[i]);
    }
    return n_missing;
}

void fl_table_map_each(const fl_table_map *m, uint32_t shard, fl_map_fn fn,
                       void *arg)
{
    static const fl_cut_kind order[] = { FL_CUT_GONE, FL_CUT_FULL,
                                         FL_CUT_SHORT };
    uint16_t file = m->by_shard[shard];
    const fl_row_file *f = &m->files[file];

    for (size_t k = 0; k < FL_LEN(order); k++) {
        const fl_row_group *g = &f->groups[order[k]];

        for (uint64_t i = g->keys ? g->shards[shard - f->first] : 0;
             g->keys && i < g->shards[shard - f->first + 1]; i++)
            fn(arg, g->keys[i], row_number(file, order[k], i));
    }
}
