/* pulse.h - whether a peer is silent, judged fairly.
 *
 * Silence is time in which nothing was heard although this process was there to
 * listen. When a timer fires late by more than half of what makes a peer
 * suspect, this process was stopped or starved, and the stretch does not count.
 * Nor is anybody judged at such a moment: what came meanwhile has not been read
 * yet. Owner thread only.
 */
#ifndef FL_RPC_PULSE_H
#define FL_RPC_PULSE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct fl_pulse {
    uint64_t heard_ms; /* the last byte */
    uint64_t from_ms;  /* where the silence that counts began */
    bool is_silent;
} fl_pulse;

typedef enum fl_pulse_change {
    FL_PULSE_SAME,
    FL_PULSE_SILENT,
    FL_PULSE_HEARD
} fl_pulse_change;

/* How often to look. */
uint64_t fl_pulse_every_ms(uint64_t ping_ms, uint64_t suspect_ms);

/* How much of the time until now does not count, of a timer that was due
   then. */
uint64_t fl_pulse_excused_ms(uint64_t due_ms, uint64_t now_ms,
                             uint64_t suspect_ms);

void fl_pulse_start(fl_pulse *p, uint64_t now_ms);
fl_pulse_change fl_pulse_look(fl_pulse *p, uint64_t heard_ms,
                              uint64_t excused_ms, uint64_t now_ms,
                              uint64_t suspect_ms);
uint64_t fl_pulse_silence_ms(const fl_pulse *p, uint64_t now_ms);

#endif
