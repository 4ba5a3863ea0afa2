/* datagen_text.c - a line of `flotilla datagen` as text.
 *
 * criteo      label, 13 integers, 26 categories of 8 hexadecimal digits, with
 *             tabs between them; an empty field has no characters
 * multislot   13 numbers, then 26 times one id, then the label, each slot with
 *             its count before it
 *
 * An id is column * 2^33 + category + 1 with columns from 1, and column * 2^33
 * where the category is empty: no two columns share one. A number of the dense
 * slot is the integer on a logarithmic scale, e + m where 1 + x - lowest =
 * 2^e (1 + m), to four digits; 0 where it is empty.
 */
#include "datagen.h"

#include <string.h>

/* Digits come out from the last to the first, so they are made elsewhere. */
static char *put_decimal(char *to, uint64_t x)
{
    char digits[20];
    int at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + x % 10);
        x /= 10;
    } while (x);
    memcpy(to, digits + at, sizeof(digits) - (size_t)at);
    return to + sizeof(digits) - at;
}

static char *put_int(char *to, int32_t x)
{
    if (x < 0) {
        *to++ = '-';
        return put_decimal(to, (uint64_t)(-(int64_t)x));
    }
    return put_decimal(to, (uint64_t)x);
}

static char *put_hex(char *to, uint32_t x)
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 7; i >= 0; i--) {
        to[i] = digits[x & 15];
        x >>= 4;
    }
    return to + 8;
}

static char *write_criteo(const datagen_record *r, char *to)
{
    *to++ = (char)('0' + r->click);
    for (int i = 0; i < DATAGEN_INTS; i++) {
        *to++ = '\t';
        if (r->has_int[i])
            to = put_int(to, r->ints[i]);
    }
    for (int i = 0; i < DATAGEN_CATS; i++) {
        *to++ = '\t';
        if (r->has_cat[i])
            to = put_hex(to, r->cats[i]);
    }
    *to++ = '\n';
    return to;
}

/* Four digits behind the point, fewer where they would be zeros. */
static char *put_scale(char *to, double x)
{
    uint64_t parts = (uint64_t)(x * 10000 + 0.5);
    uint64_t rest = parts % 10000;

    to = put_decimal(to, parts / 10000);
    if (!rest)
        return to;
    *to++ = '.';
    for (uint64_t unit = 1000; rest; unit /= 10) {
        *to++ = (char)('0' + rest / unit);
        rest %= unit;
    }
    return to;
}

static char *put_text(char *to, const char *text)
{
    while (*text)
        *to++ = *text++;
    return to;
}

static char *write_multislot(const datagen_record *r, char *to)
{
    to = put_text(to, "13");
    for (int i = 0; i < DATAGEN_INTS; i++) {
        *to++ = ' ';
        to = put_scale(to, r->has_int[i] ? r->scales[i] : 0);
    }
    for (int i = 0; i < DATAGEN_CATS; i++) {
        uint64_t id = (uint64_t)(i + 1) << 33;

        to = put_text(to, " 1 ");
        to = put_decimal(to, r->has_cat[i] ? id + r->cats[i] + 1 : id);
    }
    to = put_text(to, " 1 ");
    *to++ = (char)('0' + r->click);
    *to++ = '\n';
    return to;
}

datagen_write datagen_find_format(const char *name)
{
    if (!strcmp(name, "criteo"))
        return write_criteo;
    if (!strcmp(name, "multislot"))
        return write_multislot;
    return NULL;
}
