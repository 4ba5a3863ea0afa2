/* records.h - records as text. Experimental: it may change with any version.
 */
#ifndef FLOTILLA_EXPERIMENTAL_RECORDS_H
#define FLOTILLA_EXPERIMENTAL_RECORDS_H

#include "flotilla/data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes records in a format, for conversion and printing. Formats that cannot
   be written refuse. */
typedef struct fl_record_printer fl_record_printer;
FL_API FL_MUST_CHECK
fl_status fl_record_printer_new(fl_record_printer **out, const fl_slot *slots,
                                size_t n_slots, const char *format_spec);
FL_API void fl_record_printer_free(fl_record_printer *p);
/* Lines that come before the records, "" for most formats; borrowed. */
FL_API const char *fl_record_printer_head(fl_record_printer *p);
/* Record i of a batch as one line, newline included; borrowed until the next
   call. */
FL_API FL_MUST_CHECK
fl_status fl_record_printer_line(fl_record_printer *p, const fl_feed *feeds,
                                 size_t i, const char **text);

#ifdef __cplusplus
}
#endif
#endif
