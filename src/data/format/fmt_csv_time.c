/* fmt_csv_time.c - times in text, as seconds since 1970 in UTC. The form is
 * that of strftime, as far as numbers go, without locales, zones and leap
 * seconds. */
#include "data/format/fmt_csv.h"

#include "data/format/fmt_help.h"

enum { YEAR, MONTH, DAY, HOUR, MINUTE, SECOND, EPOCH, N_FIELDS };

static const struct part {
    char letter;
    int field, digits; /* digits at most */
    int least, most;
} parts[] = {
    { 'Y', YEAR, 4, 1, 9999 }, { 'y', YEAR, 2, 0, 99 },
    { 'm', MONTH, 2, 1, 12 },  { 'd', DAY, 2, 1, 31 },
    { 'H', HOUR, 2, 0, 23 },   { 'M', MINUTE, 2, 0, 59 },
    { 'S', SECOND, 2, 0, 60 }, { 's', EPOCH, 18, 0, 0 },
};

static const struct part *find_part(char letter)
{
    for (size_t i = 0; i < FL_LEN(parts); i++)
        if (parts[i].letter == letter)
            return &parts[i];
    return NULL;
}

bool fl_csv_time_check(const char *form)
{
    bool has_part = false;

    for (; *form; form++) {
        if (*form != '%')
            continue;
        if (*++form != '%' && !find_part(*form))
            return false;
        has_part |= *form != '%';
    }
    return has_part;
}

static bool take_part(const struct part *p, const char **at, const char *end,
                      int64_t *to)
{
    int64_t x = 0;
    int n = 0;

    for (; n < p->digits && *at < end && **at >= '0' && **at <= '9'; n++)
        x = 10 * x + (*(*at)++ - '0');
    if (!n || (p->most && (x < p->least || x > p->most)))
        return false;
    /* As POSIX has it: 69 to 99 are of the last century. */
    if (p->letter == 'y')
        x += x < 69 ? 2000 : 1900;
    to[p->field] = x;
    return true;
}

/* Days since 1970, in a year that begins with March. */
static int64_t days_of(const int64_t *t)
{
    enum { FROM_1970 = 719469 };
    int64_t early = t[MONTH] < 3;
    int64_t year = t[YEAR] - early, month = t[MONTH] + (early ? 9 : -3);

    return 365 * year + year / 4 - year / 100 + year / 400 +
           (153 * month + 2) / 5 + t[DAY] - FROM_1970;
}

static int64_t seconds_of(const int64_t *t)
{
    if (t[EPOCH] >= 0)
        return t[EPOCH];
    return ((days_of(t) * 24 + t[HOUR]) * 60 + t[MINUTE]) * 60 + t[SECOND];
}

bool fl_csv_time_read(const char *form, const char *at, const char *end,
                      int64_t *out)
{
    int64_t t[N_FIELDS] = {
        [YEAR] = 1970, [MONTH] = 1, [DAY] = 1, [EPOCH] = -1
    };

    for (; *form; form++) {
        if (*form == '%' && *++form != '%') {
            if (!take_part(find_part(*form), &at, end, t))
                return false;
        } else if (at == end || *at++ != *form) {
            return false;
        }
    }
    *out = seconds_of(t);
    return at == end;
}
