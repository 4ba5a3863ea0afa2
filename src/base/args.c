/* args.c - structs of another age, by the size that they begin with.
 *
 * The rule is that of the kernel's copy_struct_from_user(): an old struct is
 * filled up with zeros, a young one is taken when what we do not know of it is
 * zero. So a new field must mean "as before" when it is zero.
 */
#include "base/args.h"

#include "flotilla/version.h"

#include <string.h>

/* No struct is larger: memory that nobody set is not taken for a size. */
#define SIZE_MAX_BYTES 4096

static fl_status read_size(const void *from, const char *type, size_t *out)
{
    uint32_t size;

    memcpy(&size, from, sizeof(size));
    if (size <= sizeof(size) || size > SIZE_MAX_BYTES)
        FL_FAIL(FL_ERR_INVAL,
                "%s: its field size is %u, which is none; make the struct with "
                "FL_INIT(%s, ...) or FL_OPTIONS(%s, ...)",
                type, size, type, type);
    *out = size;
    return FL_OK;
}

static bool is_zero(const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i])
            return false;
    return true;
}

fl_status fl_args_read(void *to, size_t to_size, const void *from,
                       const char *type)
{
    const uint32_t own = (uint32_t)to_size;
    size_t size;

    memset(to, 0, to_size);
    if (from) {
        FL_TRY(read_size(from, type, &size));
        if (size > to_size &&
            !is_zero((const unsigned char *)from + to_size, size - to_size))
            FL_FAIL(FL_ERR_UNSUPPORTED,
                    "%s: the program sets a field that this library, %d.%d.%d, "
                    "does not have; install the version of its headers",
                    type, FL_VERSION_MAJOR, FL_VERSION_MINOR, FL_VERSION_PATCH);
        memcpy(to, from, size < to_size ? size : to_size);
    }
    memcpy(to, &own, sizeof(own));
    return FL_OK;
}

fl_status fl_args_fill(void *to, const void *from, size_t from_size,
                       const char *type)
{
    const size_t at = sizeof(uint32_t);
    size_t size;

    FL_TRY(read_size(to, type, &size));
    memset((char *)to + at, 0, size - at);
    memcpy((char *)to + at, (const char *)from + at,
           (size < from_size ? size : from_size) - at);
    return FL_OK;
}
