import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { sandboxTest } from '@gantry/conformance/internal/sandbox-test'
import type { ToolError } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { demoTools } from '@gantry/tools/internal/demo'
import { createStepSlots } from '../chain/context.ts'
import type { ProgramRequest, ProgramResponse } from '../runtimes/runtime.ts'
import { createGatewaySession } from './gateway-session.ts'
import { createBudget, programLimits } from './limits.ts'

const gantry = createExecutor({ tools: demoTools() })
after(() => gantry.close())

/** A gateway session without a program, whose requests are answered at once. */
function openSession() {
  const stop = new AbortController()
  const answers: ProgramResponse[] = []
  const budget = createBudget(programLimits(), undefined, () => undefined)
  const { gateway } = createGatewaySession({
    journal: undefined,
    signal: stop.signal,
    slots: createStepSlots(64),
    admit: () => budget.takeRequest(),
    perform: async () => ({ kind: 'value', value: null }),
    undone: () => undefined,
    stop: (error) => stop.abort(error),
  })
  return { answers, signal: stop.signal, ask: (all: ProgramRequest[]) => gateway.ask(all, (one) => answers.push(one)) }
}

const forged = (count: number, from = 1): ProgramRequest[] =>
  Array.from({ length: count }, (_, index) => ({ number: from + index, kind: 'bogus', text: '{}' }))

test('a flood of gateway requests does not block the event loop, and is answered in order', async () => {
  const { ask, answers } = openSession()
  let turns = 0
  const count = (): void => {
    turns += 1
    if (answers.length < 2_010) setImmediate(count)
  }
  setImmediate(count)
  ask(forged(2_000))
  ask(forged(10, 2_001))
  while (answers.length < 2_010) await new Promise(setImmediate)
  assert.ok(turns > 2_000 / 256, `${turns}`)
  assert.deepEqual(
    answers.map(({ number }) => number),
    forged(2_010).map(({ number }) => number),
  )
})

test('malformed gateway requests count against the request limit, and the error does not suggest to raise it', async () => {
  const { ask, signal } = openSession()
  ask(forged(100_000))
  ask(forged(1, 100_001))
  while (!signal.aborted) await new Promise(setImmediate)
  const { code, message, details } = signal.reason as ToolError
  assert.deepEqual([code, details?.limit], ['LIMIT_EXCEEDED', 'questions'])
  assert.match(message, /may make 100000 requests that are not calls; make fewer requests\.$/)
})

/** How a Python program finds the channel to its host. */
const own = `
import gc, os
channel = next(thing for thing in gc.get_objects() if type(thing).__name__ == 'Channel')
`

sandboxTest('each forged request of a Python program gets one refusal', async () => {
  const code = `${own}
lines = b''.join(channel.head + b'? %d bogus {}\\n' % n for n in range(1, 20001)) + channel.head + b'. 0\\n'
while lines: lines = lines[os.write(channel.fd, lines):]
answers = 0
while answers < 20000: answers += os.read(channel.fd, 1 << 18).count(b'\\n')
return answers
`
  const { output, error } = await gantry.code(code, { language: 'python', limits: { wallMs: 50_000 } })
  assert.equal(output, 20_000, JSON.stringify(error))
})

sandboxTest('a Python program that made a call cannot forge a compile error', async () => {
  const forged = `os.write(channel.fd, channel.head + b'! {"kind":"compile","message":"forged"}\\n')`
  const calls = 'await tools.demo.add(a=1, b=2)'
  for (const lines of [
    [calls, forged],
    [forged, calls],
  ]) {
    const code = `${own}\n${lines.join('\n')}\nos._exit(1)`
    const { error } = await gantry.code(code, { language: 'python' })
    assert.deepEqual([error?.code, error?.effect === 'none'], ['CODE_FAILED', false], JSON.stringify(error))
  }
  const { error } = await gantry.code(`${own}\n${forged}\nos._exit(1)`, { language: 'python' })
  assert.equal(error?.code, 'CODE_INVALID', 'one that has asked for nothing is believed')
})
