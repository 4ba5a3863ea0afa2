/* accessor.h - what the bytes of a row mean.
 *
 * An accessor is a const descriptor in its own file plus one row in
 * accessors.def. It lays a row out, gives it its first values, reads the value
 * out of it, applies a gradient and says when a row is no longer worth its
 * memory. Rows are 4-byte aligned flat memory; the first four bytes are the
 * header (table/row.h). All functions run under the lock of the row's
 * partition and touch nothing but the row.
 *
 * A row may have a short form: its first short_bytes bytes. It is what a new
 * row gets, and it grows into the full form when push says so.
 */
#ifndef FL_TABLE_ACCESSOR_H
#define FL_TABLE_ACCESSOR_H

#include "table/cut.h"
#include "table/table.h"

#define FL_ROW_FIELDS_MAX 12

/* What a field is. Values are what a pull gives, in the order of the fields. */
typedef enum fl_field_role {
    FL_FIELD_STATISTIC,
    FL_FIELD_VALUE,
    FL_FIELD_STATE /* of the rule */
} fl_field_role;

/* One run of floats in a row, for text dumps and for saving. */
typedef struct fl_row_field {
    const char *name;
    uint32_t offset, len; /* bytes, floats */
    fl_field_role role;
} fl_row_field;

typedef struct fl_row_layout {
    uint32_t bytes;                         /* of a full row, a multiple of 4 */
    uint32_t short_bytes;                   /* 0: there is no short form */
    fl_row_field fields[FL_ROW_FIELDS_MAX]; /* header and `known` are none */
    int n_fields;
    uint32_t value; /* offset of what a pull copies; 0: several runs */
    uint32_t known; /* offset of the value that others know; 0: not kept */
} fl_row_layout;

/* What the functions below need of a table. */
typedef struct fl_acc_ctx {
    const fl_table_config *config;
    const fl_rule *rule;
    /* What follows from these, for what is done to every row. */
    int n_states; /* of the rule */
    bool decays;  /* weights of a row that is pushed */
    fl_row_layout layout;
} fl_acc_ctx;

/* What is pushed to one row. */
typedef struct fl_push_item {
    const float *grad; /* dim */
    float show, click;
} fl_push_item;

typedef struct fl_accessor {
    const char *name, *doc;
    void (*layout)(const fl_acc_ctx *c, fl_row_layout *out);
    /* First values of a new row: short when the layout has a short form. */
    void (*create)(const fl_acc_ctx *c, uint64_t key, void *row);
    /* The value as the user sees it. row NULL: of a key without a row. */
    void (*pull)(const fl_acc_ctx *c, uint64_t key, const void *row,
                 bool is_short, float *out);
    /* Applies a gradient. True when a short row is to grow now; it is then
       grown, and push is not called again for it. */
    bool (*push)(const fl_acc_ctx *c, void *row, bool is_short,
                 const fl_push_item *item, const fl_hyper *h);
    /* Fills what the full row has beyond the short one, which was copied. */
    void (*grow)(const fl_acc_ctx *c, uint64_t key, void *row);
    /* Overwrites the value; state and statistics start anew. The row is
       full. */
    void (*assign)(const fl_acc_ctx *c, uint64_t key, void *row,
                   const float *value);
    /* Adds to the value; state and statistics stay. False, and nothing is done,
       when a short row has to grow for it first. */
    bool (*add)(const fl_acc_ctx *c, void *row, bool is_short,
                const float *delta);
    /* Whether a row belongs online, in a base or in a delta (cut.h), and with
       which score it gets there; spend takes that off the row when the save
       stands. NULL: every row does. */
    bool (*serves)(const fl_acc_ctx *c, const void *row, int unseen_days,
                   fl_cut_pick pick, float *score);
    void (*spend)(const fl_acc_ctx *c, void *row, float score);
    bool ages; /* keep changes the row */
    /* Ages a row and says whether to keep it. */
    bool (*keep)(const fl_acc_ctx *c, void *row, bool is_short, int unseen_days,
                 int limit_days);
} fl_accessor;

const fl_accessor *fl_accessor_find(const char *name);
/* What the rows of a table are, by its settings, and the accessor that says so.
   The config must stay. */
const fl_accessor *fl_accessor_of(const fl_table_config *config,
                                  fl_acc_ctx *out);
size_t fl_accessor_count(void);
const fl_accessor *fl_accessor_at(size_t i);

#endif
