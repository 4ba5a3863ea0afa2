#!/bin/sh
# modes_link.sh BENCH_MODES - jobs through a slow link: three hosts, which are
# network namespaces on a bridge, a server on the first and a trainer on each of
# the others. What leaves the server's host, and what comes to it, has
# 100 Mbit/s. Where that cannot be made it ends with 77.
. "$(dirname "$0")/../tests/cluster/kit.sh"
needs tc
make_network
make_host serving 10.77.0.1
make_host first 10.77.0.2
make_host second 10.77.0.3

# The queue of a link holds a quarter of a second.
slow='root tbf rate 100mbit burst 64kb latency 250ms'
# shellcheck disable=SC2086
tc qdisc add dev to_serving $slow &&
    ip netns exec serving tc qdisc add dev eth0 $slow ||
    skip "the kernel has no token buckets"
# Members of a bench have a token of their own.
unset FLOTILLA_JOIN_TOKEN_FILE
BENCH_MODES=link exec "$1"
