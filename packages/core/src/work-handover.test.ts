import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import type { ChainWork, CodeWork, WorkEngine } from './chain/work-engine.ts'
import { chainFailure } from './chain/work-engine.ts'
import { createExecutor } from './executor.ts'

const steps = [{ id: 'one', tool: 'sum:add', args: { a: 1 } }]
const identity = { principal: 'ann', tenant: 'acme', permissions: ['x'] }

function recordingEngine(): WorkEngine & { readonly chains: ChainWork[]; readonly codes: CodeWork[]; closed: number } {
  const engine = {
    chains: [] as ChainWork[],
    codes: [] as CodeWork[],
    closed: 0,
    async chain(work: ChainWork) {
      engine.chains.push(work)
      return chainFailure(work.id, new ToolError('CANCELLED', 'recorded'), 0)
    },
    async code(work: CodeWork): Promise<never> {
      engine.codes.push(work)
      throw new Error('The engine broke.')
    },
    async close() {
      engine.closed += 1
    },
  }
  return engine
}

test('a chain and a program go to the engine that they name, with their identity and id', async () => {
  const engine = recordingEngine()
  const gantry = createExecutor({ engines: { far: engine }, limits: { chain: { parallel: 3 } } })
  const chain = await gantry.chain(steps, { engine: 'far', chainId: 'c', input: 5, identity, timeoutMs: 9 })
  assert.deepEqual([chain.chainId, chain.error?.message], ['c', 'recorded'])
  const { id, steps: sent, input, limits, timeoutMs, identity: caller } = engine.chains[0] ?? {}
  assert.deepEqual([id, sent, input, limits, timeoutMs, caller], ['c', steps, 5, { parallel: 3 }, 9, identity])
  await gantry.code('return 1', { engine: 'far', callId: 'p', language: 'python', identity })
  const { code, language } = engine.codes[0] ?? {}
  assert.deepEqual([code, language], ['return 1', 'python'])
  await gantry.close()
  assert.equal(engine.closed, 1)
})

test('an engine that rejects, and one that is not configured, give a failed outcome', async () => {
  const gantry = createExecutor({ engines: { far: recordingEngine() } })
  const broken = await gantry.code('return 1', { engine: 'far', callId: 'p' })
  assert.deepEqual([broken.callId, broken.error?.code], ['p', 'INTERNAL'])
  const absent = await gantry.chain(steps, { engine: 'toString' })
  assert.deepEqual([absent.status, absent.error?.code], ['failed', 'CONFIG_INVALID'])
  assert.match(absent.error?.message ?? '', /not configured/)
  assert.equal((await gantry.code('return 1', { engine: 'near' })).error?.code, 'CONFIG_INVALID')
  await gantry.close()
  assert.equal((await gantry.chain(steps, { engine: 'far' })).error?.code, 'BACKEND_UNAVAILABLE')
})

test('an invalid chain, and options that only this process can have, do not reach the engine', async () => {
  const engine = recordingEngine()
  const gantry = createExecutor({ engines: { far: engine } })
  const invalid = await gantry.chain([{ id: 'one', tool: 'sum:add', args: { a: '{{later.x}}' } }], { engine: 'far' })
  assert.equal(invalid.error?.code, 'CHAIN_INVALID')
  const around = () => Promise.reject(new Error('unused'))
  const local = await gantry.chain(steps, { engine: 'far', around })
  assert.deepEqual([local.error?.code, local.error?.message.includes('around')], ['INPUT_INVALID', true])
  const report = (): void => undefined
  assert.equal((await gantry.code('return 1', { engine: 'far', report })).error?.code, 'INPUT_INVALID')
  assert.equal((await gantry.code('return 1', { engine: 'far', timeoutMs: -1 })).error?.code, 'INPUT_INVALID')
  assert.deepEqual([engine.chains, engine.codes], [[], []])
  await gantry.close()
})

test('engines that are not engines are refused', () => {
  const engines = { far: { chain: 1 } } as unknown as { readonly far: WorkEngine }
  assert.throws(
    () => createExecutor({ engines }),
    (error) =>
      ToolError.is(error) && error.code === 'CONFIG_INVALID' && error.details?.issues?.[0]?.path === '/engines',
  )
})
