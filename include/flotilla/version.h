/* version.h - which Flotilla this is. The number is written here alone: the
 * build reads it from these three lines.
 */
#ifndef FLOTILLA_VERSION_H
#define FLOTILLA_VERSION_H

#include "flotilla/abi.h"

#define FL_VERSION_MAJOR 0
#define FL_VERSION_MINOR 1
#define FL_VERSION_PATCH 0

/* Of the header, for #if: 10203 is 1.2.3. */
#define FL_VERSION_NUMBER                                                      \
    (FL_VERSION_MAJOR * 10000 + FL_VERSION_MINOR * 100 + FL_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/* The FL_VERSION_NUMBER of the library that runs. */
FL_API int fl_version(void);

/* Version, instruction set and libraries, one per line. Free with
   fl_text_free. */
FL_API char *fl_version_text(void);

FL_API void fl_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
