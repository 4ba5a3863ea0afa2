/* printer.c - records as text, and the formats in words. */
#include "flotilla/experimental/records.h"

#include "base/hash.h"
#include "base/vec.h"
#include "data/columns.h"
#include "data/format/format.h"

struct fl_record_printer {
    fl_parser *parser;
    fl_columns view; /* borrows the values of the fed batch */
    fl_records row;
    fl_str head, line;
};

/* --- printing ------------------------------------------------------------ */

static fl_status check_slots(const fl_parser *p, const fl_slot *slots,
                             size_t n_slots)
{
    const fl_schema *s = &p->schema;

    if (!p->format->print)
        FL_FAIL(FL_ERR_INVAL,
                "format %s can be read only; choose another to write, "
                "multislot for example",
                p->format->name);
    if (!fl_part_is_all(&p->part))
        FL_FAIL(FL_ERR_INVAL,
                "format %s: split and negatives choose what is read; leave "
                "them out of the format to write",
                p->format->name);
    if (s->n_slots != n_slots)
        FL_FAIL(FL_ERR_INVAL, "format %s has %u slots, the records have %zu",
                p->format->name, s->n_slots, n_slots);
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (strcmp(s->slots[i].name, slots[i].name) != 0 ||
            s->slots[i].kind != slots[i].kind ||
            s->slots[i].width != slots[i].width)
            FL_FAIL(FL_ERR_INVAL,
                    "format %s: slot %u is %s there and %s in the records, or "
                    "has another kind or width",
                    p->format->name, i, s->slots[i].name, slots[i].name);
    return FL_OK;
}

fl_status fl_record_printer_new(fl_record_printer **out, const fl_slot *slots,
                                size_t n_slots, const char *format_spec)
{
    fl_parser_args args = { .spec = format_spec,
                            .wanted = slots,
                            .n_wanted = n_slots,
                            .empty_slots = true };
    fl_record_printer *p;
    fl_parser *parser = NULL;
    fl_status st;

    FL_TRY(fl_parser_new(&parser, &args));
    st = check_slots(parser, slots, n_slots);
    if (st) {
        fl_parser_free(parser);
        return st;
    }
    p = fl_alloc(sizeof(*p));
    p->parser = parser;
    fl_columns_init(&p->view, &parser->schema);
    if (parser->format->print_head)
        parser->format->print_head(parser, &p->head);
    *out = p;
    return FL_OK;
}

void fl_record_printer_free(fl_record_printer *p)
{
    if (!p)
        return;
    fl_columns_release(&p->view);
    fl_records_release(&p->row);
    fl_str_release(&p->head);
    fl_str_release(&p->line);
    fl_parser_free(p->parser);
    fl_free(p);
}

const char *fl_record_printer_head(fl_record_printer *p)
{
    return fl_str_text(&p->head);
}

/* Records of a batch: as many as it has lists, or rows. */
static size_t rows_of(const fl_tensor *t)
{
    if (t->n_lod)
        return (size_t)t->lod_len[0] - 1;
    return (size_t)t->shape.dim[0];
}

static fl_status check_feed(const fl_slot *slot, const fl_feed *feed, size_t i)
{
    const fl_tensor *t = &feed->value;
    bool ids = t->dtype == FL_DTYPE_I64 || t->dtype == FL_DTYPE_U64;

    if (strcmp(feed->name, slot->name) != 0)
        FL_FAIL(FL_ERR_INVAL,
                "a batch has %s where the records have slot %s; give its feeds "
                "in the order of the slots",
                feed->name, slot->name);
    if ((slot->kind == FL_SLOT_IDS ? !ids : t->dtype != FL_DTYPE_F32) ||
        (t->n_lod == 1) != (slot->width == 0))
        FL_FAIL(FL_ERR_INVAL, "feed %s is not what slot %s holds", feed->name,
                slot->name);
    if (i >= rows_of(t) ||
        (slot->width && (size_t)fl_tensor_numel(t) != rows_of(t) * slot->width))
        FL_FAIL(FL_ERR_INVAL,
                "feed %s has %zu records of %u values: there is no record %zu",
                feed->name, rows_of(t), slot->width, i);
    return FL_OK;
}

static fl_status pack_record(fl_record_printer *p, const fl_feed *feeds,
                             size_t i)
{
    const fl_schema *s = &p->parser->schema;
    fl_status st;

    for (uint32_t k = 0; k < s->n_slots; k++)
        FL_TRY(check_feed(&s->slots[k], &feeds[k], i));
    for (uint32_t k = 0; k < s->n_slots; k++) {
        p->view.cols[k].values = feeds[k].value.data;
        p->view.cols[k].offsets = (int64_t *)(uintptr_t)feeds[k].value.lod[0];
    }
    fl_records_clear(&p->row);
    st = fl_columns_pack(&p->view, i, i + 1, &p->row);
    /* What was borrowed is not ours to release. */
    memset(p->view.cols, 0, s->n_slots * sizeof(*p->view.cols));
    return st;
}

fl_status fl_record_printer_line(fl_record_printer *p, const fl_feed *feeds,
                                 size_t i, const char **text)
{
    FL_TRY(pack_record(p, feeds, i));
    p->line.len = 0;
    p->parser->format->print(p->parser, fl_records_at(&p->row, 0), &p->line);
    fl_str_add(&p->line, "\n");
    *text = fl_str_text(&p->line);
    return FL_OK;
}

/* --- help ---------------------------------------------------------------- */

static void describe_options(const fl_format_option *o, size_t n, fl_str *out)
{
    for (size_t i = 0; i < n && o[i].name; i++)
        fl_str_addf(out, "  option %s = %s\n    %s\n", o[i].name,
                    o[i].otherwise && *o[i].otherwise ? o[i].otherwise : "\"\"",
                    o[i].doc);
}

static void describe(const fl_format *f, fl_str *out)
{
    fl_str_addf(out, "format %s\n  doc  %s\n", f->name, f->doc);
    describe_options(f->options, FL_FORMAT_OPTIONS_MAX, out);
    fl_str_addf(out, "  written %s\n", f->print ? "yes" : "no");
}

char *fl_format_help(const char *name)
{
    fl_str out = { 0 };

    for (size_t i = 0; i < fl_format_count(); i++)
        if (!name || !strcmp(fl_format_at(i)->name, name))
            describe(fl_format_at(i), &out);
    if (!out.data) {
        (void)fl_err_set(FL_ERR_NOTFOUND,
                         "no format is called %s; fl_format_help without a "
                         "name lists them",
                         name);
        return NULL;
    }
    fl_str_add(&out, "every format\n");
    describe_options(fl_part_options, FL_PART_OPTIONS, &out);
    return fl_str_take(&out);
}
