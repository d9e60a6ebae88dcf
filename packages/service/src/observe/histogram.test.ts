import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Histogram, Registry } from 'prom-client'
import { createHistogram } from './histogram.ts'

const buckets = [0.001, 0.01, 1, 30]
const values = [0, 0.0005, 0.001, 0.0011, 0.5, 1, 2, 30, 31, 1_000]

test('createHistogram writes the same text as prom-client for the same values', async () => {
  const registry = new Registry()
  const peer = new Histogram({ name: 'h', help: 'What it is.', labelNames: ['tool'], buckets, registers: [registry] })
  const own = createHistogram({ name: 'h', help: 'What it is.', label: 'tool', buckets })
  for (const [n, value] of values.entries()) {
    const tool = n % 3 === 0 ? 'a:b' : 'odd "name" with \\ and \n in it'
    peer.observe({ tool }, value)
    own.observe(tool, value)
  }
  assert.equal(own.text(), await registry.metrics())
})

test('a histogram without observations writes only HELP and TYPE', () => {
  const own = createHistogram({ name: 'h', help: 'What it is.', label: 'tool', buckets })
  assert.equal(own.text(), '# HELP h What it is.\n# TYPE h histogram\n')
})
