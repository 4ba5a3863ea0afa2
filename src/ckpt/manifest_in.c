/* manifest_in.c - reading manifests, which may be damaged or hostile. */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "ckpt/json_in.h"
#include "ckpt/manifest.h"

/* What is being read. */
typedef struct reading {
    fl_manifest *m;
    const char *where;
} reading;

static void *room_for(const reading *r, const cJSON *array, size_t each)
{
    size_t n = (size_t)cJSON_GetArraySize(array);

    return fl_arena_alloc(&r->m->arena, n * each + 1);
}

/* A copy of a text that must be there. */
static fl_status read_text(const reading *r, const cJSON *from, const char *key,
                           const char **out)
{
    const char *text;

    FL_TRY(fl_json_in_text(from, key, r->where, &text));
    *out = fl_manifest_text(r->m, text);
    return FL_OK;
}

static fl_status read_u32(const reading *r, const cJSON *from, const char *key,
                          uint32_t *out)
{
    uint64_t n;

    FL_TRY(fl_json_in_u64(from, key, r->where, &n));
    if (n > UINT32_MAX)
        FL_FAIL(FL_ERR_CORRUPT, "%s: the field \"%s\" is too large", r->where,
                key);
    *out = (uint32_t)n;
    return FL_OK;
}

/* What names of ours are made of: ASCII that can be seen. */
static bool is_plain(const char *name)
{
    for (const char *c = name; *c; c++)
        if (*c <= ' ' || *c > '~')
            return false;
    return *name;
}

/* Plain characters; parts between slashes that neither are empty nor lead
   up. */
bool fl_manifest_is_inside(const char *name)
{
    if (!is_plain(name))
        return false;
    for (;;) {
        size_t n = strcspn(name, "/");

        if (n == 0 || !strncmp(name, "..", n > 2 ? n : 2) ||
            !strncmp(name, ".", n > 1 ? n : 1))
            return false;
        if (!name[n])
            return true;
        name += n + 1;
    }
}

/* --- files ---------------------------------------------------------------- */

static fl_status read_tensor(const reading *r, const cJSON *from,
                             fl_st_tensor *t)
{
    const char *type;

    FL_TRY(read_text(r, from, "name", &t->name));
    FL_TRY(fl_json_in_text(from, "type", r->where, &type));
    if (!fl_st_type_parse(type, &t->type))
        FL_FAIL(FL_ERR_UNSUPPORTED, "%s: tensor %s is of the unknown type %s",
                r->where, t->name, type);
    FL_TRY(fl_json_in_shape(from, t->name, r->where, &t->shape));
    if (fl_st_tensor_bytes(t, &t->bytes))
        FL_FAIL(FL_ERR_CORRUPT, "%s: tensor %s is larger than any file",
                r->where, t->name);
    return fl_json_in_hex(from, "xxh3", r->where, &t->xxh3);
}

static fl_status read_tensors(const reading *r, const cJSON *from,
                              fl_manifest_file *f)
{
    const cJSON *array, *item;
    fl_st_tensor *t;

    FL_TRY(fl_json_in_array(from, "tensors", r->where, &array));
    f->has_tensors = true;
    f->tensors = t = room_for(r, array, sizeof(*t));
    cJSON_ArrayForEach(item, array)
    {
        FL_TRY(read_tensor(r, item, &t[f->n_tensors]));
        f->n_tensors++;
    }
    return FL_OK;
}

static fl_status read_file(const reading *r, const cJSON *from)
{
    fl_manifest_file f = { 0 };

    FL_TRY(read_text(r, from, "name", &f.name));
    if (!fl_manifest_is_inside(f.name))
        FL_FAIL(FL_ERR_CORRUPT, "%s names a file outside of the version: '%s'",
                r->where, f.name);
    if (fl_manifest_find_file(r->m, f.name))
        FL_FAIL(FL_ERR_CORRUPT, "%s names the file %s twice", r->where, f.name);
    FL_TRY(fl_json_in_u64(from, "bytes", r->where, &f.bytes));
    if (fl_json_in_find(from, "tensors"))
        FL_TRY(read_tensors(r, from, &f));
    else
        FL_TRY(fl_json_in_hex(from, "xxh3", r->where, &f.xxh3));
    fl_manifest_take_file(r->m, &f);
    return FL_OK;
}

/* --- tables --------------------------------------------------------------- */

static fl_status read_fields(const reading *r, const cJSON *from,
                             fl_manifest_table *t)
{
    const cJSON *array, *item;
    fl_manifest_field *f;

    FL_TRY(fl_json_in_array(from, "fields", r->where, &array));
    t->fields = f = room_for(r, array, sizeof(*f));
    cJSON_ArrayForEach(item, array)
    {
        FL_TRY(read_text(r, item, "name", &f[t->n_fields].name));
        FL_TRY(read_u32(r, item, "len", &f[t->n_fields].len));
        t->n_fields++;
    }
    return FL_OK;
}

