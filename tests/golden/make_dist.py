#!/usr/bin/env python3
"""make_dist.py FILE - a small job in sync mode, computed in double precision.

Four slots, three trainers and two layers of different widths: sizes that no
recorded job has, for run_dist.c. A step is the mean of the trainers' gradients.
"""
import json
import math
import random
import struct
import sys

SLOTS, TRAINERS, STEPS, ROWS = 4, 3, 6, 5
HEIGHT, WIDTH, DENSE, HIDDEN = 30, 3, 2, (7, 5)
RATE = 0.2
draw = random.Random(14)


def f32(x):
    return struct.unpack('<f', struct.pack('<f', x))[0]


def matrix(n, m):
    return [[f32(draw.uniform(-0.5, 0.5)) for _ in range(m)] for _ in range(n)]


def mat_vec(w, x):  # x w
    return [sum(x[i] * w[i][j] for i in range(len(x)))
            for j in range(len(w[0]))]


def forward(p, ids, dense):
    """Activations of all layers; the last one has the probabilities."""
    x = []
    for s in ids:
        x += [sum(p['emb'][i][k] for i in s) for k in range(WIDTH)]
    acts = [x + dense]
    for k in range(1, LAYERS + 1):
        z = mat_vec(p['fc%d_w' % k], acts[-1])
        z = [a + b for a, b in zip(z, p['fc%d_b' % k])]
        if k < LAYERS:
            acts.append([max(a, 0.0) for a in z])
        else:
            e = [math.exp(a - max(z)) for a in z]
            acts.append([a / sum(e) for a in e])
    return acts


def add_gradients(g, p, ids, acts, label, scale):
    d = [(a - (j == label)) * scale for j, a in enumerate(acts[-1])]
    for k in range(LAYERS, 0, -1):
        w, x = p['fc%d_w' % k], acts[k - 1]
        for i, xi in enumerate(x):
            for j, dj in enumerate(d):
                g['fc%d_w' % k][i][j] += xi * dj
        for j, dj in enumerate(d):
            g['fc%d_b' % k][j] += dj
        d = [sum(w[i][j] * d[j] for j in range(len(d))) for i in range(len(x))]
        if k > 1:
            d = [di if xi > 0 else 0.0 for di, xi in zip(d, x)]
    for s, slot in enumerate(ids):
        for i in slot:
            for k in range(WIDTH):
                g['emb'][i][k] += d[s * WIDTH + k]


def zeros(p):
    return [zeros(x) for x in p] if isinstance(p, list) else 0.0


def descend(p, g):
    for i, x in enumerate(p):
        if isinstance(x, list):
            descend(x, g[i])
        else:
            p[i] = x - RATE * g[i]


def flat(x):
    return [b for a in x for b in flat(a)] if isinstance(x, list) else [x]


def shape(x):
    return [len(x)] + shape(x[0]) if isinstance(x, list) else []


widths = [SLOTS * WIDTH + DENSE] + list(HIDDEN) + [2]
LAYERS = len(widths) - 1
params = {'emb': matrix(HEIGHT, WIDTH)}
for k in range(LAYERS):
    params['fc%d_w' % (k + 1)] = matrix(widths[k], widths[k + 1])
    params['fc%d_b' % (k + 1)] = matrix(1, widths[k + 1])[0]

tensors = {}
for name, value in params.items():
    tensors['init.' + name] = ('F32', shape(value), flat(value))
ids = [[[[draw.randrange(HEIGHT) for _ in range(draw.randint(0, 3))]
         for _ in range(STEPS * ROWS)] for _ in range(SLOTS)]
       for _ in range(TRAINERS)]
dense = [[[f32(draw.uniform(-1, 1)) for _ in range(DENSE)]
          for _ in range(STEPS * ROWS)] for _ in range(TRAINERS)]
label = [[draw.randrange(2) for _ in range(STEPS * ROWS)]
         for _ in range(TRAINERS)]
losses = [[] for _ in range(TRAINERS)]
for step in range(STEPS):
    g = {k: zeros(v) for k, v in params.items()}
    for r in range(TRAINERS):
        loss = 0.0
        for row in range(step * ROWS, (step + 1) * ROWS):
            mine = [ids[r][s][row] for s in range(SLOTS)]
            acts = forward(params, mine, dense[r][row])
            loss -= math.log(acts[-1][label[r][row]]) / ROWS
            add_gradients(g, params, mine, acts, label[r][row],
                          1 / (ROWS * TRAINERS))
        losses[r].append(loss)
    for k in params:
        descend(params[k], g[k])

for r in range(TRAINERS):
    at = 'in.trainer%d.' % r
    for s in range(SLOTS):
        offsets = [0]
        for row in ids[r][s]:
            offsets.append(offsets[-1] + len(row))
        tensors[at + 's%d' % s] = ('I64', [offsets[-1], 1], flat(ids[r][s]))
        tensors[at + 's%d.lod0' % s] = ('I64', [len(offsets)], offsets)
    tensors[at + 'dense'] = ('F32', [STEPS, ROWS, DENSE], flat(dense[r]))
    tensors[at + 'label'] = ('I64', [STEPS, ROWS, 1], label[r])
    tensors['fleet_sync.trainer%d.loss' % r] = ('F32', [STEPS], losses[r])
for name, value in params.items():
    tensors['fleet_sync.server.final.' + name] = ('F32', shape(value),
                                                  flat(value))

head = {'__metadata__': {
    'origin': 'make_dist.py, in double precision',
    'hyper': json.dumps({'learning_rate': RATE, 'optimizer': 'sgd'}),
    'steps': str(STEPS)}}
body = b''
for name, (dtype, dims, values) in tensors.items():
    data = struct.pack('<%d%s' % (len(values), 'f' if dtype == 'F32' else 'q'),
                       *values)
    head[name] = {'dtype': dtype, 'shape': dims,
                  'data_offsets': [len(body), len(body) + len(data)]}
    body += data
text = json.dumps(head).encode()
text += b' ' * (-len(text) % 8)
with open(sys.argv[1], 'wb') as out:
    out.write(struct.pack('<Q', len(text)) + text + body)
