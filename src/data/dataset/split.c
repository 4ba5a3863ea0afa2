/* split.c - files of lines, cut into parts.
 *
 *     by line or key   the place of part.c, in millionths, tells the part
 *     by time          a first pass reads all times; sorted, they tell the first
 *                      time of each part, and a second pass writes
 *     by file          file i of n is at place (i + 1/2) / n
 *
 * One thread: what is read is written in its order.
 */
#include "flotilla/experimental/split.h"

#include <math.h>
#include <stdlib.h>

#include "base/args.h"
#include "data/dataset/source.h"
#include "data/dataset/split_out.h"
#include "data/format/fmt_help.h"

#define PLACES 1000000 /* as split=LO-HI/1000000 has them */
#define SHARE_ERROR 1e-6

typedef struct split {
    fl_split_args args;
    fl_paths files;
    fl_split_part *parts;
    size_t n_parts;
    fl_split_out *outs[FL_SPLIT_PARTS_MAX];
    uint64_t ends[FL_SPLIT_PARTS_MAX]; /* of each part, in places */

    fl_parser *parser; /* NULL: lines are not looked into */
    fl_records row;    /* of the line at hand */
    int time;          /* slot, or FL_NO_SLOT */
    FL_VEC(double) times;
    double starts[FL_SPLIT_PARTS_MAX]; /* the first time of each part */

    size_t file; /* at hand */
    void *head;  /* what the format made of its first line */
    fl_str header;
    bool is_written; /* the header, and maybe lines */
} split;

/* What is done with each line that is no header. */
typedef fl_status (*on_line)(split *s, const fl_line *l);

/* --- reading ---------------------------------------------------------------- */

/* `raw` is the line with its end. */
static fl_status keep_header(split *s, const char *raw, size_t len)
{
    if (!s->header.len) {
        fl_str_addf(&s->header, "%.*s", (int)len, raw);
        return FL_OK;
    }
    if (s->header.len != len || memcmp(s->header.data, raw, len) != 0)
        FL_FAIL(FL_ERR_INVAL,
                "%s has another header than the files before it; split them "
                "one by one",
                s->files.data[s->file]);
    return FL_OK;
}

/* Is the first line of a file a header? */
static fl_status look_at_first(split *s, const fl_line *l, bool *is_header)
{
    const fl_format *f = s->parser ? s->parser->format : NULL;

    fl_free(s->head);
    s->head = NULL;
    if (f && f->head)
        FL_TRY(fl_err_ctx(f->head(s->parser, l, &s->head), "%s",
                          s->files.data[s->file]));
    *is_header = s->args.header || s->head;
    return FL_OK;
}

typedef struct reading {
    split *split;
    on_line fn;
} reading;

static fl_status take_line(const reading *r, const fl_line *l, const char *next)
{
    split *s = r->split;
    bool is_header = false;

    if (l->number == 1)
        FL_TRY(look_at_first(s, l, &is_header));
    return is_header ? keep_header(s, l->at, (size_t)(next - l->at))
                     : r->fn(s, l);
}

static fl_status take_text(void *arg, const fl_text *text, bool *is_enough)
{
    const reading *r = arg;
    const char *end = text->data + text->len;
    fl_line l = { .at = text->data, .number = text->first_line };

    (void)is_enough;
    while (l.at < end) {
        const char *next;

        l.end = end;
        next = fl_line_cut(&l);
        l.head = r->split->head;
        FL_TRY(take_line(r, &l, next));
        l.at = next;
        l.number++;
    }
    return FL_OK;
}

static fl_status read_files(split *s, on_line fn)
{
    reading r = { s, fn };

    for (s->file = 0; s->file < s->files.len; s->file++)
        FL_TRY(fl_source_read_all(s->files.data[s->file], s->args.pipe_command,
                                  take_text, &r));
    return FL_OK;
}

/* --- by time ----------------------------------------------------------------- */

