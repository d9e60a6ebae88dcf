import assert from 'node:assert/strict'
import { after } from 'node:test'
import { sandboxTest } from '@gantry/conformance/internal/sandbox-test'
import type { Result } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { defineTool } from '../tools/tool.ts'
import { memoryJournal } from './journal.fixture.ts'

const effects: string[] = []
const effect = defineTool({
  namespace: 'test',
  name: 'effect',
  description: 'Leaves a trace.',
  inputSchema: { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] },
  run: ({ word }) => {
    effects.push(String(word))
    return { word, length: String(word).length }
  },
})
const gantry = createExecutor({ tools: [effect] })
after(() => gantry.close())

const python = (code: string, more: object = {}): Promise<Result> => gantry.code(code, { language: 'python', ...more })

sandboxTest('a Python program calls tools, prints and returns through the executor', async () => {
  const code = `
made = await asyncio.gather(*(tools.test.effect(word='x' * n) for n in range(1, 4)))
print('made', len(made))
found = await search('trace')
try:
    await tools.test.efect(word='no')
except ToolError as error:
    return [[one['length'] for one in made], found[0]['id'], error.code]
`
  const result = await python(code)
  assert.deepEqual(result.output, [[1, 2, 3], 'test:effect', 'TOOL_NOT_FOUND'], JSON.stringify(result.error))
  assert.equal(result.program?.printed, 'made 3\n')
  assert.deepEqual(
    result.program?.calls.map(({ number, tool, status }) => [number, tool, status]),
    [1, 2, 3].map((number) => [number, 'test:effect', 'ok']).concat([[5, 'test:efect', 'failed']]),
  )
})

sandboxTest('an uncaught error of a Python program has its position, a frame and the stack', async () => {
  const { error } = await python('x = 1\n\ndef f():\n    return 1 / 0\n\nprint(f())')
  assert.deepEqual([error?.code, error?.details?.line, error?.details?.column], ['CODE_FAILED', 4, 12])
  assert.match(String(error?.details?.frame), /> 4 \|\s+return 1 \/ 0\n\s+\|\s+\^/)
  assert.equal(String(error?.details?.stack), 'at f (main.py:4:12)\nat <module> (main.py:6:7)')
  const invalid = await python('x = (1')
  assert.deepEqual(
    [invalid.error?.code, invalid.error?.effect, invalid.error?.details?.line],
    ['CODE_INVALID', 'none', 1],
  )
})

const threeCalls = `
import random, time, uuid
a = await tools.test.effect(word='a')
b, c = await asyncio.gather(tools.test.effect(word='bb'), tools.test.effect(word='ccc'))
await sleep(5)
time.sleep(0.005)
return [a['length'], b['length'], c['length'], random.random(), time.time(), str(uuid.uuid4())]
`

sandboxTest('a resumed Python program replays its journaled outcomes and makes only the missing calls', async () => {
  const first = memoryJournal()
  effects.length = 0
  const whole = await python(threeCalls, { program: first })
  assert.equal(whole.status, 'ok', JSON.stringify(whole.error))
  assert.deepEqual(
    [first.made, effects.toSorted()],
    [
      [1, 2, 3, 4, 5],
      ['a', 'bb', 'ccc'],
    ],
  )
  for (let cut = 0; cut <= first.entries.length; cut += 1) {
    const again = memoryJournal({ journaled: first.entries.slice(0, cut) })
    const result = await python(threeCalls, { program: again })
    assert.deepEqual([result.status, result.output], ['ok', whole.output], `cut at ${cut}: ${result.error?.message}`)
    const journaled = first.entries.slice(0, cut).map(({ number }) => number)
    assert.deepEqual(
      again.made.toSorted(),
      [1, 2, 3, 4, 5].filter((number) => !journaled.includes(number)),
    )
  }
})

sandboxTest('every clock of a journaled Python program is that of its journal, also for uuid1', async () => {
  const code = `
import os, time, uuid
start = [time.clock_gettime(time.CLOCK_MONOTONIC), *os.times()]
await sleep(1)
clocks = [time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_PROCESS_CPUTIME_ID]
seen = [time.clock_gettime(clock) for clock in clocks] + [time.clock_gettime_ns(clock) for clock in clocks]
made = uuid.uuid1()
return [start, seen, list(os.times()), str(made), str(uuid.uuid1()), (made.time - 0x01b21dd213814000) // 10_000]
`
  const { output, error } = await python(code, { program: memoryJournal() })
  const [start, seen, times, made, next, madeMs] = output as unknown[]
  assert.deepEqual(start, [0, 0, 0, 0, 0, 0], JSON.stringify(error))
  assert.deepEqual(seen, [1_001, 1, 1, 1_001_000_000_000, 1_000_000_000, 1_000_000_000])
  assert.deepEqual([times, madeMs], [[1, 0, 0, 0, 1], 1_001_000])
  assert.notEqual(made, next)
  assert.deepEqual((await python(code, { program: memoryJournal() })).output, output)
  const other = (await python(code, { program: memoryJournal({ seed: 8 }) })).output as unknown[]
  assert.notEqual(other[3], made)
})

sandboxTest('a Python program whose requests differ from its journal diverges, and no call is made', async () => {
  const first = memoryJournal()
  await python("await tools.test.effect(word='a')\nawait tools.test.effect(word='b')", { program: first })
  effects.length = 0
  const other = await python("await tools.test.effect(word='other')", {
    program: memoryJournal({ journaled: first.entries }),
  })
  assert.deepEqual([other.error?.code, other.error?.details?.number], ['CODE_DIVERGED', 1])
  const shorter = await python("await tools.test.effect(word='a')", {
    program: memoryJournal({ journaled: first.entries }),
  })
  assert.deepEqual([shorter.error?.code, shorter.error?.details?.number], ['CODE_DIVERGED', 2])
  assert.deepEqual(effects, [])
})

sandboxTest('the call limit ends a Python program, and a cancelled call ends it during a sleep', async () => {
  const calls = await python("while True:\n    await tools.test.effect(word='a')", { limits: { toolCalls: 10 } })
  assert.deepEqual(
    [calls.error?.code, calls.error?.details?.limit, calls.program?.calls.length],
    ['LIMIT_EXCEEDED', 'toolCalls', 10],
  )
  const stop = new AbortController()
  const args = { code: 'print("on")\nawait sleep(60_000)', language: 'python' }
  const kinds: string[] = []
  for await (const event of gantry.stream('code:program', args, { signal: stop.signal })) {
    if (event.kind === 'chunk') stop.abort()
    kinds.push('result' in event ? event.result.status : event.kind)
  }
  assert.deepEqual([kinds.includes('chunk'), kinds.at(-1)], [true, 'cancelled'])
})

const forge = `
import gc, os
channel = next(thing for thing in gc.get_objects() if type(thing).__name__ == 'Channel')
def say(text): os.write(channel.fd, channel.head + text.encode() + b'\\n')
`

sandboxTest('malformed gateway requests are errors of the program, not of the host', async () => {
  for (const text of [
    'call no',
    'call null',
    'call []',
    'call {"tool":1}',
    'artifact {"put":1}',
    'nothing {}',
    'sleep {"ms":"x"}',
  ]) {
    const { error } = await python(`${forge}say('? 1 ${text}')\nsay('. 0')\nawait asyncio.sleep(0.1)`)
    assert.ok(
      error === undefined || error.code.startsWith('CODE_') || error.code === 'INPUT_INVALID',
      `${text}: ${error?.code}`,
    )
  }
})
