import assert from 'node:assert/strict'
import { test } from 'node:test'
import { feedFillers, missedTicks } from '@gantry/conformance/internal/stalls'
import { ToolError } from '@gantry/contract'
import { createSlots } from '../resilience/slots.ts'
import { checkProgram } from './check.ts'

const { signal } = new AbortController()
const options = {
  identity: { tenant: 'default', principal: 'test' } as never,
  signal,
  slots: createSlots(),
  wallMs: 60_000,
}

/** Ends the check at the lookup of tools, after everything that reads the program before the compiler. */
const beforeCompiler = {
  async named(): Promise<never> {
    throw new ToolError('CANCELLED', 'The test ends the check here.')
  },
}

test('no filler in a program stalls the event loop during its check', async () => {
  const feed = (text: string) => checkProgram(text, 'typescript', beforeCompiler, options)
  await feedFillers({ name: 'check', feed })
  for (const start of ['const x = tools', 'const { a } = tools', "run('a:", 'import']) {
    const behind = (text: string) => feed(`${start}${text}`)
    await feedFillers({ name: `check ${start}`, feed: behind }, [' ', '\n', "'", '.', '{}=', "'a:1'"])
  }
})

test('no filler in a workflow stalls the event loop during its check', async () => {
  const feed = (text: string) => checkProgram(text, 'workflow', beforeCompiler, options)
  await feedFillers({ name: 'check of a workflow', feed })
})

test('thousands of diagnostics do not stall the event loop, and the first 20 are reported', async () => {
  const code = Array.from({ length: 5_000 }, (_, index) => `await run('a:b${index}') // ${'x'.repeat(55)}`).join('\n')
  assert.ok(code.length > 380_000)
  const nothing = { named: async () => [] }
  let found: unknown
  const ticks = await missedTicks(async () => {
    await checkProgram(code, 'typescript', nothing, options).catch((error: unknown) => {
      found = error
    })
  })
  assert.ok(ToolError.is(found), String(found))
  assert.deepEqual([found.code, found.details?.line, found.details?.issues?.length], ['CODE_INVALID', 1, 20])
  assert.ok(ticks <= 25, `${ticks} ticks`)
})