/* -inf for a line without one. */
static fl_status time_of(split *s, const fl_line *l, double *out)
{
    const fl_slot *slot = &s->parser->schema.slots[s->time];
    fl_row_part values[FL_SLOTS_MAX];
    const fl_row_part *v = &values[s->time];
    const uint32_t *row;

    *out = -INFINITY;
    FL_TRY(fl_parse_row(s->parser, l, &s->row, &row));
    if (!row)
        return FL_OK;
    fl_help_parts(&s->parser->schema, row, values);
    if (v->n)
        *out = slot->kind == FL_SLOT_IDS ? (double)fl_help_id(v, 0)
                                         : (double)fl_help_float(v, 0);
    return FL_OK;
}

static fl_status add_time(split *s, const fl_line *l)
{
    double t;

    FL_TRY(time_of(s, l, &t));
    fl_vec_push(&s->times, t);
    return FL_OK;
}

static int earlier_first(const void *left, const void *right)
{
    const double *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

/* The first time of what begins with record `at` of all n, in their order: lines
   of one time are not parted, so it is that of this record or the one behind,
   whichever is nearer. */
static double start_near(const double *times, size_t n, size_t at)
{
    size_t lo = at, hi = at;

    while (lo > 0 && !(times[lo - 1] < times[at]))
        lo--;
    while (hi < n && !(times[hi] > times[at]))
        hi++;
    return hi < n && hi - at < at - lo ? times[hi] : times[at];
}

static fl_status find_starts(split *s)
{
    size_t n;

    FL_TRY(read_files(s, add_time));
    n = s->times.len;
    if (n)
        qsort(s->times.data, n, sizeof(*s->times.data), earlier_first);
    for (size_t i = 1; n && i < s->n_parts; i++)
        s->starts[i] =
            start_near(s->times.data, n,
                       (size_t)((double)n * (double)s->ends[i - 1] / PLACES));
    fl_vec_release(&s->times);
    return FL_OK;
}

static fl_status part_by_time(split *s, const fl_line *l, size_t *out)
{
    double t;

    FL_TRY(time_of(s, l, &t));
    *out = 0;
    while (*out + 1 < s->n_parts && t >= s->starts[*out + 1])
        ++*out;
    return FL_OK;
}

/* --- writing ------------------------------------------------------------------ */

static size_t part_at(const split *s, uint64_t place)
{
    size_t i = 0;

    while (i + 1 < s->n_parts && place >= s->ends[i])
        i++;
    return i;
}

static fl_status choose(split *s, const fl_line *l, size_t *out)
{
    uint64_t hash;

    if (s->args.time)
        return part_by_time(s, l, out);
    if (s->args.by_file) {
        *out = part_at(s, (2 * s->file + 1) * PLACES / (2 * s->files.len));
        return FL_OK;
    }
    FL_TRY(fl_part_hash(s->parser, l, &s->row, &hash));
    *out = part_at(s, fl_part_place(hash, PLACES));
    return FL_OK;
}

static fl_status write_header(split *s)
{
    s->is_written = true;
    for (size_t i = 0; i < s->n_parts; i++)
        FL_TRY(fl_split_out_add(s->outs[i], fl_str_text(&s->header),
                                s->header.len));
    return FL_OK;
}

/* A line is followed by its end. */
static fl_status write_line(split *s, const fl_line *l)
{
    const char *end = l->end + (*l->end == '\r') + 1;
    size_t i;

    if (!s->is_written)
        FL_TRY(write_header(s));
    FL_TRY(choose(s, l, &i));
    s->parts[i].n_lines++;
    return fl_split_out_add(s->outs[i], l->at, (size_t)(end - l->at));
}

static fl_status write_parts(split *s)
{
    if (s->args.time)
        FL_TRY(find_starts(s));
    for (size_t i = 0; i < s->n_parts; i++)
        FL_TRY(fl_split_out_open(&s->outs[i], s->parts[i].path));
    FL_TRY(read_files(s, write_line));
    if (!s->is_written)
        FL_TRY(write_header(s));
    for (size_t i = 0; i < s->n_parts; i++) {
        fl_split_out *o = s->outs[i];

        s->outs[i] = NULL;
        FL_TRY(fl_split_out_commit(o));
    }
    return FL_OK;
}

/* --- setting it up ------------------------------------------------------------- */

static fl_status check_args(const fl_split_args *a)
{
    if (!!a->key + !!a->time + a->by_file > 1)
        FL_FAIL(FL_ERR_INVAL, "lines are split by a key, by time or by file: "
                              "give one of them");
    if ((a->key || a->time) && !a->format)
        FL_FAIL(FL_ERR_INVAL,
                "%s is a column of what? Name the format of the lines",
                a->key ? a->key : a->time);
    return FL_OK;
}

static fl_status check_part(const split *s, size_t i)
{
    if (!(s->parts[i].share >= SHARE_ERROR))
        FL_FAIL(FL_ERR_INVAL, "%s: a share of %g is no part", s->parts[i].path,
                s->parts[i].share);
    for (size_t k = 0; k < i; k++)
        if (!strcmp(s->parts[k].path, s->parts[i].path))
            FL_FAIL(FL_ERR_INVAL, "two parts are to be written to %s",
                    s->parts[i].path);
    return FL_OK;
}

static fl_status set_ends(split *s)
{
    double sum = 0;

    if (s->n_parts < 1 || s->n_parts > FL_SPLIT_PARTS_MAX)
        FL_FAIL(FL_ERR_INVAL, "%zu parts are not 1 to %d", s->n_parts,
                FL_SPLIT_PARTS_MAX);
    for (size_t i = 0; i < s->n_parts; i++) {
        FL_TRY(check_part(s, i));
        sum += s->parts[i].share;
        s->ends[i] = (uint64_t)llround(sum * PLACES);
        s->parts[i].n_lines = 0;
    }
    if (fabs(sum - 1) > SHARE_ERROR)
        FL_FAIL(FL_ERR_INVAL, "the shares of the parts make %g, not 1", sum);
    return FL_OK;
}

/* The first line of the first file that has one, for formats that learn from
   it. */
static fl_status keep_sample(void *arg, const fl_text *text, bool *is_enough)
{
    fl_str *sample = arg;

    if (!sample->len && text->len)
        fl_str_addf(sample, "%.*s", (int)strcspn(text->data, "\r\n"),
                    text->data);
    *is_enough = sample->len > 0;
    return FL_OK;
}

static fl_status open_parser(split *s)
{
    fl_str sample = { 0 }, options = { 0 };
    fl_parser_args args = { .spec = s->args.format, .empty_slots = true };
    fl_status st = FL_OK;

    for (size_t i = 0; !st && !sample.len && i < s->files.len; i++)
        st = fl_source_read_all(s->files.data[i], s->args.pipe_command,
                                keep_sample, &sample);
    args.sample = sample.len ? fl_str_text(&sample) : NULL;
    if (s->args.key) {
        fl_str_addf(&options, "split=0-1,key=%s", s->args.key);
        args.options = fl_str_text(&options);
    }
    if (!st)
        st = fl_parser_new(&s->parser, &args);
    fl_str_release(&options);
    fl_str_release(&sample);
    return st;
}

static fl_status find_time(split *s)
{
    if (!s->args.time)
        return FL_OK;
    s->time = fl_schema_find(&s->parser->schema, s->args.time);
    if (s->time < 0)
        FL_FAIL(FL_ERR_NOTFOUND,
                "format %s: there is no slot %s to take the "
                "time from",
                s->parser->format->name, s->args.time);
    return FL_OK;
}

static fl_status run(split *s)
{
    FL_TRY(check_args(&s->args));
    FL_TRY(set_ends(s));
    if (s->args.format)
        FL_TRY(open_parser(s));
    FL_TRY(find_time(s));
    return write_parts(s);
}

static void release(split *s)
{
    for (size_t i = 0; i < s->n_parts && i < FL_SPLIT_PARTS_MAX; i++)
        fl_split_out_drop(s->outs[i]);
    fl_parser_free(s->parser);
    fl_records_release(&s->row);
    fl_vec_release(&s->times);
    fl_str_release(&s->header);
    fl_free(s->head);
    fl_paths_release(&s->files);
}

fl_status fl_split_files_with(const char *const *paths, size_t n_paths,
                              fl_split_part *parts, size_t n_parts,
                              const fl_split_args *args)
{
    split s = { .parts = parts, .n_parts = n_parts, .time = FL_NO_SLOT };
    fl_status st;

    FL_TRY(FL_ARGS_READ(fl_split_args, &s.args, args));
    FL_TRY(fl_paths_expand(paths, n_paths, &s.files));
    st = run(&s);
    release(&s);
    return st;
}
