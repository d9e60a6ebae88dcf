import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBus, type Subject } from './bus.ts'
import { createLog, logEvents } from './logs.ts'

function heard() {
  const lines: string[] = []
  const bus = createBus()
  logEvents(bus, createLog('debug', { write: (line) => void lines.push(line) }))
  return { bus, read: () => lines.map((line) => JSON.parse(line) as { readonly [name: string]: unknown }) }
}

const traceId = '0af7651916cd43dd8448eb211c80319c'
const subject: Subject = {
  ...{ callId: 'c-1', tool: 'a:b:1.0.0', tenant: 'acme' },
  traceparent: `00-${traceId}-b7ad6b7169203331-01`,
}

test('every line about a call names it, its tenant and its trace', () => {
  const { bus, read } = heard()
  bus.emit('call:claimed', { ...subject, fence: 1, deliveries: 1 })
  bus.emit('call:released', { ...subject, reason: 'stopping' })
  bus.emit('call:finished', {
    ...subject,
    status: 'failed',
    code: 'TIMEOUT',
    outcome: 'failed',
    retries: 0,
    durationMs: 3,
  })
  bus.emit('call:dead', { ...subject, reason: 'It died.' })
  const lines = read()
  assert.equal(lines.length, 4)
  for (const { task_id, trace_id, tenant, tool } of lines) {
    assert.deepEqual([task_id, trace_id, tenant, tool], ['c-1', traceId, 'acme', 'a:b:1.0.0'])
  }
})

test('a call that belongs to no trace names none', () => {
  const { bus, read } = heard()
  bus.emit('call:finished', {
    ...subject,
    traceparent: undefined,
    status: 'ok',
    outcome: 'ok',
    retries: 0,
    durationMs: 3,
  })
  assert.equal('trace_id' in (read()[0] ?? {}), false)
})

test('a collector that is away is told of once, and once when it is back', () => {
  const { bus, read } = heard()
  for (let count = 0; count < 5; count += 1) bus.emit('spans:lost', { spans: 512, reason: 'ECONNREFUSED' })
  bus.emit('spans:sent', { spans: 1 })
  bus.emit('spans:sent', { spans: 1 })
  const said = read().map(({ level, msg, reason }) => [level, msg, reason])
  assert.deepEqual(said, [
    ['warn', 'traces are lost', 'ECONNREFUSED'],
    ['info', 'traces arrive again', undefined],
  ])
})
