/* reader.c - operators that take rows of a parameter by ids. */
#include "pass/reader.h"

#include "pass/match.h"

static const fl_row_reader readers[] = {
    { "lookup_table", "W", "W@GRAD", "is_sparse", { "Ids" } },
    { "lookup_table_v2", "W", "W@GRAD", "is_sparse", { "Ids" } },
    { "skip_gram", "X", "X@GRAD", "x_is_sparse", { "XIds" } },
    { "skip_gram", "Y", "Y@GRAD", "y_is_sparse", { "YIds", "NoiseIds" } },
};

const fl_row_reader *fl_row_reader_of(const fl_op_node *n, const fl_var *w)
{
    for (size_t i = 0; i < FL_LEN(readers); i++)
        if (!strcmp(n->def->name, readers[i].op) &&
            fl_match_in(n, readers[i].w) == w)
            return &readers[i];
    return NULL;
}

fl_var *fl_row_reader_ids(const fl_row_reader *r, const fl_op_node *n, int i)
{
    return i < FL_READER_IDS_MAX && r->ids[i] ? fl_match_in(n, r->ids[i])
                                              : NULL;
}
