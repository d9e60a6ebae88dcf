import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Connection } from './connection.ts'
import { listTools } from './discovered-tools.ts'
import { readOptions } from './settings.ts'

test('discovery refuses a tool list whose pages exceed the size limit together', async () => {
  let pages = 0
  const client = {
    getServerCapabilities: () => ({ tools: {} }),
    request: async () => {
      pages += 1
      return { tools: [{ name: `t${pages}`, description: 'x'.repeat(1_000) }], nextCursor: String(pages) }
    },
  }
  const settings = readOptions({ name: 'test', command: ['x'], maxResponseBytes: 10_000 })
  const signal = new AbortController().signal
  await assert.rejects(listTools({ client } as unknown as Connection, settings, signal), /larger than 10000 bytes/)
  assert.equal(pages, 10)
})
