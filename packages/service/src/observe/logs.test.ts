import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBus, type Subject } from './bus.ts'
import { createLog, logEvents } from './logs.ts'

function loggedEvents() {
  const lines: string[] = []
  const bus = createBus()
  logEvents(bus, createLog('debug', { write: (line) => void lines.push(line) }))
  return { bus, read: () => lines.map((line) => JSON.parse(line) as { readonly [name: string]: unknown }) }
}

const traceId = '0af7651916cd43dd8448eb211c80319c'
const subject: Subject = {
  callId: 'c-1',
  tool: 'a:b:1.0.0',
  tenant: 'acme',
  traceparent: `00-${traceId}-b7ad6b7169203331-01`,
}

test('every log line of a call has task_id, tenant, tool and trace_id', () => {
  const { bus, read } = loggedEvents()
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

test('a log line of a call without a trace has no trace_id', () => {
  const { bus, read } = loggedEvents()
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

test('an unavailable collector is logged once, and its recovery once', () => {
  const { bus, read } = loggedEvents()
  for (let count = 0; count < 5; count += 1) bus.emit('spans:lost', { spans: 512, reason: 'ECONNREFUSED' })
  bus.emit('spans:sent', { spans: 1 })
  bus.emit('spans:sent', { spans: 1 })
  const said = read().map(({ level, msg, reason }) => [level, msg, reason])
  assert.deepEqual(said, [
    ['warn', 'traces are lost', 'ECONNREFUSED'],
    ['info', 'traces arrive again', undefined],
  ])
})

test('the line of a failed call has the message and an id that is the same for the same failure', () => {
  const { bus, read } = loggedEvents()
  const end = (tool: string, error: string): void =>
    bus.emit('call:finished', {
      ...subject,
      tool,
      status: 'failed',
      code: 'BACKEND_FAILED',
      error,
      outcome: 'exception',
      retries: 0,
      durationMs: 3,
    })
  end('a:b:1.0.0', 'order 12 of "ada" has no price')
  end('a:b:1.0.0', 'order 4711 of "bob" has no price')
  end('a:c:1.0.0', 'order 12 of "ada" has no price')
  end('a:b:1.0.0', 'order 12 of "ada" has no tax')
  const lines = read()
  assert.equal(lines[0]?.error, 'order 12 of "ada" has no price')
  const ids = lines.map(({ error_id: id }) => id)
  assert.equal(ids[0], ids[1])
  assert.equal(new Set(ids).size, 3)
})

test('a tool that threw is one line with the place and the stack', () => {
  const { bus, read } = loggedEvents()
  const identity = { principal: 'ada', tenant: 'acme', permissions: [] }
  const thrown = {
    name: 'TypeError',
    message: 'x',
    at: 'file:///t.ts:1:2',
    stack: 'TypeError: x\n    at t (file:///t.ts:1:2)',
  }
  bus.emit('call:threw', { callId: 'c-1.2', parent: 'c-1', tool: 'a:b:1.0.0', identity, ...thrown })
  const [{ task_id, parent, tenant, at, stack, msg } = {}] = read()
  assert.deepEqual(
    [task_id, parent, tenant, at, stack, msg],
    ['c-1.2', 'c-1', 'acme', thrown.at, thrown.stack, 'tool threw'],
  )
})

test('the line of a refused call says who was refused and why, and never the message about an argument', () => {
  const { bus, read } = loggedEvents()
  const refused = { tool: 'bank:pay', tenant: 'acme', principal: 'eve' }
  bus.emit('call:refused', { ...refused, code: 'DENIED', error: 'eve lacks the permission bank:pay.' })
  bus.emit('call:refused', { ...refused, code: 'INPUT_INVALID', error: undefined })
  const [denied, invalid] = read()
  assert.deepEqual([denied?.principal, denied?.error], ['eve', 'eve lacks the permission bank:pay.'])
  assert.match(String(denied?.error_id), /^[0-9a-f]{12}$/)
  assert.deepEqual([invalid?.code, invalid?.error], ['INPUT_INVALID', undefined])
})
