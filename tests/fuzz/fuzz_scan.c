/* fuzz_scan.c - numbers of scan.h against those of the C library. The grammar
 * is matched here a second time, in the plainest way. */
#include "kit.h"

#include <errno.h>
#include <math.h>

#include "data/format/scan.h"

#define TEXT_MAX 4096

static size_t digits_at(const char *s, size_t at)
{
    return strspn(s + at, "0123456789");
}

static size_t sign_at(const char *s, size_t at)
{
    return s[at] == '-' || s[at] == '+';
}

/* Bytes of [-+]digits[.digits][e[-+]digits] at s, 0 when it is no such. */
static size_t match_float(const char *s)
{
    size_t n = sign_at(s, 0);

    if (!digits_at(s, n))
        return 0;
    n += digits_at(s, n);
    if (s[n] == '.') {
        n++;
        if (!digits_at(s, n))
            return 0;
        n += digits_at(s, n);
    }
    if (s[n] == 'e' || s[n] == 'E') {
        n += 1 + sign_at(s, n + 1);
        if (!digits_at(s, n))
            return 0;
        n += digits_at(s, n);
    }
    return n;
}

static void check_float(const char *s, const char *end)
{
    size_t n = match_float(s);
    const char *at = s;
    char copy[TEXT_MAX + 1];
    float got = 0, right;
    bool good = fl_scan_f32(&at, end, &got);

    MUST(at >= s && at <= end);
    if (!n) {
        MUST(!good);
        return;
    }
    memcpy(copy, s, n);
    copy[n] = '\0';
    right = strtof(copy, NULL);
    MUST(good == isfinite(right));
    if (good) {
        MUST(at == s + n);
        MUST(memcmp(&got, &right, sizeof(got)) == 0);
    }
}

static void check_printed(const char *s, const char *end)
{
    float x, again;
    fl_str out = { 0 };
    const char *at;

    if (!fl_scan_f32(&s, end, &x))
        return;
    fl_print_f32(&out, x);
    at = out.data;
    MUST(fl_scan_f32(&at, out.data + out.len, &again));
    MUST(at == out.data + out.len && memcmp(&x, &again, sizeof(x)) == 0);
    fl_str_release(&out);
}

static void check_u64(const char *s, const char *end)
{
    size_t n = digits_at(s, 0);
    const char *at = s;
    uint64_t got = 0, right;
    bool good = fl_scan_u64(&at, end, &got);

    errno = 0;
    right = strtoull(s, NULL, 10);
    MUST(good == (n > 0 && errno == 0));
    if (good)
        MUST(at == s + n && got == right);
}

static void check_i64(const char *s, const char *end)
{
    size_t minus = *s == '-', n = digits_at(s, minus);
    const char *at = s;
    int64_t got = 0, right;
    bool good = fl_scan_i64(&at, end, &got);

    errno = 0;
    right = strtoll(s, NULL, 10);
    MUST(good == (n > 0 && errno == 0));
    if (good)
        MUST(at == s + minus + n && got == right);
}

static void check_hex(const char *s, const char *end)
{
    size_t n = strspn(s, "0123456789abcdefABCDEF");
    const char *at = s;
    char copy[17];
    uint64_t got = 0;
    bool good = fl_scan_hex(&at, end, &got);

    MUST(good == (n > 0 && n <= 16));
    if (!good)
        return;
    memcpy(copy, s, n);
    copy[n] = '\0';
    MUST(at == s + n && got == strtoull(copy, NULL, 16));
}

/* The bytes end where the memory ends, for the sanitizer to see. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = size < TEXT_MAX ? size : TEXT_MAX;
    char *text = fl_alloc(n + 1), *exact = fl_alloc(n + !n);
    const char *at = exact;
    uint64_t id;
    float x;

    if (n)
        memcpy(text, data, n);
    if (n && !memchr(text, 0, n)) {
        memcpy(exact, data, n);
        (void)fl_scan_f32(&at, exact + n, &x);
        at = exact;
        (void)fl_scan_u64(&at, exact + n, &id);
        check_float(text, text + n);
        check_printed(text, text + n);
        check_u64(text, text + n);
        check_i64(text, text + n);
        check_hex(text, text + n);
    }
    fl_free(text);
    fl_free(exact);
    return 0;
}
