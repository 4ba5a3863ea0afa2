/* crc32c.h - the checksum of Castagnoli, for frames of TFRecord. */
#ifndef FL_RECORD_CRC32C_H
#define FL_RECORD_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* A bit at a time: a few hundred bytes a second go through it. */
static inline uint32_t fl_crc32c(const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < n; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
    }
    return ~crc;
}

#endif
