import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { ReadableStream } from 'node:stream/web'
import { test } from 'node:test'
import type { StreamEvent } from '@gantry/contract'
import type { ToolContext } from '../backends/backend.ts'
import { createExecutor } from '../executor.ts'
import type { Executor } from '../executor-interface.ts'
import { defineTool, type ToolDefinition } from '../tools/tool.ts'

const anything = { type: 'object' } as const

function executor(
  run: (args: object, context: ToolContext) => unknown,
  rest: Partial<ToolDefinition<typeof anything>> = {},
  limits = {},
): Executor {
  const tool = defineTool({ namespace: 'test', name: 'it', description: 'It.', inputSchema: anything, run, ...rest })
  return createExecutor({ tools: [tool], limits })
}

async function collect(events: AsyncIterable<StreamEvent>): Promise<StreamEvent[]> {
  const all: StreamEvent[] = []
  for await (const event of events) all.push(event)
  return all
}

test('event ids increase by one, and the last event is the only end and carries the result', async () => {
  const gantry = executor(async function* () {
    yield 'a'
    yield 'b'
    return { n: 2 }
  })
  const events = await collect(gantry.stream('test:it'))
  assert.deepEqual(
    events.map(({ id }) => id),
    [1, 2, 3],
  )
  assert.deepEqual(
    events.map(({ kind }) => kind),
    ['chunk', 'chunk', 'done'],
  )
  const end = events.at(-1)
  assert.ok(end?.kind === 'done')
  assert.deepEqual(end.result.output, { n: 2 })
})

test('run and stream give a streaming tool the same outcome', async () => {
  const gantry = executor(async function* () {
    yield 'a'
    yield 'b'
  })
  const end = (await collect(gantry.stream('test:it'))).at(-1)
  assert.ok(end?.kind === 'done')
  assert.equal(end.result.output, 'ab')
  assert.equal((await gantry.run('test:it')).output, 'ab')
})

test('chunks that are not all text become a list as output, from a sync generator too', async () => {
  const gantry = executor(function* () {
    yield 1
    yield { two: 2 }
  })
  assert.deepEqual((await gantry.run('test:it')).output, [1, { two: 2 }])
})

test('a call that fails ends its stream with an error event that carries the result', async () => {
  const gantry = executor(async function* () {
    yield 1
    throw new Error('midway')
  })
  const end = (await collect(gantry.stream('test:it'))).at(-1)
  assert.ok(end?.kind === 'error')
  assert.equal(end.error.message, 'midway')
  assert.equal(end.result.status, 'failed')
})

test('a stream of a call that never starts has one error event', async () => {
  const [only, ...more] = await collect(executor(() => 1).stream('test:other'))
  assert.ok(only?.kind === 'error' && more.length === 0)
  assert.equal(only.error.code, 'TOOL_NOT_FOUND')
})

test('the output of a stream is validated at its end', async () => {
  const outputSchema = { type: 'number' }
  const gantry = executor(
    async function* () {
      yield 'text'
    },
    { outputSchema, output: 'strict' },
  )
  const end = (await collect(gantry.stream('test:it'))).at(-1)
  assert.ok(end?.kind === 'error')
  assert.equal(end.error.code, 'OUTPUT_INVALID')
  assert.equal(end.result.output, 'text')
})

test('a slow reader applies backpressure to a streaming tool', async () => {
  let made = 0
  const gantry = executor(async function* () {
    for (; made < 1_000; made++) yield made
  })
  const events = gantry.stream('test:it')
  await events.next()
  await new Promise((resolve) => setImmediate(resolve))
  assert.ok(made < 50, `${made} chunks were made for one that was read`)
  assert.equal((await collect(events)).length, 1_000)
})

test('a reader that stops early cancels the call, and the generator of the tool runs its finally block', async () => {
  let cleaned = false
  const gantry = executor(async function* () {
    try {
      for (let n = 0; ; n++) yield n
    } finally {
      cleaned = true
    }
  })
  const finished = Promise.withResolvers<string>()
  gantry.on('call:finished', ({ result }) => finished.resolve(result.status))
  for await (const event of gantry.stream('test:it')) if (event.id === 3) break
  assert.equal(await finished.promise, 'cancelled')
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(cleaned, true)
})

