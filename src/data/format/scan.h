/* scan.h - numbers out of text, fast and strict, and floats back into it.
 *
 * Each function reads one number at *at, which stands before `end`, and moves
 * *at behind it. False, with *at at the offending byte, when there is none or
 * it does not fit. No locale, no leading blanks, no plus sign before ids, and
 * nothing at or behind `end` is read. Any thread.
 */
#ifndef FL_DATA_FORMAT_SCAN_H
#define FL_DATA_FORMAT_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

/* Decimal, up to 2^64 - 1. */
bool fl_scan_u64(const char **at, const char *end, uint64_t *out);

/* Decimal with an optional minus. */
bool fl_scan_i64(const char **at, const char *end, int64_t *out);

/* [-+]digits[.digits][e[-+]digits], the nearest float. Infinities and NaN are
   refused, and so is a number too large for a float, which leaves *at where it
   is. A point or an e without digits behind it is no number. */
bool fl_scan_f32(const char **at, const char *end, float *out);

/* Hexadecimal, up to 16 digits of either case. */
bool fl_scan_hex(const char **at, const char *end, uint64_t *out);

/* The shortest of %.6g to %.9g that reads as the same float, with a point in
   every locale. */
void fl_print_f32(fl_str *out, float x);

#endif
