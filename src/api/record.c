/* record.c - what a program adds to the record of its process. */
#include "flotilla/record.h"

#include "ctx/ctx.h"
#include "record/record.h"

fl_status fl_record_number(fl_ctx *c, const char *name, uint64_t step,
                           double value)
{
    fl_record *r;

    FL_TRY(fl_ctx_record(c, &r));
    fl_record_add_number(r, name, step, value);
    return FL_OK;
}

fl_status fl_record_note(fl_ctx *c, const char *name, const char *text)
{
    fl_record *r;

    FL_TRY(fl_ctx_record(c, &r));
    fl_record_add_note(r, name, text);
    return FL_OK;
}
