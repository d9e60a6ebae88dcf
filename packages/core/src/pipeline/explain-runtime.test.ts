import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLanguages } from '@gantry/sandbox/internal/languages/languages'
import { createRuntimes } from '@gantry/sandbox/internal/runtimes/create-runtimes'
import { createSessions } from '@gantry/sandbox/internal/sessions/sessions'
import { createExecutor } from '@gantry/tools'
import { builtinTools } from '@gantry/tools/internal/builtin'
import fc from 'fast-check'
import { type FakeOptions, fakeRuntime } from '../../../sandbox/src/runtimes/fake.fixture.ts'
import { memoryAudit } from '../audits/memory.ts'
import type { Rule } from '../policies/rules.ts'
import { tool } from './pipeline.fixture.ts'

const kinds: readonly FakeOptions[] = [
  { kind: 'wasm', isolation: 'wasm', cost: 1 },
  { kind: 'process', isolation: 'namespaces', cost: 10 },
  { kind: 'docker', isolation: 'container', cost: 40 },
]
const program = tool(() => assert.fail('it ran'), {
  name: 'program',
  egress: ['https://a.test'],
  backends: [
    {
      kind: 'sandboxed',
      script: 'true',
      credentials: { TOKEN: { secret: 'absent', hosts: ['https://a.test'] } },
    },
  ],
})

function setUp(rules: readonly Rule[]) {
  const list = kinds.map(fakeRuntime)
  const runner = createRuntimes({ runtimes: list, pool: false })
  const runtimes = { ...runner, languages: createLanguages(), sessions: createSessions(runner) }
  const audit = memoryAudit()
  const tools = [...builtinTools(), tool(() => assert.fail('it ran')), program]
  const gantry = createExecutor({ tools, policy: { rules, default: 'allow' }, runtimes, audit })
  return { gantry, audit, opened: () => list.reduce((sum, { opens }) => sum + opens, 0) }
}

const code = { language: 'python', code: '1' }

test('explainRuntime names the runtime that a call would get by its arguments and the policy, and runs and audits nothing', async () => {
  const { gantry, audit, opened } = setUp([{ allow: 'code:*', floor: 'container', to: 'local' }])
  const own = await gantry.explainRuntime('code:run', code)
  assert.match(own.tool, /^code:run:/)
  assert.deepEqual([own.chosen, own.floor, own.program], ['docker', 'container', { kind: 'code', language: 'python' }])
  const other = { principal: 'other', tenant: 'local', permissions: [] }
  assert.equal((await gantry.explainRuntime('code:run', code, { identity: other })).chosen, 'process')
  assert.equal((await gantry.explainRuntime('code:run', { ...code, runtime: 'process' })).chosen, undefined)
  const session = await gantry.explainRuntime(
    'code:session',
    { action: 'open', language: 'python' },
    { identity: other },
  )
  assert.deepEqual([session.chosen, session.program.session], ['process', true])
  assert.deepEqual([opened(), audit.records()], [0, []])
  await gantry.close()
})

test('explainRuntime fetches no secret of a tool that is a program', async () => {
  const { gantry } = setUp([])
  const { chosen, network } = await gantry.explainRuntime('test:program', {})
  assert.deepEqual([chosen, network], ['process', { allow: ['https://a.test'] }])
  await gantry.close()
})

test('explainRuntime rejects with the error that would end the call, and for a tool that runs in no sandbox', async () => {
  const { gantry } = setUp([{ deny: 'shell:*', reason: 'no shells' }])
  await assert.rejects(gantry.explainRuntime('shell:run', { argv: ['id'] }), { code: 'DENIED' })
  await assert.rejects(gantry.explainRuntime('code:none', {}), { code: 'TOOL_NOT_FOUND' })
  await assert.rejects(gantry.explainRuntime('code:run', { language: 'python' }), { code: 'INPUT_INVALID' })
  await assert.rejects(gantry.explainRuntime('code:run', { ...code, profile: 'none' }), { code: 'INPUT_INVALID' })
  const reach = { ...code, profile: 'hardened', network: { allow: ['https://a.test'] } }
  await assert.rejects(gantry.explainRuntime('code:run', reach), { code: 'EGRESS_DENIED' })
  await assert.rejects(gantry.explainRuntime('test:it', {}), { code: 'INPUT_INVALID', message: /uses no sandbox/ })
  await gantry.close()
  await assert.rejects(gantry.explainRuntime('code:run', code), { code: 'BACKEND_UNAVAILABLE' })
})

test('explainRuntime agrees with what runs the call', async () => {
  const args = fc.record(
    {
      language: fc.constantFrom('python', 'javascript', 'ruby'),
      code: fc.constantFrom('1', 'strict'),
      profile: fc.constantFrom('dev', 'standard', 'hardened', 'wasm'),
      runtime: fc.constantFrom('wasm', 'process', 'docker', 'gvisor'),
    },
    { requiredKeys: ['language', 'code'] },
  )
  await fc.assert(
    fc.asyncProperty(args, async (given) => {
      // An executor for each call, because refused calls open a circuit.
      const { gantry } = setUp([{ allow: 'code:*', floor: 'container', when: { '/code': { in: ['strict'] } } }])
      const { chosen } = await gantry.explainRuntime('code:run', given)
      const { runtime, error } = await gantry.run('code:run', given)
      if (chosen === undefined) assert.equal(error?.code, 'RUNTIME_UNAVAILABLE')
      else assert.equal(runtime?.kind, chosen)
      await gantry.close()
    }),
    { numRuns: 25 },
  )
})
