/* cable.c - a long cable between two network devices.
 *
 *     cable DEVICE DEVICE DELAY_MS
 *
 * What comes out of one device is put into the other, DELAY_MS later. Kernels
 * do not all have a queue that delays; all have sockets for whole frames. A
 * header in front of each frame says what the sender has left to hardware
 * (checksums, cutting large frames); it goes along, so that the receiver knows.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FRAME_MAX (sizeof(struct virtio_net_hdr) + 65536 + 64)
/* More are lost, as in a cable that is full. */
#define FRAMES_MAX 4096

typedef struct frame {
    uint64_t due_ms;
    size_t len;
    uint8_t *bytes;
} frame;

/* One direction: a ring of frames, the oldest at lo. */
typedef struct way {
    int from, to;
    frame frames[FRAMES_MAX];
    unsigned lo, hi;
} way;

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- devices -------------------------------------------------------------- */

static int turn_on(int fd, int option)
{
    int one = 1;

    return setsockopt(fd, SOL_PACKET, option, &one, sizeof(one));
}

static int open_device(const char *name)
{
    struct sockaddr_ll at = { .sll_family = AF_PACKET,
                              .sll_protocol = htons(ETH_P_ALL),
                              .sll_ifindex = (int)if_nametoindex(name) };
    struct packet_mreq all = { .mr_ifindex = at.sll_ifindex,
                               .mr_type = PACKET_MR_PROMISC };
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd >= 0 && at.sll_ifindex && !turn_on(fd, PACKET_VNET_HDR) &&
        !turn_on(fd, PACKET_IGNORE_OUTGOING) &&
        !setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)) &&
        !bind(fd, (struct sockaddr *)&at, sizeof(at)))
        return fd;
    fprintf(stderr, "cable: %s: %s\n", name, strerror(errno));
    exit(1);
}

/* --- frames --------------------------------------------------------------- */

static void take_in(way *w, uint64_t delay_ms)
{
    static uint8_t bytes[FRAME_MAX];
    ssize_t n;

    while ((n = recv(w->from, bytes, sizeof(bytes), 0)) > 0) {
        frame *f = &w->frames[w->hi % FRAMES_MAX];

        if (w->hi - w->lo == FRAMES_MAX)
            continue;
        *f = (frame){ now_ms() + delay_ms, (size_t)n, malloc((size_t)n) };
        if (!f->bytes)
            exit(1);
        memcpy(f->bytes, bytes, (size_t)n);
        w->hi++;
    }
}

/* A frame that the other device does not take is lost: TCP sends it again. */
static void let_out(way *w)
{
    while (w->lo != w->hi && w->frames[w->lo % FRAMES_MAX].due_ms <= now_ms()) {
        frame *f = &w->frames[w->lo++ % FRAMES_MAX];

        (void)!send(w->to, f->bytes, f->len, 0);
        free(f->bytes);
    }
}

static int wait_ms(const way *ways)
{
    uint64_t now = now_ms(), least = 1000;

    for (int i = 0; i < 2; i++)
        if (ways[i].lo != ways[i].hi) {
            uint64_t due = ways[i].frames[ways[i].lo % FRAMES_MAX].due_ms;
            uint64_t left = due > now ? due - now : 0;

            least = left < least ? left : least;
        }
    return (int)least;
}

int main(int argc, char **argv)
{
    static way ways[2];
    uint64_t delay_ms;

    if (argc != 4)
        return fputs("usage: cable DEVICE DEVICE DELAY_MS\n", stderr), 2;
    ways[0].from = ways[1].to = open_device(argv[1]);
    ways[0].to = ways[1].from = open_device(argv[2]);
    delay_ms = strtoull(argv[3], NULL, 10);
    for (;;) {
        struct pollfd fds[] = { { .fd = ways[0].from, .events = POLLIN },
                                { .fd = ways[1].from, .events = POLLIN } };

        (void)poll(fds, 2, wait_ms(ways));
        for (int i = 0; i < 2; i++) {
            take_in(&ways[i], delay_ms);
            let_out(&ways[i]);
        }
    }
}
