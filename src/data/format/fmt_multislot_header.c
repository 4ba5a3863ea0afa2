/* fmt_multislot_header.c - MultiSlot files that begin with their slots:
 *
 *     #slots label:u64:1 dense:float:13 C1:u64
 *
 * docs/formats/multislot.md has the rules. Slots of a file may stand in another
 * order than the wanted ones, and there may be more of them. Then a line is
 * gone through twice: to find where each slot begins, and to read those that
 * are wanted in their order. A file in the wanted order is read like plain
 * MultiSlot.
 */
#include "data/format/fmt_multislot.h"

#include "data/format/fmt_help.h"
#include "data/format/scan.h"

#define MARK "#slots"

/* The slots of a file in its order. */
typedef struct file_head {
    bool in_order; /* they are the wanted ones, in the wanted order */
    uint32_t n_slots;
    int wanted[]; /* slot of the schema, or FL_NO_SLOT */
} file_head;

/* --- the header line ----------------------------------------------------- */

typedef FL_VEC(fl_slot) slot_list; /* with names of their own */

static void release_slots(slot_list *slots)
{
    for (size_t i = 0; i < slots->len; i++)
        fl_free((void *)(uintptr_t)slots->data[i].name);
    fl_vec_release(slots);
}

/* u64 or float, with a width behind a colon or without. */
static bool read_kind(const char *kind, fl_slot *slot)
{
    const char *colon = strchr(kind, ':');
    size_t n = colon ? (size_t)(colon - kind) : strlen(kind);
    const char *at = colon ? colon + 1 : "";
    uint64_t width = 0;

    if (n == 3 && !memcmp(kind, "u64", n))
        slot->kind = FL_SLOT_IDS;
    else if (n == 5 && !memcmp(kind, "float", n))
        slot->kind = FL_SLOT_FLOATS;
    else
        return false;
    if (colon && (!fl_scan_u64(&at, at + strlen(at), &width) || *at || !width ||
                  width > UINT32_MAX))
        return false;
    slot->width = (uint32_t)width;
    return true;
}

/* `item` becomes the name of the slot. */
static fl_status add_item(slot_list *slots, char *item)
{
    char *colon = strchr(item, ':');
    fl_slot slot = { .name = item };

    if (!colon || colon == item || !read_kind(colon + 1, &slot)) {
        (void)fl_err_set(FL_ERR_CORRUPT,
                         "'%s' in the header is no slot; it should be "
                         "name:u64, name:float or these with a width, "
                         "name:u64:1",
                         item);
        fl_free(item);
        return FL_ERR_CORRUPT;
    }
    *colon = '\0';
    fl_vec_push(slots, slot);
    return FL_OK;
}

static char *copy_word(const char *at, const char *end)
{
    size_t n = (size_t)(end - at);
    char *copy = fl_alloc(n + 1);

    memcpy(copy, at, n);
    return copy;
}

/* The slots of a header; what was read so far is there on failure as well. */
static fl_status read_header(const char *at, const char *end, slot_list *slots)
{
    const char *word_end = fl_help_skip_word(at, end);

    if ((size_t)(word_end - at) != strlen(MARK) ||
        memcmp(at, MARK, strlen(MARK)) != 0)
        FL_FAIL(FL_ERR_CORRUPT,
                "the file does not begin with " MARK " and its slots; read it "
                "with the format multislot and name them");
    for (;;) {
        at = fl_help_skip_blanks(word_end, end);
        if (at == end)
            break;
        word_end = fl_help_skip_word(at, end);
        if (slots->len == FL_SLOTS_MAX)
            FL_FAIL(FL_ERR_CORRUPT, "the header has more than %d slots",
                    FL_SLOTS_MAX);
        FL_TRY(add_item(slots, copy_word(at, word_end)));
    }
    if (!slots->len)
        FL_FAIL(FL_ERR_CORRUPT, "the header has no slots");
    return FL_OK;
}

/* --- matching ------------------------------------------------------------ */

static const char *kind_name(const fl_slot *slot)
{
    return slot->kind == FL_SLOT_IDS ? "ids" : "floats";
}

/* What the file says of a slot against what is wanted of it. */
static fl_status check_slot(const fl_slot *file, const fl_slot *wanted)
{
    if (file->kind != wanted->kind)
        FL_FAIL(FL_ERR_INVAL, "slot %s has %s in the file, wanted are %s",
                wanted->name, kind_name(file), kind_name(wanted));
    if (file->width && wanted->width && file->width != wanted->width)
        FL_FAIL(FL_ERR_INVAL, "slot %s has width %u in the file, wanted is %u",
                wanted->name, file->width, wanted->width);
    return FL_OK;
}

/* Fills the head from the slots of the file. */
static fl_status match_slots(const fl_schema *schema, const slot_list *file,
                             file_head *head)
{
    fl_schema found;
    fl_status st = fl_schema_init(&found, file->data, file->len);

    for (size_t i = 0; i < file->len; i++)
        head->wanted[i] = FL_NO_SLOT;
    head->in_order = file->len == schema->n_slots;
    for (uint32_t i = 0; i < schema->n_slots && !st; i++) {
        const char *name = schema->slots[i].name;
        int at = fl_schema_find(&found, name);

        if (at < 0) {
            st = fl_err_set(FL_ERR_NOTFOUND, "the header has no slot %s", name);
            break;
        }
        st = check_slot(&found.slots[at], &schema->slots[i]);
        head->wanted[at] = (int)i;
        head->in_order = head->in_order && at == (int)i;
    }
    fl_schema_release(&found);
    return st;
}