static fl_status read_days(const reading *r, const cJSON *from,
                           fl_manifest_table *t)
{
    const cJSON *array, *item;
    uint32_t *days;
    uint64_t day;

    FL_TRY(fl_json_in_array(from, "days", r->where, &array));
    t->days = days = room_for(r, array, sizeof(*days));
    cJSON_ArrayForEach(item, array)
    {
        FL_TRY(fl_json_in_number(item, "days", r->where, &day));
        if (day > UINT32_MAX)
            FL_FAIL(FL_ERR_CORRUPT, "%s: a day of table %s is no epoch",
                    r->where, t->name);
        days[t->n_days++] = (uint32_t)day;
    }
    return FL_OK;
}

static fl_status read_scalars(const reading *r, const cJSON *from,
                              fl_manifest_table *t)
{
    const cJSON *array, *item;
    double *scalars;

    FL_TRY(fl_json_in_array(from, "scalars", r->where, &array));
    t->scalars = scalars = room_for(r, array, sizeof(*scalars));
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble))
            FL_FAIL(FL_ERR_CORRUPT, "%s: a scalar of table %s is no number",
                    r->where, t->name);
        scalars[t->n_scalars++] = item->valuedouble;
    }
    return FL_OK;
}

static fl_status read_shards(const reading *r, const cJSON *from,
                             fl_manifest_shards *s)
{
    FL_TRY(read_text(r, from, "name", &s->file));
    FL_TRY(read_u32(r, from, "first", &s->first));
    FL_TRY(read_u32(r, from, "last", &s->last));
    if (!fl_manifest_find_file(r->m, s->file))
        FL_FAIL(FL_ERR_CORRUPT, "%s: %s is not among the files", r->where,
                s->file);
    if (s->first > s->last || s->last >= FL_SHARDS)
        FL_FAIL(FL_ERR_CORRUPT, "%s: %s cannot have the shards %u to %u",
                r->where, s->file, s->first, s->last);
    return FL_OK;
}

/* The shards of a table ascend; all of them are there, unless it is a part. */
static fl_status check_shards(const reading *r, const fl_manifest_table *t)
{
    bool is_part = r->m->kind == FL_MANIFEST_PART;
    uint32_t next = 0;

    for (size_t i = 0; i < t->n_files; i++) {
        const fl_manifest_shards *s = &t->files[i];

        if (s->first < next || (s->first > next && !is_part))
            FL_FAIL(FL_ERR_CORRUPT,
                    "%s: table %s goes on with shard %u behind shard %u",
                    r->where, t->name, s->first, next);
        next = s->last + 1;
    }
    if (!is_part && next != FL_SHARDS)
        FL_FAIL(FL_ERR_CORRUPT, "%s: table %s has %u of %u shards", r->where,
                t->name, next, FL_SHARDS);
    return FL_OK;
}

static fl_status read_table_files(const reading *r, const cJSON *from,
                                  fl_manifest_table *t)
{
    const cJSON *array, *item;
    fl_manifest_shards *s;

    FL_TRY(fl_json_in_array(from, "files", r->where, &array));
    t->files = s = room_for(r, array, sizeof(*s));
    cJSON_ArrayForEach(item, array)
        FL_TRY(read_shards(r, item, &s[t->n_files++]));
    return check_shards(r, t);
}

static fl_status read_counts(const reading *r, const cJSON *from,
                             fl_manifest_table *t)
{
    FL_TRY(fl_json_in_u64(from, "seed", r->where, &t->seed));
    FL_TRY(fl_json_in_u64(from, "rows", r->where, &t->rows));
    FL_TRY(fl_json_in_u64(from, "short_rows", r->where, &t->short_rows));
    FL_TRY(fl_json_in_u64(from, "candidates", r->where, &t->candidates));
    return read_u32(r, from, "epoch", &t->epoch);
}

static fl_status read_table(const reading *r, const cJSON *from)
{
    fl_manifest_table t = { 0 };

    FL_TRY(read_text(r, from, "name", &t.name));
    if (!is_plain(t.name))
        FL_FAIL(FL_ERR_CORRUPT, "%s has a table without a name", r->where);
    if (fl_manifest_find_table(r->m, t.name))
        FL_FAIL(FL_ERR_CORRUPT, "%s has the table %s twice", r->where, t.name);
    FL_TRY(read_text(r, from, "settings", &t.settings));
    FL_TRY(read_text(r, from, "accessor", &t.accessor));
    FL_TRY(read_counts(r, from, &t));
    FL_TRY(read_fields(r, from, &t));
    FL_TRY(read_days(r, from, &t));
    FL_TRY(read_scalars(r, from, &t));
    FL_TRY(read_table_files(r, from, &t));
    fl_manifest_take_table(r->m, &t);
    return FL_OK;
}