test('a reader that returns while it waits for the next event cancels the call at once', async () => {
  const leavers: ((events: AsyncGenerator<StreamEvent, void>) => Promise<unknown>)[] = [
    async (events) => {
      const pending = events.next()
      await events.return()
      assert.deepEqual(await pending, { done: true, value: undefined })
    },
    async (events) => {
      const readable = Readable.from(events)
      readable.on('data', () => undefined)
      await new Promise((resolve) => setImmediate(resolve))
      readable.destroy()
      await new Promise((resolve) => readable.on('close', resolve))
    },
    async (events) => {
      const reader = ReadableStream.from(events).getReader()
      const pending = reader.read()
      await new Promise((resolve) => setImmediate(resolve))
      await reader.cancel()
      await pending
    },
  ]
  for (const leave of leavers) {
    const gantry = executor(() => new Promise(() => undefined))
    const finished = Promise.withResolvers<string>()
    gantry.on('call:finished', ({ result }) => finished.resolve(result.status))
    await leave(gantry.stream('test:it'))
    assert.equal(await finished.promise, 'cancelled')
  }
})

test('a stream that has ended yields no more events, and an unread stream does not start its call', async () => {
  let calls = 0
  const gantry = executor(() => ++calls)
  const unread = gantry.stream('test:it')
  await unread.return()
  assert.deepEqual(await unread.next(), { done: true, value: undefined })
  assert.equal(calls, 0)
  const read = gantry.stream('test:it')
  assert.equal((await collect(read)).length, 1)
  assert.deepEqual(await read.next(), { done: true, value: undefined })
  assert.equal(calls, 1)
})

test('newer progress replaces unread progress, and unread log events are limited', async () => {
  const gantry = executor((_args, context) => {
    for (let n = 0; n < 10_000; n++) {
      context.progress(n, 10_000)
      context.log(`line ${n}`)
    }
    return 'done'
  })
  const events = await collect(gantry.stream('test:it'))
  const progress = events.filter(({ kind }) => kind === 'progress')
  assert.equal(progress.length, 1)
  assert.ok(progress[0]?.kind === 'progress' && progress[0].progress === 9_999)
  const logs = events.filter(({ kind }) => kind === 'log')
  assert.equal(logs.length, 1_000)
  assert.ok(logs.at(-1)?.kind === 'log')
  assert.deepEqual(
    events.map(({ id }) => id),
    events.map((_, index) => index + 1),
  )
})

test('aborting the signal of a stream cancels its call', async () => {
  const controller = new AbortController()
  const gantry = executor(async function* () {
    yield 1
    await new Promise(() => undefined)
  })
  const events: StreamEvent[] = []
  for await (const event of gantry.stream('test:it', {}, { signal: controller.signal })) {
    events.push(event)
    controller.abort()
  }
  assert.ok(events.at(-1)?.kind === 'error')
  assert.equal(
    events.at(-1)?.kind === 'error' && (events.at(-1) as { error: { code: string } }).error.code,
    'CANCELLED',
  )
})

test('the chunks of a streaming tool without a return value are limited to the size of a result', async () => {
  const endless = executor(
    async function* () {
      for (let n = 0; n < 100; n++) yield 'x'.repeat(100)
    },
    {},
    { resultBytes: 1_000 },
  )
  assert.equal((await endless.run('test:it')).error?.code, 'RESULT_TOO_LARGE')
  const summing = executor(
    async function* () {
      for (let n = 0; n < 100; n++) yield 'x'.repeat(100)
      return 'summary'
    },
    {},
    { resultBytes: 1_000 },
  )
  assert.equal((await summing.run('test:it')).output, 'summary')
})

test('a call that has streamed a chunk is not retried, because its chunks would be repeated', async () => {
  let calls = 0
  const gantry = executor(
    async function* () {
      calls += 1
      yield 1
      throw new Error('midway')
    },
    { effect: 'read', retry: { attempts: 3, delayMs: 1 } },
  )
  await gantry.run('test:it')
  assert.equal(calls, 1)
})

test('a chunk that is not JSON fails the call', async () => {
  const gantry = executor(async function* () {
    yield 1n
  })
  assert.equal((await gantry.run('test:it')).error?.code, 'OUTPUT_INVALID')
})