static fl_status header_head(const fl_parser *p, const fl_line *l, void **head)
{
    slot_list slots = { 0 };
    file_head *made = NULL;
    fl_status st = read_header(l->at, l->end, &slots);

    if (st)
        goto out;
    made = fl_alloc(sizeof(*made) + slots.len * sizeof(made->wanted[0]));
    made->n_slots = (uint32_t)slots.len;
    st = match_slots(&p->schema, &slots, made);
    if (st)
        goto out;
    *head = made;
    made = NULL;
out:
    fl_free(made);
    release_slots(&slots);
    return st;
}

/* --- lines --------------------------------------------------------------- */

/* Where the slots of the schema begin in the line. */
static bool find_slots(const file_head *head, const fl_line *l,
                       const char **begins, fl_bad *bad)
{
    const char *at = l->at;

    for (uint32_t i = 0; i < head->n_slots; i++) {
        int slot = head->wanted[i];

        if (slot != FL_NO_SLOT)
            begins[slot] = at;
        if (!fl_multislot_skip(&at, l->end, slot, bad))
            return false;
    }
    return fl_multislot_end(at, l->end, bad);
}

static bool read_in_schema_order(const fl_parser *p, const fl_line *l,
                                 fl_row_writer *w, fl_bad *bad, fl_status *st)
{
    const char *begins[FL_SLOTS_MAX] = { 0 };
    fl_line rest = *l;
    uint32_t ragged = 0;

    if (!find_slots(l->head, l, begins, bad))
        return false;
    *st = fl_multislot_open(w, l);
    if (*st)
        return false;
    for (uint32_t i = 0; i < p->schema.n_slots; i++) {
        rest.at = begins[i];
        if (!fl_multislot_slot(p, &rest, i, ragged, w, bad))
            return false;
        ragged += p->schema.slots[i].width == 0;
    }
    fl_row_close(w);
    return true;
}

static bool header_line(const fl_parser *p, const fl_line *l, fl_row_writer *w,
                        fl_bad *bad, fl_status *st)
{
    const file_head *head = l->head;

    if (!head)
        return fl_help_bad(bad, FL_NO_SLOT, "no header came before the line");
    if (head->in_order)
        return fl_multislot_line(p, l, w, bad, st);
    if (fl_help_skip_blanks(l->at, l->end) == l->end)
        return fl_help_bad(bad, FL_NO_SLOT, "the line is empty");
    return read_in_schema_order(p, l, w, bad, st);
}

/* Only a file in the wanted order is read in one go. */
static const char *header_take(const fl_parser *p, const fl_line *l,
                               fl_row_writer *w, fl_status *st)
{
    const file_head *head = l->head;

    return head && head->in_order ? fl_multislot_take(p, l, w, st) : NULL;
}

/* --- opening and printing ------------------------------------------------ */

/* The slots of the first file. */
static fl_status slots_of_sample(fl_parser *p, const char *sample)
{
    size_t len = strlen(sample);
    slot_list slots = { 0 };
    fl_status st;

    while (len && (sample[len - 1] == '\n' || sample[len - 1] == '\r'))
        len--;
    st = read_header(sample, sample + len, &slots);
    if (!st)
        st = fl_schema_init(&p->schema, slots.data, slots.len);
    release_slots(&slots);
    return st;
}

/* Names of a header end at a colon, and slots at a blank. */
static fl_status check_names(const fl_schema *s)
{
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (strpbrk(s->slots[i].name, ": \t\r\n"))
            FL_FAIL(FL_ERR_INVAL,
                    "format multislot_header: slot '%s' cannot stand in a "
                    "header: no blanks and colons in names",
                    s->slots[i].name);
    return FL_OK;
}

static fl_status header_open(fl_parser *p, const char *sample)
{
    FL_TRY(check_names(&p->wanted));
    if (p->wanted.n_slots)
        return fl_schema_init(&p->schema, p->wanted.slots, p->wanted.n_slots);
    if (!sample)
        FL_FAIL(FL_ERR_INVAL,
                "format multislot_header: the slots come from the first file, "
                "but there is none; set the files first or name the slots");
    return fl_err_ctx(slots_of_sample(p, sample), "the first file");
}

static void header_print_head(const fl_parser *p, fl_str *out)
{
    fl_str_add(out, MARK);
    for (uint32_t i = 0; i < p->schema.n_slots; i++) {
        const fl_slot *slot = &p->schema.slots[i];

        fl_str_addf(out, " %s:%s", slot->name,
                    slot->kind == FL_SLOT_IDS ? "u64" : "float");
        if (slot->width)
            fl_str_addf(out, ":%u", slot->width);
    }
    fl_str_add(out, "\n");
}

const fl_format fl_format_multislot_header = {
    .name = "multislot_header",
    .doc = "multislot, where the first line of each file names its slots: "
           "#slots label:u64:1 dense:float:13 C1:u64",
    .open = header_open,
    .head = header_head,
    .take = header_take,
    .line = header_line,
    .print = fl_multislot_print,
    .print_head = header_print_head,
};