/* --- the whole ------------------------------------------------------------ */

static fl_status read_kind(const reading *r, const cJSON *from)
{
    const char *kind;

    FL_TRY(fl_json_in_text(from, "kind", r->where, &kind));
    for (int k = FL_MANIFEST_FULL; k <= FL_MANIFEST_PART; k++)
        if (!strcmp(fl_manifest_kind_text((fl_manifest_kind)k), kind)) {
            r->m->kind = (fl_manifest_kind)k;
            return FL_OK;
        }
    FL_FAIL(FL_ERR_UNSUPPORTED,
            "%s is of the unknown kind '%s'; a newer version may read it",
            r->where, kind);
}

/* Later versions of format 1 only say more; another format is another story. */
static fl_status read_format(const reading *r, const cJSON *from)
{
    uint64_t format;

    FL_TRY(fl_json_in_u64(from, "format", r->where, &format));
    if (format != FL_MANIFEST_FORMAT)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "%s is of format %llu, this version reads format %d; take a "
                "version that knows it",
                r->where, (unsigned long long)format, FL_MANIFEST_FORMAT);
    return read_kind(r, from);
}

static fl_status read_versions(const reading *r, const cJSON *from)
{
    const cJSON *versions;

    FL_TRY(fl_json_in_object(from, "program_versions", r->where, &versions));
    FL_TRY(fl_json_in_u64(versions, "main", r->where, &r->m->main_version));
    return fl_json_in_u64(versions, "startup", r->where,
                          &r->m->startup_version);
}

static fl_status read_names(const reading *r, const cJSON *from,
                            const char *key, const char *const **names,
                            size_t *n)
{
    const cJSON *array, *item;
    const char **to;

    FL_TRY(fl_json_in_array(from, key, r->where, &array));
    *names = to = room_for(r, array, sizeof(*to));
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsString(item))
            FL_FAIL(FL_ERR_CORRUPT, "%s: \"%s\" has what is no name", r->where,
                    key);
        to[(*n)++] = fl_manifest_text(r->m, item->valuestring);
    }
    return FL_OK;
}

static fl_status read_inference(const reading *r, const cJSON *from)
{
    fl_manifest *m = r->m;

    FL_TRY(read_names(r, from, "feeds", &m->feeds, &m->n_feeds));
    FL_TRY(read_names(r, from, "targets", &m->targets, &m->n_targets));
    return read_text(r, from, "passes", &m->passes);
}

static fl_status read_head(const reading *r, const cJSON *from)
{
    fl_manifest *m = r->m;

    FL_TRY(read_format(r, from));
    FL_TRY(read_text(r, from, "id", &m->id));
    if (m->kind == FL_MANIFEST_DELTA)
        FL_TRY(read_text(r, from, "base", &m->base));
    FL_TRY(read_text(r, from, "writer", &m->writer));
    FL_TRY(read_text(r, from, "mode", &m->mode));
    FL_TRY(fl_json_in_u64(from, "time", r->where, &m->time));
    FL_TRY(fl_json_in_u64(from, "step", r->where, &m->step));
    FL_TRY(fl_json_in_u64(from, "seed", r->where, &m->seed));
    FL_TRY(read_versions(r, from));
    return m->kind == FL_MANIFEST_INFERENCE ? read_inference(r, from) : FL_OK;
}

static fl_status read_all(const reading *r, const cJSON *from)
{
    const cJSON *files, *tables, *item;

    FL_TRY(read_head(r, from));
    FL_TRY(fl_json_in_array(from, "files", r->where, &files));
    FL_TRY(fl_json_in_array(from, "tables", r->where, &tables));
    cJSON_ArrayForEach(item, files) FL_TRY(read_file(r, item));
    cJSON_ArrayForEach(item, tables) FL_TRY(read_table(r, item));
    return FL_OK;
}

fl_status fl_manifest_parse(fl_manifest *m, const char *text, size_t len,
                            const char *where)
{
    reading r = { m, where };
    cJSON *root = NULL;
    fl_status st;

    fl_manifest_init(m, FL_MANIFEST_FULL);
    st = fl_json_in_parse(&root, text, len, where);
    if (!st)
        st = read_all(&r, root);
    cJSON_Delete(root);
    if (st)
        fl_manifest_release(m);
    return st;
}
