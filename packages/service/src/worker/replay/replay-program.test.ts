import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Result } from '@gantry/contract'
import { type InnerOutcome, memoryArtifacts, type ProgramJournal } from '@gantry/core'
import { createExecutor } from '@gantry/tools'
import { sampleTool } from '../../../test/sample-tool.fixture.ts'
import type { RecordedCall } from '../../storage/call-views.ts'
import type { JournalEntry } from '../../storage/journal.ts'
import { stub } from '../../stub.fixture.ts'
import { entryOf, startOf, textOf } from '../execute/program-calls.ts'
import { replayProgram } from './replay-chain.ts'

const read = sampleTool({
  namespace: 't',
  name: 'read',
  description: 'Reads something.',
  run: (args) => args,
})
const executor = createExecutor({ tools: [read], artifacts: memoryArtifacts() })
after(() => executor.close())
const identity = { principal: 'ada', tenant: 'acme', permissions: [] }
const signal = new AbortController().signal

/** The record of a program whose three requests are answered in this order, with all others aborted. */
async function recordedOf(code: string, order: readonly number[]): Promise<RecordedCall> {
  const journal = new Map<string, JournalEntry>([[startOf(''), { state: 'done', result: '1000' }]])
  const turns = order.map(() => Promise.withResolvers<void>())
  const allAsked = Promise.withResolvers<void>()
  const program: ProgramJournal = {
    seed: 1,
    startedMs: 1_000,
    outcomes: [],
    async settle(ask, make) {
      const place = order.indexOf(ask.number)
      if (ask.number === 3) allAsked.resolve()
      const outcome: InnerOutcome = place < 0 ? await new Promise(() => undefined) : await make()
      if (place > 0) await allAsked.promise
      await turns[place - 1]?.promise
      journal.set(entryOf('', ask), { state: 'done', result: textOf({ seq: place + 1, atMs: 1_000 + place, outcome }) })
      turns[place]?.resolve()
      return { outcome, atMs: 1_000 + place }
    },
  }
  const args = { code, language: 'javascript' }
  const outcome = (await executor.run('code:program', args, { callId: 'c1', identity, program })) as Result
  await turns.at(-1)?.promise
  const call = { callId: 'c1', kind: 'code', identity, tool: 'code:program', digest: null, payloadBytes: 0 } as const
  return { call: stub<RecordedCall['call']>(call), fence: 1, outcome, journal, files: new Map() }
}

for (const [title, code, order] of [
  ['a put that was settled after its last answer', "artifacts.put('log', 'x')", [2, 1, 3]],
  ['a search that was settled after its last answer', "search('x')", [2, 1, 3]],
  ['a sleep that was cut short with it', 'sleep(60_000)', [2, 1]],
] as const) {
  test(`a program that ended without waiting for ${title} is sound`, async () => {
    const whole = `
      const b = tools.t.read({ id: 'b' })
      await tools.t.read({ id: 'a' })
      void ${code}
      return (await b).id`
    const recorded = await recordedOf(whole, order)
    assert.equal((recorded.outcome as Result).status, 'ok', JSON.stringify(recorded.outcome))
    assert.equal(recorded.journal.size, order.length + 1)
    const { outcome, divergence } = await replayProgram(
      recorded,
      { code: whole, language: 'javascript' },
      { executor, signal },
    )
    assert.deepEqual(
      [divergence, outcome.status, outcome.output],
      [undefined, 'ok', 'b'],
      JSON.stringify(outcome.error),
    )
  })
}
